"""What a scripted upstream sends: OpenAI-shaped bodies, streams, errors, and the exact bytes of anything else."""

import asyncio
import gzip
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Header = tuple[str, str]
Part = bytes | asyncio.Event
"""Bytes are written and flushed on their own; an event is waited for before what follows it."""


@dataclass(frozen=True)
class Received:
    """A request as it arrived: nothing normalised, header names in their own case and order."""

    method: str
    target: str
    headers: list[Header]
    body: bytes
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client closed its connection before or while it was answered."""

    def all(self, name: str) -> list[str]:
        """Every value of a header."""
        return [value for key, value in self.headers if key.lower() == name.lower()]

    def header(self, name: str) -> str | None:
        """The first value of a header."""
        return next(iter(self.all(name)), None)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The chat messages; empty when there are none."""
        try:
            body = json.loads(self.body)
        except ValueError:
            return []
        messages = body.get("messages") if isinstance(body, dict) else None
        return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


@dataclass(frozen=True)
class Answer:
    """How one request is answered. ``cut`` resets the connection after the last part instead of ending the body."""

    parts: Sequence[Part] = ()
    status: int = 200
    headers: Sequence[Header] = (("content-type", "application/json"),)
    framing: Literal["length", "chunked", "close"] = "length"
    wait: asyncio.Event | None = None
    """Nothing is sent, not even the status line, before this is set."""
    cut: bool = False
    hang_up: bool = False
    """Close the connection after a whole answer without having said so, as servers do with idle ones."""


Answerer = Callable[[Received], Answer]


def json_answer(body: Any, status: int = 200, headers: Sequence[Header] = ()) -> Answer:
    """A JSON body with its length."""
    raw = json.dumps(body).encode()
    return Answer([raw], status, [("content-type", "application/json"), *headers])


def completion(text: str, **changes: Any) -> Answer:
    """A whole chat completion that says ``text``; ``changes`` replace fields of its message."""
    message = {"role": "assistant", "content": text, **changes}
    finish = "tool_calls" if "tool_calls" in changes else "stop"
    choice = {"index": 0, "message": message, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "test-model"}
    return json_answer({**body, "choices": [choice], "usage": usage})


def error(status: int, message: str, headers: Sequence[Header] = (), **fields: Any) -> Answer:
    shaped = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **fields}
    return json_answer({"error": shaped}, status, headers)


def chunk(delta: dict[str, Any], finish: str | None = None) -> bytes:
    """One event of a streamed completion."""
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test-model"}
    body = {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(body).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
STREAM_HEADERS: Sequence[Header] = (("content-type", "text/event-stream"), ("cache-control", "no-cache"))


def chat_events(*words: str) -> list[bytes]:
    """The events of a streamed completion that says ``words``, one event each."""
    deltas = [chunk({"content": word}) for word in words]
    return [chunk({"role": "assistant", "content": ""}), *deltas, chunk({}, "stop"), DONE]


def stream(parts: Sequence[Part], *, cut: bool = False, headers: Sequence[Header] = STREAM_HEADERS) -> Answer:
    """A chunked body, each part flushed by itself."""
    return Answer(parts, headers=headers, framing="chunked", cut=cut)


def gzipped(answer: Answer) -> Answer:
    raw = gzip.compress(b"".join(part for part in answer.parts if isinstance(part, bytes)))
    return Answer([raw], answer.status, [*answer.headers, ("content-encoding", "gzip")])


def text_of(message: dict[str, Any]) -> str:
    """A message's text, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""


def echo(received: Received) -> Answer:
    """Say what the last user message says: streamed, word by word, when the request asks for a stream."""
    if received.method != "POST" or not received.target.startswith("/v1/chat/completions"):
        return error(404, f"no script for {received.method} {received.target}")
    said = [text_of(message) for message in received.messages if message.get("role") == "user"]
    text = f"You said: {said[-1]}" if said else "You said nothing."
    if received.json.get("stream"):
        first, *rest = text.split(" ")
        return stream(chat_events(first, *(f" {word}" for word in rest)))
    return completion(text)


def refusing_late_system(received: Received) -> Answer:
    """Answer as chat templates do that want system text first: a system message after another role is a 400."""
    roles = [message.get("role") for message in received.messages]
    leading = next((place for place, role in enumerate(roles) if role != "system"), len(roles))
    if "system" in roles[leading:]:
        return error(400, "System message must be at the beginning.", code="invalid_role_order")
    return echo(received)
