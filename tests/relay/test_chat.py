"""Chat through the relay: what goes up, what comes back, what is kept."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import REGISTRY

from memproxy.core.scope import Scope
from memproxy.errors import RequestError, StateUnavailable
from memproxy.ports import JournalEntry, KnownSession
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import giving
from tests.relay.rig import Rig, Running, journalled, running_relay
from tests.support.answers import DONE, Answer, chat_events, completion, error, gzipped, refusing_late_system, stream
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually

BLOCK = '<recalled-memory id="abc">\n- [2026-11-20] the budget is $10,000 [m:1a2b]\n</recalled-memory>'


@pytest.fixture
async def relay(running: Running) -> AsyncIterator[Rig]:
    async with running() as rig:
        yield rig


async def test_without_memories_the_upstream_gets_the_clients_own_bytes(relay: Rig, upstream: ScriptedUpstream) -> None:
    body = (
        b'{ "model":"m", "x": 1.0, "big": 12345678901234567890,\n "messages":[{"role":"user","content":"my \\u00e9"}]}'
    )
    answer = await relay.post(body)
    assert answer.status_code == 200
    assert upstream.last.body == body
    assert answer.headers["x-memproxy-recall"] == "empty"
    assert answer.headers["x-memproxy-memories"] == "0"


async def test_a_block_is_injected_right_before_the_last_user_message(relay: Rig, upstream: ScriptedUpstream) -> None:
    relay.engine.recall = giving(BLOCK)
    answer = await relay.chat("I plan a trip", "What is my budget?")
    roles = [message["role"] for message in upstream.last.messages]
    assert roles == ["user", "assistant", "system", "user"]
    assert upstream.last.messages[2]["content"] == BLOCK
    assert answer.headers["x-memproxy-recall"] == "injected"
    assert answer.headers["x-memproxy-memories"] == "1"
    assert answer.headers["server-timing"].startswith("gate;dur=")


async def test_recall_is_asked_with_the_last_user_messages_and_the_scope(relay: Rig) -> None:
    headers = {"X-Memproxy-User": "ada", "X-Memproxy-Session": "s1", "authorization": "Bearer sk-1"}
    headers |= {"X-Memproxy-Project": "atlas", "X-Memproxy-Agent": "coder"}
    await relay.chat("one is mine", "two is mine", "three is mine", "four is mine", "five is mine", headers=headers)
    asked = relay.engine.asked[-1]
    assert asked.queries == ["two is mine", "three is mine", "four is mine", "five is mine"]
    scope = asked.scope
    assert (scope.user, scope.session, scope.project, scope.agent) == ("ada", "s1", "atlas", "coder")
    assert scope.tenant.startswith("key:")


async def test_a_greeting_is_not_searched(relay: Rig) -> None:
    answer = await relay.chat("Hello!")
    assert answer.headers["x-memproxy-recall"] == "skipped; reason=greeting"
    assert relay.engine.asked == []


@pytest.mark.parametrize(
    ("mode", "recall", "captures"),
    [("off", "off", 0), ("read", "injected", 0), ("write", "off; reason=write", 1), ("shadow", "shadow", 1)],
)
async def test_each_mode_recalls_and_captures_as_it_says(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, mode: str, recall: str, captures: int
) -> None:
    relay.engine.recall = giving(BLOCK)
    answer = await relay.chat("What is my budget?", headers={"X-Memproxy-Memory": mode})
    assert answer.headers["x-memproxy-recall"] == recall
    assert ("system" in [message["role"] for message in upstream.last.messages]) == (recall == "injected")
    assert len(await journalled(state)) == captures


async def test_an_unknown_mode_is_refused_with_the_allowed_ones(relay: Rig, upstream: ScriptedUpstream) -> None:
    answer = await relay.chat("hello there, my friend", headers={"X-Memproxy-Memory": "maybe"})
    assert answer.status_code == 400
    assert "shadow" in answer.json()["error"]["message"]
    assert upstream.received == []


async def test_controls_in_the_body_are_stripped_and_obeyed(relay: Rig, upstream: ScriptedUpstream) -> None:
    await relay.chat(
        "What is my budget?",
        memory_context={"user_id": "bob", "session_id": "s9", "project_id": "p1", "agent_id": "a1"},
        memory_config={"enabled": True, "retrieval_limit": 3},
        user="somebody-else",
    )
    assert not {"memory_context", "memory_config"} & upstream.last.json.keys()
    assert upstream.last.json["user"] == "somebody-else"
    asked = relay.engine.asked[-1]
    scope = asked.scope
    assert (scope.user, scope.session, scope.project, scope.agent) == ("bob", "s9", "p1", "a1")
    assert asked.limits.retrieval_limit == 3


async def test_each_name_in_a_header_comes_before_the_one_in_the_body(relay: Rig) -> None:
    names = ("user", "session", "project", "agent")
    headers = {f"X-Memproxy-{name}": f"{name} of the header" for name in names}
    await relay.chat("What is my budget?", headers=headers, memory_context={f"{name}_id": "other" for name in names})
    scope = relay.engine.asked[-1].scope
    assert {name: getattr(scope, name) for name in names} == {name: f"{name} of the header" for name in names}


async def test_a_misspelt_name_in_the_config_is_refused_before_anything_goes_up(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    answer = await relay.chat("What is my budget?", memory_config={"auto_stroe": False})
    told = answer.json()["error"]
    assert (answer.status_code, told["param"]) == (400, "memory_config.auto_stroe")
    assert "auto_store" in told["message"]
    assert upstream.received == []


@pytest.mark.parametrize(("header", "enabled"), [("off", True), ("on", False)])
async def test_with_memory_off_no_name_in_the_config_is_refused(
    relay: Rig, upstream: ScriptedUpstream, header: str, *, enabled: bool
) -> None:
    config = {"enabled": enabled, "colour": "blue"}
    answer = await relay.chat("My budget?", headers={"X-Memproxy-Memory": header}, memory_config=config)
    assert (answer.status_code, answer.headers["x-memproxy-recall"]) == (200, "off")
    assert "memory_config" not in upstream.last.json


async def test_a_body_that_memory_cannot_read_is_not_refused_for_its_config(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    body = b'{"model":"m","model":"m","messages":[{"role":"user","content":"My?"}],"memory_config":{"colour":1}}'
    answer = await relay.post(body)
    assert (answer.status_code, answer.headers["x-memproxy-recall"]) == (200, "skipped; reason=unreadable")
    assert upstream.last.body == body


@pytest.mark.parametrize(
    ("mode", "config", "told", "captures"),
    [
        ("on", {"enabled": False}, "off", 0),
        ("write", {"enabled": False}, "off", 0),
        ("on", {"auto_store": False}, "injected", 0),
        ("write", {"auto_store": False}, "off", 0),
        ("shadow", {"auto_store": False}, "off", 0),
        ("off", {"enabled": True}, "off", 0),
        ("read", {"enabled": True, "auto_store": True}, "injected", 0),
    ],
)
async def test_who_refuses_memory_in_the_header_or_the_body_is_not_remembered(
    relay: Rig, state: SqliteState, mode: str, config: dict[str, bool], told: str, captures: int
) -> None:
    relay.engine.recall = giving(BLOCK)
    answer = await relay.chat("What is my budget?", headers={"X-Memproxy-Memory": mode}, memory_config=config)
    assert answer.headers["x-memproxy-recall"] == told
    assert len(await journalled(state)) == captures


@pytest.mark.parametrize(
    ("named", "user"),
    [
        ({"memory_context": {"user_id": ""}}, None),
        ({"memory_context": {"user_id": " "}}, None),
        ({"headers": {"X-Memproxy-User": ""}}, None),
        ({"memory_context": {"user_id": ""}, "user": "bob"}, "bob"),
        ({"memory_context": {"user_id": ""}, "headers": {"X-Memproxy-User": "ann"}}, "ann"),
        ({"memory_context": {"session_id": ""}}, "default"),
        ({"user": ""}, "default"),
    ],
)
async def test_a_user_whose_name_is_empty_is_not_the_default_user(
    relay: Rig, named: dict[str, Any], user: str | None
) -> None:
    answer = await relay.chat("What is my budget?", **named)
    if user is None:
        assert answer.headers["x-memproxy-recall"] == "skipped; reason=no_user"
    assert [asked.scope.user for asked in relay.engine.asked] == ([] if user is None else [user])


async def test_our_headers_do_not_reach_the_upstream(relay: Rig, upstream: ScriptedUpstream) -> None:
    await relay.chat("my turn", headers={"X-Memproxy-User": "ada", "X-Memproxy-Memory": "on", "X-Other": "kept"})
    names = {name.lower() for name, _ in upstream.last.headers}
    assert not [name for name in names if name.startswith("x-memproxy")]
    assert upstream.last.header("x-other") == "kept"
    assert upstream.last.header("host") == f"127.0.0.1:{upstream.port}"


async def test_the_exchange_is_captured_before_the_stream_ends(relay: Rig, state: SqliteState) -> None:
    answer = await relay.chat("My dog is called Biscuit", stream=True)
    assert answer.content.endswith(DONE)
    ((row, body),) = await journalled(state)
    assert [(message.role, message.content) for message in body.messages] == [
        ("user", "My dog is called Biscuit"),
        ("assistant", "You said: My dog is called Biscuit"),
    ]
    assert row.entry.scope.user == "default"
    assert row.entry.request_id == answer.headers["x-memproxy-request-id"]


async def test_only_the_new_exchange_of_a_conversation_is_captured(relay: Rig, state: SqliteState) -> None:
    await relay.chat("My first message", headers={"X-Memproxy-Session": "s"})
    await relay.chat("My first message", "My second message", headers={"X-Memproxy-Session": "s"})
    said = [body.messages[0].content for _, body in await journalled(state)]
    assert said == ["My first message", "My second message"]


async def test_a_continued_conversation_keeps_its_session(relay: Rig) -> None:
    first = await relay.chat("My trip is to Hawaii")
    second = await relay.chat("My trip is to Hawaii", "My hotel is booked")
    third = await relay.chat("My trip is to Hawaii", "My hotel is booked", "And my flight?")
    other = await relay.chat("My trip is to Hawaii")
    session = first.headers["x-memproxy-session"]
    assert second.headers["x-memproxy-session"] == session == third.headers["x-memproxy-session"]
    assert other.headers["x-memproxy-session"] != session


async def test_secrets_are_redacted_before_the_journal(relay: Rig, state: SqliteState) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    said = [{"role": "user", "name": key, "content": f"My key is {key}, keep it"}]
    await relay.client.post("/v1/chat/completions", json={"model": "m", "messages": said})
    ((_, body),) = await journalled(state)
    assert [message.name for message in body.messages] == ["[redacted:aws-key]", None]
    assert key not in json.dumps([message.content for message in body.messages])


OWN = [("retry-after", "7"), ("set-cookie", "a=1"), ("set-cookie", "b=2")]


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503, 529, 999])
async def test_upstream_errors_pass_unchanged_and_are_not_captured(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, status: int
) -> None:
    script = error(status, "the upstream's own words", headers=OWN)
    upstream.script(script)
    answer = await relay.chat("my question")
    assert answer.status_code == status
    assert answer.content == script.parts[0]
    assert answer.headers["retry-after"] == "7"
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert await journalled(state) == []


async def test_a_rejected_injection_is_sent_again_as_the_client_wrote_it(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    relay.engine.recall = giving(BLOCK)
    upstream.default = refusing_late_system
    answer = await relay.chat("my trip", "What is my budget?")
    assert answer.status_code == 200
    assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    assert len(upstream.received) == 2
    assert "system" not in [message["role"] for message in upstream.last.messages]


async def test_a_stream_that_is_cut_breaks_for_the_client_and_is_not_captured(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(stream(chat_events("half", " a")[:2], cut=True))
    with pytest.raises(httpx.RemoteProtocolError):
        await relay.chat("my question", stream=True)
    assert await journalled(state) == []


async def test_a_stream_without_its_done_mark_is_captured_when_it_said_why_it_stopped(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    upstream.script(stream(chat_events("all", " of", " it")[:-1]))
    await relay.chat("my question", stream=True)
    ((_, body),) = await journalled(state)
    assert body.messages[-1].content == "all of it"


@pytest.mark.parametrize("answer", [stream(chat_events("all", " of", " it")), completion("all of it")])
async def test_a_compressed_answer_passes_as_it_is_and_its_text_is_captured(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, answer: Answer
) -> None:
    packed = gzipped(answer)
    upstream.script(packed)
    body = {"messages": [{"role": "user", "content": "my question"}]}
    async with relay.client.stream("POST", "/v1/chat/completions", json=body) as got:
        raw = b"".join([part async for part in got.aiter_raw()])
    assert raw == packed.parts[0]
    ((_, kept),) = await journalled(state)
    assert kept.messages[-1].content == "all of it"


BUDGET = '{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}'


@pytest.mark.parametrize(
    "body",
    [
        b'{"model": ',
        BUDGET.replace('"messages"', '"messages":[],"messages"').encode(),
        b"\xef\xbb\xbf" + BUDGET.encode(),
        BUDGET.encode("utf-16"),
        b"[]",
        b"",
    ],
)
async def test_what_cannot_be_spliced_safely_goes_on_untouched(
    relay: Rig, upstream: ScriptedUpstream, body: bytes
) -> None:
    refusal = error(400, "We could not parse the JSON body of your request.")
    upstream.script(refusal)
    answer = await relay.post(body)
    assert (answer.status_code, answer.content) == (400, refusal.parts[0])
    assert upstream.last.body == body
    assert answer.headers["x-memproxy-recall"] == "skipped; reason=unreadable"


@pytest.mark.parametrize(
    "fields", [{}, {"messages": []}, {"messages": "text"}, {"messages": [{"role": "system", "content": "x"}]}]
)
async def test_a_request_without_user_messages_goes_on_untouched(
    relay: Rig, upstream: ScriptedUpstream, fields: dict[str, Any]
) -> None:
    upstream.script(error(400, "messages is required"))
    answer = await relay.client.post("/v1/chat/completions", json={"model": "m", **fields})
    assert answer.status_code == 400
    assert upstream.last.json == {"model": "m", **fields}


async def test_an_exchange_keeps_every_character_but_an_injected_block_that_comes_back_is_not_captured(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    relay.engine.recall = giving(BLOCK)
    text = "我的预算是多少? 🙂 \u2028 “quoted” é"
    for said in (text, f"My question {BLOCK} is this"):
        await relay.chat(said)
        assert upstream.last.messages[-1]["content"] == said
    (_, first), (_, second) = await journalled(state)
    assert first.messages[0].content == text
    assert "10,000" not in "".join(message.content for message in second.messages)


class FailingState(SqliteState):
    """A state that raises what it is told to: when a turn is written, made ready for it, or its session sought."""

    def __init__(self, folder: Path, **failing: Exception) -> None:
        super().__init__(folder / "state.db", sync="normal")
        self._failing = failing

    def _fail(self, what: str) -> None:
        if what in self._failing:
            raise self._failing[what]

    async def append(self, entry: JournalEntry) -> int:
        self._fail("append")
        return await super().append(entry)

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        self._fail("find_session")
        return await super().find_session(scope, keys)

    @property
    def knows_time(self) -> bool:
        self._fail("knows_time")
        return super().knows_time


async def test_an_answer_goes_out_although_the_journal_fails(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    state = FailingState(tmp_path, append=StateUnavailable("The disk is full."))
    async with running_relay(upstream.base_url, state, tmp_path) as relay:
        answer = await relay.chat("my question", stream=True)
    assert answer.content.endswith(DONE)


class WaitingState(SqliteState):
    """A journal that commits when the test says so."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, sync="normal")
        self.asked = asyncio.Event()
        self.may_commit = asyncio.Event()

    async def append(self, entry: JournalEntry) -> int:
        self.asked.set()
        await self.may_commit.wait()
        return await super().append(entry)


