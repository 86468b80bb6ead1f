"""Whether a message asks for one of the tools that a request offers: by the words of its name, or of its description.

That tools are offered says nothing: agents offer them with every request. A message is a tool's business when all words
of the tool's name that mean something are in it, or when nearly all that it speaks of is in the tool's description.
"""

import re
from collections.abc import Sequence

import msgspec

from memproxy.core.gate_names import names_somebody
from memproxy.core.gate_patterns import WISHES
from memproxy.core.text import key_terms

MAX_TOOLS = 128
"""Tools looked at; more are not compared."""

_DESCRIPTION_CHARACTERS = 300
_STEM = 6
"""Letters compared of a word: ``convert`` and ``conversion`` share them, ``weather`` and ``whether`` do not."""

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_WORD = re.compile(r"[^\W\d_]+")

_GENERIC = frozenset(
    """
    a agent all an and answer api ask assistant base by call chat check conversation current currently data detail
    details do execute fetch find for from function functions get history in info information is it item items
    knowledge list look lookup make memories memory message messages my new note notes of on or plan query question
    read result results retrieve return run search show task tasks the think to tool tools use user users with your
    """.split()  # noqa: SIM905
)
"""Parts of tool names that say nothing of what the tool is for, or that speak of what memory itself is for."""


class OfferedTool(msgspec.Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str = ""


_ARGUMENTS = frozenset({"of", "in", "at", "near", "from"})
"""Names behind these are what a tool is called with, not whom the message is about."""


def asks_for_tool(plain: str, text: str, tools: Sequence[OfferedTool]) -> bool:
    """Whether the message (``plain``: in lower case) asks for one of the tools.

    A message that asks for a choice ("a good restaurant") does not: what the user likes decides there. Neither does one
    about somebody by name, who may be the user's own.
    """
    if not tools or WISHES.search(plain) or names_somebody(text, behind=_ARGUMENTS):
        return False
    said = {_stem(word) for word in _WORD.findall(plain)}
    topics = [_stem(term) for term in key_terms(text) if term.isalpha() and term.title() not in text]
    return any(_is_named(tool, said) or _is_described(tool, topics) for tool in tools[:MAX_TOOLS])


def _is_named(tool: OfferedTool, said: set[str]) -> bool:
    named = False
    for part in map(str.lower, _NAME_PART.findall(tool.name)):
        if part in _GENERIC:
            continue
        if _stem(part) not in said:
            return False
        named = True
    return named


def _is_described(tool: OfferedTool, topics: list[str]) -> bool:
    """Names (of places, people, companies) are arguments, which no description has; the other topics must be there."""
    if len(topics) < 2:
        return False
    plain = tool.description[:_DESCRIPTION_CHARACTERS].lower()
    if not all(topic in plain for topic in topics):
        return False  # a stem is a part of its word; agents offer dozens of tools, and most are of another matter
    described = {_stem(word) for word in _WORD.findall(plain)}
    return all(topic in described for topic in topics)


def _stem(word: str) -> str:
    if len(word) > _STEM:
        return word[:_STEM]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
