"""Take recognised secrets and, where wanted, personal numbers out of text before it is kept. Only formats that say what
they are (a token's prefix, length and alphabet, a card's issuer and check digit), so words, UUIDs, hashes and base64
stay as they are. What goes is replaced by its name, ``[redacted:github-token]``; redacting twice changes nothing.
"""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from memproxy.core.bounded_regex import AT_ONCE
from memproxy.core.memory import TEXT_FIELDS

KINDS = frozenset({"secrets", "cards", "emails", "phones"})  # all that `redact` knows (``privacy.redact``)


class _Format(NamedTuple):
    """A token format. One of ``hints`` must occur, else the expression, many times dearer, is not tried: within a long
    word, or anywhere where the format is known by the words before it (``in_context``).
    """

    name: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]
    in_context: bool = False


_SHORTEST_TOKEN = 20  # characters of the shortest format (an AWS key id); text without words that long needs no look
_LEFT = r"(?<![A-Za-z0-9_-])"
_BREAK = r"(?:\\[nr]|\s)*+"
_PEM_KEY = (
    r"-----BEGIN [A-Z0-9 ]{0,20}PRIVATE KEY(?: BLOCK)?-----"
    rf"(?:{_BREAK}[A-Za-z-]{{3,20}}: [^\n\\]{{1,80}})*+"
    # possessive within, not without: Python 3.11.2, which Debian 12 has, then keeps the break of a line that is none
    rf"(?:{_BREAK}[A-Za-z0-9+/=]{{16,}}+)+"
    rf"(?:(?:{_BREAK}[A-Za-z0-9+/=]{{1,64}}){{0,2}}{_BREAK}-----END [A-Z0-9 ]{{0,20}}PRIVATE KEY(?: BLOCK)?-----)?"
)


def _token(name: str, hints: str, pattern: str, *, left: str = _LEFT) -> _Format:
    return _Format(name, tuple(hints.split()), re.compile(f"{left}(?:{pattern})(?![A-Za-z0-9])"))