@pytest.mark.parametrize("streamed", [True, False])
async def test_the_end_of_an_answer_waits_for_the_journal(
    upstream: ScriptedUpstream, tmp_path: Path, streamed: bool
) -> None:
    state = WaitingState(tmp_path / "state.db")
    async with running_relay(upstream.base_url, state, tmp_path, state={"commit_timeout_ms": 60_000}) as relay:
        body = {"model": "m", "messages": [{"role": "user", "content": "my question"}], "stream": streamed}
        async with relay.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            await state.asked.wait()
            parts = answer.aiter_raw()
            early = await anext(parts)
            state.may_commit.set()
            rest = b"".join([part async for part in parts])
    assert b"[DONE]" not in early
    assert rest.endswith(DONE) if streamed else rest == b"}"


async def test_a_journal_that_hangs_holds_an_answer_back_no_longer_than_its_limit(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    state = WaitingState(tmp_path / "state.db")
    async with running_relay(upstream.base_url, state, tmp_path, state={"commit_timeout_ms": 50}) as relay:
        answer = await relay.chat("my question")
        state.may_commit.set()
    assert answer.status_code == 200


async def test_a_client_that_leaves_cancels_the_upstream_call(relay: Rig, upstream: ScriptedUpstream) -> None:
    never = asyncio.Event()
    upstream.script(Answer(wait=never))
    asking = asyncio.get_running_loop().create_task(relay.chat("my question"))
    await eventually(lambda: upstream.received, what="the upstream is asked")
    asking.cancel()
    await asyncio.wait_for(upstream.last.left.wait(), LONGEST_S)


async def test_housekeeping_prompts_are_neither_recalled_for_nor_captured(relay: Rig, state: SqliteState) -> None:
    prompt = "### Task:\nGenerate a concise, 3-5 word title with an emoji summarizing the chat history.\n### Output:"
    answer = await relay.chat(prompt)
    assert answer.headers["x-memproxy-recall"] == "skipped; reason=housekeeping"
    assert relay.engine.asked == []
    assert await journalled(state) == []


async def test_the_engine_is_told_of_a_new_turn_and_how_its_model_was_reached(relay: Rig) -> None:
    await relay.chat("my question", headers={"authorization": "Bearer sk-client"})
    (told,) = await eventually(lambda: relay.engine.captured)
    assert told.access is not None
    assert (told.access.model, told.access.api_key) == ("test-model", "sk-client")


async def test_a_fault_of_ours_in_deciding_costs_the_memory_and_not_the_request(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    state = FailingState(tmp_path, find_session=ZeroDivisionError("a fault of ours"))
    async with running_relay(upstream.base_url, state, tmp_path) as relay:
        answer = await relay.chat("my first", "my second", memory_config={"enabled": True})
    assert answer.status_code == 200
    assert answer.headers["x-memproxy-recall"] == "degraded; reason=internal"
    assert "memory_config" not in upstream.last.json


def counted(name: str, reason: str) -> float:
    """A counter of the relay's; 0 where nothing was counted yet."""
    return REGISTRY.get_sample_value(name, {"reason": reason}) or 0.0


async def test_a_fault_of_ours_in_injecting_costs_the_memory_and_not_the_request(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    relay.engine.recall = giving(BLOCK)
    relay.app.parts.positions._learned = {"system": None}  # type: ignore[dict-item]
    answer = await relay.chat("my first", "my second", memory_config={"retrieval_limit": 3})
    assert answer.status_code == 200
    assert answer.headers["x-memproxy-recall"] == "degraded; reason=internal"
    assert answer.headers["x-memproxy-memories"] == "0"
    assert "memory_config" not in upstream.last.json
    assert BLOCK not in json.dumps(upstream.last.json)


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_fault_of_ours_in_keeping_an_answer_costs_the_capture_and_not_the_answer(
    upstream: ScriptedUpstream, tmp_path: Path, *, streamed: bool
) -> None:
    state = FailingState(tmp_path, knows_time=ZeroDivisionError("a fault of ours"))
    async with running_relay(upstream.base_url, state, tmp_path) as relay:
        before = counted("memproxy_capture_skipped_total", "internal")
        answer = await relay.chat("my question", stream=streamed)
        assert answer.status_code == 200
        assert answer.content.endswith(DONE) if streamed else answer.json()["choices"]
        assert counted("memproxy_capture_skipped_total", "internal") == before + 1


async def test_a_turn_that_the_journal_refuses_is_counted_as_lost(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    state = FailingState(tmp_path, append=RequestError("This is no turn."))
    async with running_relay(upstream.base_url, state, tmp_path) as relay:
        before = counted("memproxy_turns_lost_total", "refused")
        assert (await relay.chat("my question")).status_code == 200
        assert counted("memproxy_turns_lost_total", "refused") == before + 2
