"""What was said right before and right after a turn in its session."""

import asyncio
from collections.abc import Sequence
from datetime import datetime

from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.stores.backend import ORDER_FIELD
from memproxy.stores.filters import Between, Where, turns_of
from memproxy.stores.payload import Points, memories

_SPARE = 8
"""Turns read beyond ``reach`` at first, so that a few of the same time need no second read."""


async def around(engine: Points, scope: Scope, turn: Memory, *, reach: int) -> list[Memory]:
    """Up to ``reach`` turns before and after ``turn``, in order; the turn itself is not among them."""
    session = turns_of(scope, turn.session_id)
    before, after = await asyncio.gather(
        _side(engine, session.also(Between(key=ORDER_FIELD, at_or_before=turn.created_at)), turn, reach, "desc"),
        _side(engine, session.also(Between(key=ORDER_FIELD, at_or_after=turn.created_at)), turn, reach, "asc"),
    )
    return [*reversed(before), *after]


async def _side(engine: Points, where: Where, turn: Memory, reach: int, order: str) -> list[Memory]:
    """The nearest ``reach`` turns on one side, nearest first."""
    limit = reach + _SPARE
    while True:
        found = await engine.scroll(where, limit=limit, order=order)
        turns = memories(found)
        complete = len(found) < limit
        beyond = _beyond(turns if complete else _whole_times(turns), turn, order)
        if complete or len(beyond) >= reach:
            return beyond[:reach]
        limit *= 4  # many turns of one time (an import dated by the day): read on until their order is known


def _whole_times(turns: Sequence[Memory]) -> list[Memory]:
    """Without those of the last time read, of which there may be more."""
    return [turn for turn in turns if turn.created_at != turns[-1].created_at]


def _beyond(turns: Sequence[Memory], turn: Memory, order: str) -> list[Memory]:
    here = _position(turn)
    if order == "desc":
        return sorted((one for one in turns if _position(one) < here), key=_position, reverse=True)
    return sorted((one for one in turns if _position(one) > here), key=_position)


def _position(turn: Memory) -> tuple[datetime, int, str]:
    seq = turn.metadata.get("seq")
    return (turn.created_at, seq if isinstance(seq, int) else 0, turn.id)
