"""What is acknowledged is stored, and what is stored is learned from, also when the store fails in the middle."""

import asyncio
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.protocol import LearnBody, PlanBody, TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.errors import StateUnavailable, StoreUnavailable
from memproxy.ports import JournalEntry, JournalKind, JournalRow, Point
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner
from tests.learn.rig import ANN, DIMENSION, NOON, PATIENCE_S, fact, rig
from tests.support.waiting import eventually


async def test_what_is_said_while_a_trigger_waits_is_learned_from_too(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False, every_turns=4) as r:
        triggers, owner = r.worker._triggers, TaskOwner("test")
        await r.state.note_turns(ANN, count=4, at=NOON)
        async with triggers._parts.locks.of(ANN.owner):
            looking = owner.start(triggers.look(), "look")
            await asyncio.sleep(0)  # it has asked which sessions are due
            await r.state.note_turns(ANN, count=10, at=NOON)
        assert await looking == 1
        (row,) = await r.state.claim("learn", limit=1, now=NOON)
        assert msgspec.json.decode(row.entry.body, type=LearnBody).unlearned == 14


async def test_turns_of_an_import_are_planned_again_after_a_crash_and_their_row_holds_them_once(tmp_path: Path) -> None:
    turns = [
        fact("1", kind=Kind.TURN, session_id=session, content=f"I like {session}", turn_ids=["1"])
        for session in ("tea", "cake")
    ]
    async with rig(tmp_path, enabled=False, started=False) as r:
        number = await r.submit(PlanBody(upserts=turns))
        (row,) = await r.state.claim("index", limit=1, now=NOON)
        await r.worker._indexer.plan(row)  # applied, neither flushed nor acknowledged: here the engine dies
        before = sorted(turn.content for turn in await r.turns())
        assert (await r.state.recover(max_attempts=5, now=NOON)).again == 1
        (row,) = await r.state.claim("index", limit=1, now=NOON)
        assert row.plan is None
        await r.state.retry(number, error="", due=NOON, counted=False)
        await r.worker.start()
        assert await r.worker.applied(number, PATIENCE_S)
        assert sorted(turn.content for turn in await r.turns()) == before == ["I like cake", "I like tea"]


async def test_a_turn_at_which_engines_were_killed_from_outside_is_indexed_hours_later(tmp_path: Path) -> None:
    async with rig(tmp_path, enabled=False, started=False) as r:
        await r.submit(TurnsBody(messages=[Message(role="user", content="I like tea")], said_at=NOON))
        await r.state.claim("index", limit=1, now=NOON)
        assert len((await r.state.recover(max_attempts=1, now=NOON - timedelta(hours=1))).parked) == 1
        await r.worker.start()

        async def indexed() -> bool:
            return [turn.content for turn in await r.turns()] == ["I like tea"]

        await eventually(indexed, what="the turn is indexed")


class LosesAnAnswer(SqliteState):
    """The connection breaks when rows are claimed, before that is answered."""

    is_lost = False

    async def claim(
        self, lane: str, *, limit: int, now: datetime, run: int = 1, leaving: Collection[str] = ()
    ) -> list[JournalRow]:
        rows = await super().claim(lane, limit=limit, now=now, run=run, leaving=leaving)
        if rows and not self.is_lost:
            self.is_lost = True
            raise StateUnavailable("The connection to the state broke.")
        return rows


async def test_rows_of_a_claim_whose_answer_was_lost_are_handled_by_the_same_engine(tmp_path: Path) -> None:
    async with rig(tmp_path, enabled=False, state=LosesAnAnswer) as r:
        await r.say("I like tea")
        assert [turn.content for turn in await r.turns()] == ["I like tea"]


class RefusingStore(EdgeStore):
    """A store that refuses writes while it is ``away``."""

    def __init__(self, folder: Path, *, away: bool) -> None:
        super().__init__(folder / "store", dimension=DIMENSION, embedder_name="test:words")
        self.away, self.refused = away, 0

    async def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        if self.away:
            self.refused += 1
            raise StoreUnavailable("away for a moment")
        await super().upsert(scope, points)


async def test_turns_whose_write_failed_are_learned_from_although_a_trigger_came_before_the_next_try(
    tmp_path: Path,
) -> None:
    store = RefusingStore(tmp_path, away=True)
    async with rig(tmp_path, store=store, enabled=False) as r:
        number = await r.submit(TurnsBody(messages=[Message(role="user", content="I like tea")], said_at=NOON))

        async def waits() -> bool:
            return store.refused > 0 and (await r.state.queue_sizes())["index"]["waiting"] == 1

        await eventually(waits, what="the row waits for the store")
        store.away = False
        body = msgspec.json.encode(LearnBody(unlearned=1, reason="turns"))
        learn = JournalEntry(kind=JournalKind.LEARN, scope=ANN, body=body)
        begun = await r.state.begin_learning(learn, unlearned=1)
        assert begun is not None
        await r.state.finish(begun)
        await r.carried_out(number)
        progress = await r.state.progress(ANN)
        assert progress is not None
        assert progress.unlearned == 1
