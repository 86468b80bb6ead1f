"""Callers of one operator's upstream key: nobody reaches through it what the upstream keeps of another."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from memproxy.commands.keys import make_key
from memproxy.core.proxykey import PERMISSIONS
from memproxy.core.scope import Scope
from memproxy.relay.admission import KEEPS_NOTHING
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.rig import Rig, running_relay
from tests.support.answers import Answer, Received, completion, stream
from tests.support.upstream import ScriptedUpstream, scripted_upstream

Headers = dict[str, str]
KeyMaker = Callable[..., Awaitable[Headers]]
QUESTION = "What is my budget?"


@asynccontextmanager
async def relay_with(
    provider: ScriptedUpstream, state: SqliteState, folder: Path, **sections: dict[str, Any]
) -> AsyncIterator[Rig]:
    to = {"base_url": provider.base_url, "api_key": "sk-operator", **sections.pop("upstream", {})}
    auth = sections.pop("auth", {"mode": "keys"})
    async with running_relay(provider.base_url, state, folder, auth=auth, upstream=to) as rig:
        await state.open()
        yield rig


@pytest.fixture
async def relay(upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path) -> AsyncIterator[Rig]:
    upstream.default = kept
    async with relay_with(upstream, state, tmp_path) as rig:
        yield rig


@pytest.fixture
def key(state: SqliteState) -> KeyMaker:
    """Makes a key of a tenant; its header."""

    async def make(tenant: str = "acme", **asked: Any) -> Headers:
        text, record = make_key(tenant=tenant, **asked)
        await state.add_proxy_key(record)
        return {"authorization": f"Bearer {text}"}

    return make


def kept(received: Received) -> Answer:
    """An upstream that keeps what it made, under names of the test's choice (the model's), and shows it to its key."""
    asked = received.json if received.body else {}
    return completion("kept") if "messages" in asked else response(asked.get("model", "resp_any"))


def response(name: str, status: str = "completed") -> Answer:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ten."}]}]
    body = {"id": name, "object": "response", "status": status, "model": "m", "output": output}
    return Answer([json.dumps(body).encode()], headers=[("content-type", "application/json")])


async def make_response(relay: Rig, name: str, headers: Headers, **fields: Any) -> httpx.Response:
    return await relay.client.post("/v1/responses", json={"model": name, "input": QUESTION, **fields}, headers=headers)


def calls_of(name: str) -> list[tuple[str, str]]:
    """Every call about one response."""
    place = f"/v1/responses/{name}"
    return [("GET", place), ("GET", f"{place}/input_items"), ("POST", f"{place}/cancel"), ("DELETE", place)]


async def statuses(relay: Rig, name: str, headers: Headers) -> list[int]:
    return [(await relay.client.request(method, path, headers=headers)).status_code for method, path in calls_of(name)]


KEPT = [
    ("GET", "/v1/chat/completions"),
    ("GET", "/v1/chat/completions/"),
    ("GET", "/v1//chat/completions"),
    ("GET", "/v1/chat%2Fcompletions"),
    ("HEAD", "/v1/chat/completions"),
    ("GET", "/v1/chat/completions/chatcmpl-1"),
    ("GET", "/v1/chat/completions/chatcmpl-1/messages"),
    ("POST", "/v1/chat/completions/chatcmpl-1"),
    ("DELETE", "/v1/chat/completions/chatcmpl-1"),
    ("GET", "/v1/responses"),
    ("GET", "/v1/responses/"),
    ("GET", "/v1/responses/resp_of_a"),
    ("GET", "/v1/responses/resp_of_a/"),
    ("GET", "/v1/responses/resp%5Fof%5Fa"),
    ("POST", "/v1/responses/compact"),
    ("POST", "/v1/responses/input_tokens"),
    ("GET", "/v1/files"),
    ("POST", "/v1/files"),
    ("GET", "/v1/files/file-1/content"),
    ("GET", "/v1/batches"),
    ("GET", "/v1/threads/thread_1/messages"),
    ("POST", "/v1/threads"),
    ("GET", "/v1/conversations/conv_1/items"),
    ("GET", "/v1/assistants"),
    ("GET", "/v1/vector_stores"),
    ("GET", "/v1/fine_tuning/jobs"),
    ("POST", "/v1/realtime/client_secrets"),
    ("GET", "/v1/organization/admin_api_keys"),
    ("DELETE", "/v1/models/ft:gpt"),
    ("PATCH", "/v1/models/m"),
    ("GET", "/v1/anything/new"),
]


async def test_what_the_upstream_keeps_needs_its_own_permission(
    relay: Rig, upstream: ScriptedUpstream, key: KeyMaker
) -> None:
    await make_response(relay, "resp_of_a", await key("acme", user="ann"))
    upstream.reset()
    usual = await key("other")
    every_other = await key("other", permissions=[name for name in PERMISSIONS if name != "upstream:all"])
    allowed = await key("other", permissions=["chat", "upstream:all"])
    for method, path in KEPT:
        for headers in (usual, every_other):
            refused = await relay.client.request(method, path, headers=headers)
            assert refused.status_code == 403, (method, path)
            assert method == "HEAD" or "upstream:all" in refused.json()["error"]["message"]
        assert upstream.received == [], (method, path)
        assert (await relay.client.request(method, path, headers=allowed)).status_code != 403
        assert (upstream.last.method, upstream.last.target) == (method, path)
        assert upstream.last.header("authorization") == "Bearer sk-operator"
        upstream.reset()


async def test_calls_that_keep_nothing_are_for_every_key(relay: Rig, upstream: ScriptedUpstream, key: KeyMaker) -> None:
    headers = await key()
    for call in (*KEEPS_NOTHING, "GET /v1/models", "GET /v1/models/meta-llama/Llama", "HEAD /v1/models"):
        method, path = call.removesuffix("/*").split(" ")
        body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]} if method == "POST" else None
        answer = await relay.client.request(method, path, json=body, headers=headers)
        assert (answer.status_code, upstream.last.target) == (200, path)


async def test_a_call_that_the_operator_shares_is_for_every_key_and_those_beside_it_are_not(
    upstream: ScriptedUpstream, state: SqliteState, key: KeyMaker, tmp_path: Path
) -> None:
    upstream.default = kept
    shared = {"shared_calls": ["POST /v1/rerank", "GET /v1/files/*"]}
    async with relay_with(upstream, state, tmp_path, upstream=shared) as relay:
        headers = await key()
        calls = ["POST /v1/rerank", "GET /v1/files", "GET /v1/files/f/content", "POST /v1/rerank/x", "POST /v1/files"]
        calls += ["GET /v1/filesystem", "GET /v1/rerank", "GET /v1/files/%2e%2e/batches"]
        found = [(await relay.client.request(*call.split(" "), headers=headers)).status_code for call in calls]
    assert found == [200, 200, 200, 403, 403, 403, 403, 404]


async def test_with_the_clients_own_key_everything_goes_through(
    upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path
) -> None:
    upstream.default = kept
    for own in ({}, {"api_key": None}):
        async with relay_with(upstream, state, tmp_path, auth={"mode": "passthrough"}, upstream=own) as relay:
            answer = await relay.client.get("/v1/files", headers={"authorization": "Bearer sk-client"})
            assert answer.status_code == 200


@pytest.mark.parametrize(("mode", "background"), [("on", False), ("on", True), ("off", False), ("read", True)])
async def test_a_response_is_for_the_user_that_it_was_made_for(
    relay: Rig, upstream: ScriptedUpstream, key: KeyMaker, mode: str, background: bool
) -> None:
    ann = await key("acme", user="ann")
    if background:
        upstream.script(response("resp_1", "queued"))
    answer = await make_response(relay, "resp_1", ann | {"x-memproxy-memory": mode}, background=background)
    assert answer.status_code == 200
    others = [
        await key("acme", user="ben"),
        await key("other", user="ann"),
        await key("acme"),
        await key("acme", permissions=["chat", "act_as_user", "admin"]),
    ]
    for other in others:
        assert await statuses(relay, "resp_1", other) == [403] * 4
    assert await statuses(relay, "resp_1", await key("acme", user="ann")) == [200] * 4
    acting = others[-1] | {"x-memproxy-user": "ann"}
    assert await statuses(relay, "resp_1", acting) == [200] * 4
    assert await statuses(relay, "resp_2", ann) == [403] * 4
    assert await statuses(relay, "resp_2", await key(permissions=["chat", "upstream:all"])) == [200] * 4


@pytest.mark.parametrize("unnamed", [None, "default"])
async def test_a_response_of_nobody_in_particular_is_for_its_key(
    upstream: ScriptedUpstream, state: SqliteState, key: KeyMaker, tmp_path: Path, unnamed: str | None
) -> None:
    upstream.default = kept
    auth = {"mode": "keys", "unnamed_user": unnamed}
    async with relay_with(upstream, state, tmp_path, auth=auth) as relay:
        one, other = await key("acme"), await key("acme")
        named = {"user": "somebody"}  # whom these keys may not name
        await make_response(relay, "resp_1", one, **named)
        as_made = {"x-memproxy-user": "somebody"}
        assert await statuses(relay, "resp_1", one | as_made) == [200] * 4
        assert await statuses(relay, "resp_1", other | as_made) == [403] * 4


async def test_a_streamed_response_in_the_background_may_be_fetched_and_stopped_while_it_is_made(
    relay: Rig, upstream: ScriptedUpstream, key: KeyMaker
) -> None:
    ann, more = await key("acme", user="ann"), asyncio.Event()
    begun = {"type": "response.created", "response": {"id": "resp_1", "status": "queued", "background": True}}
    event = f"event: response.created\ndata: {json.dumps(begun)}\n\n".encode()
    upstream.script(stream([event, more, b": the rest\n\n"]))
    body = {"model": "m", "input": QUESTION, "background": True, "stream": True}
    async with relay.client.stream("POST", "/v1/responses", json=body, headers=ann) as answer:
        assert await anext(answer.aiter_raw()) == event
        assert await statuses(relay, "resp_1", ann) == [200] * 4
        assert await statuses(relay, "resp_1", await key("acme", user="ben")) == [403] * 4
        more.set()


async def test_whose_a_response_is_outlives_the_process(
    upstream: ScriptedUpstream, state: SqliteState, key: KeyMaker, tmp_path: Path
) -> None:
    upstream.default = kept
    async with relay_with(upstream, state, tmp_path) as relay:
        ann, ben = await key("acme", user="ann"), await key("acme", user="ben")
        await make_response(relay, "resp_1", ann)
    async with relay_with(upstream, state, tmp_path) as relay:
        assert await statuses(relay, "resp_1", ann) == [200] * 4
        assert await statuses(relay, "resp_1", ben) == [403] * 4


async def test_a_conversation_goes_on_after_its_users_memory_was_erased(
    relay: Rig, state: SqliteState, key: KeyMaker
) -> None:
    ann = await key("acme", user="ann")
    await make_response(relay, "resp_1", ann)
    await state.forget(Scope(tenant="acme", user="ann"), session=None)
    assert (await make_response(relay, "resp_2", ann, previous_response_id="resp_1")).status_code == 200


GOING_ON: list[dict[str, Any]] = [
    {"previous_response_id": "resp_1"},
    {"Previous_Response_ID": "resp_1"},
    {"previou\u017f_re\u017fpon\u017fe_id": "resp_1"},
    {"previous_response_id": ["resp_1"]},
    {"conversation": "conv_1"},
    {"conversation": {"id": "conv_1"}},
    {"previous_response_id": None, "conversation": "conv_1"},
]


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_nobody_goes_on_from_what_another_was_answered(
    relay: Rig, upstream: ScriptedUpstream, key: KeyMaker, mode: str
) -> None:
    headers = {"x-memproxy-memory": mode}
    ann, ben = await key("acme", user="ann"), await key("acme", user="ben")
    everything = await key("acme", user="ben", permissions=["chat", "upstream:all"])
    await make_response(relay, "resp_1", ann)
    for fields in GOING_ON:
        upstream.reset()
        assert (await make_response(relay, "resp_2", ben | headers, **fields)).status_code == 403, fields
        assert upstream.received == []
        assert (await make_response(relay, "resp_2", everything | headers, **fields)).status_code != 403
        assert len(upstream.received) == 1


async def test_a_user_goes_on_from_his_own_response(relay: Rig, key: KeyMaker) -> None:
    ann = await key("acme", user="ann")
    await make_response(relay, "resp_1", ann)
    for former, name in (("resp_1", "resp_2"), ("resp_2", "resp_3")):
        assert (await make_response(relay, name, ann, previous_response_id=former)).status_code == 200


@pytest.mark.parametrize(
    ("body", "more"),
    [
        (b'{"model":"m","input":"x","previous_response_id":null,"previous_response_id":"resp_1"}', {}),
        (b'\xef\xbb\xbf{"model":"m","input":"x","previous_response_id":"resp_1"}', {}),
        ('{"model":"m","input":"x","previous_response_id":"resp_1"}'.encode("utf-16"), {}),
        (b'{"model":"m","input":"x","previous_response_id":"resp_1"}', {"content-type": "text/plain"}),
        (b'{"model":"m","input":"x","previous_response_id":"resp_1"}', {"content-encoding": "unheard-of"}),
    ],
)
async def test_a_body_that_cannot_be_read_goes_on_from_nothing(
    relay: Rig, upstream: ScriptedUpstream, key: KeyMaker, body: bytes, more: Headers
) -> None:
    for mode in ("on", "off"):
        headers = {"content-type": "application/json", "x-memproxy-memory": mode, **await key(), **more}
        refused = await relay.client.post("/v1/responses", content=body, headers=headers)
        assert refused.status_code == 403
    assert upstream.received == []


async def test_the_name_of_a_response_at_one_upstream_opens_none_at_another(
    upstream: ScriptedUpstream, state: SqliteState, key: KeyMaker, tmp_path: Path
) -> None:
    """There are servers whose clients choose the names."""
    async with scripted_upstream() as other:
        upstream.default = other.default = kept
        async with relay_with(other, state, tmp_path) as relay:
            ben = await key("acme", user="ben")
            assert (await make_response(relay, "resp_1", ben)).status_code == 200
        async with relay_with(upstream, state, tmp_path) as relay:
            assert await statuses(relay, "resp_1", ben) == [403] * 4
    assert upstream.received == []
