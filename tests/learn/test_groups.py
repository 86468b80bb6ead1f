"""Rows that are applied and acknowledged together: one flush for many, and each still for itself when one fails."""

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from memproxy.core.protocol import LearnBody, PlanBody, TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.errors import MemproxyError, RequestError, StoreUnavailable
from memproxy.learn.flush import Flushes
from memproxy.ports import JournalEntry, JournalKind, Point
from memproxy.stores.edge import EdgeStore
from memproxy.tasks import TaskOwner
from tests.learn.rig import ANN, BEN, DIMENSION, NOON, PATIENCE_S, Answer, Rig, fact, rig
from tests.support.opening import opening
from tests.support.waiting import eventually


class Watched(EdgeStore):
    """Counts flushes, which wait for ``may_flush``. Flushes and writes of memories named so fail so many times."""

    def __init__(self, folder: Path, *, failing_flushes: int = 0, failing: dict[str, int] | None = None) -> None:
        super().__init__(folder / "store", dimension=DIMENSION, embedder_name="test:words", lull_s=0)
        self.flushes = 0
        self.failing_flushes = failing_flushes
        self.failing = failing or {}
        self.may_flush = asyncio.Event()
        self.may_flush.set()

    async def flush(self) -> None:
        self.flushes += 1
        fails = self.flushes <= self.failing_flushes
        await self.may_flush.wait()
        if fails:
            raise StoreUnavailable("away for a moment")
        await super().flush()

    async def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        for point in points:
            if self.failing.get(point.memory.id, 0) > 0:
                self.failing[point.memory.id] -= 1
                raise MemproxyError("not this one")
        await super().upsert(scope, points)


def said(number: int) -> TurnsBody:
    return TurnsBody(messages=[Message(role="user", content=f"remark {number}")], said_at=NOON.replace(second=number))


async def waiting_rows(r: Rig) -> int:
    return (await r.state.queue_sizes())["index"]["waiting"]


async def applied(r: Rig, *rows: int) -> None:
    assert all([await r.worker.applied(row, PATIENCE_S) for row in rows])


