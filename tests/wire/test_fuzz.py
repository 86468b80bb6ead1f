"""What fuzzing found, and a little of it; the long runs are `python -m tests.fuzz` (docs/conformance.md)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire import chat, responses
from memproxy.wire.chat import ChatAnswer
from memproxy.wire.splice import Unreadable
from tests.fuzz import splice, sse
from tests.wire.making import rebuilt

HUGE = b"1" + b"0" * 400


@given(st.binary(max_size=120))
def test_any_choice_of_a_request_is_spliced_or_refused_rightly(choices: bytes) -> None:
    splice.check(b"\0" + choices)


@given(st.binary(max_size=120))
def test_any_stream_is_read_the_same_however_it_is_cut(choices: bytes) -> None:
    sse.check(choices)


@pytest.mark.parametrize("seed", splice.SEEDS)
def test_the_splicers_seeds_pass(seed: bytes) -> None:
    splice.check(seed)


@pytest.mark.parametrize("seed", sse.SEEDS)
def test_the_streams_seeds_pass(seed: bytes) -> None:
    sse.check(seed)


@pytest.mark.parametrize("number", [b"1E+999", HUGE])
def test_an_item_with_a_number_that_no_machine_holds_is_passed_over(number: bytes) -> None:
    body = b'{"input":[["x",' + number + b'],{"role":"user","content":"Hi"}]}'
    request = responses.read_request(body)
    assert [(one.role, one.text) for one in request.messages] == [("", ""), ("user", "Hi")]
    splice.check_body(body)


@pytest.mark.parametrize("instructions", [b"[1E+999]", b"[" + HUGE + b"]", b'{"a":1E+999}', b"7"])
def test_instructions_that_are_no_text_are_never_replaced(instructions: bytes) -> None:
    body = b'{"input":"Hi","instructions":' + instructions + b"}"
    assert b'"instructions":' + instructions in rebuilt(responses.read_request(body), splice.BLOCK)
    splice.check_body(body)


def test_a_part_whose_type_is_no_text_is_passed_over() -> None:
    parts = [{"type": {}, "text": "a"}, {"type": ["text"], "text": "b"}, {"type": "text", "text": "c"}]
    body = json.dumps({"messages": [{"role": "user", "content": parts}]}).encode()
    assert chat.read_request(body).user_texts == ["c"]
    body = json.dumps({"input": [{"role": "user", "content": parts}]}).encode()
    assert responses.read_request(body).user_texts == ["c"]


def test_an_answers_part_whose_type_is_no_text_is_passed_over() -> None:
    answer = ChatAnswer(streamed=True)
    delta = {"content": [{"type": {}, "text": "a"}, {"type": "text", "text": "b"}]}
    answer.feed(b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n")
    assert answer.text == "b"


@pytest.mark.parametrize("other", [b"{}", b'{"role":"assistant"}', b'{"role":"assistant","content":null}', b"[]"])
@pytest.mark.parametrize("twice", [b'{"role":"user","content":"a","content":"b"}', b'{"role":"user","role":"user"}'])
def test_a_message_that_says_something_twice_is_refused_beside_one_that_says_nothing(
    other: bytes, twice: bytes
) -> None:
    with pytest.raises(Unreadable) as refused:
        chat.read_request(b'{"messages":[' + other + b"," + twice + b"]}")
    assert refused.value.reason == "duplicate_keys"
