"""Requests and answers of `/v1/responses`: what memory reads of them, and where a block goes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.answer import Usage
from memproxy.wire.responses import ResponsesAnswer, ResponsesRequest, read_request
from memproxy.wire.splice import Unreadable
from tests.wire.making import rebuilt

BLOCK = '<recalled-memory id="1">\n- "é" 😀\n</recalled-memory>'


def request_of(**members: Any) -> ResponsesRequest:
    return read_request(json.dumps({"model": "m", **members}).encode())


def said(role: str, text: str) -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


CALL = {"type": "function_call", "call_id": "c1", "name": "look_up", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "c1", "output": "42"}
HISTORY = [said("user", "Hi"), said("assistant", "Hello"), {"role": "user", "content": "What is my budget?"}]


def test_a_text_is_one_message_of_the_user() -> None:
    request = request_of(input="What is my budget?")
    assert [(one.role, one.text) for one in request.messages] == [("user", "What is my budget?")]
    assert request.last_user_index == 0


def test_items_are_read_as_messages_calls_and_results() -> None:
    seen = [{"type": "input_image", "image_url": "x"}, {"type": "input_text", "text": "?"}]
    picture = {"role": "user", "content": seen}
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hidden"}]}
    request = request_of(input=[*HISTORY, picture, reasoning, CALL, RESULT])
    assert [one.role for one in request.messages] == ["user", "assistant", "user", "user", "", "assistant", "tool"]
    assert [one.text for one in request.messages][3:] == ["?", "", "", "42"]
    assert request.is_tool_followup
    assert [(one.role, one.content) for one in request.new_messages] == [
        ("user", "What is my budget?"),
        ("user", "?"),
        ("tool", "42"),
    ]


@pytest.mark.parametrize(
    ("members", "chain"),
    [
        ({"previous_response_id": "resp_1"}, "r:resp_1"),
        ({"conversation": "conv_1"}, "v:conv_1"),
        ({"conversation": {"id": "conv_1"}}, "v:conv_1"),
        ({"previous_response_id": None, "conversation": None}, None),
        ({"conversation": 7}, None),
    ],
)
def test_what_a_request_goes_on_from_is_its_chain(members: dict[str, Any], chain: str | None) -> None:
    assert request_of(input="And?", **members).chain == chain


def test_where_the_client_sends_the_conversation_a_block_stands_before_the_last_user_message() -> None:
    sent = json.loads(rebuilt(request_of(input=HISTORY), BLOCK))
    assert sent["input"] == [*HISTORY[:2], {"role": "system", "content": BLOCK}, HISTORY[2]]
    assert "instructions" not in sent


def test_a_text_that_the_upstream_does_not_keep_becomes_a_list() -> None:
    request = read_request(b'{ "store":false,\n "input" : "caf\\u00e9 ?" , "top_p":1.0}')
    after = rebuilt(request, BLOCK)
    assert json.loads(after)["input"] == [{"role": "system", "content": BLOCK}, {"role": "user", "content": "café ?"}]
    assert b'"caf\\u00e9 ?"' in after
    assert after.endswith(b' , "top_p":1.0}')


@pytest.mark.parametrize("members", [{"previous_response_id": "r"}, {"conversation": "c"}, {}])
@pytest.mark.parametrize("instructions", [None, "", "Be brief.", ...])
def test_what_an_upstream_keeps_gets_the_block_as_instructions(members: dict[str, Any], instructions: Any) -> None:
    given = {} if instructions is ... else {"instructions": instructions}
    sent = json.loads(rebuilt(request_of(input="What is my budget?", **members, **given), BLOCK))
    assert sent["input"] == "What is my budget?"
    assert sent["instructions"] == (f"Be brief.\n\n{BLOCK}" if instructions == "Be brief." else BLOCK)


def test_instructions_of_another_type_are_left_alone() -> None:
    sent = json.loads(rebuilt(request_of(input="Hi", instructions=[1]), BLOCK))
    assert sent["instructions"] == [1]
    assert sent["input"][0] == {"role": "system", "content": BLOCK}


def test_our_fields_are_taken_out_and_nothing_else_changes() -> None:
    body = b'{"memory_context":{"user_id":"ann"},"input":[],"metadata":{"user_id":"m"},"n":1e400}'
    request = read_request(body)
    assert request.context.user_id == "ann"
    assert request.rebuild() == b'{"input":[],"metadata":{"user_id":"m"},"n":1e400}'
    assert rebuilt(request, BLOCK) == request.rebuild()


@pytest.mark.parametrize("item", ["1", '"text"', "null", '{"role":5}', '{"content":{}}', '{"type":"message"}', "[]"])
def test_items_of_unknown_shapes_go_on(item: str) -> None:
    body = f'{{"input":[{item},{{"role":"user","content":"Hi"}}]}}'.encode()
    request = read_request(body)
    assert request.user_texts == ["Hi"]
    assert request.rebuild() is body


@pytest.mark.parametrize(
    "body", [b'{"input":"a","input":"b"}', b'{"input":[{"role":"user","role":"system"}]}', b"[]", b"\xff", b'{"input"']
)
def test_what_cannot_be_spliced_safely_is_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable):
        read_request(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
ITEMS = st.one_of(st.sampled_from([*HISTORY, CALL, RESULT]), JSON)


@given(
    st.one_of(st.text(max_size=20), st.lists(ITEMS, max_size=6)),
    st.dictionaries(st.sampled_from(["instructions", "store", "previous_response_id", "x", "tools"]), JSON, max_size=4),
    st.sampled_from(["before_last_user", "after_system", "system"]),
)
def test_an_injected_request_is_json_that_differs_only_by_the_block(
    given_input: Any, others: Any, position: Any
) -> None:
    body = json.dumps({"input": given_input, **others}, ensure_ascii=False, indent=1).encode("utf-8", "replace")
    request = read_request(body)
    assert request.rebuild() is body
    before, after = json.loads(body), json.loads(rebuilt(request, BLOCK, position))
    if not request.messages:
        assert after == before
        return
    rest = after | {name: before.get(name) for name in ("input", "instructions")}
    assert rest == before | {"instructions": before.get("instructions")}
    block = {"role": "system", "content": BLOCK}
    if after["input"] == before["input"]:
        assert after["instructions"].endswith(BLOCK)
    elif isinstance(before["input"], str):
        assert after["input"] == [block, {"role": "user", "content": before["input"]}]
    else:
        assert [item for item in after["input"] if item != block] == before["input"]


def response(text: str, **changes: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    usage = {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 4}, "output_tokens": 2, "total_tokens": 11}
    head = {"id": "resp_1", "object": "response", "status": "completed", "error": None, "model": "m"}
    return {**head, "output": [{"type": "reasoning", "id": "rs", "summary": []}, message], "usage": usage, **changes}


def events(text: str, last: str = "response.completed") -> bytes:
    made = [{"type": "response.created", "response": response("", status="in_progress", output=[])}]
    made += [{"type": "response.output_text.delta", "delta": character} for character in text]
    made.append({"type": last, "response": response(text, status=last.removeprefix("response."))})
    return b"".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in made)


def answer_of(raw: bytes | dict[str, Any], size: int = 10_000_000, *, streamed: bool = False) -> ResponsesAnswer:
    """What is read of these bytes, which come in pieces of this size; of a whole answer, if it is not ``streamed``."""
    raw = raw if isinstance(raw, bytes) else json.dumps(raw).encode()
    answer = ResponsesAnswer(streamed=streamed)
    for start in range(0, len(raw), size):
        answer.feed(raw[start : start + size])
    answer.finish()
    return answer


def test_a_whole_answer_is_read() -> None:
    answer = answer_of(response("Your budget is $10,000."))
    assert (answer.text, answer.complete, answer.response_id) == ("Your budget is $10,000.", True, "resp_1")
    assert answer.usage == Usage(9, 2, 4)


@given(st.text(max_size=12), st.integers(1, 40), st.booleans())
def test_a_stream_is_read_wherever_it_is_cut(text: str, size: int, crlf: bool) -> None:
    raw = events(text).replace(b"\n", b"\r\n") if crlf else events(text)
    answer = answer_of(raw, size, streamed=True)
    assert answer.done
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert (answer.text, answer.complete, answer.response_id) == (expected, True, "resp_1")


@pytest.mark.parametrize("last", ["response.failed", "response.cancelled", "error"])
def test_a_failed_answer_is_not_complete_nor_a_stream_that_was_cut_off_whose_beginning_is_kept(last: str) -> None:
    assert not answer_of(events("Half an ans", last), streamed=True).complete
    assert not answer_of(response("Half an ans", error={"code": "server_error"})).complete
    cut = answer_of(events("Hello").rpartition(b"event:")[0], streamed=True)
    assert (cut.text, cut.complete, cut.done) == ("Hello", False, False)


@pytest.mark.parametrize(
    ("status", "output", "complete"),
    [*((one, [], False) for one in ("queued", "in_progress", "failed", "cancelled")), ("completed", [CALL], True)],
)
def test_an_answer_is_complete_when_it_is_there_though_it_only_calls_tools(
    status: str, output: list[Any], *, complete: bool
) -> None:
    answer = answer_of(response("", status=status, output=output))
    assert (answer.text, answer.complete) == ("", complete)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"output":7}', b'{"output":[1,{"type":"message"}]}', b"\xff"])
def test_what_is_no_response_says_nothing(body: bytes) -> None:
    answer = answer_of(body)
    assert (answer.text, answer.complete) == ("", False)
