"""Whether a message asks for one of the tools that a request offers, by the words of its name.

That tools are offered says nothing: agents offer them with every request.
"""

import re
from collections.abc import Sequence

import msgspec

MAX_TOOLS = 128
"""Tools looked at; more are not compared."""

_NAME_CHARACTERS = 100
_NAMED = 2
"""Words of a tool's name that must be said, all but one of longer names (``get`` of ``get_stock_price`` seldom is)."""

_STEM = 6
"""Letters compared of a word: ``convert`` and ``conversion`` share them, ``weather`` and ``whether`` do not."""

_NAME_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+")
_WORD = re.compile(r"[^\W\d_]+")


class OfferedTool(msgspec.Struct, frozen=True):
    """A tool that the model may call."""

    name: str
    description: str = ""


def asks_for_tool(text: str, tools: Sequence[OfferedTool]) -> bool:
    """Whether the message names one of the tools. A name that stands before the tool's is whom the message is about
    ("Does Sarah know the stock price?"), one behind it what the tool is called with.
    """
    words = _WORD.findall(text)
    places: dict[str, int] = {}
    for place, word in enumerate(words):
        places.setdefault(_stem(word.lower()), place)
    first_name = next((place for place, word in enumerate(words) if place and word[0].isupper()), len(words))
    return any(_is_named(tool, places, first_name) for tool in tools[:MAX_TOOLS])


def _is_named(tool: OfferedTool, places: dict[str, int], first_name: int) -> bool:
    parts = {_stem(part.lower()) for part in _NAME_PART.findall(tool.name[:_NAME_CHARACTERS])}
    said = [places[part] for part in parts if part in places]
    return len(said) >= max(_NAMED, len(parts) - 1) and min(said) <= first_name


def _stem(word: str) -> str:
    if len(word) > _STEM:
        return word[:_STEM]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
