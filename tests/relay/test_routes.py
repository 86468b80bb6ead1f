"""Everything but chat: relayed paths, health, refusals, limits, browsers."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from memproxy.core.protocol import IDENTITY_HEADER
from memproxy.errors import (
    MemproxyError,
    NotFound,
    Overloaded,
    RequestError,
    TooManyRequests,
    Unauthenticated,
    UpstreamTimeout,
)
from memproxy.relay.routing import error_response
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.rig import Rig, Running, connection, running_relay
from tests.relay.test_http import exchanged
from tests.support.answers import Answer, json_answer
from tests.support.proxy import free_port
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually


@pytest.fixture
async def relay(running: Running) -> AsyncIterator[Rig]:
    async with running() as rig:
        yield rig


def code_of(answer: httpx.Response) -> str:
    """The code of an error in OpenAI's shape."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return str(error["code"])


async def test_other_paths_are_relayed_with_method_path_query_and_body(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.script(Answer([b"\x00\xff binary"], 206, [("content-type", "audio/mpeg"), ("x-own", "1")]))
    answer = await relay.client.request(
        "PUT", "/v1/files/a%2Fb?x=1&y=%20", content=b"\x01\x02", headers={"content-type": "application/octet-stream"}
    )
    assert (upstream.last.method, upstream.last.target) == ("PUT", "/v1/files/a%2Fb?x=1&y=%20")
    assert upstream.last.body == b"\x01\x02"
    assert upstream.last.header("content-type") == "application/octet-stream"
    assert (answer.status_code, answer.content, answer.headers["x-own"]) == (206, b"\x00\xff binary", "1")
    assert "x-memproxy-recall" not in answer.headers


async def test_a_method_that_changes_or_deletes_is_relayed_and_an_answer_without_a_body_ends(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    for method, body in (("PATCH", b"{}"), ("DELETE", b"")):
        upstream.script(Answer([], 204))
        answer = await relay.client.request(method, "/v1/files/1", content=body)
        assert (upstream.last.method, upstream.last.target, upstream.last.body) == (method, "/v1/files/1", body)
        assert (answer.status_code, answer.content) == (204, b"")


async def test_an_upload_of_unknown_length_is_relayed_in_chunks(relay: Rig, upstream: ScriptedUpstream) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for number in range(50):
            yield bytes([number]) * 1000

    upstream.script(json_answer({"id": "file-1"}))
    answer = await relay.client.post("/v1/files", content=parts())
    assert answer.status_code == 200
    assert upstream.last.header("transfer-encoding") == "chunked"
    assert len(upstream.last.body) == 50_000


async def test_a_get_has_no_body_and_a_head_no_answer_body(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.default = lambda _received: json_answer({"object": "list"})
    await relay.client.get("/v1/models")
    assert (upstream.last.body, upstream.last.header("content-length")) == (b"", None)
    head = await relay.client.head("/v1/models")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == "18"


async def test_a_client_without_automatic_headers_gets_none_added(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.script(json_answer({}))
    async with connection(relay.port, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n") as (reader, _):
        await reader.readuntil(b"\r\n\r\n")
    assert [name.lower() for name, _ in upstream.last.headers] == ["host"]


async def test_a_refused_connection_is_a_502_that_names_the_host_and_no_key(state: SqliteState, tmp_path: Path) -> None:
    port = free_port()
    async with running_relay(f"http://127.0.0.1:{port}/v1", state, tmp_path) as relay:
        for path in ("/v1/chat/completions", "/v1/embeddings"):
            answer = await relay.client.post(path, json={"messages": []}, headers={"authorization": "Bearer sk-secret"})
            assert answer.status_code == 502
            assert code_of(answer) == "upstream_unreachable"
            assert f"127.0.0.1:{port}" in answer.text
            assert "sk-secret" not in answer.text
            assert answer.headers["x-memproxy-request-id"].startswith("req_")
            assert ("x-memproxy-recall" in answer.headers) == (path == "/v1/chat/completions")
        ready = await relay.client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert ready.json()["parts"]["upstream"].startswith(
            f"degraded: The upstream 127.0.0.1:{port} cannot be reached"
        )


async def test_a_silent_upstream_is_a_504(upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path) -> None:
    async with running_relay(
        "http://placeholder/v1", state, tmp_path, upstream={"base_url": upstream.base_url, "timeout_s": 0.2}
    ) as relay:
        never = asyncio.Event()
        upstream.script(Answer(wait=never))
        answer = await relay.chat("my question")
        never.set()
    assert answer.status_code == 504
    assert code_of(answer) == "upstream_timeout"
    assert "127.0.0.1" in answer.json()["error"]["message"]
    assert answer.headers["x-memproxy-request-id"]
    assert answer.headers["x-memproxy-session"]


async def test_a_body_over_the_limit_is_a_413(running: Running, upstream: ScriptedUpstream) -> None:
    async with running(server={"max_body_bytes": 1000}) as relay:

        async def parts() -> AsyncIterator[bytes]:
            for _ in range(20):
                yield b"x" * 100

        for content in (b"x" * 2000, parts()):
            answer = await relay.client.post("/v1/chat/completions", content=content)
            assert answer.status_code == 413
            assert code_of(answer) == "body_too_large"
            assert "max_body_bytes" in answer.json()["error"]["message"]
        assert (await relay.chat("x" * 800)).status_code == 200
    upstream.received.pop()
    assert upstream.received == []


async def test_too_many_requests_at_once_are_told_to_come_back(running: Running, upstream: ScriptedUpstream) -> None:
    async with running(server={"max_concurrent_requests": 1}) as relay:
        hold = asyncio.Event()
        upstream.script(Answer([b"{}"], wait=hold))
        first = asyncio.get_running_loop().create_task(relay.client.get("/v1/models"))
        await eventually(lambda: upstream.received, what="the upstream is asked")
        second = await relay.chat("One more please")
        healthy = await relay.client.get("/healthz")
        written = await relay.client.post("/healthz")
        hold.set()
        assert (await first).status_code == 200
    assert (second.status_code, second.headers["retry-after"]) == (503, "1")
    assert code_of(second)
    assert healthy.status_code == 200
    assert (written.status_code, written.headers["allow"]) == (405, "GET, HEAD")


async def test_a_configured_key_replaces_the_clients_and_the_clients_still_identifies(
    upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path
) -> None:
    section = {"base_url": upstream.base_url, "api_key": "sk-ours"}
    async with running_relay("http://placeholder/v1", state, tmp_path, upstream=section) as relay:
        await relay.chat("my question", headers={"authorization": "Bearer sk-client", "api-key": "other"})
        assert upstream.last.all("authorization") == ["Bearer sk-ours"]
        assert upstream.last.header("api-key") is None
        assert relay.engine.asked[0].scope.tenant.startswith("key:")


async def test_websockets_get_a_501_and_no_operator_is_told_to_install_something(
    relay: Rig, caplog: pytest.LogCaptureFixture
) -> None:
    headers = {"connection": "upgrade", "upgrade": "websocket", "sec-websocket-version": "13"}
    answer = await relay.client.get("/v1/realtime", headers=headers)
    assert answer.status_code == 501
    assert "WebSocket library" not in caplog.text


@pytest.mark.parametrize("path", ["/", "/nothing", "/v1", "/v2/models", "/internal/recall", "/v1x/models"])
async def test_paths_outside_the_api_are_a_404_of_ours(relay: Rig, upstream: ScriptedUpstream, path: str) -> None:
    for method in ("GET", "POST"):
        answer = await relay.client.request(method, path)
        assert answer.status_code == 404
        assert code_of(answer)
    assert answer.json()["error"]["type"] == "not_found_error"
    assert upstream.received == []


async def test_memory_calls_reach_the_engine_with_an_identity_of_ours_alone(relay: Rig) -> None:
    forged = json.dumps({"tenant": "somebody-else"})
    await relay.client.get(
        "/v1/memory?limit=3",
        headers={"X-Memproxy-User": "ada", "authorization": "Bearer sk-1", IDENTITY_HEADER: forged},
    )
    ((method, path, headers, _),) = relay.engine.api_calls
    assert (method, path) == ("GET", "/v1/memory?limit=3")
    lowered = {name.lower(): value for name, value in headers.items()}
    identity = json.loads(lowered[IDENTITY_HEADER])
    assert identity["tenant"].startswith("key:")
    assert identity["named_user"] == "ada"
    assert "authorization" not in lowered
    assert relay.engine.captured == []


async def test_a_memory_call_whose_user_header_is_empty_is_refused_by_its_name(relay: Rig) -> None:
    answer = await relay.client.get("/v1/memory", headers={"X-Memproxy-User": "", "authorization": "Bearer sk-1"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "X-Memproxy-User")
    assert relay.engine.api_calls == []


@pytest.mark.parametrize(("version", "status"), [("1.1", 400), ("1.0", 200)])
async def test_a_request_of_http_1_1_without_a_host_is_refused(relay: Rig, version: str, status: int) -> None:
    answer = await exchanged(relay, f"GET /healthz HTTP/{version}\r\nConnection: close\r\n\r\n".encode())
    assert int(answer.split()[1]) == status


async def test_ingested_turns_are_learned_from_with_the_key_that_brought_them(relay: Rig) -> None:
    said = {"session_id": "s", "messages": [{"role": "user", "content": "My parrot is named Rio."}]}
    await relay.client.post("/v1/memory/turns?wait=true", json=said, headers={"authorization": "Bearer sk-1"})
    (told,) = await eventually(lambda: relay.engine.captured)
    assert told.access is not None
    assert (told.access.api_key, told.access.model) == ("sk-1", "")
    assert told.scope.tenant.startswith("key:")


@pytest.mark.parametrize(
    ("path", "learns"),
    [
        ("/v1/memory/turns?wait=true", True),
        ("/v1/memory/sessions/one%2Ftwo/end", True),
        ("/v1/memory/sessions/one/mine", True),
        ("/v1/memory/sessions%2Fone%2Fend", False),
        ("/v1/memory/sessions/one%2Fend", False),
        ("/v1/memory/sessions/one/end/more", False),
    ],
)
async def test_a_call_that_learns_is_known_by_its_path_as_it_was_sent(relay: Rig, path: str, learns: bool) -> None:
    await relay.client.post(path, json={}, headers={"authorization": "Bearer sk-1"})
    await relay.app.stop()  # what the engine is to be told, it has been told
    assert len(relay.engine.captured) == learns


@pytest.mark.parametrize("path", ["/v1/memory", "/v1/chat/completions", "/v1/models", "/healthz"])
async def test_a_foreign_host_or_origin_is_refused_everywhere(
    relay: Rig, upstream: ScriptedUpstream, path: str
) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}):
        answer = await relay.client.post(path, json={}, headers=headers)
        assert answer.status_code == 403
        assert "server." in answer.json()["error"]["message"]
    assert upstream.received == []
    assert relay.engine.api_calls == []


async def test_an_allowed_origin_may_call_and_read(running: Running, upstream: ScriptedUpstream) -> None:
    section = {"cors_origins": ["https://app.example"]}
    upstream.default = lambda _: json_answer({}, 405)
    async with running(server=section) as relay:
        headers = {"origin": "https://app.example", "access-control-request-headers": "content-type"}
        paths = ("/v1/memory", "/v1/chat/completions", "/v1/models")
        preflights = [await relay.client.options(path, headers=headers) for path in paths]
        answer = await relay.client.get("/v1/memory", headers=headers)
    assert [one.status_code for one in preflights] == [204, 204, 204]
    assert answer.headers["access-control-allow-origin"] == "https://app.example"


async def test_its_own_page_may_call(relay: Rig) -> None:
    answer = await relay.client.get("/v1/memory", headers={"origin": relay.base_url})
    assert answer.status_code == 200


async def test_an_answer_that_breaks_off_closes_the_connection_without_ending_it(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.script(
        Answer([b'{"half":'], headers=[("content-type", "application/json"), ("content-length", "100")], cut=True)
    )
    with pytest.raises(httpx.RemoteProtocolError):
        await relay.client.get("/v1/models")


async def test_readiness_shows_each_part(relay: Rig) -> None:
    answer = await relay.client.get("/readyz")
    told = answer.json()
    assert (told["status"], told["parts"]) == ("ready", {"relay": "ready", "engine": "ready", "store": "ready"})


async def test_while_draining_open_requests_end_and_new_ones_are_told_so(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    hold = asyncio.Event()
    upstream.script(Answer([b"{}"], wait=hold))
    loop = asyncio.get_running_loop()
    opened = loop.create_task(relay.client.get("/v1/models"))
    await eventually(lambda: upstream.received, what="the upstream is asked")
    draining = loop.create_task(relay.app.drain(60))
    await asyncio.sleep(0)
    ready = await relay.client.get("/readyz")
    refused = await relay.client.get("/v1/models")
    assert (ready.status_code, refused.status_code) == (503, 503)
    assert refused.json()["error"]["code"] == "draining"
    assert not draining.done()
    hold.set()
    assert (await opened).status_code == 200
    await draining


@pytest.mark.parametrize(
    "kind", [NotFound, Overloaded, RequestError, TooManyRequests, Unauthenticated, UpstreamTimeout]
)
def test_an_error_is_shaped_as_openais(kind: type[MemproxyError]) -> None:
    status, headers, body = error_response(kind("What happened: ü.", param="user", code="why"))
    assert status == kind.status
    assert json.loads(body) == {
        "error": {"message": "What happened: ü.", "type": kind.kind, "param": "user", "code": "why"}
    }
    assert dict(headers)[b"content-length"] == str(len(body)).encode()
    assert dict(headers)[b"content-type"] == b"application/json"


@pytest.mark.parametrize("kind", [Overloaded, TooManyRequests])
def test_a_limit_says_when_to_come_again(kind: type[MemproxyError]) -> None:
    assert dict(error_response(kind("Too much."))[1])[b"retry-after"] == b"1"


def test_a_missing_identity_says_how_to_give_one() -> None:
    assert dict(error_response(Unauthenticated("Who?"))[1])[b"www-authenticate"] == b"Bearer"
