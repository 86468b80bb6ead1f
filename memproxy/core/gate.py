"""Which messages are worth a search, and which are vague. Whole short messages alone are skipped, never with a
first-person word: greetings, small talk, a tool's business. Questions for general knowledge are left to the user's own
memories to tell (`Verdict.asks_memory`). All else is searched for: nothing here may cost a user a memory.
"""

import re
from collections.abc import Sequence

import msgspec

from memproxy.core.message_kinds import MOST_READ, kind_of, plain, speaks_of_self
from memproxy.core.text import is_unspaced, key_terms

VAGUE_CHARACTERS = 20  # most queries up to this length lean on what was said before
COMMAND_CHARACTERS = 160
UNDECIDED = "default"  # the reason of the default verdict
FACT = "fact"

_LONGEST = {"greeting": 60, "smalltalk": 120, "tool": COMMAND_CHARACTERS, FACT: MOST_READ}
"""Characters of the longest message of a kind; a longer one has something else in it."""

_GREETINGS = 3  # messages that may stand before a conversation's first question
_VAGUE_READ = 8_000
MAX_TOOLS = 128  # tools looked at; more are not compared
_NAME_CHARACTERS = 100
_LEAST_NAMED = 2  # words of a tool's name that must be said, all but one of longer names (seldom ``get``)
_TOOL_STEM = 6  # letters compared: ``convert`` and ``conversion`` share them, ``weather`` and ``whether`` do not

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_WORD = re.compile(r"[^\W\d_]+")


class OfferedTool(msgspec.Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """Whether to search; why: ``greeting``, ``smalltalk``, ``tool``, ``fact``, ``empty``, ``personal``, ``default``."""

    searched: bool
    reason: str

    @property
    def asks_memory(self) -> bool:
        """Whether the message is still searched for if the user's memories speak of what it asks."""
        return self.reason == FACT and not self.searched

    @property
    def reaches_memory(self) -> bool:
        """Whether the engine is asked at all."""
        return self.searched or self.asks_memory


def judge(
    text: str,
    skip: frozenset[str],
    *,
    offered: Sequence[OfferedTool] = (),
    tool_forced: bool = False,
    follows: bool = False,
) -> Verdict:
    """Whether the user's message is searched for, given the kinds to ``skip``. ``offered``: the request's tools; a
    message without first-person words that asks for one is a tool's. ``tool_forced``: the request makes the model call
    one. ``follows``: the user said something before, which a vague question may be about.
    """
    text = text.lstrip()  # what is read is the beginning of what was written
    head = plain(text)
    if not any(map(str.isalnum, head)) and len(head) <= MOST_READ:
        return Verdict(searched=False, reason="empty")
    reason = "tool" if tool_forced else _kind(head, text, offered, follows=follows)
    return Verdict(searched=reason not in skip, reason=reason)


def is_first_search(earlier: Sequence[str], skip: frozenset[str]) -> bool:
    """Whether none of the user's ``earlier`` messages was searched for; with nothing to ``skip`` all of it was."""
    if len(earlier) > _GREETINGS or (earlier and not skip):
        return False
    return not any(judge(text, skip).searched for text in earlier)


def _kind(head: str, text: str, offered: Sequence[OfferedTool], *, follows: bool) -> str:
    if speaks_of_self(head):
        return "personal"
    if len(head) > MOST_READ:
        return UNDECIDED
    if offered and len(head) <= COMMAND_CHARACTERS and asks_for_tool(text, offered):
        return "tool"
    kind = kind_of(head, text)
    if kind is None or len(head) > _LONGEST[kind] or (kind == FACT and follows and is_vague(text)):
        return UNDECIDED
    return kind


def is_vague(text: str) -> bool:
    """Whether the query leans on earlier messages ("How much?", "And that one?") rather than standing by itself."""
    read = text[:_VAGUE_READ]
    # an unspaced run is a clause, not a word: every four of its characters count as one term
    weight = sum(max(1, len(term) // 4) if is_unspaced(term[0]) else 1 for term in key_terms(read, limit=4))
    if weight == 0:
        return True
    head = plain(read)
    return len(head) <= VAGUE_CHARACTERS and weight < 2 and not speaks_of_self(head)


def asks_for_tool(text: str, tools: Sequence[OfferedTool]) -> bool:
    """Whether the message names one of the tools by the words of its name (offered they always are). A name before the
    tool's is whom it is about ("Does Sarah know the stock price?"), one behind it what the tool is called with.
    """
    words = _WORD.findall(text)
    places: dict[str, int] = {}
    for index, word in enumerate(words):
        places.setdefault(_stem(word.lower()), index)
    first_name = next((index for index, word in enumerate(words) if index and word[0].isupper()), len(words))
    return any(_is_named(tool, places, first_name) for tool in tools[:MAX_TOOLS])


def _is_named(tool: OfferedTool, places: dict[str, int], first_name: int) -> bool:
    parts = {_stem(part.lower()) for part in _NAME_PART.findall(tool.name[:_NAME_CHARACTERS])}
    positions = [places[part] for part in parts if part in places]
    return len(positions) >= max(_LEAST_NAMED, len(parts) - 1) and min(positions) <= first_name


def _stem(word: str) -> str:
    if len(word) > _TOOL_STEM:
        return word[:_TOOL_STEM]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
