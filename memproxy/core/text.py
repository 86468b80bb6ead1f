"""Words and parts of text: what is searched by words, what the embedder can read, how many tokens a chat model reads.
All of it is pure, takes any `str` (lone surrogates too) and runs in linear time.
"""

import itertools
import math
import re
import unicodedata
from collections.abc import Iterator
from urllib.parse import quote

MAX_PARTS = 32  # most parts of a message that are embedded; longer ones are searched by words in full
PART_TOKENS = 200  # tokens of one part: MiniLM reads 256, and the estimate below may be a quarter off

_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f"  # Myanmar
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Chinese characters
    "\uff66-\uff9f"  # half-width Japanese
)
_UNSPACED_RUN = re.compile(f"[{_UNSPACED}]+")
_WORD = re.compile(rf"[{_UNSPACED}]+|[^\W_](?:[^\W_{_UNSPACED}]|['’](?=[^\W_]))*")
_PIECE = re.compile(r"\w+|[^\w\s]")
_LONG_WORD = re.compile(rf"(?<!\S)\S{{{PART_TOKENS // 2 + 1}}}")
_WORD_AND_SPACES = re.compile(r"\S+\s*")
_CHARACTER_AND_SPACES = re.compile(r"\S\s*")
_PLAIN_WORD = re.compile(r"[a-z0-9]+(?:'[a-z0-9]+)*")  # the same for small ASCII letters, in a third of the time

_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
ABBREVIATIONS = ("Dr.", "Mr.", "Mrs.", "Ms.", "Prof.", "St.", "Mt.", "vs.", "e.g.", "i.e.")
"""Abbreviations, whose full stop ends no sentence: "My doctor is Dr. Brown"."""

_ABBREVIATED = "".join(rf"(?<!\b{re.escape(abbreviation)})" for abbreviation in ABBREVIATIONS)

QUESTION_MARKS = "?？؟՞፧"
_SENTENCE_END = re.compile(rf"(?<=[.!?…؟۔।]){_ABBREVIATED}\s+|(?<=[。！？])|\n+")

STOPWORDS = frozenset(
    """
    a about above actually after again all almost already also always am an and another any anybody anyone anything are
    aren aren't around as ask at away back be because been before being below between both but by can can't cannot come
    could couldn't did didn't do does doesn't doing don't done down during each either else ever every everyone
    everything exactly few for from further get gets getting give go goes going gone gonna good got great had hadn't has
    hasn't have haven't having he hello her here hers herself hey hi him himself his how however i i'd i'll i'm i've if
    in instead into is isn't it it's its itself just know let let's like look looking lot made make many may maybe me
    might mine more most much must my myself need never new next no nor not now of off oh ok okay on once one only onto
    or other our ours out over own perhaps plan planning please quite rather really right said same say see she should
    shouldn't since so some somebody someone something still such sure take tell than thank thanks that that's the their
    theirs them then there there's these they thing things think this those though through to today together too
    tomorrow tonight toward towards under until up upon us use used using very want wants was wasn't way we we'd we'll
    we're we've well were weren't what what's whatever when where which while who who's whom whose why will with within
    without won't would wouldn't yeah yes yesterday yet you you'd you'll you're you've your yours yourself
    """.split()  # noqa: SIM905 - a list of two hundred quoted words reads worse
)
"""English words that carry no topic; other languages have none taken out, which costs a little precision only."""


GENERIC_WORDS = frozenset(
    """
    advice amount call called color date day days detail details favorite favourite first help hour hours idea ideas
    information item items kind kinds last list long main month months name named names number often order people person
    place places prefer preference prefers recent recently recommend recommendation recommendations remember remind sort
    suggest suggestion suggestions thing things thinking time times tip tips told try trying type types user users week
    weeks whole work works year years
    """.split()  # noqa: SIM905
)
"""Words that many questions and memories share whatever they are about: found, they say little."""


def clean(text: str) -> str:
    """The text in Unicode's compatibility form, lone surrogates replaced, so that every library takes it."""
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", text.encode("utf-8", "replace").decode("utf-8"))


def spaced(text: str) -> str:
    """The text for a tokenizer that splits at spaces: runs of scripts without spaces become their characters and pairs
    of characters (``狗`` finds ``狗狗``), and thousands separators go (``10,000`` is ``10000``).
    """
    return _UNSPACED_RUN.sub(_pairs, _THOUSANDS.sub("", clean(text)))


def _pairs(match: re.Match[str]) -> str:
    run = match.group()
    return f" {' '.join([*run, *(run[i : i + 2] for i in range(len(run) - 1))])} "


def words(text: str) -> list[str]:
    """The words of a text in lower case, in order; a run of an unspaced script is one word."""
    low = clean(text).lower().replace("’", "'")
    tokens: list[str] = (_PLAIN_WORD if low.isascii() else _WORD).findall(low)
    return tokens


def key_terms(text: str, limit: int = 12) -> list[str]:
    """The words that carry the topic: no stopwords, no single letters, each once, in order, at most ``limit``."""
    terms = (word.removesuffix("'s") for word in words(text))
    return list(dict.fromkeys(term for term in terms if _is_key_term(term)))[:limit]


