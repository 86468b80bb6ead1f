"""A request waits for what its user said just before, for nobody else's words, and not for a long backlog."""

import asyncio
from pathlib import Path
from time import monotonic

import msgspec

from memproxy.core.protocol import TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.learn.worker import _RUN
from memproxy.ports import JournalEntry, JournalKind
from tests.learn.rig import ANN, BEN, PATIENCE_S, Rig, opened_rig, rig

it = opened_rig(started=False)

NEVER_S = 1e6
"""A wait of this length fails the test."""


async def capture(it: Rig, *texts: str, scope: Scope = ANN) -> None:
    """As a relay does: the journal has the row, and nobody has told the worker."""
    for text in texts:
        body = TurnsBody(messages=[Message(role="user", content=text)], said_at=it.clock.now())
        entry = JournalEntry(kind=JournalKind.TURNS, scope=scope, body=msgspec.json.encode(body))
        await it.state.append(entry)


async def test_what_was_said_just_before_is_indexed_when_the_wait_is_over(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await capture(it, "My locker code is 4471.")
        assert await it.worker.soon_indexed(ANN, PATIENCE_S)
        assert [turn.content for turn in await it.turns()] == ["My locker code is 4471."]


async def test_nobody_waits_without_words_of_his_own(it: Rig) -> None:
    await capture(it, *(f"remark {number}" for number in range(_RUN)), scope=BEN)
    assert await it.worker.soon_indexed(ANN, PATIENCE_S)


async def test_a_wait_ends_in_time_although_nothing_is_indexed(it: Rig) -> None:
    await capture(it, "My locker code is 4471.")
    assert not await it.worker.soon_indexed(ANN, 0.05)


async def test_a_long_backlog_is_not_waited_for(it: Rig) -> None:
    await capture(it, *(f"remark {number}" for number in range(_RUN + 1)))
    begun = monotonic()
    async with asyncio.timeout(PATIENCE_S):
        assert not await it.worker.soon_indexed(ANN, 10 * PATIENCE_S)
    assert monotonic() - begun < PATIENCE_S


async def test_nobody_waits_behind_turns_that_are_to_be_flushed_first(it: Rig) -> None:
    """A user's rows are done one by one: who asks right behind each answer is not kept waiting for the one before."""
    await capture(it, "My locker code is 4471.", "My bike is red.")
    (first,) = await it.state.claim("index", limit=1, now=it.clock.now())
    it.worker._written[first.entry.scope.owner] = {first.number}
    assert not await it.worker.soon_indexed(ANN, NEVER_S)


async def test_what_is_written_is_found_though_it_is_not_flushed(it: Rig) -> None:
    await capture(it, "My locker code is 4471.")
    (first,) = await it.state.claim("index", limit=1, now=it.clock.now())
    it.worker._written[first.entry.scope.owner] = {first.number}
    assert await it.worker.soon_indexed(ANN, NEVER_S)
