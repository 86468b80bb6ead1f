"""An answer's end, however it is written, is not shown before its turn is in the journal; oddities break no answer."""

from typing import cast

import pytest

from memproxy.relay.stream import Keep, Tap
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


@pytest.mark.parametrize("mark", [b"data: [DONE]\n\n", b"data:  [DONE]\n\n", b"data:\t[DONE] \r\r: bye\r\r"])
@pytest.mark.parametrize("with_length", [False, True])
@pytest.mark.parametrize("step", [1, 1000])
def test_the_end_mark_waits_for_the_journal_however_it_is_written(mark: bytes, with_length: bool, step: int) -> None:
    body = b"".join(chat_events("Ten", " thousand.")[:-1]) + mark
    length = {"content_length": str(len(body))} if with_length else {}
    answer = cast("UpstreamAnswer", Head(content_type="text/event-stream", **length))
    tap = Tap(answer, CHAT, "req_1", cast("Keep", None))
    sent = b""
    for start in range(0, len(body), step):
        sent += tap.feed(body[start : start + step])
        if tap.done:
            break
    assert tap.done
    assert not shows_end(sent)


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
