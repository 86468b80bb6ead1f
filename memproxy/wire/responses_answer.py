"""Read an answer of ``/v1/responses`` from a copy of its bytes, streamed or whole; the original goes on untouched.

A stream consists of typed events; its text comes in ``response.output_text.delta`` events, and the last event holds the
whole response again. The text is taken from there when it is there, because it is what the client ends up with.
"""

import json
from typing import Any

from memproxy.wire.seen import MAX_JSON_BYTES, MAX_TEXT, SeenAnswer, WholeBody, is_soon_read
from memproxy.wire.sse import SseEvent, SseParser
from memproxy.wire.streamed import Streamed

_BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"response.failed", "response.cancelled", "error"})
_ENDED = frozenset({"completed", "incomplete"})
_BEGUN = frozenset({"queued", "in_progress"})
_DELTA = "response.output_text.delta"
_WANTED = (b"output_text.delta", b"response.", b"error")


class ResponsesAnswer(SeenAnswer):
    """An answer of ``/v1/responses``; ``text`` are the output's text parts of all messages."""

    __slots__ = ()

    @property
    def complete(self) -> bool:
        """The upstream said all it had to say, and no error."""
        return self.finish_reason in _ENDED and not self.error

    def _decode(self, data: bytes) -> dict[str, Any]:
        try:
            value = json.loads(data) if is_soon_read(data) else None
        except (ValueError, RecursionError):
            value = None
        if value is None:
            self.unreadable += 1
        return value if isinstance(value, dict) else {}

    def _response(self, response: Any) -> None:
        """Read a response object: what it says, how it ended, what it cost."""
        if not isinstance(response, dict):
            return
        self.response_id = _text(response.get("id")) or self.response_id
        self.model = _text(response.get("model")) or self.model
        status = _text(response.get("status"))
        self.error = self.error or bool(response.get("error")) or status in ("failed", "cancelled")
        if status in _ENDED:
            self.finish_reason = status
        self.begun = status in _BEGUN and self.response_id is not None and not self.error
        self.user_fields = _user_fields(response)
        self._output(response.get("output"))
        self._usage(response.get("usage"))

    def _output(self, output: Any) -> None:
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        self.has_tool_calls = self.has_tool_calls or any(_kind(item).endswith("_call") for item in items)
        said = "".join(_said(item) for item in items if _kind(item) == "message")
        if said:
            self._forget_text()
            self._add_text(said)

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("input_tokens_details")
        self.cached_tokens = _number(details, "cached_tokens") or self.cached_tokens
        self.input_tokens = _number(usage, "input_tokens") or self.input_tokens
        self.output_tokens = _number(usage, "output_tokens") or self.output_tokens


class ResponsesStreamAnswer(Streamed, ResponsesAnswer):
    """A streamed answer."""

    __slots__ = ("_parser",)

    def __init__(self, max_text: int = MAX_TEXT) -> None:
        super().__init__(max_text)
        self._parser = SseParser()

    def _event(self, event: SseEvent) -> None:
        if not any(wanted in event.data for wanted in _WANTED):
            return
        value = self._decode(event.data)
        kind = _text(value.get("type")) or event.event or ""
        if kind == _DELTA:
            self._add_text(_text(value.get("delta")) or "")
        elif kind in _ENDS:
            self._response(value.get("response"))
            self.finish_reason = self.finish_reason or kind.removeprefix("response.")
            self.done = True
        elif kind in _FAILURES:
            self.error = True
            self.begun = False
        elif kind in _BEGINNINGS:
            self._begins(value.get("response"))

    def _begins(self, response: Any) -> None:
        """A response in the background goes on without its stream, and may be fetched by its id."""
        if isinstance(response, dict) and response.get("background") is True:
            self.response_id = _text(response.get("id"))
            self.begun = self.response_id is not None


class ResponsesJsonAnswer(ResponsesAnswer):
    """A whole answer in one JSON body. Feed it every chunk, then `finish`; memory is bounded by ``max_bytes``."""

    __slots__ = ("_body",)

    def __init__(self, max_text: int = MAX_TEXT, max_bytes: int = MAX_JSON_BYTES) -> None:
        super().__init__(max_text)
        self._body = WholeBody(max_bytes)

    @property
    def _kept(self) -> int:
        return self._body.held

    def feed(self, chunk: bytes) -> None:
        """Keep the next bytes of the (decoded) body."""
        self._body.feed(chunk)
        self.truncated = self.truncated or self._body.too_long

    def finish(self) -> None:
        """The body is over: read it. A body that is no response leaves everything empty and ``complete`` false."""
        if not self._body.too_long:
            self._response(self._decode(self._body.take()))


def _user_fields(response: dict[str, Any]) -> dict[str, str]:
    metadata = response.get("metadata")
    fields = {
        "metadata.user_id": metadata.get("user_id") if isinstance(metadata, dict) else None,
        "safety_identifier": response.get("safety_identifier"),
        "user": response.get("user"),
    }
    return {name: value for name, value in fields.items() if isinstance(value, str)}


def _said(item: dict[str, Any]) -> str:
    content = item.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "".join(_text(part.get("text")) or "" for part in parts if part.get("type") == "output_text")


def _kind(item: dict[str, Any]) -> str:
    return _text(item.get("type")) or ""


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: Any, name: str) -> int:
    number = value.get(name) if isinstance(value, dict) else None
    return int(number) if isinstance(number, int | float) else 0
