"""Many who write one user's same slot at once, by the API's way and by learning."""

import asyncio
import os
import re
from datetime import timedelta
from pathlib import Path
from typing import Any

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import PlanBody, TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.ports import MemoryFilter
from tests.learn.rig import ANN, PATIENCE_S, Rig, budget, fact, rig
from tests.learn.test_invariants import chain_of, check

WRITERS = int(os.environ.get("MEMPROXY_TEST_WRITERS", "50"))
"""With 500: ``MEMPROXY_TEST_WRITERS=500 python -m pytest tests/learn/test_reconcile_writers.py``."""
LEARNERS = 4
SLOT = "user|budget_for_hawaii_vacation|"


def written(name: str, amount: float, **fields: Any) -> Memory:
    return fact(name, **budget(f"${amount}", kind=Kind.SEMANTIC), **fields)


async def everything(r: Rig) -> list[Memory]:
    found: list[Memory] = []
    cursor = None
    while True:
        page = await r.store.page(ANN, MemoryFilter(kinds=(Kind.SEMANTIC,)), limit=200, cursor=cursor)
        found += page.memories
        if (cursor := page.next_cursor) is None:
            return found


async def test_parallel_writers_leave_one_active_and_the_whole_history(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000) as r:
        scopes = [Scope(tenant="acme", user="ann", session=f"s{number}") for number in range(LEARNERS)]

        async def write(number: int) -> None:
            row = await r.submit(PlanBody(upserts=[written(f"w{number}", number)]))
            assert await r.worker.applied(row, PATIENCE_S * 30)

        async def learn(number: int) -> None:
            text = f"My budget for Hawaii is ${1000 + number} now"
            said = TurnsBody(messages=[Message(role="user", content=text)], said_at=r.clock.now())
            assert await r.worker.applied(await r.submit(said, scopes[number]), PATIENCE_S * 30)
            assert await r.worker.learned(scopes[number], PATIENCE_S * 30)

        r.server.default = _answer
        await asyncio.gather(*map(write, range(WRITERS)), *map(learn, range(LEARNERS)))
        facts = await everything(r)
        assert len(facts) == WRITERS + LEARNERS
        check(facts)
        (active,) = [memory.id for memory in facts if memory.active]
        assert await r.state.slots(ANN, [SLOT]) == {SLOT: active}


async def test_what_comes_late_takes_its_place_in_a_long_history_and_cuts_nothing_off(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000) as r:
        said = "My budget for Hawaii is $1 now"
        await r.teach(said, budget("$1", said))
        begin = r.clock.now() + timedelta(hours=1)
        hours = [*range(2, 132), 10.5, 0.5]
        for hour in hours:
            memory = written(f"at {hour}", hour, created_at=begin + timedelta(hours=hour))
            row = await r.submit(PlanBody(upserts=[memory]))
        assert await r.worker.applied(row, PATIENCE_S * 30)
        await r.mined(budget("$1", said))
        facts = {memory.id: memory for memory in await everything(r)}
        assert len(facts) == len(hours) + 1, "a turn that is read again adds nothing"
        check(list(facts.values()))
        (last,) = [memory for memory in facts.values() if memory.active]
        assert [one.object for one in chain_of(facts, last)] == [f"${hour}" for hour in (1, *sorted(hours))]


def _answer(prompt: str) -> dict[str, list[dict[str, object]]]:
    """What the new messages say: those of several sessions may be read together."""
    said = dict.fromkeys(re.findall(r"My budget for Hawaii is (\$\d+) now", prompt))
    return {"candidates": [budget(amount, f"My budget for Hawaii is {amount} now") for amount in said]}
