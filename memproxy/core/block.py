"""The injected block's delimiters: how text is kept from leaving the block, and how a block is recognised again. They
are looked for in linear time and by what text looks like: case, accents, invisible characters and look-alike letters
and brackets make no difference.
"""

import hashlib
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from itertools import accumulate
from typing import NamedTuple

from memproxy.core.bounded_regex import SENTENCE, BoundedPattern

NAME = "recalled-memory"
OPEN = '<recalled-memory id="{nonce}">'
CLOSE = '</recalled-memory id="{nonce}">'  # with the id, which nothing within can know; older versions end without

_LINE = BoundedPattern(r"- \[[^\]\n]*\] \([^)\n]*\) (.*) \[m:[^\[\]\n]*\]", most=SENTENCE)

_QUOTED_BRACKET = "("  # takes the place of a delimiter's bracket; no angle bracket, for those look like one another
_LEAD = 16  # characters between a delimiter's bracket and its name that are looked at
_ATTRIBUTES = 200  # characters of a delimiter behind its name: with more it is none
_MOST_DELIMITERS = 2_000
"""Most delimiters of one text that is stripped; what follows the last of them is left out with the block before it."""

_INVISIBLE = "\0"
_LOOK_ALIKES = {
    "<": "‹«〈⟨〈《⟪❮❰❬⧼˂ᐸᚲ≺⪡≪＜﹤",
    ">": "›»〉⟩〉》⟫❯❱❭⧽˃ᐳ≻⪢≫＞﹥",
    "/": "∕⁄⧸╱⟋ⳇ／",
    "-": "‐‑‒–—―−⁃﹘﹣－ー➖",
    "r": "гᴦꭇꭈ",
    "e": "еҽєε℮",
    "c": "сϲᴄ",
    "a": "аɑα",
    "l": "ӏוا|∣",
    "d": "ԁɗ",
    "m": "мᴍ",
    "o": "оοᴏσ",
    "y": "уүγʏ",
}
"""What has no compatibility form in Unicode and still reads as one of the delimiter's characters."""

_BRACKETS = frozenset(_LOOK_ALIKES["<"])

_ESCAPES = {
    lead: [
        (form, plain + _INVISIBLE * (len(form) - 1))
        for plain, forms in zip('<>/"', written, strict=True)
        for form in forms.split()
    ]
    for lead, written in {
        "&": (
            "&lt; &LT; &#60; &#x3c; &#x3C;",
            "&gt; &GT; &#62; &#x3e; &#x3E;",
            "&#47; &#x2f; &#x2F;",
            "&quot; &QUOT; &#34; &#x22;",
        ),
        r"\u00": (r"\u003c \u003C", r"\u003e \u003E", r"\u002f \u002F", r"\u0022"),
    }.items()
}
"""By how they begin: what stands for one of a delimiter's characters, and that character in the same length."""

_COMPATIBLE = (
    *(range(0xA0, 0x250), range(0x2B0, 0x300), range(0x1D2C, 0x1D6B), range(0x1E00, 0x1F00), range(0x2070, 0x20A0)),
    *(range(0x2100, 0x2190), range(0x2460, 0x2500), range(0xFE50, 0xFE70), range(0xFF01, 0xFF5F)),
    *(range(0x1D400, 0x1D800), range(0x1F110, 0x1F170)),
)
"""Where Unicode has letters, digits and marks that stand for others."""

_UNSEEN = (
    *(range(0x09), range(0x0E, 0x1C), range(0x7F, 0x85), range(0x86, 0xA0), range(0xAD, 0xAE)),
    *(range(0x300, 0x370), range(0x483, 0x48A), range(0x61C, 0x61D), range(0x115F, 0x1161), range(0x17B4, 0x17B6)),
    *(range(0x180B, 0x1810), range(0x1AB0, 0x1B00), range(0x1DC0, 0x1E00), range(0x200B, 0x2010)),
    *(range(0x202A, 0x202F), range(0x2060, 0x2070), range(0x20D0, 0x2100), range(0x2800, 0x2801)),
    *(range(0x3164, 0x3165), range(0xFE00, 0xFE10), range(0xFE20, 0xFE30), range(0xFEFF, 0xFF00)),
    *(range(0xFFA0, 0xFFA1), range(0xFFF9, 0xFFFC), range(0x1D173, 0x1D17B), range(0xE0000, 0xE1000)),
)
"""Format characters, variation selectors, controls, combining marks: nothing to see by itself."""


class _Delimiter(NamedTuple):
    """Where one stands in a text; ``end`` None: it has no closing bracket, and is none but to `quote`."""

    start: int
    end: int | None
    closes: bool
    nonce: str


