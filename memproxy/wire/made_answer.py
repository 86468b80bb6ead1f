"""An answer that we make ourselves, as the upstream would have sent it: whole or streamed, in the request's format."""

import time
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from memproxy.wire.chat import ChatRequest
from memproxy.wire.request_body import RequestBody
from memproxy.wire.responses import MADE_ID, ResponsesRequest

_encode = msgspec.json.Encoder().encode
_NO_TOKENS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}

_USED_NOTHING = {
    "input_tokens": 0,
    "output_tokens": 0,
    "total_tokens": 0,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
_BEGUN: dict[str, Any] = {
    "status": "in_progress",
    "output": [],
    "error": None,
    "incomplete_details": None,
    "instructions": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "tool_choice": "auto",
    "tools": [],
    "temperature": 1.0,
    "top_p": 1.0,
    "max_output_tokens": None,
    "previous_response_id": None,
    "truncation": "disabled",
    "text": {"format": {"type": "text"}},
    "usage": None,
    "background": False,
    "store": False,
}
"""The fields of a response beside its id, time and model, before it has text."""


class MadeAnswer(NamedTuple):
    """Its content type, its parts, and (where the format has that) the id that a later request may go on from."""

    content_type: bytes
    parts: list[bytes]
    response_id: str | None = None


def may_be_answered(request: RequestBody) -> bool:
    """Whether one text can be the answer: not where several, a form or a later answer is wanted."""
    form = request.field("response_format") or (request.field("text") or {})
    kind = (form.get("format", form) if isinstance(form, dict) else {}) or {}
    asks_for_form = isinstance(kind, dict) and kind.get("type", "text") != "text"
    return not asks_for_form and request.field("n") in (None, 1) and not request.field("background")


def made_answer(request: RequestBody, text: str) -> MadeAnswer:
    """An answer that says ``text``."""
    if isinstance(request, ResponsesRequest):
        return _response(request, text)
    assert isinstance(request, ChatRequest)  # noqa: S101 - there are no other formats
    return _completion(request, text)


def _completion(request: ChatRequest, text: str) -> MadeAnswer:
    head = {"id": f"chatcmpl-memproxy-{uuid.uuid4().hex}", "created": int(time.time()), "model": request.model or ""}
    if not request.stream:
        message = {"role": "assistant", "content": text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
        body = {**head, "object": "chat.completion", "choices": [choice], "usage": _NO_TOKENS}
        return MadeAnswer(b"application/json", [_encode(body)])

    def chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "object": "chat.completion.chunk", "choices": [choice]}

    chunks = [chunk({"role": "assistant", "content": ""}), chunk({"content": text}), chunk({}, "stop")]
    options = request.field("stream_options")
    if isinstance(options, dict) and options.get("include_usage"):
        chunks.append({**head, "object": "chat.completion.chunk", "choices": [], "usage": _NO_TOKENS})
    events = [b"data: " + _encode(event) + b"\n\n" for event in chunks]
    return MadeAnswer(b"text/event-stream; charset=utf-8", [*events, b"data: [DONE]\n\n"])


def _response(request: ResponsesRequest, text: str) -> MadeAnswer:
    """One that goes on from a former response has its id: what comes next goes on from there, for the upstream never
    saw this one. A first one has an id of ours, which is taken out of later requests (`ResponsesRequest`).
    """
    former = request.field("previous_response_id")
    name = former if isinstance(former, str) and former else f"{MADE_ID}{uuid.uuid4().hex}"
    part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
    message = {"id": f"msg_memproxy_{uuid.uuid4().hex}", "type": "message", "role": "assistant"}
    whole = {**message, "status": "completed", "content": [part]}
    begun = {"id": name, "object": "response", "created_at": int(time.time()), "model": request.model or "", **_BEGUN}
    done = {**begun, "status": "completed", "output": [whole], "usage": _USED_NOTHING}
    if not request.stream:
        return MadeAnswer(b"application/json", [_encode(done)], name)

    def events() -> Iterator[dict[str, Any]]:
        at = {"item_id": message["id"], "output_index": 0, "content_index": 0}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        item = {**message, "status": "in_progress", "content": []}
        yield {"type": "response.output_item.added", "output_index": 0, "item": item}
        yield {"type": "response.content_part.added", **at, "part": {**part, "text": ""}}
        yield {"type": "response.output_text.delta", **at, "delta": text, "logprobs": []}
        yield {"type": "response.output_text.done", **at, "text": text, "logprobs": []}
        yield {"type": "response.content_part.done", **at, "part": part}
        yield {"type": "response.output_item.done", "output_index": 0, "item": whole}
        yield {"type": "response.completed", "response": done}

    parts = [
        b"event: " + event["type"].encode() + b"\ndata: " + _encode({**event, "sequence_number": number}) + b"\n\n"
        for number, event in enumerate(events())
    ]
    return MadeAnswer(b"text/event-stream; charset=utf-8", parts, name)
