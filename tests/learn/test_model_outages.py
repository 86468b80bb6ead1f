"""A model that does not answer: learning waits, asks with one job at a time, and goes on where it was."""

from datetime import timedelta
from pathlib import Path

import pytest

from memproxy.core.scope import Scope
from memproxy.errors import ModelAwaited, ModelUnavailable
from memproxy.learn.model_outages import MODEL, ModelOutages, delay_s
from memproxy.ports import Credential
from tests.learn.rig import Answer, Rig, TestClock, budget, rig
from tests.learn.test_groups import due
from tests.support.waiting import eventually

SAID = "My budget for Hawaii is $10,000"
PEOPLE = [Scope(tenant="acme", user=f"user{number}", session="s") for number in range(3)]
LEARNED: Answer = {"candidates": [budget("$10,000")]}
FIVE_TRIES_S = 175.0


async def all_say(r: Rig) -> None:
    for scope in PEOPLE:
        await r.say(SAID, scope=scope)


async def until_learned(r: Rig, scope: Scope) -> None:
    await r.meanwhile(lambda: r.facts(scope), what=f"{scope.user}'s turn is learned from")


async def test_an_outage_of_the_model_parks_nothing_and_everything_is_learned_once(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1, max_attempts=1) as r:
        assert r.worker.learning == "ready"
        r.server.default = 503
        await all_say(r)
        began = r.clock.now()

        await r.meanwhile(lambda: len(r.server.prompts) >= 8, what="it is asked again and again", step_s=30)
        assert (r.clock.now() - began).total_seconds() > FIVE_TRIES_S
        assert r.worker.learning.startswith("degraded: learning waits")
        assert await r.state.parked(None, limit=5) == []
        r.server.default = LEARNED
        for scope in PEOPLE:
            await until_learned(r, scope)
        assert [len(await r.facts(scope)) for scope in PEOPLE] == [1, 1, 1]
        assert r.worker.learning == "ready"


async def test_during_an_outage_one_job_asks_at_a_time(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1) as r:
        r.server.default = 503
        await all_say(r)
        await eventually(lambda: r.worker.learning != "ready")
        await eventually(lambda: _is_waiting(r, 3))
        r.server.gate.clear()
        r.server.default = LEARNED
        asked = len(r.server.prompts)
        r.clock.advance(600)
        r.worker.wake()
        await eventually(lambda: _is_waiting(r, 2))
        assert len(r.server.prompts) <= asked + 1
        r.server.gate.set()
        # the answer lets the others go on, no time has to pass
        await eventually(lambda: _is_waiting(r, 0))
        assert [len(await r.facts(scope)) for scope in PEOPLE] == [1, 1, 1]


async def _is_waiting(r: Rig, jobs: int) -> bool:
    sizes = (await r.state.queue_sizes())["learn"]
    return sizes["waiting"] == jobs and (bool(jobs) or not sizes["running"])


@pytest.mark.parametrize("status", [400, 500])
async def test_what_makes_the_model_fail_is_parked_and_the_others_are_learned(tmp_path: Path, status: int) -> None:
    poison = Scope(tenant="acme", user="poison", session="s")

    def answer(prompt: str) -> Answer:
        return status if "unbearable" in prompt else LEARNED

    async with rig(tmp_path, every_turns=1, max_attempts=2) as r:
        r.server.default = answer
        await r.say("My neighbour Karl is unbearable", scope=poison)
        for scope in PEOPLE:
            await r.say(SAID, scope=scope)
            await until_learned(r, scope)

        async def parked() -> bool:
            # the model shows that it answers by answering others
            await r.say(f"It is {r.clock.now()} now", scope=PEOPLE[0])
            return bool(await r.state.parked(poison, limit=5))

        await r.meanwhile(parked, what="what it cannot bear is parked")
        (row,) = await r.state.parked(None, limit=5)
        assert (row.scope.user, str(status) in row.error) == ("poison", True)


async def test_an_outage_without_end_parks_the_job_with_the_reason(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1, max_outage_s=3600) as r:
        r.server.default = 429
        await r.say(SAID, scope=PEOPLE[0])
        began = r.clock.now()
        await r.meanwhile(lambda: r.state.parked(None, limit=5), what="it is parked", step_s=300)
        assert r.clock.now() - began > timedelta(hours=1)
        (row,) = await r.state.parked(PEOPLE[0], limit=5)
        assert "429" in row.error
        r.server.default = LEARNED
        assert await r.state.unpark(PEOPLE[0]) == 1
        await until_learned(r, PEOPLE[0])


def test_a_limit_of_one_account_and_the_providers_word_on_it_hold_for_that_account_alone() -> None:
    clock, over = TestClock(), list[int]()
    outages = ModelOutages(clock, over.append)
    ours, theirs = (Credential(base_url="http://up/v1", model="m", api_key=key) for key in ("sk-1", "sk-2"))
    failed = outages.failed(outages.begin(ours), ModelUnavailable("429", retry_after_s=500, limited=True))
    assert failed.until == clock.now() + timedelta(seconds=500)
    assert outages.state == "ready"
    outages.require(theirs)
    clock.advance(499)
    with pytest.raises(ModelAwaited):
        outages.require(ours)
    clock.advance(1)
    outages.answered(outages.begin(ours))
    assert over == [failed.outage]
    outages.failed(outages.begin(theirs), ModelUnavailable("503"))
    with pytest.raises(ModelAwaited):
        outages.require(ours)


def test_calls_that_were_under_way_neither_end_an_outage_nor_prolong_it() -> None:
    clock, over = TestClock(), list[int]()
    outages = ModelOutages(clock, over.append)
    credential = Credential(base_url="http://up/v1", model="m")
    asked = [outages.begin(credential) for _ in range(3)]
    first, second = (outages.failed(one, ModelUnavailable("503")) for one in asked[:2])
    assert first.until == second.until
    outages.answered(asked[2])
    assert over == []
    with pytest.raises(ModelAwaited):
        outages.begin(credential)


def test_the_model_is_asked_ever_more_rarely_and_never_later_than_in_some_minutes() -> None:
    assert 1 <= delay_s(MODEL, 1) < delay_s(MODEL, 4) < delay_s(MODEL, 7) <= delay_s(MODEL, 1000) <= 300


async def test_a_row_that_was_parked_when_the_others_go_on_stays_parked(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False) as r:
        (number,) = await due(r, PEOPLE[0])
        later = r.clock.now() + timedelta(hours=1)
        await r.state.claim("learn", limit=1, now=r.clock.now())
        await r.state.retry(number, error="waits", due=later, counted=False)
        assert await r.state.claim("learn", limit=1, now=r.clock.now()) == []
        await r.state.make_due([number], r.clock.now())
        assert [row.number for row in await r.state.claim("learn", limit=1, now=r.clock.now())] == [number]
        await r.state.make_due([number], r.clock.now())
        assert await r.state.claim("learn", limit=1, now=r.clock.now()) == [], "one row is not handled twice at once"
        await r.state.park(number, error="poison")
        await r.state.make_due([number], r.clock.now())
        await r.state.retry(number, error="waits", due=r.clock.now(), counted=False)
        assert [row.number for row in await r.state.parked(None, limit=5)] == [number]
        assert await r.state.unpark(PEOPLE[0]) == 1
        assert len(await r.state.claim("learn", limit=1, now=later)) == 1
