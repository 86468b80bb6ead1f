"""A scripted upstream for clients: it speaks both wire formats, and what it answers depends on the question alone.

The question names its case (``case tools: ...``), so that a client gets the same answer whether it asks directly or
through the proxy, in whatever order the cases run.
"""

import asyncio
import json
import re
import zlib
from collections.abc import Sequence
from typing import Any

from tests.support.answers import DONE, Answer, Part, Received, error, json_answer, stream, text_of

JsonObject = dict[str, Any]

WORDS = ("Pack", " the blue", " umbrella", " \u2014 na\u00efve", " \U0001f600", ' "quoted"', "\n\tand go.")
AFTER_TOOL = ("It rains", " in Paris.")
ARGUMENTS = ('{"ci', 'ty": "Par', 'is"}')
MODEL = "gpt-4o-mini"

_CASE = re.compile(r"case (\w+):")
_CHAT = {"id": "chatcmpl-1", "created": 1700000000, "model": MODEL, "system_fingerprint": "fp_1"}
_USAGE = {
    "prompt_tokens": 7,
    "completion_tokens": 3,
    "total_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 2, "audio_tokens": 0},
    "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": 0},
}
_ERRORS = {
    "error_400": error(400, "temperature is out of range", param="temperature", code="invalid_value"),
    "error_401": error(401, "Incorrect API key provided: sk-te***", code="invalid_api_key"),
    "error_429": error(429, "Slow down.", [("retry-after", "1")], type="rate_limit_error", code="rate_limit_exceeded"),
}


def case_of(received: Received) -> str:
    """Which case a request belongs to: the last that its user named."""
    named: list[str] = _CASE.findall(" ".join(said_by_user(received.json)))
    return named[-1] if named else "tools"  # who brings a result to a conversation that the upstream keeps


def said_by_user(body: JsonObject) -> list[str]:
    """The texts of the user's messages of a request of either format."""
    said = body.get("messages") or body.get("input") or ""
    if isinstance(said, str):
        return [said]
    return [text_of(one) for one in said if isinstance(one, dict) and one.get("role") == "user"]


def answer(received: Received) -> Answer:
    if received.target.startswith("/v1/chat/completions"):
        return _answer(received, _ChatFormat())
    if received.target.startswith("/v1/responses"):
        return _answer(received, _ResponsesFormat(received))
    return error(404, f"no script for {received.method} {received.target}")


def _answer(received: Received, wire: "_ChatFormat | _ResponsesFormat") -> Answer:
    case, body = case_of(received), received.json
    if case in _ERRORS:
        return _ERRORS[case]
    words: Sequence[str] = WORDS
    if case.startswith("tools"):
        if not wire.has_result(body):
            return stream(wire.call_events(body)) if body.get("stream") else json_answer(wire.call())
        words = AFTER_TOOL
    if body.get("stream"):
        return stream(_ended(case, wire.text_events(words, body), wire), cut=case == "broken")
    return json_answer(wire.whole("".join(words)))


def _ended(case: str, events: list[bytes], wire: "_ChatFormat | _ResponsesFormat") -> list[Part]:
    """The stream of this case: whole, or it goes wrong after its first words."""
    beginning: list[Part] = [*events[: wire.head + 3]]
    if case == "broken":
        return beginning
    if case == "stream_error":
        return [*beginning, wire.error_event()]
    if case == "cancel":
        return [*beginning, asyncio.Event()]
    return [*events]