def has_key_terms(text: str, count: int) -> bool:
    """Whether a text has at least ``count`` `key_terms`; it is read no further than that."""
    low = clean(text).lower().replace("’", "'")
    key = set[str]()
    for match in (_PLAIN_WORD if low.isascii() else _WORD).finditer(low):
        if _is_key_term(term := match[0].removesuffix("'s")):
            key.add(term)
            if len(key) >= count:
                return True
    return False


def _is_key_term(term: str) -> bool:
    return term not in STOPWORDS and (len(term) > 1 or not term.isascii())


def is_unspaced(character: str) -> bool:
    """Whether the character belongs to a script that is written without spaces."""
    return _UNSPACED_RUN.match(character) is not None


def embedder_tokens(text: str) -> int:
    """How many tokens a WordPiece embedder makes of it, about: one per four letters of a word (at least one), one per
    character of an unspaced script, one per punctuation mark. Meant to be too high rather than too low.
    """
    return sum(map(_piece_count, _PIECE.findall(text)))


def _piece_count(word: str) -> int:
    unspaced = sum(len(run) for run in _UNSPACED_RUN.findall(word))
    plain = len(word) - unspaced
    if not word.isascii():
        return unspaced + plain
    return 1 if plain <= 7 else -(-plain // 4)


def split_parts(text: str, *, max_tokens: int = PART_TOKENS, max_parts: int = MAX_PARTS) -> list[str]:
    """The text in parts of at most about ``max_tokens`` embedder tokens, cut at sentence ends where possible.

    Always at least one part (the text itself when it is short, also when empty), at most ``max_parts``; what is beyond
    is left out, and not read: a message may be a megabyte.
    """
    if len(text) <= max_tokens:  # a token has at least one character
        return [text]
    parts: list[str] = []
    current: list[str] = []
    size = 0
    for sentence in _sentences(text, max_tokens):
        tokens = embedder_tokens(sentence)
        if current and size + tokens > max_tokens:
            parts.append(" ".join(current))
            current, size = [], 0
            if len(parts) == max_parts:
                return parts
        current.append(sentence)
        size += tokens
    return [*parts, " ".join(current)] if current else parts or [text[:max_tokens]]


def sentences(text: str) -> list[str]:
    """The text cut at sentence ends and line breaks, empty ones left out."""
    return [stripped for piece in _SENTENCE_END.split(text) if (stripped := piece.strip())]


def _sentences(text: str, max_tokens: int) -> Iterator[str]:
    for sentence in sentences(text):
        # no more of it is read than tells
        counts = itertools.accumulate(_piece_count(piece.group()) for piece in _PIECE.finditer(sentence))
        if any(count > max_tokens for count in counts):
            yield from _cut(sentence, max_tokens)
        else:
            yield sentence


def _cut(sentence: str, max_tokens: int) -> Iterator[str]:
    """A sentence that is too long by itself: cut between words, or within one that is too long."""
    start = size = 0
    # with words longer than a part (unspaced script, base64 and the like) between characters
    pattern = _CHARACTER_AND_SPACES if _LONG_WORD.search(sentence) else _WORD_AND_SPACES
    for match in pattern.finditer(sentence):
        tokens = embedder_tokens(match.group())
        if size and size + tokens > max_tokens:
            yield sentence[start : match.start()].strip()
            start, size = match.start(), 0
        size += tokens
    yield sentence[start:].strip()


_ESTIMATED = re.compile(r"[A-Za-z]+|\d+|\s+|.", re.DOTALL)
_LETTERS_PER_TOKEN = 4.5
_DIGITS_PER_TOKEN = 3
_SHORT_WORD = 6


def estimate(text: str) -> int:
    """The tokens that a text has for a chat model, rather too many than too few: no model family's table is needed, and
    none fits all of them. By the kinds of characters: a word up to six letters is one, longer ones one per 4.5 letters;
    three digits, one mark, or one character of an unspaced script are one; other letters one per two characters.
    """
    tokens = 0.0
    for piece in _ESTIMATED.findall(text):
        # short words and single spaces, which most pieces are, without a call
        if piece.isascii() and piece.isalpha() and len(piece) <= _SHORT_WORD:
            tokens += 1
        elif piece != " ":
            tokens += _estimated(piece)
    return math.ceil(tokens)


MESSAGE_OVERHEAD = 4
"""Tokens that chat formats spend on a message itself."""


def message_tokens(text: str) -> int:
    """The tokens of a message, line by line as `recall.assemble` counts a block."""
    return MESSAGE_OVERHEAD + sum(estimate(line) + 1 for line in text.split("\n"))


def _estimated(piece: str) -> float:
    first = piece[0]
    if first.isspace():
        return len(piece) // 8 + piece.count("\n") * 0.5  # one space belongs to the word after it
    if first.isascii():
        if first.isalpha():
            return len(piece) / _LETTERS_PER_TOKEN if len(piece) > _SHORT_WORD else 1
        return math.ceil(len(piece) / _DIGITS_PER_TOKEN)
    if is_unspaced(first) or not first.isalpha():
        return 1 if first < "\U00010000" else 2
    return 0.5


STEPS = frozenset({".", ".."})  # pieces of a path that clients take for steps and remove before they send it


def piece_of_path(name: str) -> str:
    """A name as a piece of a path. ``.`` and ``..`` would be taken for steps, the second out of where it stands."""
    return name.replace(".", "%2E") if name in STEPS else quote(name, safe="")