_FORMATS = (
    _Format("private-key", ("PRIVATE KEY",), re.compile(_PEM_KEY), in_context=True),
    # The secret half has no prefix: it is known by its name before it, or by the key id right before it.
    _Format(
        "aws-secret",
        ("ecret", "ECRET", "AKIA", "ASIA"),
        re.compile(
            r"((?i:secret[_ -]?(?:access[_ -]?)?key)[\"'`]?\s{0,3}(?::=|[:=]>?|is)?\s{0,3}[\"'`]?"
            r"|\b(?:AKIA|ASIA)[A-Z0-9]{16}[\"'`]?[\s:,;/|&]{1,4}[\"'`]?)"
            r"(?=[A-Za-z0-9/+]{0,39}[0-9/+])[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
        ),
        in_context=True,
    ),
    _token("aws-key", "AKIA ASIA ABIA ACCA", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}", left=r"(?<![A-Za-z0-9+/_-])"),
    _token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,255}"),
    _token("github-token", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    _token(
        "gitlab-token", "glpat- glptt- gldt- glrt-", r"gl(?:pat|ptt|dt|rt)-[A-Za-z0-9_-]{20,100}(?:\.[a-z0-9.]{2,60})?"
    ),
    _token("anthropic-key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{20,200}"),
    _token("openrouter-key", "sk-or-v1-", r"sk-or-v1-[0-9a-f]{64}"),
    _token("openai-key", "sk-proj- sk-svcacct- sk-admin-", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,250}"),
    _token("openai-key", "sk-", r"sk-(?=[A-Za-z]{0,64}[0-9])[A-Za-z0-9]{32,64}"),
    _token("groq-key", "gsk_", r"gsk_[A-Za-z0-9]{40,64}"),
    _token("slack-token", "xoxa- xoxb- xoxe- xoxo- xoxp- xoxr- xoxs-", r"xox[abeoprs]-[0-9][A-Za-z0-9-]{10,250}"),
    _token("slack-token", "xapp-", r"xapp-[0-9]-[A-Z0-9]{8,}-[0-9]{8,}-[A-Za-z0-9]{20,}"),
    _token("google-key", "AIza", r"AIza[A-Za-z0-9_-]{35}", left=r"(?<![A-Za-z0-9+/_-])"),
    _token("stripe-key", "k_live_ k_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,250}"),
    _token("npm-token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    _token("pypi-token", "pypi-Ag", r"pypi-Ag[A-Za-z0-9_-]{50,400}"),
    _token("huggingface-token", "hf_", r"hf_[A-Za-z0-9]{30,64}"),
    _token("sendgrid-key", "SG.", r"SG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    _token("twilio-key", "SK", r"SK[0-9a-f]{32}", left=r"(?<![A-Za-z0-9+/_-])"),
    _token(
        "jwt", ".eyJ", r"eyJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]*+", left=r"(?<![A-Za-z0-9+/_.-])"
    ),
    _token("telegram-token", ":AA", r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33}", left=r"(?<![0-9])"),
)

_HINTS = tuple(sorted({hint for form in _FORMATS for hint in form.hints}))

_LONGEST = 16_384  # characters of the longest that is recognised, which is a private key of 16,384 bits

_DIGITS_OF_CARD = re.compile(
    r"\d(?<![\w.+-]\d)(?:\d{3}([ -]?)\d{4}\1\d{4}\1\d{1,7}|\d{3}([ -]?)\d{6}\2\d{4,5}|\d{12,18})(?![\w-]|\.\d)"
)
_ISSUERS = re.compile(
    r"4\d{12}(?:\d{3}){0,2}|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|35(?:2[89]|[3-8]\d)\d{12}|6(?:011|5\d\d|4[4-9]\d)\d{12}|62\d{14,17}"
)
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+@/-])[A-Za-z0-9][A-Za-z0-9._%+-]{0,63}+@(?:[A-Za-z0-9-]{1,63}\.){1,6}([A-Za-z]{2,24})"
    r"(?![A-Za-z0-9@-]|:[\w/~]|\.[A-Za-z0-9])"
)
_FILE_ENDINGS = frozenset({"png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "ts", "json"})
_PHONE = re.compile(
    r"(?<![\w+./-])(?:\+[1-9](?:[ .-]?\d|[ .-]?\(\d{1,4}\)(?=[ .-]?\d)){7,14}(?![\w-]|\.\d)"
    r"|(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[.-])[2-9]\d\d[.-]\d{4}(?![\w-]|\.\d))"
)


def redact(text: str, kinds: frozenset[str]) -> str:
    """The text with everything of these ``kinds`` (of `KINDS`) replaced by its name; mostly the very same object."""
    if "secrets" in kinds:
        text = _without_secrets(text)
    for kind, hint, pattern, replacement in _PERSONAL:
        if kind in kinds and hint in text:
            text = _replaced_secrets(pattern, replacement, text)
    return text


def redact_all(value: Any, kinds: frozenset[str]) -> Any:
    """As `redact`, of every text in a JSON value: what stands in lists and objects, and their keys, too. A value is
    looked at together with its key, for some formats are known by the words before them alone.
    """
    if isinstance(value, str):
        return redact(value, kinds)
    if isinstance(value, dict):
        return {redact(key, kinds): _redact_named(key, inner, kinds) for key, inner in value.items()}
    if isinstance(value, list):
        return [redact_all(inner, kinds) for inner in value]
    return value


def _redact_named(key: str, value: Any, kinds: frozenset[str]) -> Any:
    redacted = redact_all(value, kinds)
    if redacted is value and isinstance(value, str) and len(value) >= _SHORTEST_TOKEN:
        whole = redact(f"{key}: {value}", kinds)
        return whole[len(key) + 2 :] if whole.startswith(f"{key}: ") else value
    return redacted


def redact_memory(fields: Mapping[str, Any], kinds: frozenset[str]) -> dict[str, Any]:
    """Fields of a memory as it is kept: every text redacted; ids, times, numbers and fixed words stay."""
    return {
        name: redact_all(value, kinds) if value and name in TEXT_FIELDS else value for name, value in fields.items()
    }


def _without_secrets(text: str) -> str:
    if len(text) < _SHORTEST_TOKEN:
        return text
    long_words = " ".join(word for word in text.split() if len(word) >= _SHORTEST_TOKEN)
    if not long_words or not any(hint in text for hint in _HINTS):
        return text
    for form in _FORMATS:
        searched = text if form.in_context else long_words
        if any(hint in searched for hint in form.hints):
            text = _replaced_secrets(form.pattern, partial(_named, form.name), text)
    return text


def _named(name: str, match: re.Match[str]) -> str:
    return f"{match[1] if match.re.groups else ''}[redacted:{name}]"


def _replaced_secrets(pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str], text: str) -> str:
    """As ``pattern.sub``; a long text is looked through by pieces of `AT_ONCE`, which overlap by the longest match."""
    if len(text) <= AT_ONCE:
        return pattern.sub(replacement, text)
    pieces, done, begin = [], 0, 0
    while begin < len(text):
        match = pattern.search(text, begin, begin + AT_ONCE)
        if match is None or match.start() >= begin + AT_ONCE - _LONGEST:
            begin += AT_ONCE - _LONGEST  # what begins further on, the next piece shows whole
            continue
        pieces += [text[done : match.start()], replacement(match)]
        done = begin = match.end()
    return "".join([*pieces, text[done:]])


def _card_or_not(match: re.Match[str]) -> str:
    digits = re.sub(r"\D", "", match[0])
    return "[redacted:card]" if _ISSUERS.fullmatch(digits) and _passes_luhn(digits) else match[0]


def _passes_luhn(digits: str) -> bool:
    """The check digit of ISO/IEC 7812: from the right, every second digit doubled, the sum divisible by ten."""
    total = 0
    for index, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + index % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _email_or_file(match: re.Match[str]) -> str:
    return match[0] if match[1].lower() in _FILE_ENDINGS else "[redacted:email]"


_PERSONAL = (
    ("cards", "", _DIGITS_OF_CARD, _card_or_not),
    ("emails", "@", _EMAIL, _email_or_file),
    ("phones", "", _PHONE, lambda _: "[redacted:phone]"),
)
"""Kinds of personal numbers: what a text with one holds, its pattern, and what takes its place."""