class _ChatFormat:
    head = 1

    def has_result(self, body: JsonObject) -> bool:
        return bool(body["messages"][-1]["role"] == "tool")

    def whole(self, text: str) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        return self._completion(message, "stop")

    def call(self) -> JsonObject:
        message: JsonObject = {"role": "assistant", "content": None, "tool_calls": [self._call("".join(ARGUMENTS))]}
        return self._completion(message, "tool_calls")

    def _completion(self, message: JsonObject, finish: str) -> JsonObject:
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
        return {**_CHAT, "object": "chat.completion", "choices": [choice], "usage": _USAGE, "x_vendor": {"n": 1.0}}

    def _call(self, arguments: str) -> JsonObject:
        return {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": arguments}}

    def text_events(self, words: Sequence[str], body: JsonObject) -> list[bytes]:
        return self._events([{"content": word} for word in words], "stop", body)

    def call_events(self, body: JsonObject) -> list[bytes]:
        first = {"tool_calls": [{"index": 0, **self._call("")}]}
        rest = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in ARGUMENTS]
        return self._events([first, *rest], "tool_calls", body)

    def error_event(self) -> bytes:
        return _data({"error": {"message": "overloaded", "type": "server_error", "param": None, "code": None}})

    def _events(self, deltas: list[JsonObject], finish: str, body: JsonObject) -> list[bytes]:
        wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
        rest = {"usage": None} if wants_usage else {}
        first: JsonObject = {"role": "assistant", "content": ""}
        events = [_data(self._chunk(delta, None) | rest) for delta in (first, *deltas)]
        events.append(_data(self._chunk({}, finish) | rest))
        if wants_usage:
            events.append(_data({**_CHAT, "object": "chat.completion.chunk", "choices": [], "usage": _USAGE}))
        return [*events, DONE]

    def _chunk(self, delta: JsonObject, finish: str | None) -> JsonObject:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**_CHAT, "object": "chat.completion.chunk", "choices": [choice]}


class _ResponsesFormat:
    head = 4

    def __init__(self, received: Received) -> None:
        """A response's name depends on what was asked: conversations are told apart by it."""
        self._name = f"resp_{zlib.crc32(' '.join(said_by_user(received.json)).encode())}"

    def has_result(self, body: JsonObject) -> bool:
        said = body["input"]
        return isinstance(said, list) and said[-1].get("type") == "function_call_output"

    def whole(self, text: str) -> JsonObject:
        return self._response([self._message(text)])

    def call(self) -> JsonObject:
        return self._response([self._call("".join(ARGUMENTS))])

    def _response(self, output: list[JsonObject], status: str = "completed") -> JsonObject:
        usage = {
            "input_tokens": 7,
            "input_tokens_details": {"cached_tokens": 2},
            "output_tokens": 3,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 10,
        }
        return {
            "id": self._name,
            "object": "response",
            "created_at": 1700000000,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "metadata": {},
            "model": MODEL,
            "output": output,
            "parallel_tool_calls": True,
            "temperature": 1.0,
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "usage": usage if status == "completed" else None,
        }

    def _message(self, text: str, status: str = "completed") -> JsonObject:
        content = [self._part(text)] if text else []
        return {"id": "msg_1", "type": "message", "role": "assistant", "status": status, "content": content}

    def _part(self, text: str) -> JsonObject:
        return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}

    def _call(self, arguments: str, status: str = "completed") -> JsonObject:
        call = {"id": "fc_1", "type": "function_call", "call_id": "call_1", "name": "weather"}
        return {**call, "arguments": arguments, "status": status}

    def text_events(self, words: Sequence[str], _body: JsonObject) -> list[bytes]:
        text, place = "".join(words), {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        deltas: list[JsonObject] = [
            {"type": "response.output_text.delta", **place, "delta": word, "logprobs": []} for word in words
        ]
        return self._events(
            self._message("", "in_progress"),
            [
                {"type": "response.content_part.added", **place, "part": self._part("")},
                *deltas,
                {"type": "response.output_text.done", **place, "text": text, "logprobs": []},
                {"type": "response.content_part.done", **place, "part": self._part(text)},
            ],
            self._message(text),
        )

    def call_events(self, _body: JsonObject) -> list[bytes]:
        place, kind = {"item_id": "fc_1", "output_index": 0}, "response.function_call_arguments"
        deltas = [{"type": f"{kind}.delta", **place, "delta": piece} for piece in ARGUMENTS]
        done = {"type": f"{kind}.done", **place, "name": "weather", "arguments": "".join(ARGUMENTS)}
        return self._events(self._call("", "in_progress"), [*deltas, done], self._call("".join(ARGUMENTS)))

    def error_event(self) -> bytes:
        body = {"type": "error", "code": "server_error", "message": "overloaded", "param": None, "sequence_number": 6}
        return b"event: error\n" + _data(body)

    def _events(self, begun: JsonObject, between: list[JsonObject], item: JsonObject) -> list[bytes]:
        empty = self._response([], "in_progress")
        events: list[JsonObject] = [
            {"type": "response.created", "response": empty},
            {"type": "response.in_progress", "response": empty},
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            *between,
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": self._response([item])},
        ]
        return [
            f"event: {event['type']}\n".encode() + _data({**event, "sequence_number": number})
            for number, event in enumerate(events)
        ]


def _data(value: JsonObject) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"
