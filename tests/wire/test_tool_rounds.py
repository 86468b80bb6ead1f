"""Answers with calls of our tools, however they are cut and whatever their upstreams' habits."""

import json
from typing import Any

import pytest

from memproxy.wire.tool_rounds import ClientView, StreamRound, WholeRound, sum_usage
from tests.support.answers import DONE, chunk

NAMES = frozenset({"save_memory", "search_memory"})


def entry(index: int | None, name: str | None = None, arguments: str | None = None, **more: Any) -> dict[str, Any]:
    numbered = {} if index is None else {"index": index}
    function = {**({} if name is None else {"name": name}), **({} if arguments is None else {"arguments": arguments})}
    return {**numbered, **more, "function": function}


def calls(*entries: dict[str, Any]) -> bytes:
    return chunk({"tool_calls": list(entries)})


OURS = [
    chunk({"role": "assistant", "content": "Ünï 👋"}),
    calls(entry(0, "save_memory", "", id="a", type="function")),
    calls(entry(0, arguments='{"content": "x')),
    calls(entry(0, arguments='\\n"}')),
    chunk({}, "tool_calls"),
    DONE,
]


def read(parts: list[bytes], told: ClientView | None = None) -> tuple[StreamRound, bytes]:
    this = StreamRound(NAMES, told or ClientView())
    shown = b"".join([this.feed(part) for part in parts] + [this.finish()])
    return this, shown


@pytest.mark.parametrize("size", [1, 2, 3, 5, 64, 100_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_stream_cut_anywhere_is_read_the_same(size: int, end: bytes) -> None:
    whole = b"".join(OURS).replace(b"\n", end)
    this, shown = read([whole[at : at + size] for at in range(0, len(whole), size)])
    assert [(call.id, call.name, call.arguments) for call in this.calls] == [("a", "save_memory", {"content": "x\n"})]
    assert shown.strip() == OURS[0].replace(b"\n", end).strip()
    assert this.message["content"] == "Ünï 👋"


@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_what_is_not_ours_passes_to_the_byte(size: int) -> None:
    theirs = calls(entry(0, "look_up", "{", id="a"), entry(1, "save", '{"n": 1.0}', id="b"))
    whole = b": ping\n\nevent: x\ndata: no json\n\n" + theirs + chunk({}, "tool_calls") + DONE + b"data: behind"
    this, shown = read([whole[at : at + size] for at in range(0, len(whole), size)])
    assert (shown, this.calls, this.others) == (whole, [], ["a", "b"])


@pytest.mark.parametrize(
    "parts",
    [
        [calls(entry(0, "save_", id="a")), calls(entry(0, "memory", "{}"))],
        [calls(entry(0, "save_memory", "{", id="a")), calls(entry(0, "save_memory", "}", id="a"))],
        [calls({"index": 0, "id": "a", "type": "function"}), calls(entry(0, "save_memory", "{}"))],
        [calls(entry(None, "save_memory", "{", id="a")), calls(entry(None, None, "}"))],
    ],
    ids=["a name in pieces", "a name with each piece", "a name behind its id", "no numbers"],
)
def test_habits_of_upstreams(parts: list[bytes]) -> None:
    this, shown = read([*parts, chunk({}, "tool_calls"), DONE])
    assert [(call.id, call.name, call.arguments) for call in this.calls] == [("a", "save_memory", {})]
    assert shown == b""


def test_a_name_that_begins_one_of_ours_is_the_clients() -> None:
    this, shown = read([calls(entry(0, "save", "", id="a")), chunk({}, "tool_calls"), DONE])
    assert (this.calls, this.others) == ([], ["a"])
    delta = json.loads(shown.split(b"\n\n")[0][6:])["choices"][0]["delta"]
    assert delta["tool_calls"] == [{"index": 0, "id": "a", "function": {"name": "save", "arguments": ""}}]


def test_two_calls_of_one_number_are_two() -> None:
    both = [calls(entry(0, name, "{}", id=name)) for name in ("save_memory", "look_up", "search_memory")]
    this, shown = read([*both, chunk({}, "tool_calls"), DONE])
    assert [call.name for call in this.calls] == ["save_memory", "search_memory"]
    assert this.others == ["look_up"]
    assert json.loads(shown.split(b"\n\n")[0][6:])["choices"][0]["delta"]["tool_calls"][0]["index"] == 0
    assert this.tail.endswith(DONE)


def test_half_a_surrogate_and_large_numbers_survive_in_a_later_round() -> None:
    told = ClientView(head={"id": "first"}, role=True)
    odd = b'data: {"id":"second","n":12345678901234567890123,"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n'
    _, shown = read([odd, DONE], told)
    assert json.loads(shown.split(b"\n\n")[0][6:])["id"] == "first"
    assert b'"\\ud83d"' in shown
    assert b"12345678901234567890123" in shown


@pytest.mark.parametrize(
    ("given", "arguments", "sent"),
    [
        ('{"a": 1}', {"a": 1}, '{"a": 1}'),
        ({"a": 1}, {"a": 1}, '{"a":1}'),
        ("", {}, "{}"),
        ("nonsense", None, "{}"),
        (None, None, "{}"),
        ("[" * 100_000, None, "{}"),
        (json.dumps({"a": "x" * 300_000}), None, "{}"),
    ],
)
def test_arguments_of_a_whole_answer(given: Any, arguments: Any, sent: str) -> None:
    body = {"choices": [{"message": {"tool_calls": [{"function": {"name": "save_memory", "arguments": given}}]}}]}
    this = WholeRound(NAMES, ClientView())
    shown = this.feed(json.dumps(body).encode()) + this.finish()
    assert (shown, [call.arguments for call in this.calls]) == (b"", [arguments])
    made = json.loads(this.call_json(0))
    assert made["function"]["arguments"] == sent
    assert made["id"] == this.calls[0].id != ""


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"choices": null}',
        b'{"choices": [null]}',
        b'{"choices": [{"message": {"tool_calls": {}}}]}',
        b'{"choices": [{"message": {"tool_calls": [null, 7, {"function": 3}]}}]}',
        b"{" * 5_000,
    ],
)
def test_a_body_of_another_shape_passes_to_the_byte(body: bytes) -> None:
    this = WholeRound(NAMES, ClientView())
    assert this.feed(body) + this.finish() == body
    assert this.calls == []
    streamed = b"data: " + body + b"\n\n"
    assert read([streamed])[1] == streamed


def test_tokens_are_summed_with_their_details() -> None:
    one = {"prompt_tokens": 7, "details": {"cached": 2, "kind": "a"}, "cost": 0.5, "is_estimate": True}
    two = {"prompt_tokens": 3, "details": {"cached": 1, "audio": 4}, "cost": None}
    assert sum_usage(one, two) == {
        "prompt_tokens": 10,
        "details": {"cached": 3, "kind": "a", "audio": 4},
        "cost": 0.5,
        "is_estimate": True,
    }
    assert sum_usage({}, two) == two
