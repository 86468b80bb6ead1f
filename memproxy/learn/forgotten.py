"""Statements that were deleted (or edited) through the API while their turns stay: reading these turns again must not
bring them back. The slot register notes them by hashes of turn and statement; they go with their session's turns.
"""

import hashlib
from collections.abc import Iterable

from memproxy.core.correct import SAID_AS
from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import slot_name, slot_value, value_name

_PREFIX = "forgotten"


def marks(memory: Memory, sessions: dict[str, str | None] | None = None) -> list[str]:
    """The register's entries for a statement, for each turn that tells it: by its words, and by slot and value.
    ``sessions`` are those of the turns; by default all are the memory's.
    """
    if memory.kind is Kind.TURN:
        return []
    stated = {f"words|{value_name(memory.content)}"}
    if isinstance(told := memory.metadata.get(SAID_AS), str):
        stated.add(f"words|{value_name(told)}")
    if memory.object and (slot := slot_name(memory)) is not None:
        stated.add(f"slot|{slot}|{slot_value(memory)}")
    places = [(turn, (sessions or {}).get(turn, memory.session_id)) for turn in memory.turn_ids]
    return [f"{_of_turn(session, turn)}{_hashed(said)}" for turn, session in places for said in sorted(stated)]


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
