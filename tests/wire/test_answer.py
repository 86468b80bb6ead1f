import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.answer import MAX_JSON_BYTES, MAX_TEXT, Usage
from memproxy.wire.chat import ChatAnswer
from tests.wire.strategies import splits


def event(value: Any, ending: str = "\n") -> bytes:
    return f"data: {value if isinstance(value, str) else json.dumps(value)}{ending * 2}".encode()


def delta(content: Any = None, *, index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": index, "delta": {"content": content, **more}, "finish_reason": finish}]}


def streamed(*values: Any) -> ChatAnswer:
    answer = ChatAnswer(streamed=True)
    answer.feed(b"".join(event(value) for value in values))
    answer.finish()
    return answer


def whole(value: Any) -> ChatAnswer:
    answer = ChatAnswer(streamed=False)
    answer.feed(value if isinstance(value, bytes) else json.dumps(value).encode())
    answer.finish()
    return answer


@given(st.lists(st.text(max_size=8)), st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.data())
def test_the_text_is_the_deltas_joined_however_the_stream_is_cut(
    texts: list[str], ending: str, marked: bool, data: st.DataObject
) -> None:
    stream = b"".join(event(delta(text), ending) for text in texts) + event(delta(finish="stop"), ending)
    stream += event("[DONE]", ending) if marked else b""
    answer = ChatAnswer(streamed=True)
    for piece in data.draw(splits(stream)):
        answer.feed(piece)
    answer.finish()
    assert answer.text == "".join(texts)
    assert (answer.done, answer.finish_reason, answer.complete, answer.model) == (marked, "stop", True, "m")


def test_only_the_first_choice_is_read() -> None:
    answer = streamed(delta("a"), delta("x", index=1), delta("b"), delta(index=1, finish="length"))
    assert (answer.text, answer.finish_reason, answer.complete) == ("ab", None, False)


def test_reasoning_and_refusals_are_not_what_was_said() -> None:
    answer = streamed(delta(None, reasoning_content="hmm"), delta(None, refusal="no"), delta("yes", reasoning="hm"))
    assert answer.text == "yes"
    refused = whole({"choices": [{"message": {"content": None, "refusal": "no"}, "finish_reason": "stop"}]})
    assert (refused.text, refused.complete) == ("", True)


def test_content_in_parts_is_read() -> None:
    parts = [{"type": "thinking", "thinking": [{"type": "text", "text": "hmm"}]}, {"type": "text", "text": "yes"}]
    assert streamed(delta(parts), delta("!")).text == "yes!"
    assert whole({"choices": [{"message": {"content": parts}}]}).text == "yes"


def test_what_a_tool_is_called_with_and_what_failed_are_not_decoded() -> None:
    digits = "1" * 10_000  # more than Python takes for a number
    called = streamed(f'{{"choices":[{{"index":0,"delta":{{"tool_calls":[{{"index":{digits}}}]}}}}]}}')
    assert not called.error
    assert streamed(f'{{"error":{{"code":{digits}}}}}').error


def test_usage_is_read_wherever_it_comes() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 8}}
    for answer in (streamed(delta("a"), {"choices": [], "usage": usage}), whole({"choices": [], "usage": usage})):
        assert answer.usage == Usage(10, 5, 8)
    assert streamed({"usage": {"prompt_cache_hit_tokens": 7}}).usage == Usage(0, 0, 7)
    assert streamed({"usage": usage}, {"usage": None}).usage == Usage(10, 5, 8)
    grown = {"usage": {**usage, "completion_tokens": 6, "prompt_tokens_details": None}}
    assert streamed({"usage": usage}, grown).usage == Usage(10, 6, 8)
    assert streamed({"choices": []}).usage is None


