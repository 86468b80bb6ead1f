"""Learning goes on in pieces between what goes before it, never quite without, and at once where somebody waits."""

import asyncio
import itertools
from pathlib import Path

import pytest

from memproxy.learn.background import BUSY_FROM, LATELY_S, PIECE_S, SAVED_S, Background
from memproxy.learn.flush import OwnerLocks, Writes
from memproxy.tasks import TaskOwner
from tests.learn.rig import ANN, BEN, PATIENCE_S, rig
from tests.learn.test_groups import Watched
from tests.support.waiting import eventually


class Times:
    """A clock that stands, and processor time of work that says what it takes."""

    def __init__(self) -> None:
        self.now = 0.0
        self.used = 0.0
        self.pieces = 0

    def background(self, locks: OwnerLocks | None = None) -> Background:
        """One that goes by these."""
        wanted = (locks or OwnerLocks()).wanted
        return Background(wanted, clock=lambda: self.now, used=lambda: self.used)

    async def work(self, pieces: int, each_s: float = 2 * PIECE_S) -> str:
        """So many pieces that take so much processor time each."""
        for _ in range(pieces):
            self.used += each_s
            self.pieces += 1
            await asyncio.sleep(0)
        return "done"


async def test_beside_what_goes_before_it_learning_has_its_share_of_the_time_and_no_more() -> None:
    times, tasks = Times(), TaskOwner("test")
    background = times.background()
    with background.going_before():
        doing = tasks.start(background.run(times.work(20), ANN.owner), "work")
        saved = round(SAVED_S / (2 * PIECE_S))
        await eventually(lambda: times.pieces == saved, what="what was saved up is used")
        for _ in range(20):
            await asyncio.sleep(0)
        assert times.pieces == saved
        times.now += 60
        await eventually(lambda: times.pieces == 2 * saved, what="in a minute more is saved up, but not a minute's")
    assert await doing == "done"


async def test_between_pieces_whatever_came_has_its_turn() -> None:
    times, tasks = Times(), TaskOwner("test")
    background, seen = times.background(), list[int]()
    doing = [tasks.start(background.run(times.work(3), owner), "work") for owner in (ANN.owner, BEN.owner)]
    while not all(one.done() for one in doing):
        seen.append(times.pieces)
        await asyncio.sleep(0)
    assert max(after - before for before, after in itertools.pairwise(seen)) == 1


async def test_who_waits_for_the_lock_of_an_owner_that_is_learned_from_does_not_wait_for_learning_to_be_put_off() -> (
    None
):
    times, tasks, locks = Times(), TaskOwner("test"), OwnerLocks()
    background = times.background(locks)

    async def under_lock() -> None:
        async with locks.of(ANN.owner):
            await times.work(20)

    async def indexing() -> None:
        async with locks.of(ANN.owner):
            pass

    with background.going_before():
        tasks.start(background.run(under_lock(), ANN.owner), "learning")
        await eventually(lambda: times.pieces >= 5, what="its share is used")
        assert times.pieces < 20
        await tasks.start(indexing(), "indexing")
        assert times.pieces == 20
    await tasks.cancel()


async def test_at_the_end_nothing_is_put_off() -> None:
    times, tasks = Times(), TaskOwner("test")
    background = times.background()
    with background.going_before():
        doing = tasks.start(background.run(times.work(20), ANN.owner), "work")
        await eventually(lambda: times.pieces >= 5)
        background.end()
        assert await doing == "done"


async def test_what_is_put_off_can_be_cancelled_and_ends_itself_by_its_own_timeouts() -> None:
    times, tasks, closed = Times(), TaskOwner("test"), list[str]()
    background = times.background()

    async def endless(name: str) -> None:
        try:
            await times.work(10**6)
        finally:
            closed.append(name)

    async def limited() -> None:
        async with asyncio.timeout(0):
            await endless("limited")

    with background.going_before():
        put_off = tasks.start(background.run(endless("cancelled"), ANN.owner), "endless")
        await eventually(lambda: times.pieces >= 5)
        put_off.cancel()
        await asyncio.wait([put_off])
        assert put_off.cancelled()
        times.now += 60
        with pytest.raises(TimeoutError):
            await background.run(limited(), BEN.owner)
    assert closed == ["cancelled", "limited"]


