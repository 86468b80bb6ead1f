import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.hold import LengthHolder, TailHolder
from tests.wire.strategies import splits

PIECES = st.sampled_from(
    [
        b"data: [DONE]",
        b"data:[DONE]",
        b"data:  [DONE]",
        b"data: [DONE",
        b" data: [DONE]",
        b"xdata: [DONE]",
        b"data: {}",
        b'data: {"content":"data: [DONE]"}',
        b"data: ",
        b"da",
        b"[DONE]",
        b": comment",
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
    ]
)
STREAMS = st.lists(PIECES, max_size=10).map(b"".join)


def end_of(stream: bytes) -> int:
    """Where the end mark's line begins, else the stream's length."""
    found = re.search(rb"(?:\A|(?<=[\r\n]))data: ?\[DONE\]", stream)
    return found.start() if found else len(stream)


@given(STREAMS, st.data())
def test_everything_passes_in_order_and_the_end_mark_never_too_early(stream: bytes, data: st.DataObject) -> None:
    holder = TailHolder()
    sent = b"".join(holder.feed(piece) for piece in data.draw(splits(stream)))
    assert len(sent) <= end_of(stream)
    assert holder.has_end == (end_of(stream) < len(stream))
    assert sent + holder.release() == stream
    assert holder.release() == b""


@given(STREAMS, st.data())
def test_no_more_is_withheld_than_may_be_the_end_mark(stream: bytes, data: st.DataObject) -> None:
    holder = TailHolder()
    received = b""
    sent = 0
    for piece in data.draw(splits(stream[: end_of(stream)])):
        received += piece
        sent += len(holder.feed(piece))
        withheld = received[sent:]
        assert not withheld or b"data: [DONE]".startswith(withheld) or b"data:[DONE]".startswith(withheld)


def test_an_ordinary_piece_passes_without_being_copied() -> None:
    holder = TailHolder()
    for piece in (b"data: {}\n\n", b'data: {"a":', b"1}\r\n\r\n", b": comment\n", b"x" * 100_000):
        assert holder.feed(piece) is piece


@pytest.mark.parametrize("mark", [b"data: [DONE]", b"data:[DONE]"])
@pytest.mark.parametrize("ending", [b"\n\n", b"\r\n\r\n", b"\r\r", b""])
def test_the_end_mark_is_held_wherever_it_is_cut(mark: bytes, ending: bytes) -> None:
    stream = b"data: {}\n\n" + mark + ending
    for cut in range(len(stream) + 1):
        holder = TailHolder()
        sent = holder.feed(stream[:cut]) + holder.feed(stream[cut:])
        assert sent == b"data: {}\n\n"
        assert holder.release() == mark + ending


def test_what_comes_after_the_end_mark_waits_too() -> None:
    holder = TailHolder()
    assert holder.feed(b"data: {}\n\ndata: [DONE]\n\n") == b"data: {}\n\n"
    assert holder.feed(b": late\n\n") == b""
    assert holder.release() == b"data: [DONE]\n\n: late\n\n"


def test_an_answer_that_speaks_of_the_end_mark_is_not_held() -> None:
    piece = b'data: {"choices":[{"delta":{"content":"data: [DONE]"}}]}\n\n'
    assert TailHolder().feed(piece) is piece


@given(st.binary(min_size=1, max_size=60), st.data())
def test_of_a_body_of_known_length_one_byte_is_held(body: bytes, data: st.DataObject) -> None:
    holder = LengthHolder(len(body))
    sent = b"".join(holder.feed(piece) for piece in data.draw(splits(body)))
    assert sent == body[:-1]
    assert holder.release() == body[-1:]
    assert holder.release() == b""


@given(st.binary(max_size=60), st.integers(0, 80), st.data())
def test_a_body_of_another_length_than_declared_passes_in_order(body: bytes, length: int, data: st.DataObject) -> None:
    holder = LengthHolder(length)
    sent = b"".join(holder.feed(piece) for piece in data.draw(splits(body)))
    assert len(sent) <= max(0, length - 1)
    assert sent + holder.release() == body