def session_nonce(secret: bytes, tenant: str, user: str, session: str) -> str:
    """The block id of a session: 12 hex digits that nobody can guess without the installation's secret."""
    material = "\x1f".join((tenant, user, session)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, key=secret[:64], digest_size=6, person=b"block").hexdigest()


def quote(text: str) -> str:
    """Text on one line that cannot open or close a block: anything that looks like our delimiter loses its bracket."""
    line = " ".join(text.split())
    pieces, done = [], 0
    for delimiter in _delimiters(line):
        pieces += [line[done : delimiter.start], _QUOTED_BRACKET]
        done = delimiter.start + 1
    return "".join([*pieces, line[done:]]) if pieces else line


def shown_texts(text: str) -> list[str]:
    """What the lines of injected blocks in a text say, without date, speaker and citation."""
    lines = (line for start, end in _blocks(text) for line in text[start:end].split("\n"))
    return [match[1] for line in lines if (match := _LINE.fullmatch(line)) is not None]


def strip_blocks(text: str) -> str:
    """The text without any injected block, however it came back (no echo)."""
    pieces, done = [], 0
    for start, end in _blocks(text):
        pieces.append(text[done:start].lstrip() if done else text[:start])
        done = end
    return "".join([*pieces, text[done:].lstrip()]) if done else text


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """From where to where blocks stand: up to the delimiter that closes this very block, else (of an older version) to
    the first that closes any, else to the next block or the end.
    """
    opening: _Delimiter | None = None
    end: int | None = None
    is_own = False
    for number, delimiter in enumerate(delimiter for delimiter in _delimiters(text) if delimiter.end is not None):
        if number == _MOST_DELIMITERS:
            end = None
            break
        if not delimiter.closes:
            if opening is not None:
                yield opening.start, delimiter.start if end is None else end
            opening, end, is_own = delimiter, None, False
        elif opening is not None and not is_own:
            is_own = bool(delimiter.nonce) and delimiter.nonce == opening.nonce
            end = delimiter.end if is_own or (end is None and not delimiter.nonce) else end
    if opening is not None:
        yield opening.start, len(text) if end is None else end


def _delimiters(text: str) -> Iterator[_Delimiter]:
    """What looks like an opening or closing delimiter, in order."""
    # what a page or a program shows of an answer comes back with HTML's or JSON's escapes, here of as many characters
    for lead, escapes in _ESCAPES.items():
        if lead in text:
            for escape, plain in escapes:
                text = text.replace(escape, plain)
    if "<" not in text and (text.isascii() or _BRACKETS.isdisjoint(text)):
        return
    parts = text.translate(_folding()).split(_INVISIBLE)
    folded = "".join(parts)
    starts = list(accumulate((len(part) for part in parts[:-1]), initial=0))
    at = folded.find(NAME)
    while at >= 0:
        name_end = at + len(NAME)
        prefix = folded[max(0, at - _LEAD) : at].rstrip()
        closes = prefix.endswith("/")
        prefix = prefix[:-1].rstrip() if closes else prefix
        if prefix.endswith("<"):
            start = max(0, at - _LEAD) + len(prefix) - 1
            bracket = folded.find(">", name_end, name_end + _ATTRIBUTES)
            end = None if bracket < 0 or folded[name_end].isalnum() else _position(bracket + 1, starts)
            # the id that it names, however it is quoted or escaped
            nonce = folded[name_end:bracket].partition("=")[2].strip(" \t\r\n\"'“”„‘’`\\/") if end else ""
            yield _Delimiter(_position(start, starts), end, closes, nonce)
        at = folded.find(NAME, name_end)


def _position(index: int, starts: list[int]) -> int:
    """Where in a text a character stands that is at ``index`` without the invisible ones, which begin its parts."""
    return index + bisect_right(starts, index) - 1


@cache
def _folding() -> dict[int, str]:
    """For `str.translate`: a text of the same length in what it looks like, as far as a delimiter may be in it."""
    forms = {code: _INVISIBLE for unseen in _UNSEEN for code in unseen}
    for code in (code for codes in _COMPATIBLE for code in codes if code not in forms):
        plain = [c for c in unicodedata.normalize("NFKD", chr(code)).lower() if not unicodedata.combining(c)]
        if len(plain) == 1 and plain[0] != chr(code):
            forms[code] = plain[0]
    forms |= {code: chr(code).lower() for code in range(ord("A"), ord("Z") + 1)}
    for letter, look_alikes in _LOOK_ALIKES.items():
        forms |= {ord(form): letter for other in look_alikes for form in (other, other.upper()) if len(form) == 1}
    return forms
