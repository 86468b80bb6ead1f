"""Grounding: which message of the window a candidate rests on, and whether it rests on any."""

import re
import unicodedata
from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Memory
from memproxy.core.slots import numbers, singular
from memproxy.core.text import key_terms
from memproxy.learn.candidates import Extracted, Grounded, Intent, Window

_LEAST_QUOTE = 3
"""Letters of a quote; a shorter one could be from anywhere and counts as none."""

_SMALL = 31
"""Numbers up to this may be counts, days or hours that the extractor worked out ("two dogs", "tomorrow")."""

_NOT_ABOUT = frozenset({"user", "assistant", "people", "person", "speaker"})
_MARKS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‹": "<"})


class Heard:
    """A window as candidates are held against it: read once, for a long one takes tens of milliseconds."""

    def __init__(self, window: Window) -> None:
        said = [strip_blocks(turn.content) for turn in window.turns]
        whole = " ".join([*said, *(memory.content for memory in window.known)])
        self._turns = [(turn, _plain(text)) for turn, text in zip(window.turns, said, strict=True)]
        self.terms = _terms(whole)
        self.numbers = numbers(whole)

    def holders(self, plain: str) -> list[Memory]:
        """The turns that hold a quote; its pieces in order when it leaves words out by an ellipsis."""
        pieces = [piece for part in re.split(r"\.\.\.|…", plain) if (piece := part.strip())]
        return [turn for turn, text in self._turns if pieces and _holds(text, pieces)]


def ground(candidate: Extracted, heard: Heard) -> Grounded | str:
    """The candidate with its turn, or why it is rejected.

    ``evidence``: it quotes nothing, or words that no message of the window holds. ``ungrounded``: it quotes, but shares
    no term with what was said, or states a number that is neither in the conversation nor known (a quote must not carry
    an invention).
    """
    quotes = [plain for text in candidate.evidence if len(plain := _plain(text)) >= _LEAST_QUOTE]
    holders = [heard.holders(text) for text in quotes]
    if not quotes or not all(holders):
        return "evidence"
    if not _is_carried(candidate, heard):
        return "ungrounded"
    return Grounded(candidate, _best([turn for found in holders for turn in found]))


def _is_carried(candidate: Extracted, heard: Heard) -> bool:
    """Whether the statement is about what was said: a shared term, and no number of its own."""
    if candidate.intent is Intent.FORGET:
        return True  # it names what is to go and states nothing
    own = {number for number in numbers(candidate.content) if not _may_be_derived(number)}
    return bool(_terms(candidate.content) & heard.terms) and own <= heard.numbers


def _may_be_derived(number: str) -> bool:
    """A year, or a small number: dates are worked out from the message's own ("last week")."""
    return re.fullmatch(r"(?:19|20)\d\d", number) is not None or float(number) <= _SMALL


def _plain(text: str) -> str:
    """Text to compare quotes by: case, kinds of quotation marks and dashes, white space and marks at the ends aside."""
    folded = unicodedata.normalize("NFKC", text).translate(_MARKS).casefold()
    return " ".join(folded.split()).strip(" \"'`.,;:!?…*_")


def _holds(text: str, pieces: Sequence[str]) -> bool:
    place = 0
    for piece in pieces:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return True


def _best(turns: Sequence[Memory]) -> Memory:
    """The newest of the most trusted."""
    return max(enumerate(turns), key=lambda found: (found[1].trust.level, found[0]))[1]


def _terms(text: str) -> frozenset[str]:
    found = frozenset(singular(term) for term in key_terms(text, 500))
    return (found | numbers(text)) - _NOT_ABOUT
