import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.sse import SseEvent, SseParser
from tests.wire.strategies import splits

LINES = st.sampled_from(
    [
        b"data: {}",
        b"data:x",
        b"data:  two spaces",
        b"data",
        b"data:",
        b"data: \xf0\x9f\x98\x80",
        b"event: ping",
        b"event:",
        b"event",
        b": comment",
        b":",
        b"id: 1",
        b"retry: 5",
        b"unknown: x",
        b"no colon",
        b" data: indented",
        b"",
        b"",
    ]
)


def parsed(pieces: list[bytes]) -> list[SseEvent]:
    parser = SseParser()
    return [event for piece in pieces for event in parser.feed(piece)] + parser.close()


def reference(lines: list[bytes]) -> list[SseEvent]:
    """The standard's algorithm, word by word, over whole lines."""
    events, data, kind = [], b"", b""
    for line in [*lines, b""]:
        if not line:
            if data:
                events.append(SseEvent(kind.decode() or None, data[:-1]))
            data, kind = b"", b""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            data += value + b"\n" if field == b"data" else b""
            kind = value if field == b"event" else kind
    return events


@given(st.lists(LINES, max_size=12), st.sampled_from([b"\n", b"\r\n", b"\r"]), st.booleans(), st.data())
def test_any_stream_cut_anywhere_gives_the_standards_events(
    lines: list[bytes], ending: bytes, finished: bool, data: st.DataObject
) -> None:
    stream = ending.join(lines) + (ending if finished else b"")
    assert parsed(data.draw(splits(stream))) == reference(lines)


@given(st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=12), st.data())
def test_mixed_line_endings_give_the_same_events_however_cut(
    lines: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(line + ending for line, ending in lines)
    assert parsed(data.draw(splits(stream))) == parsed([stream]) == parsed([bytes([byte]) for byte in stream])


@given(st.binary(max_size=300), st.data())
def test_any_bytes_are_taken(stream: bytes, data: st.DataObject) -> None:
    assert parsed(data.draw(splits(stream))) == parsed([stream])


@pytest.mark.parametrize("cut", range(4))
def test_a_byte_order_mark_at_the_beginning_is_skipped(cut: int) -> None:
    stream = b"\xef\xbb\xbfdata: x\n\n"
    assert parsed([stream[:cut], stream[cut:]]) == [SseEvent(None, b"x")]


def test_an_event_is_given_as_soon_as_its_blank_line_is_there() -> None:
    parser = SseParser()
    assert parser.feed(b"data: a\r\n\r") == [SseEvent(None, b"a")]
    assert parser.feed(b"\ndata: b\r") == []
    assert parser.feed(b"\r") == [SseEvent(None, b"b")]


def test_lines_of_one_event_are_joined() -> None:
    assert parsed([b"event: x\ndata: a\ndata: b\n\n"]) == [SseEvent("x", b"a\nb")]


@given(st.lists(st.integers(1, 40), max_size=20), st.data())
def test_events_over_the_bound_are_dropped_and_counted(sizes: list[int], data: st.DataObject) -> None:
    stream = b"".join(b"data: " + b"x" * size + b"\n\n" for size in sizes)
    for pieces in ([stream], data.draw(splits(stream))):
        parser = SseParser(max_event_bytes=20)
        events = [event for piece in pieces for event in parser.feed(piece)] + parser.close()
        assert [len(event.data) for event in events if len(event.data) <= 14] == [size for size in sizes if size <= 14]
        assert all(len(event.data) <= 20 for event in events)
        assert parser.dropped == len(sizes) - len(events)


@pytest.mark.parametrize("ends", [b"", b"\n"])
def test_an_endless_line_and_endless_lines_take_no_more_memory_than_the_bound(ends: bytes) -> None:
    parser = SseParser(max_event_bytes=1000)
    for _ in range(10_000):
        parser.feed(b"data: " + b"x" * 100 + ends)
    assert parser.held <= 1001 - len(ends)
    assert parser.feed(b"\n\ndata: y\n\n"[len(ends) :]) == [SseEvent(None, b"y")]
    assert parser.dropped == 1


def test_lines_of_no_data_take_no_more_memory_than_their_bytes() -> None:
    parser, lines = SseParser(), b"data\n" * 10_000
    tracemalloc.start()
    for _ in range(100):
        parser.feed(lines)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 100 * len(lines)


@pytest.mark.parametrize(
    "said", [b"", b"data: [DO", b"data: [DONE]", b"data:\ndata:  [DONE] \n", b"da", b"\ndata: [DONE]\n:"]
)
def test_an_event_that_has_begun_may_become_the_end(said: bytes) -> None:
    parser = SseParser()
    parser.feed(b"data: x\n\n" + said)
    assert parser.may_become(b"[DONE]") is (said != b"")


@pytest.mark.parametrize("said", [b"data: [DONE] no", b"data: [DONE]\ndata: x", b"data: {", b"data: [DONE]\n\n"])
def test_an_event_that_says_more_may_not(said: bytes) -> None:
    parser = SseParser()
    parser.feed(said)
    assert not parser.may_become(b"[DONE]")
