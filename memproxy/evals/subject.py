"""What is evaluated: a memory that takes sessions and answers questions."""

from typing import Protocol

import msgspec

from memproxy.evals.dataset import Question, Session

DEPTH = 60
"""Turns asked for: enough to hold ten sessions nearly always, and what recall itself looks at."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What came back for one question.

    ``turns`` are the ids and sessions of the turns found, best first. ``injected`` are the ids in the block that the
    proxy would inject, ``context`` that block and ``tokens`` its size; ``degraded`` says why recall gave up, if it did.
    ``milliseconds`` is what recall took without embedding the query, ``embedding_ms`` that (None where the two cannot
    be told apart).
    """

    turns: list[tuple[str, str]]
    injected: list[str]
    context: str = ""
    tokens: int
    degraded: str | None
    milliseconds: float
    embedding_ms: float | None


class Subject(Protocol):
    """A memory under evaluation."""

    async def ingest(self, session: Session) -> None:
        """Push one session; it may become searchable later."""

    async def settle(self) -> None:
        """Returns when everything pushed is searchable."""

    async def ask(self, question: Question, recipe: str) -> Found:
        """One question: what is found, and what would be injected."""
