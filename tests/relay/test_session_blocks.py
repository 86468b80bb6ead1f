"""A session's blocks: repeated byte for byte, only new memories added, nothing erased ever repeated."""

import asyncio
import contextlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.ports import SessionBlocks
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, giving, numbered
from tests.relay.rig import Rig, Running, running_relay
from tests.support.answers import Received
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

NAMED = {"X-Memproxy-User": "ada", "X-Memproxy-Session": "s"}


def turns(count: int) -> list[str]:
    return [f"my message number {number}" for number in range(count)]


def blocks_in(received: Received) -> list[str]:
    return [message["content"] for message in received.messages if message["role"] == "system"]


def up_to_the_last_user_message(received: Received) -> bytes:
    """The request's bytes from the messages on, up to the end of its last user message."""
    said = received.messages[-1]["content"].encode()
    body = received.body[received.body.index(b'"messages"') :]
    return body[: body.rindex(said) + len(said)]


async def test_ten_turns_repeat_everything_up_to_the_previous_last_user_message(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    said = turns(10)
    for length in range(1, 11):
        answer = await relay.chat(*said[:length])
        assert answer.headers["x-memproxy-recall"].startswith("injected")
    for before, after in itertools.pairwise(upstream.received):
        seen = up_to_the_last_user_message(before)
        now = after.body[after.body.index(b'"messages"') :]
        assert now.startswith(seen)


@pytest.mark.parametrize("mode", ["on", "read"])
async def test_two_workers_that_share_a_conversation_know_it_and_its_blocks_as_one(
    upstream: ScriptedUpstream, tmp_path: Path, mode: str
) -> None:
    async with contextlib.AsyncExitStack() as held:
        workers = []
        for number in range(2):
            state = SqliteState(tmp_path / "state.db", sync="full")
            folder = tmp_path / str(number)
            folder.mkdir()
            relaying = running_relay(upstream.base_url, state, folder, server={"workers": 2})
            workers.append(await held.enter_async_context(relaying))
            workers[-1].engine.recall = Memories(numbered(100))
        said = turns(8)
        answers = [
            await workers[length % 2].chat(*said[:length], headers={"X-Memproxy-Memory": mode})
            for length in range(1, 9)
        ]
    assert len({answer.headers["x-memproxy-session"] for answer in answers}) == 1
    assert [len(blocks_in(received)) for received in upstream.received] == list(range(1, 9))
    for before, after in itertools.pairwise(upstream.received):
        assert blocks_in(after)[: len(blocks_in(before))] == blocks_in(before)


async def test_a_greeting_in_a_session_does_not_break_the_repetition(relay: Rig, upstream: ScriptedUpstream) -> None:
    said = ["my first message", "thanks!", "my third message"]
    answers = [await relay.chat(*said[:length]) for length in (1, 2, 3)]
    first, second, third = upstream.received
    assert answers[1].headers["x-memproxy-recall"].startswith("skipped")
    assert blocks_in(second) == blocks_in(first)
    assert blocks_in(third)[:1] == blocks_in(first)
    assert len(blocks_in(third)) == 2


async def test_only_memories_that_were_not_shown_are_added(relay: Rig, upstream: ScriptedUpstream) -> None:
    relay.engine.recall = Memories(numbered(3))
    answers = [await relay.chat(*turns(length)) for length in (1, 2, 3)]
    assert [asked.shown for asked in relay.engine.asked] == [[], ["m0", "m1"], ["m0", "m1", "m2"]]
    assert [answer.headers["x-memproxy-memories"] for answer in answers] == ["2", "3", "3"]
    assert [answer.headers["x-memproxy-memories-new"] for answer in answers] == ["2", "1", "0"]
    assert answers[2].headers["x-memproxy-recall"] == "injected"
    text = "\n".join(blocks_in(upstream.last))
    assert [text.count(f"fact number {number}") for number in range(3)] == [1, 1, 1]


async def test_a_block_that_the_client_sends_back_is_not_repeated_beside_it(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    relay.engine.recall = Memories(numbered(2))
    await relay.chat(*turns(1))
    first, second = turns(2)
    kept = [*upstream.last.messages, {"role": "assistant", "content": f"You said: {first}"}]
    body = {"model": "test-model", "messages": [*kept, {"role": "user", "content": second}]}
    relay.engine.recall = Memories({})
    await relay.client.post("/v1/chat/completions", json=body)
    assert upstream.last.messages == body["messages"]


async def test_beyond_the_sessions_total_no_block_is_added(running: Running, upstream: ScriptedUpstream) -> None:
    inject = {"session_tokens": 250}
    async with running(inject=inject, recall={"max_tokens": 120}) as relay:
        relay.engine.recall = Memories(numbered(100), most=5)
        answers = [await relay.chat(*turns(length)) for length in range(1, 7)]
    assert answers[-1].headers["x-memproxy-recall"] == "injected; reason=session_total"
    assert len(relay.engine.asked) < 6
    blocks = blocks_in(upstream.last)
    assert sum(map(len, blocks)) / 4 <= 250
    assert blocks == blocks_in(upstream.received[-2])


async def test_a_new_block_gets_no_more_than_what_is_left_of_the_total(running: Running) -> None:
    async with running(inject={"session_tokens": 700}) as relay:
        relay.engine.recall = Memories(numbered(100), most=10)
        for length in (1, 2):
            await relay.chat(*turns(length))
    first, second = [asked.limits.max_tokens for asked in relay.engine.asked]
    assert first == 600
    assert second is not None
    assert second < 600


async def test_a_deleted_memory_is_repeated_no_more_and_the_rest_stays(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    relay.engine.recall = Memories(numbered(2))
    answer = await relay.chat(*turns(1), headers=NAMED)
    before = blocks_in(upstream.last)[0]
    assert await state.drop_from_blocks(await scope_of(relay, "ada"), ["m0"]) == 1
    relay.engine.recall = Memories({})
    answer = await relay.chat(*turns(2), headers=NAMED)
    line = next(line for line in before.split("\n") if line.endswith("[m:m0]"))
    assert blocks_in(upstream.last) == [before.replace(line + "\n", "")]
    assert answer.headers["x-memproxy-memories"] == "1"


async def scope_of(relay: Rig, user: str) -> Scope:
    return Scope(tenant=relay.engine.asked[-1].scope.tenant, user=user)


@pytest.mark.parametrize("session", ["s", None, "memories alone"])
async def test_blocks_of_a_forgotten_session_or_of_memories_that_are_all_gone_are_gone(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, session: str | None
) -> None:
    await relay.chat(*turns(1), headers=NAMED)
    if session == "memories alone":
        await state.drop_from_blocks(await scope_of(relay, "ada"), ["m0", "m1"])
    else:
        await state.forget(await scope_of(relay, "ada"), session=session)
    relay.engine.recall = Memories({})
    answer = await relay.chat(*turns(2), headers=NAMED)
    assert blocks_in(upstream.last) == []
    assert answer.headers["x-memproxy-recall"] == "empty"


async def test_a_block_that_was_recalled_before_an_erasure_is_not_kept_after_it(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    async def erased_meanwhile(request: RecallRequest) -> RecallAnswer:
        answer = await Memories(numbered(2))(request)
        await state.drop_from_blocks(request.scope, ["m0"])
        return answer

    relay.engine.recall = erased_meanwhile
    await relay.chat(*turns(1), headers=NAMED)
    relay.engine.recall = Memories({})
    await relay.chat(*turns(2), headers=NAMED)
    assert blocks_in(upstream.last) == []


async def test_a_restarted_relay_repeats_what_was_given_before(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    for length in (1, 2):
        state = SqliteState(tmp_path / "state.db", sync="normal")
        await state.open()
        async with running_relay(upstream.base_url, state, tmp_path) as relay:
            relay.engine.recall = Memories(numbered(100))
            await relay.chat(*turns(length))
    assert blocks_in(upstream.received[1])[:1] == blocks_in(upstream.received[0])


@pytest.mark.parametrize("edited", [False, True])
async def test_blocks_behind_an_edited_message_go_as_those_of_messages_that_the_client_dropped(
    relay: Rig, upstream: ScriptedUpstream, *, edited: bool
) -> None:
    said = turns(4)
    for length in (1, 2, 3):
        await relay.chat(*said[:length], headers=NAMED)
    first = blocks_in(upstream.last)[:1]
    relay.engine.recall = Memories({})
    await relay.chat(*([said[0], "my edited message"] if edited else []), *said[2:], headers=NAMED)
    assert blocks_in(upstream.last) == (first if edited else [])


async def test_what_went_with_an_edited_message_is_recalled_again(relay: Rig) -> None:
    said = turns(2)
    await relay.chat(said[0], headers=NAMED)
    await relay.chat("my other message", said[1], headers=NAMED)
    assert relay.engine.asked[-1].shown == []


@pytest.mark.parametrize("other", [{"X-Memproxy-Project": "two"}, {"X-Memproxy-User": "bob"}])
async def test_another_project_or_user_does_not_see_the_blocks(
    relay: Rig, upstream: ScriptedUpstream, other: dict[str, str]
) -> None:
    of_one = {**NAMED, "X-Memproxy-Project": "one"}
    await relay.chat(*turns(1), headers=of_one)
    relay.engine.recall = Memories({})
    await relay.chat(*turns(2), headers=of_one | other)
    assert blocks_in(upstream.last) == []


async def test_what_shadow_mode_found_is_never_repeated_to_a_model(relay: Rig, upstream: ScriptedUpstream) -> None:
    shadow = await relay.chat(*turns(1), headers={**NAMED, "X-Memproxy-Memory": "shadow"})
    relay.engine.recall = Memories({})
    await relay.chat(*turns(2), headers=NAMED)
    assert (shadow.headers["x-memproxy-memories"], shadow.headers["x-memproxy-memories-new"]) == ("2", "2")
    assert [blocks_in(received) for received in upstream.received] == [[], []]


async def test_without_sticky_each_request_has_its_own_block_alone_and_none_is_written(
    running: Running, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    async with running(inject={"sticky": False}) as relay:
        relay.engine.recall = Memories(numbered(100))
        for length in (1, 2):
            await relay.chat(*turns(length), headers=NAMED)
        await eventually(lambda: relay.engine.captured)
        assert await state.drop_from_blocks(await scope_of(relay, "ada"), None) == 0
    assert [len(blocks_in(received)) for received in upstream.received] == [1, 1]
    assert [asked.shown for asked in relay.engine.asked] == [[], []]


async def test_a_block_whose_lines_cannot_be_told_apart_is_given_once(relay: Rig, upstream: ScriptedUpstream) -> None:
    relay.engine.recall = giving("a block of another form")
    answer = await relay.chat(*turns(1), headers=NAMED)
    assert answer.headers["x-memproxy-memories"] == "1"
    relay.engine.recall = Memories({})
    await relay.chat(*turns(2), headers=NAMED)
    assert [len(blocks_in(received)) for received in upstream.received] == [1, 0]


class SlowBlocks(SqliteState):
    """A state whose blocks come when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, sync="normal")
        self.may_answer = asyncio.Event()

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        await self.may_answer.wait()
        return await super().find_blocks(scope, messages)


async def test_a_request_does_not_wait_for_a_state_that_hangs(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    state = SlowBlocks(tmp_path / "state.db")
    async with running_relay(upstream.base_url, state, tmp_path, recall={"deadline_ms": 9_000}) as relay:
        relay.engine.recall = Memories(numbered(100))
        answer = await relay.chat(*turns(1))
        state.may_answer.set()
    assert answer.status_code == 200
    assert len(blocks_in(upstream.last)) == 1


async def test_the_same_request_again_carries_the_same_block_and_what_is_new(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    memories = Memories(numbered(2))
    relay.engine.recall = memories
    for _ in range(2):
        await relay.chat("my question", headers=NAMED)
    assert blocks_in(upstream.received[0]) == blocks_in(upstream.received[1])
    memories.texts["m9"] = "something new"
    await relay.chat("my question", headers=NAMED)
    (first,), (third,) = blocks_in(upstream.received[0]), blocks_in(upstream.last)
    assert third.startswith(first)
    assert "something new" in third


@pytest.mark.parametrize("position", ["after_system", "system"])
async def test_at_the_beginning_blocks_are_repeated_in_order(
    running: Running, upstream: ScriptedUpstream, position: str
) -> None:
    inject: dict[str, Any] = {"position": position}
    async with running(inject=inject) as relay:
        relay.engine.recall = Memories(numbered(100))
        for length in (1, 2):
            await relay.chat(*turns(length))
    first, second = ["\n\n".join(blocks_in(received)) for received in upstream.received]
    assert second.startswith(first)
    assert second.index("fact number 1") < second.index("fact number 2")
