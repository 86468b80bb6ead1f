"""What the scripted model answers: only what its prompt contains, found by the words that line and question share."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

KNOWN = "From what I know: "
UNKNOWN = "I don't know that."
NOTED = "Thank you, I have read that."
GREETING = "Hello. I am a script, not a model: I answer only from what my prompt contains."

_WORD = re.compile(r"\$?[a-z0-9]+(?:[-.,][a-z0-9]+)*")
_PREFIX = re.compile(r"^(?:[-*•]\s*|\[[^\]]*\]\s*|\([^)]*\)\s*|\d{4}-\d{2}-\d{2}\S*\s*|[#·:|—]\s*)+")
_SUFFIX = re.compile(r"(?:\s?\[m:[0-9a-f]{1,8}\]){1,9}$")
"""The short id at the end of a recalled line; it names the memory and is no part of what it says."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_QUESTION = re.compile(r"^(?:what|who|where|when|which|how|why|do|does|is|are|can|could|tell me|remind me)\b", re.I)
_OUTDATED = re.compile(r"superseded|replaced by|no longer", re.I)
_COMMON_TEXT = """
a about again all am an and any are as at be can could did do does for from had has have hello hey hi how i if in into
is it its me my now of ok on or our please so tell thanks that the their there they this to user us was we were what
when where which who whose why will with would you your
"""
_COMMON = frozenset(_COMMON_TEXT.split())
"""Words that every text holds; they say nothing about what it is about."""
_LEAST_SHARE = 0.5
"""Share of the question's words that a line must hold to count as its answer; a guess that suits the demonstration."""


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a chat message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def sentences(text: str) -> list[str]:
    """The text's sentences, each line on its own, in order and verbatim."""
    return [
        sentence.strip() for line in text.splitlines() for sentence in _SENTENCE_END.split(line) if sentence.strip()
    ]


def is_question(text: str) -> bool:
    """Whether the text asks for something."""
    return any(sentence.endswith("?") or _QUESTION.match(sentence) for sentence in sentences(text))


def content_words(text: str) -> set[str]:
    """The words that carry meaning, in lower case, without a possessive ending."""
    found = _WORD.findall(text.lower().replace("'s", "").replace("’s", ""))
    return {word for word in found if word not in _COMMON}


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """The script's answer to the last user message of ``messages``."""
    last = max((place for place, message in enumerate(messages) if message.get("role") == "user"), default=None)
    if last is None:
        return GREETING
    asked = text_of(messages[last])
    words = content_words(asked)
    if not words:
        return GREETING
    if not is_question(asked):
        return NOTED
    rest = [message for place, message in enumerate(messages) if place != last]
    best = _best_line(words, _lines(rest))
    return f"{KNOWN}{best}" if best else UNKNOWN


def _lines(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the prompt states, oldest first: system and tool text by line, what the user said by sentence."""
    for message in messages:
        if message.get("role") == "assistant":
            continue
        text = text_of(message)
        said_by_user = message.get("role") == "user"
        for line in sentences(text) if said_by_user else text.splitlines():
            statement = _SUFFIX.sub("", _PREFIX.sub("", line.strip()))
            if statement and not statement.startswith("<") and not is_question(statement):
                yield statement


def _best_line(words: set[str], lines: Iterator[str]) -> str | None:
    """The line that shares most words with the question; of equal ones the last, which was said later."""
    best, best_share = None, _LEAST_SHARE
    for line in lines:
        if _OUTDATED.search(line):
            continue
        held = content_words(line)
        share = sum(any(_alike(word, other) for other in held) for word in words) / len(words)
        if share >= best_share:
            best, best_share = line, share
    return best


def _alike(word: str, other: str) -> bool:
    """Equal, or one the other's beginning (name and named, deploy and deployment)."""
    short, long = sorted((word, other), key=len)
    return short == long or (len(short) >= 4 and long.startswith(short))
