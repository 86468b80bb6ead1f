"""Answers and requests of every shape that providers and clients have: relayed byte for byte, captured as said."""

import gzip
import json
from typing import Any

import pytest

from memproxy.relay.bodies import COMPRESS
from memproxy.stores.sqlite_state import SqliteState
from memproxy.wire.encoding import BodyDecoder
from tests.relay.rig import Rig, Running, journalled
from tests.support.answers import DONE, Answer, chat_events, chunk, completion, json_answer, stream
from tests.support.upstream import ScriptedUpstream

BODY = {"model": "m", "messages": [{"role": "user", "content": "What is my budget?"}], "stream": True}


async def answers(state: SqliteState) -> list[str]:
    """What assistants were captured to have said."""
    said = [message for _, body in await journalled(state) for message in body.messages]
    return [message.content for message in said if message.role == "assistant"]


def event(value: Any) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def choices(*deltas: tuple[int, str], **more: Any) -> bytes:
    return event({"choices": [{"index": index, "delta": {"content": text}, **more} for index, text in deltas]})


STOP = chunk({}, "stop")
LOGPROBS: dict[str, Any] = {
    "content": [{"token": "Ten", "logprob": -0.1, "bytes": None, "top_logprobs": []}],
    "refusal": None,
}
STREAMS: dict[str, tuple[list[bytes], list[str]]] = {
    "several choices": ([choices((0, "Ten "), (1, "No")), choices((1, "ne"), (0, "thousand.")), STOP, DONE],
                        ["Ten thousand."]),
    "logprobs": ([choices((0, "Ten"), logprobs=LOGPROBS), STOP, DONE], ["Ten"]),
    "reasoning": ([chunk({"reasoning_content": "Hm."}), chunk({"reasoning": "Hm."}),
                   chunk({"reasoning_details": [{"type": "reasoning.text", "text": "Hm."}]}),
                   chunk({"content": "Ten."}), STOP, DONE], ["Ten."]),
    "a refusal": ([chunk({"refusal": "I will not."}), STOP, DONE], []),
    "a legacy function call": ([chunk({"function_call": {"name": "look_up", "arguments": "{}"}}),
                                chunk({}, "function_call"), DONE], []),
    "parallel tool calls": ([chunk({"tool_calls": [{"index": number, "id": f"c{number}", "type": "function",
                                                    "function": {"name": "f", "arguments": "{}"}}]})
                             for number in range(2)] + [chunk({}, "tool_calls"), DONE], []),
    "usage and comments": ([b": OPENROUTER PROCESSING\n\n", b"id: 7\nretry: 10\n", chunk({"content": "Ten."}), STOP,
                            event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}), DONE],
                           ["Ten."]),
    "several data lines": ([b'data: {"choices":\ndata: [{"index": 0, "delta": {"content": "Ten."}}]}\n\n', STOP, DONE],
                           ["Ten."]),
    "line ends of another kind": ([part.replace(b"\n", b"\r\n") for part in chat_events("Ten", ".")], ["Ten."]),
    "every byte for itself": ([bytes([byte]) for byte in b"".join(chat_events("Ten", "."))], ["Ten."]),
    "all at once": ([b"".join(chat_events("Ten", "."))], ["Ten."]),
    "unknown fields": ([b'event: x\nid: 7\ndata: {"choices":[],"new":{"n":1.0}}\n\n', DONE], []),
    "no JSON": ([b"data: oops\n\n", DONE], []),
    "a letter cut in two": ([b'data: {"choices":[{"index":0,"delta":{"content":"\xc3', b'\xa9"}}]}\n\n', STOP, DONE],
                            ["é"]),
    "no end mark": ([chunk({"content": "Ten."}), STOP], ["Ten."]),
    "a last chunk without a line's end": ([chunk({"content": "Ten."}), STOP.rstrip(b"\n")], ["Ten."]),
    "an error in the middle": ([chunk({"content": "Te"}), event({"error": {"message": "overloaded", "code": 529}}),
                                DONE], []),
    "an error event": ([chunk({"content": "Te"}), b'event: error\ndata: {"type": "error"}\n\n'], []),
    "one chunk of 10 MB": ([chunk({"content": "Ten. " + "x" * 10_000_000}), STOP, DONE], ["x" * 100]),
    "a chunk of 10 MB that is no text": ([b": " + b"x" * 10_000_000 + b"\n\n", chunk({"content": "Ten."}), STOP, DONE],
                                         ["Ten."]),
}  # fmt: skip


