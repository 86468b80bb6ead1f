"""Fuzz the reading of event streams: ``python -m tests.fuzz sse --seconds 60``."""

from typing import Any

from memproxy.wire.chat import ChatAnswer
from memproxy.wire.hold import LengthHolder, TailHolder
from memproxy.wire.responses import ResponsesAnswer
from memproxy.wire.sse import SseParser
from tests.fuzz.reading import events_of

SEEDS = (
    b"\x84" + bytes(range(40)),
    b"\x00data: {}\n\ndata: [DONE]\n\n",
    b"\x07\xef\xbb\xbfdata: x\r\n\r\nevent: ping\rdata:\r\r: c\n\n",
    (
        b'\x0bdata: {"choices":[{"index":0,"delta":{"content":"a\\ud83d"},"finish_reason":null}]}\n\n'
        b'data: {"choices":[{"index":0,"delta":{"content":[{"type":"text","text":"b"}]},"finish_reason":"stop"}]}\n\n'
    ),
    (
        b'\x05event: response.completed\ndata: {"type":"response.completed","response":{"id":"r","status":"completed",'
        b'"output":[{"type":"message","content":[{"type":"output_text","text":"a"}]}],"usage":{"input_tokens":1}}}\n\n'
    ),
    b'\x03data: {"type":"response.output_text.delta","delta":"a"}\n\ndata: {"error":{"message":"x"}}\n\n',
)
WORDS = (
    b"data: ", b"data:", b"event: ", b"\n\n", b"\r\n", b"\r", b"[DONE]", b"data: [DONE]", b": ", b"\xef\xbb\xbf",
    b'"choices"', b'"delta"', b'"message"', b'"content"', b'"index"', b'"finish_reason"', b'"tool_calls"', b'"usage"',
    b'"error"', b'"type"', b'"response"', b'"output"', b"response.output_text.delta", b"response.completed", b"null",
    b"1e999", b"{", b"}", b"[", b"]", b":", b",", b" ", b"data", b"event: error",
    b'data: {"choices":[{"delta":{"content":"a"}}]}', b'{"type":"response.output_text.delta","delta":"', b'"}',
    b"\\ud800", b'"text"',
)  # fmt: skip


def check(data: bytes) -> None:
    """The first byte says how the rest is cut; whatever is read is the same however it is cut. From 128 on the rest
    chooses words instead of being the stream.

    Raises:
        AssertionError: something is read wrongly.
    """
    first, stream = (data[0] if data else 0), data[1:]
    step = first % 128 + 1
    if first >= 128:
        stream = b"".join(WORDS[choice % len(WORDS)] for choice in stream)
    pieces = [stream[start : start + step] for start in range(0, len(stream), step)]
    for cut in (pieces, [stream]):
        parser = SseParser()
        found = [tuple(event) for piece in cut for event in parser.feed(piece)]
        found += [tuple(event) for event in parser.close()]
        assert found == events_of(stream), (found, events_of(stream))
    for kind in (ChatAnswer, ResponsesAnswer):
        assert _read(kind(streamed=True), pieces) == _read(kind(streamed=True), [stream])
    _check_holder(pieces, stream)
    _check_length(pieces, stream)


def _read(answer: Any, pieces: list[bytes]) -> tuple[Any, ...]:
    for piece in pieces:
        answer.feed(piece)
    answer.finish()
    answer.text.encode()
    return (
        answer.text,
        answer.complete,
        answer.done,
        answer.error,
        answer.finish_reason,
        answer.model,
        answer.response_id,
        answer.usage,
    )


def _check_holder(pieces: list[bytes], stream: bytes) -> None:
    holder, answer, sent = TailHolder(), ChatAnswer(streamed=True), b""
    for piece in pieces:
        answer.feed(piece)
        sent += holder.feed(piece)
    assert b"\ndata: [DONE]" not in sent
    assert b"\rdata:[DONE]" not in sent
    assert sent + holder.release() == stream


def _check_length(pieces: list[bytes], stream: bytes) -> None:
    holder = LengthHolder(len(stream))
    sent = b"".join(map(holder.feed, pieces))
    assert len(sent) == max(0, len(stream) - 1)
    assert sent + holder.release() == stream
