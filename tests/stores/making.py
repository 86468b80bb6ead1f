"""Memories and points for the tests of this room."""

from datetime import UTC, datetime, timedelta
from typing import Any

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.ports import JournalEntry, JournalKind, Point, SparseVector

DIMENSION = 4
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ANN = Scope(tenant="acme", user="ann", session="s1")
BEN = Scope(tenant="acme", user="ben", session="s1")
FOREIGN_ANN = Scope(tenant="umbrella", user="ann", session="s1")
WORDS = SparseVector([7], [1.0])


def memory(name: str, scope: Scope = ANN, *, seconds: float = 0, **fields: Any) -> Memory:
    """A fact of ``scope``, learned ``seconds`` after noon."""
    at = NOON + timedelta(seconds=seconds)
    defaults: dict[str, Any] = {
        "kind": Kind.SEMANTIC,
        "content": f"content of {name}",
        "session_id": scope.session,
        "project_id": scope.project,
        "agent_id": scope.agent,
        "created_at": at,
        "updated_at": at,
    }
    return Memory(id=name, tenant=scope.tenant, user_id=scope.user, **(defaults | fields))


def turn(name: str, scope: Scope = ANN, *, seconds: float = 0, seq: int = 0, **fields: Any) -> Memory:
    """A verbatim turn."""
    return memory(
        name, scope, seconds=seconds, **{"kind": Kind.TURN, "turn_ids": [name], "metadata": {"seq": seq}} | fields
    )


def point(one: Memory, *dense: list[float], words: SparseVector = WORDS) -> Point:
    """A point with as many parts as vectors are given."""
    return Point(memory=one, dense=list(dense), bm25=words)


def entry(scope: Scope = ANN, kind: JournalKind = JournalKind.TURNS, body: bytes = b"{}") -> JournalEntry:
    return JournalEntry(kind=kind, scope=scope, body=body)


def session(name: str, scope: Scope = ANN) -> Scope:
    return Scope(tenant=scope.tenant, user=scope.user, session=name)