@pytest.mark.parametrize("name", STREAMS)
async def test_a_stream_of_any_shape_passes_byte_for_byte_and_is_captured_as_said(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, name: str
) -> None:
    parts, said = STREAMS[name]
    upstream.script(stream(parts))
    answer = await relay.client.post("/v1/chat/completions", json=BODY)
    assert answer.headers["x-memproxy-recall"] == "injected"
    assert answer.content == b"".join(parts)
    found = await answers(state)
    assert len(found) == len(said)
    assert all(words in text for words, text in zip(said, found, strict=True))


@pytest.mark.parametrize("kind", [[], [("content-type", "text/plain; charset=utf-8")]])
async def test_a_stream_that_was_asked_for_is_captured_whatever_it_is_called(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, kind: list[tuple[str, str]]
) -> None:
    events = chat_events("Ten", " thousand.")
    upstream.script(Answer(events, headers=kind, framing="chunked"))
    answer = await relay.client.post("/v1/chat/completions", json=BODY)
    assert answer.content == b"".join(events)
    assert await answers(state) == ["Ten thousand."]


WHOLE = {
    "reasoning": completion("Ten.", reasoning_content="Hm.", reasoning="Hm."),
    "a refusal": completion("", refusal="I will not."),
    "10 MB": completion("Ten. " + "x" * 10_000_000),
}


@pytest.mark.parametrize("name", WHOLE)
async def test_a_whole_answer_of_any_shape_passes_byte_for_byte(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, name: str
) -> None:
    upstream.script(WHOLE[name])
    answer = await relay.client.post("/v1/chat/completions", json={**BODY, "stream": False})
    assert [answer.content] == list(WHOLE[name].parts)
    assert [text[:4] for text in await answers(state)] == ([] if name == "a refusal" else ["Ten."])


async def post_compressed(relay: Rig, body: bytes, encoding: str, **headers: str) -> str:
    """What memory did with a request that is compressed."""
    return (await relay.post(body, content_encoding=encoding, **headers)).headers["x-memproxy-recall"]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
async def test_a_compressed_request_carries_memory_and_nothing_of_ours_and_goes_on_compressed(
    relay: Rig, upstream: ScriptedUpstream, encoding: str
) -> None:
    upstream.default = lambda _received: completion("Ten.")
    plain = json.dumps({**BODY, "stream": False, "memory_context": {"user_id": "ann"}}).encode()
    told = await post_compressed(relay, COMPRESS[encoding](plain), encoding)
    off = await post_compressed(relay, COMPRESS[encoding](plain), encoding, **{"x-memproxy-memory": "off"})
    assert (told, off) == ("injected", "off")
    assert relay.engine.asked[-1].scope.user == "ann"
    bodies = [json.loads(BodyDecoder(encoding).feed(received.body)) for received in upstream.received]
    assert ["memory_context" in body for body in bodies] == [False, False]
    assert ["recalled-memory" in str(body["messages"]) for body in bodies] == [True, False]
    assert {received.header("content-encoding") for received in upstream.received} == {encoding}


@pytest.mark.parametrize("encoding", ["gzip", "gzip, br", "compress"])
async def test_a_compressed_request_that_is_not_changed_or_not_known_goes_on_byte_for_byte(
    relay: Rig, upstream: ScriptedUpstream, encoding: str
) -> None:
    upstream.script(completion("Ten."))
    body = gzip.compress(json.dumps({**BODY, "stream": False}).encode())
    told = await post_compressed(relay, body, encoding, **{"x-memproxy-memory": "write"})
    assert told == ("off; reason=write" if encoding == "gzip" else "skipped; reason=unreadable")
    assert (upstream.last.body, upstream.last.header("content-encoding")) == (body, encoding)


