"""Learning goes on in steps between what requests wait for, never quite without, and at once where somebody waits."""

import asyncio
import itertools
import time
from pathlib import Path

import pytest

from memproxy.learn.cooperative import BUSY_FROM, LATELY_S, STEP_EVERY_S, Scheduler
from memproxy.learn.flush import Flushes, OwnerLocks
from memproxy.tasks import TaskOwner
from tests.learn.rig import ANN, BEN, PATIENCE_S, rig
from tests.learn.test_groups import Watched
from tests.support.opening import opening
from tests.support.waiting import eventually


class Times:
    """A clock that stands, and work that counts its steps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0

    def scheduler(self, locks: OwnerLocks | None = None) -> Scheduler:
        """One that goes by this clock."""
        return Scheduler((locks or OwnerLocks()).has_waiters, clock=lambda: self.now)

    async def work(self, scheduler: Scheduler, steps: int, owner: tuple[str, str] = ANN.owner) -> str:
        """So many steps."""
        for _ in range(steps):
            await scheduler.step(owner)
            self.steps += 1
        return "done"


async def test_beside_requests_learning_takes_a_step_now_and_then_and_goes_on_when_they_are_answered() -> None:
    times, tasks = Times(), TaskOwner("test")
    scheduler = times.scheduler()
    with scheduler.serving():
        doing = tasks.start(times.work(scheduler, 5), "work")
        await eventually(lambda: times.steps == 1, what="one step is let through")
        for _ in range(50):
            await asyncio.sleep(0)
        assert times.steps == 1
        times.now += STEP_EVERY_S
        await eventually(lambda: times.steps == 2, what="and another one later")
    assert await doing == "done"


async def test_between_two_steps_whatever_came_has_its_turn() -> None:
    times, tasks = Times(), TaskOwner("test")
    scheduler, seen = times.scheduler(), list[int]()
    doing = [tasks.start(times.work(scheduler, 3, owner), "work") for owner in (ANN.owner, BEN.owner)]
    while not all(one.done() for one in doing):
        seen.append(times.steps)
        await asyncio.sleep(0)
    assert max(after - before for before, after in itertools.pairwise(seen)) == 1


async def test_who_waits_for_an_owners_lock_does_not_wait_for_learning_to_be_put_off() -> None:
    times, tasks, locks = Times(), TaskOwner("test"), OwnerLocks()
    scheduler = times.scheduler(locks)

    async def under_lock() -> None:
        async with locks.of(ANN.owner):
            await times.work(scheduler, 20)

    async def indexing() -> None:
        async with locks.of(ANN.owner):
            pass

    with scheduler.serving():
        tasks.start(under_lock(), "learning")
        await eventually(lambda: times.steps == 1)
        await tasks.start(indexing(), "indexing")
        assert times.steps == 20
    await tasks.cancel()


async def test_at_the_end_and_where_somebody_waits_for_it_nothing_is_put_off() -> None:
    times, tasks = Times(), TaskOwner("test")
    scheduler = times.scheduler()
    with scheduler.serving():
        doing = tasks.start(times.work(scheduler, 20), "work")
        with scheduler.hurrying(BEN.owner):
            assert await times.work(scheduler, 20, BEN.owner) == "done"
        assert not doing.done()
        scheduler.end()
        assert await doing == "done"


async def test_in_an_engine_without_a_pause_a_session_is_learned_from_all_the_same(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1) as r:
        r.server.default = {"candidates": ["User lives in Oslo"]}
        with r.worker.serving():
            await r.say("I live in Oslo.")
            await eventually(r.facts, what="it is learned")


@pytest.mark.parametrize("is_waited_for", [False, True])
async def test_who_can_wait_shares_the_flush_that_another_asks_for_but_where_what_is_written_is_waited_for(
    tmp_path: Path, *, is_waited_for: bool
) -> None:
    async with opening(Watched(tmp_path), None) as store:
        writes = Flushes(store)
        patient = TaskOwner("test").start(writes.flush_with_others(), "patient")
        await asyncio.sleep(0)
        if not is_waited_for:
            await writes.flush()
            await patient
        else:
            with writes.waited_for():
                await patient
                await writes.flush_with_others()
        assert store.flushes == 1 + is_waited_for


async def test_who_can_wait_asks_for_a_flush_when_that_of_another_fails(tmp_path: Path) -> None:
    tasks = TaskOwner("test")
    async with opening(Watched(tmp_path, failing_flushes=1), None) as store:
        writes = Flushes(store)
        patient, other = (tasks.start(one, "flush") for one in (writes.flush_with_others(), writes.flush()))
        await asyncio.wait([patient, other], timeout=PATIENCE_S)
        assert other.exception() is not None
        assert patient.exception() is None
        assert store.flushes == 2


async def test_beside_traffic_learning_is_patient_but_not_beside_one_chat_nor_where_somebody_waits_for_it() -> None:
    times = Times()
    scheduler = times.scheduler()

    def came(number: int) -> None:
        for _ in range(number):
            with scheduler.serving():
                times.now += LATELY_S / (2 * BUSY_FROM)

    came(BUSY_FROM - 1)
    assert not scheduler.is_patient(ANN.owner), "one person's chat"
    came(1)
    assert scheduler.is_patient(ANN.owner)
    with scheduler.hurrying(ANN.owner):
        assert not scheduler.is_patient(ANN.owner), "somebody waits for it"
        assert scheduler.is_patient(BEN.owner)
    times.now += LATELY_S
    assert not scheduler.is_patient(ANN.owner), "it is quiet again"


MESSAGES = 60
LETTERS = 20_000
WORDS = "The tower of the vault has a code and a gate. "


async def spans(until: asyncio.Event) -> list[float]:
    """Processor time of the loop's thread between two turns of this task: the machine's other work does not count."""
    found, last = [], time.thread_time()
    while not until.is_set():
        await asyncio.sleep(0)
        now = time.thread_time()
        found.append(now - last)
        last = now
    return found


async def test_no_step_of_it_takes_more_than_a_small_part(tmp_path: Path) -> None:
    text = WORDS * (LETTERS // len(WORDS))
    async with rig(tmp_path, enabled=False) as r:
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(spans(done))
            await r.say(*(f"{number} {text}" for number in range(MESSAGES)))
            done.set()
    found = watching.result()
    # all words were counted in one step, which took a third of it
    assert max(found) < sum(found) / 6, f"{max(found):.2f} of {sum(found):.2f} s"
