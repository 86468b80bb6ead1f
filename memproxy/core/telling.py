"""Whether a message tells something of its user, or only asks, requests or acknowledges.

What is asked is stored as every message is, and asked again it has all of the question's words, more of them than the
answer. So only what tells is a candidate of recall. That is learned, not listed: a logistic regression over the words
of a part of a message, the letters of these words, how the part begins and how it ends. ``python -m
tests.fitting.telling`` fits it on labelled parts in eleven languages and writes its weights (``telling.json``).
"""

import base64
import functools
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterator
from importlib.resources import files

import msgspec

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.text import clean, is_unspaced, sentences, words

LEAST = -0.7
"""Log odds of its most telling part below which a message tells nothing (docs/recall.md has what it keeps and lets
through of parts that were not fitted on).
"""

SURELY = 1.5
"""From here on a message tells, also where it has no other words than the question."""

MOST_CHARACTERS = 4_000
"""What is read of a message: its beginning and, of a longer one, its end."""

_MOST_PARTS = 40
_MOST_WORDS = 64
_MOST_SIGNS = 40
"""Characters of a run of an unspaced script, letters of a word."""

_GRAM = 4
_FIRST_WORDS = 3
_LONGEST = 6
_CAPITAL = re.compile(r"(?<=\w )[^\W\d_a-z]\w")
_QUOTES = " '\"”’)»"


class Weights(msgspec.Struct, frozen=True):
    """``weights`` are eighths of log odds, one for each number that a feature has (`features`), the last for all."""

    weights: array  # type: ignore[type-arg]
    scale: float

    @property
    def size(self) -> int:
        """How many numbers features have."""
        return len(self.weights) - 1


@functools.cache
def shipped() -> Weights:
    """The weights that come with this version."""
    raw = json.loads(files("memproxy.core").joinpath("telling.json").read_text("utf-8"))
    return Weights(array("b", base64.b64decode(raw["weights"])), raw["scale"])


def telling(text: str, weights: Weights | None = None) -> float:
    """The log odds that a message tells something, those of the part of it that is likeliest to."""
    known = weights or shipped()
    read = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS // 2]}\n{text[-MOST_CHARACTERS // 2 :]}"
    parts = sentences(read)
    if len(parts) > _MOST_PARTS:
        parts = parts[: _MOST_PARTS // 2] + parts[-_MOST_PARTS // 2 :]
    return max((_odds(part, known) for part in parts), default=-math.inf)


def _odds(part: str, known: Weights) -> float:
    places = features(part, known.size)
    total = sum(known.weights[place] for place in places) / math.sqrt(max(1, len(places)))
    return float(total + known.weights[known.size]) * known.scale


def features(part: str, size: int) -> frozenset[int]:
    """What is seen of a part of a message, each as one of ``size`` numbers."""
    return frozenset(zlib.crc32(one.encode("utf-8", "surrogatepass")) % size for one in _seen(part))


def _seen(part: str) -> Iterator[str]:
    low = clean(part).strip().lower().replace("’", "'")
    found: list[str] = []
    for word in words(low)[:_MOST_WORDS]:
        if is_unspaced(word[0]):
            found += word[:_MOST_SIGNS]
            yield from (f"c{word[at : at + 2]}" for at in range(min(_MOST_SIGNS, len(word)) - 1))
        else:
            found.append(word)
            framed = f"<{word[:_MOST_SIGNS]}>"
            yield from (f"c{framed[at : at + _GRAM]}" for at in range(max(1, len(framed) - _GRAM + 1)))
    yield from (f"w{word}" for word in found)
    yield from (f"b{' '.join(found[:count])}" for count in range(1, min(_FIRST_WORDS, len(found)) + 1))
    yield f"e{found[-1] if found else ''}"
    end = low.rstrip(_QUOTES)[-1:]
    yield f"E{'a' if end.isalnum() else end}"
    yield f"L{min(_LONGEST, int(math.log2(len(found) + 1)))}"
    if "?" in low or "？" in low:
        yield "Q"
    if any(character.isdigit() for character in low):
        yield "D"
    if _CAPITAL.search(part):
        yield "N"


def only_asks(memory: Memory) -> bool:
    """Whether this is a message of the user's that tells nothing: it asks, requests or acknowledges."""
    return memory.kind is Kind.TURN and memory.trust is Trust.USER and telling(memory.content) < LEAST


def tells_nothing(memory: Memory) -> bool:
    """Whether this is a message that tells nothing of the user: his own that only ask, and all of an assistant's, which
    says what it knows, or gives back what he said.
    """
    return memory.kind is Kind.TURN and (memory.trust is Trust.ASSISTANT or only_asks(memory))