@pytest.mark.parametrize(
    "value",
    [
        {"error": {"message": "overloaded"}},
        {"error": "overloaded", "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]},
        delta(finish="error"),
    ],
)
def test_an_error_within_the_stream_makes_it_incomplete(value: Any) -> None:
    answer = streamed(delta("a"), value, "[DONE]")
    assert (answer.error, answer.complete, answer.done) == (True, False, True)
    event_of_one = ChatAnswer(streamed=True)
    event_of_one.feed(event(delta("a")) + b"event: error\ndata: something\n\n")
    assert (event_of_one.error, event_of_one.complete) == (True, False)
    assert not streamed({**delta("a"), "error": None}).error


def test_a_stream_that_was_cut_is_incomplete_and_the_end_mark_alone_completes() -> None:
    assert not streamed(delta("a"), delta("b")).complete
    assert streamed(delta("a"), "[DONE]").complete


def test_a_last_event_without_its_blank_line_is_read() -> None:
    answer = ChatAnswer(streamed=True)
    answer.feed(event(delta("a")) + b"data: " + json.dumps(delta("b", finish="stop")).encode())
    assert (answer.text, answer.complete) == ("a", False)
    answer.finish()
    assert (answer.text, answer.complete) == ("ab", True)


@pytest.mark.parametrize(
    "value",
    [
        "not json",
        "[]",
        "7",
        "null",
        '{"choices":7}',
        '{"choices":[7,null]}',
        '{"choices":[{"delta":7}]}',
        '{"choices":[{"index":"a","delta":{"content":7}}]}',
        '{"usage":[],"model":7}',
        '{"usage":{"prompt_tokens":"x","prompt_tokens_details":7}}',
        "[" * 100_000,
        '{"x":1e999,"y":NaN}',
    ],
)
def test_odd_events_are_passed_over(value: str) -> None:
    answer = streamed(delta("a"), value, delta("b", finish="stop"))
    assert (answer.text, answer.complete, answer.error) == ("ab", True, False)
    whole(value.encode())


def test_what_can_be_understood_of_an_odd_chunk_is() -> None:
    answer = streamed({"model": 5, "choices": [{"index": 0.0, "delta": {"content": "a"}, "finish_reason": "stop"}]})
    assert (answer.text, answer.finish_reason) == ("a", "stop")


def test_halves_of_a_surrogate_pair_in_two_deltas_are_joined() -> None:
    answer = streamed(
        r'{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}',
        r'{"choices":[{"index":0,"delta":{"content":"\ude00"}}]}',
    )
    assert answer.text == "a😀"
    assert streamed(r'{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}').text == "a\ufffd"


def test_reading_the_text_midway_changes_nothing() -> None:
    answer = ChatAnswer(streamed=True)
    answer.feed(event(r'{"choices":[{"index":0,"delta":{"content":"a\ud83d"}}]}'))
    assert answer.text == "a\ufffd"
    answer.feed(event(r'{"choices":[{"index":0,"delta":{"content":"\ude00"}}]}'))
    assert answer.text == "a😀"


def test_text_over_the_bound_is_cut() -> None:
    begun = "a" * (MAX_TEXT - 2)
    assert streamed(delta(begun), delta("def"), delta("ghi")).text == f"{begun}de"
    assert len(whole({"choices": [{"message": {"content": f"{begun}def"}}]}).text) == MAX_TEXT


def test_a_whole_answer_over_the_bound_is_not_read() -> None:
    body = b'{"choices":[{"message":{"content":"abcdef"},"finish_reason":"stop"}]}'
    assert whole(body.ljust(MAX_JSON_BYTES)).complete
    answer = whole(body.ljust(MAX_JSON_BYTES + 1))
    assert (answer.text, answer.complete) == ("", False)


@given(st.text(max_size=20), st.data())
def test_a_whole_answer_is_read_however_it_is_cut(text: str, data: st.DataObject) -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = json.dumps({"model": "m", "choices": [choice]}).encode()
    answer = ChatAnswer(streamed=False)
    for piece in data.draw(splits(body)):
        answer.feed(piece)
    answer.finish()
    assert (answer.text, answer.finish_reason, answer.model, answer.complete) == (text, "stop", "m", True)


def test_a_body_that_is_no_answer_is_incomplete() -> None:
    for body in (b"", b"hello", b"{}", b'{"error":{"message":"x"}}', b'{"choices":[{"message":{"content":"cut'):
        assert not whole(body).complete


@given(st.binary(max_size=200))
def test_no_bytes_make_a_reader_raise(data: bytes) -> None:
    for answer in (ChatAnswer(streamed=True), ChatAnswer(streamed=False)):
        answer.feed(b"data: ")
        answer.feed(data)
        answer.finish()
        assert isinstance(answer.text, str)
        assert answer.complete in {True, False}
        assert answer.usage is None or isinstance(answer.usage, Usage)


MANY = 250_000


@pytest.mark.parametrize("choices", ["{}", '{"delta":[]}', '{"delta":{"content":"a"}}'])
def test_an_answer_of_more_objects_than_can_be_read_soon_is_not_read(choices: str) -> None:
    """Each would be an object of ours; a hundred thousand keep all others waiting."""
    body = f'{{"choices":[{",".join([choices] * MANY)}]}}'.encode()
    assert not whole(body).complete
    assert not streamed(body.decode()).complete


def test_odd_parts_in_great_number_are_not_read() -> None:
    body = f'{{"choices":[{{"delta":{{"content":["a"{",[]" * MANY}]}}}}]}}'
    assert streamed(body).text == ""


def test_a_large_answer_with_the_chances_of_its_words_is_read() -> None:
    chances = [{"token": "a", "logprob": -0.1, "bytes": [97], "top_logprobs": [{"token": "b"}] * 20}] * 4_000
    choice = {"index": 0, "message": {"content": "Hello"}, "finish_reason": "stop", "logprobs": {"content": chances}}
    answer = whole({"choices": [choice]})
    assert (answer.text, answer.complete) == ("Hello", True)