async def test_in_an_engine_without_a_pause_a_session_is_learned_from_all_the_same(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1) as r:
        r.server.default = {
            "candidates": [{"content": "User lives in Oslo", "predicate": "lives_in", "object": "Oslo"}]
        }
        with r.worker.serving():
            await r.say("I live in Oslo.")
            await eventually(r.facts, what="it is learned")


async def test_who_can_wait_shares_the_flush_that_another_asks_for(tmp_path: Path) -> None:
    store, tasks = Watched(tmp_path), TaskOwner("test")
    await store.open(None)
    writes = Writes(store)
    patient = tasks.start(writes.flush_with_others(), "patient")
    await asyncio.sleep(0)
    await writes.flush()
    await patient
    assert store.flushes == 1
    await store.close()


async def test_who_can_wait_asks_for_a_flush_when_that_of_another_fails(tmp_path: Path) -> None:
    store, tasks = Watched(tmp_path, failing_flushes=1), TaskOwner("test")
    await store.open(None)
    writes = Writes(store)
    patient, other = (tasks.start(one, "flush") for one in (writes.flush_with_others(), writes.flush()))
    await asyncio.wait([patient, other], timeout=PATIENCE_S)
    assert other.exception() is not None
    assert patient.exception() is None
    assert store.flushes == 2
    await store.close()


async def test_who_can_wait_does_not_where_somebody_waits_for_what_is_written(tmp_path: Path) -> None:
    store, tasks = Watched(tmp_path), TaskOwner("test")
    await store.open(None)
    writes = Writes(store)
    patient = tasks.start(writes.flush_with_others(), "patient")
    await asyncio.sleep(0)
    with writes.waited_for():
        await patient
        await writes.flush_with_others()
    assert store.flushes == 2
    await store.close()


async def test_what_goes_before_ends_well_beside_a_piece_that_was_cancelled_just_now() -> None:
    times, tasks = Times(), TaskOwner("test")
    background = times.background()
    with background.going_before():
        put_off = tasks.start(background.run(times.work(10**6), ANN.owner), "endless")
        await eventually(lambda: times.pieces >= 5)
        put_off.cancel()  # it knows only when the event loop comes to it
    await asyncio.wait([put_off])
    assert put_off.cancelled()
    assert await background.run(times.work(3), BEN.owner) == "done"


async def test_a_piece_that_is_waited_for_waits_in_no_pauses_of_those_that_are_put_off() -> None:
    times, tasks = Times(), TaskOwner("test")
    background, turns = times.background(), 0
    with background.going_before(), background.hurrying(ANN.owner):
        tasks.start(background.run(times.work(10**6), BEN.owner), "put off")
        await eventually(lambda: times.pieces >= 5, what="its share is used")
        doing = tasks.start(background.run(times.work(200), ANN.owner), "waited for")
        while not doing.done() and turns < 2_000:
            turns += 1
            await asyncio.sleep(0)
        assert doing.done(), "one follows the other within turns of the event loop"
    await tasks.cancel()


async def test_beside_traffic_learning_is_patient_but_not_beside_one_chat_nor_where_somebody_waits_for_it() -> None:
    times = Times()
    background = times.background()

    def came(number: int) -> None:
        for _ in range(number):
            with background.going_before():
                times.now += LATELY_S / (2 * BUSY_FROM)

    came(BUSY_FROM - 1)
    assert not background.is_patient(ANN.owner), "one person's chat"
    came(1)
    assert background.is_patient(ANN.owner)
    with background.hurrying(ANN.owner):
        assert not background.is_patient(ANN.owner), "somebody waits for it"
        assert background.is_patient(BEN.owner)
    times.now += LATELY_S
    assert not background.is_patient(ANN.owner), "it is quiet again"
