"""Grounding: which message of the window a candidate rests on, and whether it rests on any."""

import re
import unicodedata
from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Memory
from memproxy.core.slots import numbers, singular
from memproxy.core.text import key_terms
from memproxy.learn.candidates import Extracted, Grounded

_LEAST_QUOTE = 3
"""Letters of a quote; a shorter one could be from anywhere and counts as none."""

_NOT_ABOUT = frozenset({"user", "assistant", "people", "person", "speaker"})
_MARKS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‹": "<"})


def ground(candidate: Extracted, turns: Sequence[Memory]) -> Grounded | str:
    """The candidate with its turn, or why it is rejected.

    ``evidence``: it quotes words that no message holds. ``ungrounded``: it quotes nothing and shares too few terms with
    any message, or shares none although it quotes (a quote must not carry an invention).
    """
    quotes = [plain for text in candidate.evidence if len(plain := _plain(text)) >= _LEAST_QUOTE]
    if not quotes:
        turn = _by_terms(candidate, turns)
        return Grounded(candidate, turn) if turn is not None else "ungrounded"
    holders = [_holders(text, turns) for text in quotes]
    if not all(holders):
        return "evidence"
    if not _terms(candidate.content) & _terms(" ".join(_said(turn) for turn in turns)):
        return "ungrounded"
    return Grounded(candidate, _best([turn for found in holders for turn in found]))


def _plain(text: str) -> str:
    """Text to compare quotes by: case, kinds of quotation marks and dashes, white space and marks at the ends aside."""
    folded = unicodedata.normalize("NFKC", text).translate(_MARKS).casefold()
    return " ".join(folded.split()).strip(" \"'`.,;:!?…*_")


def _said(turn: Memory) -> str:
    return strip_blocks(turn.content)


def _holders(plain: str, turns: Sequence[Memory]) -> list[Memory]:
    """The turns that hold a quote; its pieces in order when it leaves words out by an ellipsis."""
    pieces = [piece for part in re.split(r"\.\.\.|…", plain) if (piece := part.strip())]
    return [turn for turn in turns if pieces and _holds(_plain(_said(turn)), pieces)]


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


def _by_terms(candidate: Extracted, turns: Sequence[Memory]) -> Memory | None:
    """The turn that shares at least two key terms and half of the statement's, and all its numbers but years."""
    wanted = _terms(candidate.content)
    stated = frozenset(number for number in numbers(candidate.content) if not re.fullmatch(r"(?:19|20)\d\d", number))
    fitting = []
    for turn in turns:
        shared = wanted & _terms(_said(turn))
        if len(shared) >= 2 and len(shared) * 2 >= len(wanted) and stated <= numbers(_said(turn)):
            fitting.append(turn)
    return _best(fitting) if fitting else None


def _terms(text: str) -> frozenset[str]:
    found = frozenset(singular(term) for term in key_terms(text, 500))
    return (found | numbers(text)) - _NOT_ABOUT
