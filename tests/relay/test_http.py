"""HTTP as odd but honest clients speak it, on bare sockets."""

import asyncio
import json

import pytest

from memproxy.serve.server import MOST_HEADER_BYTES
from tests.relay.rig import Rig, Running, connection
from tests.support.answers import Answer, chat_events, completion, stream
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S

BODY = b'{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}'
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n" % (len(BODY), BODY)
LAST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def exchanged(relay: Rig, sent: bytes) -> bytes:
    """All that comes for these bytes until the relay closes the connection."""
    async with connection(relay.port, sent) as (reader, _), asyncio.timeout(LONGEST_S):
        return await reader.read()


async def test_an_http_1_0_client_gets_a_stream_without_chunks_that_ends_with_its_connection(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    events = chat_events("Ten", " euros")
    upstream.script(stream(events))
    answer = await exchanged(relay, HEAD.replace(b"1.1", b"1.0") + LENGTH + b"\r\n" + BODY)
    head, _, got = answer.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower()
    assert got == b"".join(events)


async def test_trailers_of_an_upload_are_no_headers_of_the_request(relay: Rig, upstream: ScriptedUpstream) -> None:
    got = await exchanged(relay, CHUNKED + b"X-Memproxy-User: ben\r\nX-Late: 1\r\n\r\n" + LAST)
    assert got.count(b"HTTP/1.1 200 OK") == 2
    assert upstream.last.header("x-late") is None
    assert [asked.scope.user for asked in relay.engine.asked] == ["default"]


async def test_an_offer_of_another_protocol_is_declined_and_its_body_read(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    upstream.default = lambda _received: completion("Ten.")
    got = await exchanged(relay, HEAD + offer + LENGTH + b"\r\n" + BODY + LAST)
    assert got.count(b"HTTP/1.1 200 OK") == 2
    assert upstream.last.json["model"] == "m"
    assert upstream.last.header("http2-settings") is None


async def test_a_client_that_sends_all_of_too_large_a_body_before_it_reads_gets_its_answer(running: Running) -> None:
    size = 20_000_000
    sent = HEAD + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
    async with running(server={"max_body_bytes": 1000}) as relay:
        got = await exchanged(relay, sent)
    assert got.startswith(b"HTTP/1.1 413 ")
    assert got.count(b"body_too_large") == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01 no http\r\n\r\n", b"400"),
        (b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com\r\n\r\n", b"400"),
        (HEAD + b"X-Long: " + b"x" * MOST_HEADER_BYTES, b"431"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nno length\r\n", b"400"),
        (HEAD + b"Transfer-Encoding: unheard-of\r\n\r\n", b"400"),
    ],
)
async def test_what_is_no_request_is_refused_in_words_of_ours_and_closed(
    relay: Rig, upstream: ScriptedUpstream, sent: bytes, status: bytes
) -> None:
    head, _, body = (await exchanged(relay, sent)).partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == status
    assert json.loads(body)["error"]["type"] == "invalid_request_error"
    assert b"\r\nx-memproxy-request-id: req_" in head
    assert upstream.received == []


@pytest.mark.parametrize(
    ("target", "named", "status"),
    [
        (b"http://localhost/healthz", b"localhost", b"200"),
        (b"http://localhost:80/healthz", b"LOCALHOST", b"200"),
        (b"http://localhost:8787/healthz?a=1", b"localhost:8787", b"200"),
        (b"http://[::1]:8787/healthz", b"[::1]:8787", b"200"),
        (b"http://localhost", b"localhost", b"404"),
        (b"http://evil.example/healthz", b"evil.example", b"403"),
        (b"http://localhost/healthz", b"evil.example", b"400"),
        (b"http://evil.example/healthz", b"localhost", b"400"),
        (b"http://localhost:8787/healthz", b"localhost", b"400"),
        (b"http://localhost@evil.example/healthz", b"evil.example", b"400"),
        (b"http://evil.example@localhost/healthz", b"localhost", b"400"),
        (b"http://localhost:0/healthz", b"localhost:0", b"400"),
    ],
)
async def test_a_target_that_is_a_whole_address_names_the_host_that_the_header_names(
    relay: Rig, target: bytes, named: bytes, status: bytes
) -> None:
    got = await exchanged(relay, b"GET %b HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % (target, named))
    assert got.split(b" ")[1] == status


async def test_a_target_that_is_a_whole_address_goes_upstream_as_its_path(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.script(completion("Ten."))
    sent = HEAD.replace(b"/v1", b"http://localhost/v1").replace(b"completions ", b"completions?beta=true ")
    got = await exchanged(relay, sent + b"Connection: close\r\n" + LENGTH + b"\r\n" + BODY)
    assert got.startswith(b"HTTP/1.1 200 ")
    assert upstream.last.target == "/v1/chat/completions?beta=true"


async def test_a_connection_goes_on_after_an_answer_without_the_body_that_its_length_tells_of(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.script(Answer(status=304, headers=[("etag", '"1"'), ("content-length", "555")]))
    got = await exchanged(relay, HEAD.replace(b"POST /v1/chat/completions", b"GET /v1/models") + b"\r\n" + LAST)
    assert got.startswith(b"HTTP/1.1 304 Not Modified\r\netag: ")
    assert b'{"status":"ok"}' in got


async def test_control_characters_in_a_header_of_the_upstream_reach_the_client(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.script(Answer([b"{}"], headers=[("x-error", "a \x1b[31mred\x7f\x01 word")]))
    got = await exchanged(relay, HEAD + b"Connection: close\r\n" + LENGTH + b"\r\n" + BODY)
    assert got.startswith(b"HTTP/1.1 200 OK\r\nx-error: a \x1b[31mred\x7f\x01 word\r\n")


async def test_pipelined_requests_are_answered_in_order(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.script(completion("first"), completion("second"))
    got = await exchanged(relay, (HEAD + LENGTH + b"\r\n" + BODY) * 2 + LAST)
    assert 0 < got.index(b"first") < got.index(b"second") < got.index(b'{"status":"ok"}')


async def test_a_connection_goes_on_after_a_request_that_was_refused(relay: Rig) -> None:
    bad = HEAD + b"Content-Length: %d\r\nX-Memproxy-Memory: maybe\r\n\r\n" % len(BODY) + BODY
    got = await exchanged(relay, bad + LAST)
    assert (got.count(b"HTTP/1.1 400"), got.count(b"HTTP/1.1 200")) == (1, 1)
    assert got.count(b"x-memproxy-request-id: req_") == 2
