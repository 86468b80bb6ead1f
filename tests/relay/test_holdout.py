"""Users who are held out of the experiment: all is done for them but injection, and both arms are counted."""

from typing import Any

import pytest

from memproxy.core.experiment_arms import HOLDOUT, MEMORY, arm_of
from memproxy.ports import ARM
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, Running
from tests.relay.test_responses import captured
from tests.support.answers import json_answer
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

SHARE = 0.5
SAID = [{"index": 0, "message": {"role": "assistant", "content": "Yes."}, "finish_reason": "stop"}]
USERS = [f"user-{number}" for number in range(40)]


def user_of(arm: str) -> str:
    """A user of this arm, by the secret of the tests' relays."""
    return next(user for user in USERS if arm_of(b"secret", "anonymous", user, SHARE) == arm)


@pytest.fixture
async def relay(running: Running) -> Any:
    experiment = {"holdout": SHARE}
    async with running(experiment=experiment) as rig:
        rig.engine.recall = Memories(numbered(100))
        yield rig


async def counted(state: SqliteState) -> dict[str, dict[str, int]]:
    """What was counted, by arm; of all users together."""
    found: dict[str, dict[str, int]] = {}
    for use in await state.uses("anonymous", ARM):
        _, share, arm, name = use.what.split("/")
        assert share == "0.5"
        assert use.who not in USERS
        arms = found.setdefault(arm, {})
        arms[name] = arms.get(name, 0) + use.used
    return found


async def test_all_is_done_for_a_user_who_is_held_out_but_injection(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    held = {"X-Memproxy-User": user_of(HOLDOUT)}
    first = await relay.chat("my first message", headers=held)
    second = await relay.chat("my first message", "my second message", headers=held)
    assert first.headers["x-memproxy-recall"] == second.headers["x-memproxy-recall"] == "shadow; reason=holdout"
    assert first.headers["x-memproxy-session"] == second.headers["x-memproxy-session"]
    assert first.headers["x-memproxy-memories"] == "2"
    assert [question.queries[-1] for question in relay.engine.asked] == ["my first message", "my second message"]
    assert all(received.body == received.body.replace(b"recalled-memory", b"") for received in upstream.received)
    assert [len(messages) for _, messages in await captured(state)] == [2, 2]
    injected = await relay.chat("my first message", headers={"X-Memproxy-User": user_of(MEMORY)})
    assert injected.headers["x-memproxy-recall"] == "injected"
    assert b"recalled-memory" in upstream.last.body


@pytest.mark.parametrize("mode", ["read", "on"])
async def test_both_arms_are_counted_with_what_the_upstream_says_of_tokens(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, mode: str
) -> None:
    usage = {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 20}}
    for arm in (MEMORY, HOLDOUT):
        upstream.script(json_answer({"choices": SAID, "usage": usage}), json_answer({"choices": SAID}))
        for _ in range(2):
            await relay.chat("my first message", headers={"X-Memproxy-User": user_of(arm), "X-Memproxy-Memory": mode})

    async def both() -> bool:
        found = await counted(state)
        return {arm: counts.get("requests") for arm, counts in found.items()} == {MEMORY: 2, HOLDOUT: 2}

    await eventually(both, what="both arms are written")
    for counts in (await counted(state)).values():
        assert (counts["input_tokens"], counts["output_tokens"], counts["cached_tokens"]) == (30, 4, 20)
        assert (counts["priced"], counts["milliseconds"] > 0) == (1, True)


async def test_who_asks_for_less_takes_no_part_and_an_error_is_no_answer(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    held = {"X-Memproxy-User": user_of(HOLDOUT)}
    shadow = await relay.chat("my first message", headers={**held, "X-Memproxy-Memory": "shadow"})
    assert shadow.headers["x-memproxy-recall"] == "shadow"
    for mode in ("off", "write"):
        await relay.chat("my first message", headers={**held, "X-Memproxy-Memory": mode})
    skipped = await relay.chat("hello", headers=held)
    assert skipped.headers["x-memproxy-recall"] == "skipped; reason=greeting"
    await eventually(lambda: _has_one(state), what="the greeting is counted, and nothing else")


async def _has_one(state: SqliteState) -> bool:
    return (await counted(state)).get(HOLDOUT, {}).get("requests") == 1
