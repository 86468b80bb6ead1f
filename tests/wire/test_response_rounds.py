"""Answers of ``/v1/responses`` with calls of our tools, however they are cut."""

import json
from typing import Any

import pytest

from memproxy.wire.response_rounds import RESPONSES_TOOLS, ResponseStreamRound, ResponseWholeRound
from memproxy.wire.responses import read_request
from memproxy.wire.tool_rounds import ClientView
from tests.support.responses import events_in, function_call, message, response, stream_of, thought

NAMES = frozenset({"save_memory", "search_memory"})
OURS = function_call("save_memory", '{"content": "x"}', "call_1")
THEIRS = function_call("get_weather", '{"n": 1.0}', "call_2")


def read(whole: bytes, told: ClientView | None = None, size: int = 100_000) -> tuple[ResponseStreamRound, bytes]:
    this = ResponseStreamRound(NAMES, told or ClientView())
    shown = b"".join([this.feed(whole[at : at + size]) for at in range(0, len(whole), size)] + [this.finish()])
    return this, shown


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_what_is_not_ours_passes_to_the_byte(size: int, end: bytes) -> None:
    items = [thought("r1"), message("Ünï 👋"), thought("r2"), THEIRS]
    whole = b": ping\n\n" + b"".join(stream_of(*items)) + b"data: [DONE]\n\n"
    this, shown = read(whole.replace(b"\n", end), size=size)
    assert (shown, this.calls, this.others) == (whole.replace(b"\n", end), [], ["call_2"])


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_a_stream_cut_anywhere_is_read_the_same(size: int) -> None:
    told = ClientView()
    this, shown = read(b"".join(stream_of(message("Let me look."), thought("r1"), OURS)), told, size)
    assert [(call.id, call.name, call.arguments) for call in this.calls] == [
        ("call_1", "save_memory", {"content": "x"})
    ]
    assert this.others == []
    events = events_in(shown)
    assert {event["type"] for event in events} >= {"response.created", "response.output_text.delta"}
    assert b"save_memory" not in shown
    assert b"reasoning" not in shown, "a thought that led to a call of ours goes with it"
    said = json.loads(b"[" + this.reply_json() + b"]")
    assert [item["type"] for item in said] == ["message", "function_call"], "it is not kept, and has not all of itself"
    assert not any("id" in item for item in said)
    _, more = read(b"".join(stream_of(thought("r3"), message("It is x."), id="resp_2")), told)
    events += events_in(more)
    numbers = [event["sequence_number"] for event in events]
    assert numbers == list(range(len(numbers)))
    assert [event["output_index"] for event in events if event["type"] == "response.output_item.added"] == [0, 1, 2]
    whole = events[-1]["response"]
    assert (whole["id"], [item["type"] for item in whole["output"]]) == ("resp_1", ["message", "reasoning", "message"])
    assert whole["usage"] == {"input_tokens": 14, "output_tokens": 6, "total_tokens": 20}
    assert sum(event["type"] == "response.created" for event in events) == 1


@pytest.mark.parametrize("kept", [True, False])
def test_thoughts_go_back_where_the_upstream_keeps_them_or_all_of_them_is_there(kept: bool) -> None:
    for extra, stays in (({}, kept), ({"encrypted_content": "gAAA"}, True)):
        this, _ = read(b"".join(stream_of({**thought("r1"), **extra}, OURS, store=kept)))
        said = json.loads(b"[" + this.reply_json() + b"]")
        assert [item["type"] for item in said] == (["reasoning"] if stays else []) + ["function_call"]
        assert ("id" in said[-1]) == stays


