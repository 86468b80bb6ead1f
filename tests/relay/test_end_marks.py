"""An answer's end, however it is written, is not shown before its turn is in the journal; oddities break no answer."""

import asyncio
import gzip
import json
from collections.abc import Mapping
from typing import cast

import pytest

from memproxy.relay.stream import MOST_HELD, READ_AT_ONCE, Copies, Keep, Tap
from memproxy.relay.upstream import UpstreamAnswer
from memproxy.wire.format import CHAT
from tests.fuzz.reading import shows_end
from tests.relay.rig import Rig
from tests.support.answers import Answer, chat_events, chunk, stream
from tests.support.upstream import ScriptedUpstream

BODY = {"model": "m", "messages": [{"role": "user", "content": "What is my budget?"}], "stream": True}


class Head:
    """The headers of an answer."""

    def __init__(self, **headers: str) -> None:
        self._headers = headers

    def header(self, name: str) -> str | None:
        return self._headers.get(name.replace("-", "_"))

    is_stream = UpstreamAnswer.is_stream


@pytest.mark.parametrize("mark", [b"data: [DONE]\n\n", b"data:  [DONE]\n\n", b"data:\t[DONE] \r\r: bye\r\r"])
@pytest.mark.parametrize("with_length", [False, True])
@pytest.mark.parametrize("step", [1, 1000])
async def test_the_end_mark_waits_for_the_journal_however_it_is_written(
    mark: bytes, with_length: bool, step: int
) -> None:
    body = b"".join(chat_events("Ten", " thousand.")[:-1]) + mark
    length = {"content_length": str(len(body))} if with_length else {}
    tap = tapped(length)
    sent = b""
    for start in range(0, len(body), step):
        sent += await tap.feed(body[start : start + step])
        if tap.done:
            break
    assert tap.done
    assert not shows_end(sent)


def tapped(headers: Mapping[str, str] | None = None, keep: object = None, copies: Copies | None = None) -> Tap:
    """What looks at an answer with these headers."""
    answer = cast("UpstreamAnswer", Head(**{"content_type": "text/event-stream", **(headers or {})}))
    return Tap(answer, CHAT, "req_1", cast("Keep", keep), copies=copies or Copies())


NO_END = [b"data: [DONE] not yet\n\n", b"data: [DONE]\ndata: x\n\n", b"data: [DONE]]\r\r"]


@pytest.mark.parametrize("mark", NO_END)
@pytest.mark.parametrize("with_length", [False, True])
@pytest.mark.parametrize("step", [1, 7, 100])
async def test_what_only_looks_like_the_end_mark_holds_nothing_up(mark: bytes, with_length: bool, step: int) -> None:
    begun = chunk({"content": "Ten"}) + mark + chunk({"content": " thousand."})
    body = begun + b"".join(chat_events("!"))
    tap = tapped({"content_length": str(len(body))} if with_length else {})
    sent = b""
    for start in range(0, len(body), step):
        sent += await tap.feed(body[start : start + step])
        if start + step <= len(begun):
            assert len(sent) >= start - len(mark), "it passes as it comes"
        if tap.done:
            break
    assert tap.done
    assert not shows_end(sent.replace(mark, b""))
    assert sent.startswith(begun)


async def test_an_answer_that_goes_on_behind_such_a_line_arrives_as_it_comes(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    seen, got = asyncio.Event(), b""
    begun = [chunk({"content": "Ten"}), NO_END[0], chunk({"content": " thousand."})]
    upstream.script(stream([*begun, seen, *chat_events("!")]))
    async with relay.client.stream("POST", "/v1/chat/completions", json=BODY) as answer:
        async for part in answer.aiter_raw():
            got += part
            if b" thousand." in got:
                seen.set()  # until then the upstream says nothing more
    assert got == b"".join(begun + chat_events("!"))


async def test_marks_that_are_taken_back_again_and_again_are_not_kept_in_memory() -> None:
    tap, sent = tapped(), 0
    for number in range(1, 200):
        sent += len(await tap.feed(b" no\n\n" + chunk({"content": "x" * 10_000}) + b"data: [DONE]"))
        assert number * 10_000 - sent < 2 * MOST_HELD


async def test_reading_a_large_packed_answer_lets_others_go_on() -> None:
    """Blank lines cost most: each is looked at. The answer comes in one piece of 10 KB."""
    turns, reading = 0, True

    async def others() -> None:
        nonlocal turns
        while reading:
            turns += 1
            await asyncio.sleep(0)

    tap, size = tapped({"content_encoding": "gzip"}), 4_000_000
    packed = gzip.compress(b"\n" * size)
    async with asyncio.TaskGroup() as both:
        both.create_task(others())
        await tap.feed(packed + bytes(size // 100))  # padding, so that it is not too much for its bytes
        reading = False
    assert turns >= size // READ_AT_ONCE


async def test_an_answer_for_which_there_is_no_room_in_memory_is_not_captured() -> None:
    kept: list[object] = []

    async def keep(answer: object) -> None:
        kept.append(answer)

    copies = Copies(most_bytes=1_000_000)
    first, second, third = (tapped({"content_type": "application/json"}, keep, copies) for _ in range(3))
    body = json.dumps({"choices": [{"message": {"content": "x" * 700_000}}]}).encode()
    assert await first.feed(body) == body
    assert await second.feed(body) == body, "it is relayed all the same"
    await second.finish()
    assert kept == []
    await first.finish()
    first.close()
    second.close()
    assert (len(kept), copies.bytes) == (1, 0)
    await third.feed(body)
    await third.finish()
    assert len(kept) == 2


async def test_an_upstream_that_switches_to_another_protocol_is_an_error(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.script(
        Answer([b"raw"], status=101, headers=[("upgrade", "raw"), ("connection", "upgrade")], framing="close")
    )
    answer = await relay.client.post("/v1/chat/completions", json=BODY)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_unreachable")


async def test_a_part_of_a_strange_shape_passes_in_the_middle_of_a_stream(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    parts = [chunk({"content": [{"type": {}, "text": 1}]}), *chat_events("Ten.")]
    upstream.script(stream(parts))
    answer = await relay.client.post("/v1/chat/completions", json=BODY)
    assert (answer.status_code, answer.content) == (200, b"".join(parts))


async def test_items_that_no_machine_can_hold_are_relayed(relay: Rig, upstream: ScriptedUpstream) -> None:
    body = b'{"model":"m","input":[["x",1E+999],{"role":"user","content":"What is my budget?"}]}'
    upstream.script(Answer([b"{}"]))
    headers = {"content-type": "application/json", "x-memproxy-memory": "write"}  # nothing is injected
    answer = await relay.client.post("/v1/responses", content=body, headers=headers)
    assert (answer.status_code, upstream.last.body) == (200, body)
