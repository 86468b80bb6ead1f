"""How many users are learned from at once: ``learn.concurrency``."""

from pathlib import Path

import pytest

from memproxy.core.scope import Scope
from tests.learn.rig import rig
from tests.support.waiting import eventually

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
