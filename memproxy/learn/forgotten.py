"""Statements that were deleted (or edited) through the API while their turns stay: reading these turns again must not
bring them back, in whatever words. The slot register notes them by hashes of turn and statement, and for each turn the
hashed words of what was forgotten of it; they go with their session's turns.
"""

import hashlib
from collections.abc import Iterable, Mapping

from memproxy.core.memory import Kind, Memory
from memproxy.core.reworded import alike, terms
from memproxy.core.slots import slot_name, slot_value, value_name

_PREFIX = "forgotten"
_WORDS = "about"
_NEXT = ";"
_MOST_OF_A_TURN = 50
"""Statements of one turn whose words are kept, the latest; a turn tells a handful."""

_SHORT = 8


def marks(memory: Memory, sessions: Mapping[str, str | None] | None = None) -> list[str]:
    """The register's entries for a statement, for each turn that tells it: by its words, and by slot and value.
    ``sessions`` are those of the turns; by default all are the memory's.
    """
    if memory.kind is Kind.TURN:
        return []
    stated = {f"words|{value_name(memory.content)}"}
    if memory.object and (slot := slot_name(memory)) is not None:
        stated.add(f"slot|{slot}|{slot_value(memory)}")
    return [f"{of_turn}{_hashed(said)}" for of_turn in _turns_of(memory, sessions) for said in sorted(stated)]


def word_marks(memory: Memory, sessions: Mapping[str, str | None] | None = None) -> list[str]:
    """The register's entries, one for each of its turns, that hold the words of what was forgotten of the turn."""
    return [] if memory.kind is Kind.TURN else [f"{of_turn}{_WORDS}" for of_turn in _turns_of(memory, sessions)]


def with_words(held: str | None, memory: Memory) -> str:
    """What such an entry holds when the words of this statement are added."""
    kept = [*(held.split(_NEXT) if held else ()), ".".join(sorted(_hashed_terms(memory)))]
    return _NEXT.join(list(dict.fromkeys(kept))[-_MOST_OF_A_TURN:])


def is_about(held: str, memory: Memory) -> bool:
    """Whether a statement says what such an entry holds, in other words."""
    own = _hashed_terms(memory)
    return any(alike(own, frozenset(words.split("."))) for words in held.split(_NEXT) if words)


def _hashed_terms(memory: Memory) -> frozenset[str]:
    return frozenset(_hashed(term)[:_SHORT] for term in terms(memory.content))


def _turns_of(memory: Memory, sessions: Mapping[str, str | None] | None) -> list[str]:
    return [_of_turn((sessions or {}).get(turn, memory.session_id), turn) for turn in memory.turn_ids]


def of_session(session: str) -> str:
    """How the entries of a session's turns begin."""
    return f"{_PREFIX}|{_hashed(session)}|"


def of_turns(session: str | None, turns: Iterable[str]) -> list[str]:
    """How the entries of these turns of a session begin."""
    return [_of_turn(session, turn) for turn in turns]


def _of_turn(session: str | None, turn: str) -> str:
    return f"{of_session(session or '')}{_hashed(turn)}|"


def _hashed(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()