@pytest.mark.parametrize("accepted", ["br, gzip;q=0.5", "identity", "zstd"])
async def test_the_upstream_is_told_what_encodings_the_client_takes(
    relay: Rig, upstream: ScriptedUpstream, accepted: str
) -> None:
    await relay.chat("What is my budget?", headers={"accept-encoding": accepted})
    assert upstream.last.all("accept-encoding") == [accepted]


async def test_headers_that_come_twice_arrive_twice_and_in_order(relay: Rig, upstream: ScriptedUpstream) -> None:
    own = [("x-ratelimit-remaining", "7"), ("Set-Cookie", "a=1"), ("x-trace", "1"), ("Set-Cookie", "b=2")]
    upstream.script(json_answer({"data": []}, headers=own), json_answer({}, headers=own))
    for answer in (await relay.client.get("/v1/models"), await relay.chat("Hello!")):
        received = [(name, value) for name, value in answer.headers.raw if name in (b"set-cookie", b"x-trace")]
        assert received == [(b"set-cookie", b"a=1"), (b"x-trace", b"1"), (b"set-cookie", b"b=2")]
        assert answer.headers["x-ratelimit-remaining"] == "7"


@pytest.mark.parametrize("path", ["models", "embeddings", "chat/completions"])
async def test_header_values_of_any_encoding_pass_both_ways_as_the_bytes_that_they_are(
    relay: Rig, upstream: ScriptedUpstream, path: str
) -> None:
    values = ["J\u00fcrgen".encode(), "J\u00fcrgen".encode("latin-1"), b"<%b>" % bytes(range(0x80, 0x100)), b"plain"]
    own = [("x-own", value.decode("latin-1")) for value in values]
    body = b"" if path == "models" else b'{"input": "%b"}' % (b"x" * 100_000)
    upstream.script(json_answer({}, headers=own), json_answer({}, headers=own))
    for _ in range(2):  # one connection serves both
        asked = [(b"x-own", value) for value in values]
        answer = await relay.client.request("POST" if body else "GET", f"/v1/{path}", content=body, headers=asked)
        assert upstream.last.all("x-own") == [value for _, value in own]
        assert upstream.last.body == body
        assert [value for name, value in answer.headers.raw if name == b"x-own"] == values
    assert upstream.connections == 1


async def test_cross_origin_questions_are_answered_by_the_upstream(
    running: Running, upstream: ScriptedUpstream
) -> None:
    told = [("access-control-allow-origin", "https://app.example"), ("access-control-max-age", "600")]
    section = {"cors_origins": ["https://app.example"]}
    async with running(server=section) as relay:
        upstream.script(Answer([], 204, told))
        asked = {"origin": "https://app.example", "access-control-request-method": "POST"}
        answer = await relay.client.options("/v1/chat/completions", headers=asked)
    *theirs, ours = answer.headers.raw
    assert (answer.status_code, theirs) == (204, [(k.encode(), v.encode()) for k, v in told])
    assert ours[0] == b"x-memproxy-request-id"
    assert (upstream.last.method, upstream.last.header("access-control-request-method")) == ("OPTIONS", "POST")


async def test_parts_of_a_file_are_asked_for_and_answered_as_such(relay: Rig, upstream: ScriptedUpstream) -> None:
    parts = [("content-type", "audio/mpeg"), ("content-range", "bytes 2-5/10"), ("accept-ranges", "bytes")]
    upstream.script(Answer([b"\xff\x00ab"], 206, parts))
    answer = await relay.client.get("/v1/files/f/content", headers={"range": "bytes=2-5", "if-range": '"tag"'})
    assert (upstream.last.header("range"), upstream.last.header("if-range")) == ("bytes=2-5", '"tag"')
    assert (answer.status_code, answer.content) == (206, b"\xff\x00ab")
    assert answer.headers["content-range"] == "bytes 2-5/10"
