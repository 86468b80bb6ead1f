"""A user who is erased while something is under way: nothing that comes after names him again."""

import asyncio
import dataclasses
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from memproxy.core.protocol import Deletion, PlanBody, TurnsBody
from memproxy.core.turn import Message
from memproxy.learn.triggers import Triggers
from memproxy.ports import SessionProgress
from memproxy.stores.sqlite_state import SqliteState
from tests.learn.rig import ANN, NOON, PATIENCE_S, rig
from tests.support.waiting import eventually

SAID = "My budget for Hawaii is $10,000"


class ErasedMeanwhile(SqliteState):
    """Whoever is found due is erased before anybody can act on it."""

    async def due_sessions(self, *, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
        found = await super().due_sessions(every=every, idle_before=idle_before, limit=limit)
        for progress in found:
            await self.forget(progress.scope, session=None)
        return found


def named(folder: Path) -> list[str]:
    """The tables of the state that name the user."""
    with sqlite3.connect(folder / "state.db") as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows: dict[str, Sequence[object]] = {name: db.execute(f"SELECT * FROM {name}").fetchall() for name in tables}
    return [name for name, held in rows.items() if ANN.user in repr(held)]


async def test_a_session_that_is_erased_when_it_was_found_due_is_not_learned_from(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False, own_store=True) as r:
        await r.state.note_turns(ANN, count=5, at=NOON)
    state = ErasedMeanwhile(tmp_path / "state.db", sync="normal")
    await state.open()
    async with rig(tmp_path / "other", started=False, own_store=True) as r:
        triggers = Triggers(dataclasses.replace(r.worker._parts, state=state))
        assert await triggers.look() == 0
    await state.close()
    assert named(tmp_path) == []


async def test_learning_that_begins_before_an_erasure_is_carried_out_goes_with_it(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False, own_store=True) as r:
        turns = TurnsBody(messages=[Message(role="user", content=SAID)], said_at=r.clock.now(), learn_now=True)
        await r.submit(turns)
        erased = await r.submit(PlanBody(delete_where=Deletion()))
        await r.worker.start()
        assert await r.worker.applied(erased, PATIENCE_S)
        assert (await r.state.queue_sizes())["learn"] == {"waiting": 0, "running": 0, "parked": 0}
    assert named(tmp_path) == []


async def test_who_waits_for_learning_that_is_erased_waits_no_longer(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000, idle_s=1e6) as r:
        r.server.gate.clear()  # the model does not answer
        await r.say(SAID)
        async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as waiting:
            learned = waiting.create_task(r.worker.learned(ANN, 10 * PATIENCE_S))
            await eventually(lambda: r.server.prompts, what="the model is asked")
            await r.plan(delete_where=Deletion())
        assert learned.result(), "nothing is left to be learned"
        r.server.gate.set()


async def test_no_model_is_told_anything_more_of_who_was_erased(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000, idle_s=1e6, window_turns=4) as r:
        for number in range(20):
            await r.say(f"{SAID}, said {number} times")
        r.server.gate.clear()
        async with asyncio.TaskGroup() as waiting:
            waiting.create_task(r.worker.learned(ANN, PATIENCE_S))
            await eventually(lambda: r.server.prompts, what="the model is asked")
            await r.plan(delete_where=Deletion())
        r.server.gate.set()
    assert len(r.server.prompts) == 1, "the one that was under way"