@pytest.mark.parametrize("order", [(OURS, THEIRS), (THEIRS, OURS)])
def test_calls_of_both_end_the_rounds_and_the_client_gets_its_own(order: tuple[dict[str, Any], ...]) -> None:
    this, shown = read(b"".join(stream_of(thought("r1"), *order)))
    events = events_in(shown + this.tail)
    assert ([call.id for call in this.calls], this.others) == (["call_1"], ["call_2"])
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["reasoning", "function_call"]
    added = [event for event in events if event["type"] == "response.output_item.added"]
    assert [(event["output_index"], event["item"]["type"]) for event in added] == [
        (0, "reasoning"),
        (1, "function_call"),
    ]
    assert b"save_memory" not in shown + this.tail
    whole = ResponseWholeRound(NAMES, ClientView())
    assert whole.feed(json.dumps(response(thought("r1"), *order)).encode()) + whole.finish() == b""
    assert json.loads(whole.tail)["output"] == [thought("r1"), THEIRS]


def test_a_response_that_was_cut_short_calls_nothing() -> None:
    cut = function_call("save_memory", '{"con', "call_1")
    whole = json.dumps(response(message("Well"), cut, status="incomplete")).encode()
    for this in (ResponseWholeRound(NAMES, ClientView()), ResponseStreamRound(NAMES, ClientView())):
        is_whole = isinstance(this, ResponseWholeRound)
        sent = whole if is_whole else b"".join(stream_of(message("Well"), cut, status="incomplete"))
        shown = this.feed(sent) + this.finish()
        last = json.loads(shown) if is_whole else events_in(shown)[-1]["response"]
        assert (this.calls, [item["type"] for item in last["output"]]) == ([], ["message"])


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_a_thought_that_led_to_nothing_passes_before_the_end_of_its_response(status: str) -> None:
    whole = b"".join(stream_of(thought("r1"), status=status))
    assert read(whole)[1] == whole


def test_what_is_no_response_passes() -> None:
    for bad in (b"<p>oops", b"[]", b'{"output": 7}', b'{"output": [null, 7, {"type": 5}]}'):
        this = ResponseWholeRound(NAMES, ClientView())
        assert this.feed(bad) + this.finish() == bad
    odd = b'data: {"type": ["x"], "output_index": []}\n\ndata: {"type": "response.output_item.done", "item": {}}\n\n'
    odd += b'data: {"type": "response.output_item.added", "item": {"type": [], "name": {}}}\n\ndata: {bad\n\n'
    odd += b'data: {"type": "response.completed"}\n\ndata: {"type": "response.completed", "response": 7}\n\n'
    assert read(odd)[1] == odd


def test_arguments_that_are_no_json_are_mended() -> None:
    this, _ = read(b"".join(stream_of(function_call("save_memory", "{no", ""))))
    assert [(call.id, call.arguments) for call in this.calls] == [("call_memproxy_0", None)]
    (said,) = json.loads(b"[" + this.reply_json() + b"]")
    assert (said["call_id"], said["arguments"]) == ("call_memproxy_0", "{}")


@pytest.mark.parametrize("before", ['"Hi"', '[{"role": "user", "content": "Hi"}]', "[ ]"])
def test_the_next_round_has_the_items_at_its_end(before: str) -> None:
    body = f'{{"input": {before}, "n": 1.0, "model":"m"}}'.encode()
    sent = RESPONSES_TOOLS.next_round(body, b'{"type":"x"}', last=True)
    told = json.loads(sent)
    assert (told["input"][-1], told["tool_choice"]) == ({"type": "x"}, "none")
    assert b'"n": 1.0, "model":"m"}' in sent
    assert b'"tool_choice": "none"' in RESPONSES_TOOLS.next_round(
        b'{"tool_choice": "auto", "input": "x"}', b"{}", last=True
    )


def test_calls_made_together_are_found_by_the_last_and_ours_put_behind_it() -> None:
    items = [
        {"role": "user", "content": "Hi"},
        {**THEIRS, "call_id": "a"},
        {**THEIRS, "call_id": "b"},
        {"type": "function_call_output", "call_id": "a", "output": "1"},
        {**THEIRS, "call_id": "c"},
        {"type": "web_search_call", "id": "w"},
    ]
    request = read_request(json.dumps({"input": items, "store": False}).encode())
    assert request.called() == {2: ["a", "b"], 4: ["c"]}
