"""What the relay decided goes with the captured turn, whether or not the engine was there to be asked."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from memproxy.core.protocol import TurnsBody
from memproxy.core.receipt import Decided
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import giving
from tests.relay.rig import Running

LINE = "- [2026-01-01] User's budget is $10,000 [m:m1]"
BLOCK = f'<recalled-memory id="n">\n{LINE}\n</recalled-memory>'


async def decisions(state: SqliteState) -> dict[str, Decided | None]:
    """By request id, from the journal's rows."""
    rows = await state.claim("index", limit=10, now=datetime.now(UTC) + timedelta(days=1))
    return {row.entry.request_id or "": msgspec.json.decode(row.entry.body, type=TurnsBody).decision for row in rows}


@pytest.mark.parametrize(
    ("mode", "result", "reason"), [("on", "injected", None), ("shadow", "shadow", None), ("write", "off", "write")]
)
async def test_the_decision_is_journalled_with_its_turn(
    running: Running, state: SqliteState, mode: str, result: str, reason: str | None
) -> None:
    async with running() as relay:
        relay.engine.recall = giving(BLOCK, turn_id="t1", score=0.91)
        answer = await relay.chat("What is my budget?", headers={"x-memproxy-memory": mode})
        told = (await decisions(state))[answer.headers["x-memproxy-request-id"]]
    assert told is not None
    assert (told.mode, told.result, told.reason) == (mode, result, reason)
    assert (told.status, told.model) == (200, "test-model")
    carried = [(one.memory_id, one.turn_id, one.score, one.repeated) for one in told.memories]
    assert carried == ([] if mode == "write" else [("m1", "t1", 0.91, False)])
    assert (told.tokens > 0) == (mode != "write")


async def test_without_an_engine_the_receipts_half_is_durable_all_the_same(
    running: Running, state: SqliteState
) -> None:
    async with running(engine_runs=False) as relay:
        answer = await relay.chat("What is my budget?")
        told = (await decisions(state))[answer.headers["x-memproxy-request-id"]]
    assert told is not None
    assert (told.mode, told.result, told.reason, told.memories) == ("on", "degraded", "engine", [])


async def test_what_is_not_captured_tells_nothing(running: Running, state: SqliteState) -> None:
    async with running() as relay:
        for mode in ("read", "off"):
            await relay.chat("What is my budget?", headers={"x-memproxy-memory": mode})
        assert await decisions(state) == {}
