"""More recalls than the engine can answer: as many as it can are answered, the others do not wait."""

import asyncio
import time
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.breaker import FAILURES_TO_OPEN
from memproxy.relay.engine_client import Pace, Run
from tests.relay.rig import Running, after, nothing
from tests.support.waiting import LONGEST_S

BUSY = "degraded; reason=busy"


def fill(pace: Pace) -> list[Run]:
    """Begin as many recalls as are allowed."""
    running = []
    while pace.admits:
        running.append(pace.begin())
    return running


def end(pace: Pace, running: list[Run]) -> None:
    """All of them are answered."""
    for run in running:
        pace.end(run, answered=True)


@given(at_once=st.floats(0, 300))
def test_as_many_are_sent_as_were_answered_in_time_and_one_in_any_case(at_once: float) -> None:
    pace = Pace(60, at_once=at_once)
    running = fill(pace)
    assert len(running) == max(1, int(at_once))
    end(pace, running)
    assert len(fill(pace)) >= len(running)


def test_answers_in_time_let_more_through_only_where_as_many_as_allowed_were_sent() -> None:
    pace = Pace(60, at_once=3)
    for _ in range(20):
        end(pace, [pace.begin()])
    assert len(fill(pace)) == 3
    pace = Pace(60, at_once=3)
    for _ in range(4):
        end(pace, fill(pace))
    assert 4 <= len(fill(pace)) <= 7


def test_late_answers_let_fewer_through_once_for_all_that_were_sent_together() -> None:
    pace = Pace(0, at_once=10)
    end(pace, fill(pace))
    assert len(fill(pace)) == 8


def test_what_failed_at_once_says_nothing_of_the_time_that_answers_take() -> None:
    pace = Pace(60, at_once=3)
    for _ in range(20):
        for run in fill(pace):
            pace.end(run, answered=False)
    assert len(fill(pace)) == 3


def taught(pace: Pace, *, took_s: float) -> Pace:
    """It has seen one answer, which took so long."""
    pace.begin()
    pace.end(Run(began=time.monotonic() - took_s, full=False), answered=True)
    return pace


async def test_a_recall_waits_for_its_turn_if_its_answer_would_still_be_in_time() -> None:
    pace = taught(Pace(60, at_once=1), took_s=5)
    first = await pace.enter(8)
    assert first is not None
    assert await pace.enter(8) is None, "it would be answered after ten seconds"
    loop = asyncio.get_running_loop()
    leaving, waiting = loop.create_task(pace.enter(60)), loop.create_task(pace.enter(60))
    last = loop.create_task(pace.enter(60))
    await asyncio.sleep(0)
    leaving.cancel()
    pace.end(first, answered=False)
    second = await waiting
    assert second is not None
    assert not last.done()
    pace.end(second, answered=False)
    assert await last is not None


async def test_a_turn_that_does_not_come_in_time_is_given_up() -> None:
    pace = Pace(60, at_once=1)
    run = await pace.enter(60)
    assert run is not None
    assert await pace.enter(0.01) is None
    pace.end(run, answered=True)
    assert pace.admits


async def test_more_at_once_than_are_sent_are_all_answered_in_turn(running: Running) -> None:
    async with running() as relay:
        relay.app.parts.engine._clients[0]._pace = Pace(LONGEST_S, at_once=3)
        answers = await asyncio.gather(*(relay.chat(f"What is my budget for {number}?") for number in range(20)))
    assert {answer.headers["x-memproxy-recall"] for answer in answers} == {"empty"}


async def test_what_the_engine_cannot_answer_in_time_goes_on_at_once_and_the_rest_is_answered(running: Running) -> None:
    release = asyncio.Event()
    async with running(recall={"deadline_ms": 50_000}) as relay:
        relay.engine.recall = after(release)
        relay.app.parts.engine._clients[0]._pace = taught(Pace(50, at_once=3), took_s=45)
        told: list[str] = []
        async with asyncio.TaskGroup() as tasks, asyncio.timeout(60):

            async def ask(number: int) -> None:
                answer = await relay.chat(f"What is my budget for {number}?")
                told.append(answer.headers["x-memproxy-recall"])
                if len(told) == 7:
                    release.set()

            for number in range(10):
                tasks.create_task(ask(number))
    assert told[:7] == [BUSY] * 7, "they did not wait for the engine, which had answered none by then"
    assert Counter(told) == {BUSY: 7, "empty": 3}
    assert len(relay.engine.asked) == 3


async def test_an_engine_that_is_late_but_lives_is_asked_again(running: Running) -> None:
    never = asyncio.Event()
    late = [False, *[True] * FAILURES_TO_OPEN, False]

    async with running() as relay:
        told = []
        for number, is_late in enumerate(late):
            relay.engine.recall = after(never) if is_late else nothing
            relay.app.parts.engine._deadline_s = 0.1 if is_late else LONGEST_S
            told.append((await relay.chat(f"What is my budget for {number}?")).headers["x-memproxy-recall"])
        never.set()
    assert told == ["empty", *["degraded; reason=timeout"] * FAILURES_TO_OPEN, "empty"]
