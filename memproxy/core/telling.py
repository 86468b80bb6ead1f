"""Whether a message tells something of its user, or only asks, requests or acknowledges. A question asked again has all
words of the earlier one, more than the answer has, so only what tells is a candidate of recall. A logistic regression
over a part's words, their letters, its beginning and its end decides; ``python -m tests.fitting.telling`` fits it on
labelled parts in 29 languages (``telling.json``).
"""

import base64
import functools
import json
import math
import re
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files

import msgspec

from memproxy.core.memory import ASKED, Kind, Memory, Trust
from memproxy.core.text import QUESTION_MARKS, clean, is_unspaced, sentences, words

LEAST = -0.5  # log odds of its most telling part below which a message tells nothing (figures: docs/recall.md)
SURELY = 1.3  # from here on a message tells, also where it has no other words than the question
PLAINLY = 2.0
"""Log odds of telling that a statement has: of those that make an earlier one outdated four in five have them, of the
questions of our open lives one in ten. Below, a model that found nothing told in a message is believed.
"""

MOST_CHARACTERS = 4_000  # what is read of a message: its beginning and, of a longer one, its end
_MOST_PARTS = 40
_CLAUSE_WORDS = 3
_CLAUSE_END = re.compile(r"(?<=[,;:])\s| [-–—] ")
_MOST_WORDS = 64
_MOST_SIGNS = 40  # characters of a run of an unspaced script, letters of a word
_GRAM = 4
_KNOWN_WORDS = 16_384  # words of which the letters are not taken apart again: most of a message's are among them
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
    return read_weights(files("memproxy.core").joinpath("telling.json").read_text("utf-8"))


def read_weights(text: str) -> Weights:
    """Weights as fitting writes them, in JSON."""
    raw = json.loads(text)
    return Weights(array("b", base64.b64decode(raw["weights"])), raw["scale"])


def telling(text: str, weights: Weights | None = None) -> float:
    """The log odds that a message tells something: those of its likeliest sentence or clause."""
    used = weights or shipped()
    return max((odds_of(clause, used) for part in _parts(text) for clause in (part, *clauses(part))), default=-math.inf)


def _parts(text: str) -> list[str]:
    """The sentences of a message, of a long one those at its beginning and its end."""
    read = text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS // 2]}\n{text[-MOST_CHARACTERS // 2 :]}"
    parts = sentences(read)
    return parts if len(parts) <= _MOST_PARTS else parts[: _MOST_PARTS // 2] + parts[-_MOST_PARTS // 2 :]


def clauses(part: str) -> list[str]:
    """Of a sentence of several clauses those of three words and more."""
    cut = _CLAUSE_END.split(part)
    return [clause for clause in cut if len(clause.split()) >= _CLAUSE_WORDS] if len(cut) > 1 else []


def odds_of(part: str, weights: Weights) -> float:
    """The log odds of one part, by these weights."""
    places = features(part, weights.size)
    total = sum(map(weights.weights.__getitem__, places)) / math.sqrt(max(1, len(places)))
    return float(total + weights.weights[weights.size]) * weights.scale


def features(part: str, size: int) -> frozenset[int]:
    """The features of a part of a message, each as one of ``size`` numbers."""
    low = clean(part).strip().lower().replace("’", "'")
    tokens: list[str] = []
    numbers: set[int] = set()
    for word in words(low)[:_MOST_WORDS]:
        tokens += word[:_MOST_SIGNS] if is_unspaced(word[0]) else (word,)
        numbers |= _of_word(word, size)
    return frozenset(numbers | _placed(_around(part, low, tokens), size))


def _placed(signs: Iterable[str], size: int) -> frozenset[int]:
    return frozenset(zlib.crc32(sign.encode("utf-8", "surrogatepass")) % size for sign in signs)


@functools.lru_cache(_KNOWN_WORDS)
def _of_word(word: str, size: int) -> frozenset[int]:
    """Features of a word by itself: the word and its runs of letters."""
    cut = word[:_MOST_SIGNS]
    if is_unspaced(word[0]):
        pairs = (f"c{cut[at : at + 2]}" for at in range(len(cut) - 1))
        return _placed((*pairs, *(f"w{word}" for word in cut)), size)
    framed = f"<{cut}>"
    grams = (f"c{framed[at : at + _GRAM]}" for at in range(max(1, len(framed) - _GRAM + 1)))
    return _placed((*grams, f"w{word}"), size)


def _around(part: str, low: str, tokens: Sequence[str]) -> Iterator[str]:
    """Features of a part beside its words: beginning, end, length and signs."""
    yield from (f"b{' '.join(tokens[:count])}" for count in range(1, min(_FIRST_WORDS, len(tokens)) + 1))
    yield f"e{tokens[-1] if tokens else ''}"
    end = low.rstrip(_QUOTES)[-1:]
    yield f"E{'a' if end.isalnum() else end}"
    yield f"L{min(_LONGEST, int(math.log2(len(tokens) + 1)))}"
    if any(mark in low for mark in QUESTION_MARKS):
        yield "Q"
    if any(map(str.isdigit, low)):
        yield "D"
    if _CAPITAL.search(part):
        yield "N"


def only_asks(memory: Memory) -> bool:
    """Whether a user's message only asks, requests or acknowledges, by its looks or as a model has read it."""
    if memory.kind is not Kind.TURN or memory.trust is not Trust.USER:
        return False
    return memory.metadata.get(ASKED) is True or telling(memory.content) < LEAST


def tells_nothing(memory: Memory) -> bool:
    """Whether a message tells nothing of the user: his own that only ask, and all of an assistant's."""
    return memory.kind is Kind.TURN and (memory.trust is Trust.ASSISTANT or only_asks(memory))