async def test_rows_that_wait_share_a_flush(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    async with rig(tmp_path, store=store, enabled=False, started=False) as r:
        numbers = [await r.submit(said(number)) for number in range(12)]
        numbers += [await r.submit(PlanBody(upserts=[fact(f"f{number}")])) for number in range(12)]
        await r.worker.start()
        await applied(r, *numbers)
        assert [turn.content for turn in reversed(await r.turns())] == [f"remark {number}" for number in range(12)]
        assert len(await r.facts()) == 12
        assert store.flushes == 1


async def told(folder: Path, count: int) -> list[Scope]:
    """Sessions of one user that are indexed, each with a statement of its own."""
    sessions = [msgspec.structs.replace(ANN, session=f"s{number}") for number in range(count)]
    async with rig(folder, enabled=False, own_store=True) as r:
        for place, session in enumerate(sessions):
            body = TurnsBody(messages=[Message(role="user", content=f"I have a cat named Momo{place}.")], said_at=NOON)
            assert await r.worker.applied(await r.submit(body, session), PATIENCE_S)
    return sessions


async def due(r: Rig, *sessions: Scope) -> list[int]:
    """Rows that learn from these sessions."""
    body = msgspec.json.encode(LearnBody(unlearned=1, reason="turns"))
    return [
        await r.state.append(JournalEntry(kind=JournalKind.LEARN, scope=session, body=body)) for session in sessions
    ]


def cats(prompt: str) -> Answer:
    """The model's answer: the cats of the new messages."""
    names = re.findall(r"named (\w+)\.\"", prompt)
    return {"candidates": [{"content": f"User has a cat named {name}", "predicate": "has_cat"} for name in names]}


async def test_sessions_that_wait_to_be_learned_by_rules_share_a_flush(tmp_path: Path) -> None:
    sessions = await told(tmp_path, 6)
    store = Watched(tmp_path)
    async with rig(tmp_path, store=store, mode="verbatim", started=False) as r:
        rows = await due(r, *sessions)
        await r.worker.start()
        await applied(r, *rows)
        assert len(await r.facts()) == len(sessions)
        assert store.flushes == 1


async def test_a_model_reads_a_users_next_sessions_while_the_first_waits_for_its_flush(tmp_path: Path) -> None:
    sessions = await told(tmp_path, 5)
    store = Watched(tmp_path)
    async with rig(tmp_path, store=store, started=False) as r:
        r.server.default = cats
        store.may_flush.clear()
        rows = await due(r, *sessions)
        await r.worker.start()

        await eventually(lambda: r.has(facts=len(sessions)))
        assert (await r.state.queue_sizes())["learn"]["running"] == len(rows), "none is acknowledged before a flush"
        assert [re.findall(r"Momo\d", prompt)[-1] for prompt in r.server.prompts] == [f"Momo{n}" for n in range(5)]
        store.may_flush.set()
        await applied(r, *rows)
        assert store.flushes == 2, "one that began behind the first, one for all others"


async def test_sessions_behind_a_flush_that_failed_are_all_done_again_in_their_order(tmp_path: Path) -> None:
    sessions = await told(tmp_path, 4)
    store = Watched(tmp_path, failing_flushes=1)
    async with rig(tmp_path, store=store, started=False) as r:
        r.server.default = cats
        rows = await due(r, *sessions)
        await r.worker.start()

        async def all_wait() -> bool:
            return store.flushes == 1 and (await r.state.queue_sizes())["learn"]["waiting"] == len(rows)

        await eventually(all_wait)
        await r.carried_out(*rows)
        assert sorted(fact.content[-5:] for fact in await r.facts()) == [f"Momo{n}" for n in range(4)]
        assert len(r.server.prompts) == len(sessions), "what was planned is not asked again"


async def test_while_a_plan_waits_for_a_flush_another_user_is_learned_from(tmp_path: Path) -> None:
    store = Watched(tmp_path)
    async with rig(tmp_path, store=store, concurrency=1, every_turns=100) as r:
        r.server.default = cats
        await r.say("I have a cat named Momo0.", scope=ANN)
        await r.say("I have a cat named Momo1.", scope=BEN)
        r.server.gate.clear()
        (first,) = await due(r, ANN)
        r.worker.wake()
        await eventually(lambda: len(r.server.prompts) == 1, what="the first is being read")
        store.may_flush.clear()
        await r.submit(said(1))

        await eventually(lambda: r.has(turns=2), what="a turn of that user is written, and not flushed")
        (second,) = await due(r, BEN)
        r.server.gate.set()
        await eventually(lambda: len(r.server.prompts) == 2, what="the other is read, too")
        assert not await r.facts()
        store.may_flush.set()
        await applied(r, first, second)
        assert [len(await r.facts(user)) for user in (ANN, BEN)] == [1, 1]


async def test_at_shutdown_a_run_ends_its_row_and_begins_no_other(tmp_path: Path) -> None:
    sessions = await told(tmp_path, 3)
    async with rig(tmp_path, started=False, own_store=True) as r:
        r.server.default = cats
        r.server.gate.clear()
        first, *_ = await due(r, *sessions)
        await r.worker.start()
        await eventually(lambda: len(r.server.prompts) == 1)
        owner = TaskOwner("test")
        closing = owner.start(r.worker.close(PATIENCE_S), "close")
        await asyncio.sleep(0)
        r.server.gate.set()
        await closing
        assert await r.worker.applied(first, 0)
        assert len(r.server.prompts) == 1
        assert (await r.state.queue_sizes())["learn"] == {"waiting": 2, "running": 0, "parked": 0}


async def test_an_unreadable_row_among_others_is_refused_alone(tmp_path: Path) -> None:
    async with rig(tmp_path, enabled=False, started=False) as r:
        first = await r.submit(said(1))
        bad = await r.worker.submit(JournalEntry(kind=JournalKind.TURNS, scope=ANN, body=b'{"messages": 3}'))
        last = await r.submit(said(2))
        await r.worker.start()
        await applied(r, first, last)
        with pytest.raises(RequestError, match="given up"):
            await r.worker.applied(bad, PATIENCE_S)
        assert [turn.content for turn in await r.turns()] == ["remark 2", "remark 1"]


async def test_a_row_that_fails_holds_back_those_behind_it_and_none_before_or_beside(tmp_path: Path) -> None:
    store = Watched(tmp_path, failing={"b": 1})
    async with rig(tmp_path, store=store, enabled=False, started=False) as r:
        rents = [fact(name, subject="user", predicate="rent", object=name) for name in "abc"]
        first, middle, last = [await r.submit(PlanBody(upserts=[rent])) for rent in rents]
        beside = await r.submit(PlanBody(upserts=[fact("x", BEN)]), BEN)
        await r.worker.start()
        await applied(r, first, beside)
        await eventually(lambda: waiting_rows(r), what="both wait")
        assert await waiting_rows(r) == 2
        assert [one.id for one in await r.facts()] == ["a"]
        await r.carried_out(middle, last)
        assert [one.id for one in await r.facts(active=True)] == ["c"]
        assert len(await r.facts()) == 3


async def test_no_row_is_acknowledged_by_a_flush_that_failed(tmp_path: Path) -> None:
    store = Watched(tmp_path, failing_flushes=1)
    async with rig(tmp_path, store=store, enabled=False, started=False) as r:
        numbers = [await r.submit(said(number)) for number in range(3)]
        await r.worker.start()

        async def all_wait() -> bool:
            return store.flushes == 1 and await waiting_rows(r) == 3

        await eventually(all_wait)
        await r.carried_out(*numbers)
        assert store.flushes > 1, "flushed before they were acknowledged"
        assert len(await r.turns()) == 3
        assert await r.state.parked(None, limit=5) == []


async def test_rows_that_were_shown_but_not_flushed_are_done_again_after_a_restart(tmp_path: Path) -> None:
    store = Watched(tmp_path, failing_flushes=10**6)
    async with rig(tmp_path, store=store, enabled=False, started=False) as r:
        for number in range(3):
            await r.submit(said(number))
        await r.worker.start()

        await eventually(lambda: r.has(turns=3))
    async with rig(tmp_path, enabled=False, own_store=True) as r:
        await r.say("remark 3", at=NOON.replace(second=3))
        assert len(await r.turns()) == 4


async def test_only_what_was_written_before_a_flush_began_is_settled_by_it(tmp_path: Path) -> None:
    async with opening(Watched(tmp_path), None) as store:
        store.may_flush.clear()
        writes = Flushes(store)
        with writes.of("index", ANN.owner):
            flushing = TaskOwner("test").start(writes.flush(), "flush")
            await eventually(lambda: store.flushes == 1)
        store.may_flush.set()
        await flushing
        await writes.settle("learn", ANN.owner)
        await writes.settle("index", BEN.owner)
        assert store.flushes == 1
        await writes.settle("index", ANN.owner)
        assert store.flushes == 2
        await writes.settle("index", ANN.owner)
        assert store.flushes == 2


USERS = [Scope(tenant="acme", user=f"user{number}", session="s") for number in range(5)]


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_so_many_calls_are_under_way_at_once(tmp_path: Path, concurrency: int) -> None:
    async with rig(tmp_path, every_turns=1, concurrency=concurrency) as r:
        r.server.gate.clear()
        for user in USERS:
            await r.say("I live in Oslo", scope=user)

        async def all_are_due() -> bool:
            learn = (await r.state.queue_sizes())["learn"]
            return learn["waiting"] + learn["running"] == len(USERS) and len(r.server.prompts) == concurrency

        await eventually(all_are_due, what="as many calls as are allowed, the other users wait")
        assert (await r.state.queue_sizes())["learn"]["running"] == concurrency
        r.server.gate.set()

        async def done() -> bool:
            return (await r.state.queue_sizes())["learn"]["waiting"] == 0 and len(r.server.prompts) == len(USERS)

        await eventually(done, what="all are learned from")
