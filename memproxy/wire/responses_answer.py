"""Read an answer of ``/v1/responses`` from a copy of its bytes, streamed or whole; the original goes on untouched.

A stream consists of typed events; its text comes in ``response.output_text.delta`` events, and the last event holds the
whole response again. The text is taken from there when it is there, because it is what the client ends up with.
"""

import json
from typing import Any

from memproxy.wire.answer import MAX_JSON_BYTES, MAX_TEXT
from memproxy.wire.sse import SseEvent, SseParser

_ENDS = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"response.failed", "response.cancelled", "error"})
_ENDED = frozenset({"completed", "incomplete"})
_DELTA = "response.output_text.delta"
_WANTED = (b"output_text.delta", b"response.", b"error")


class ResponsesAnswer:
    """What an answer said, filled in as it comes.

    ``text`` are the output's text parts of all messages, without reasoning and refusals. ``response_id`` is what a
    later request may go on from. ``error``, ``truncated``, ``unreadable`` and the token counts are as in `wire.answer`.
    """

    def __init__(self, max_text: int = MAX_TEXT) -> None:
        self.max_text = max_text
        self.model: str | None = None
        self.finish_reason: str | None = None
        self.response_id: str | None = None
        self.done = False
        self.error = False
        self.has_tool_calls = False
        self.truncated = False
        self.unreadable = 0
        self.cached_tokens = 0
        self.input_tokens = 0
        self.output_tokens = 0
        self._parts: list[str] = []
        self._size = 0

    @property
    def text(self) -> str:
        """The answer's text so far."""
        return "".join(self._parts).encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    @property
    def complete(self) -> bool:
        """The upstream said all it had to say, and no error."""
        return self.finish_reason in _ENDED and not self.error

    def _add_text(self, text: str) -> None:
        room = self.max_text - self._size
        self.truncated = self.truncated or len(text) > room
        self._parts.append(text[:room])
        self._size += len(text[:room])

    def _decode(self, data: bytes) -> dict[str, Any]:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            self.unreadable += 1
            return {}
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
        self._output(response.get("output"))
        self._usage(response.get("usage"))

    def _output(self, output: Any) -> None:
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        self.has_tool_calls = self.has_tool_calls or any(_kind(item).endswith("_call") for item in items)
        said = "".join(_said(item) for item in items if _kind(item) == "message")
        if said:
            self._parts.clear()
            self._size = 0
            self._add_text(said)

    def _usage(self, usage: Any) -> None:
        if not isinstance(usage, dict):
            return
        details = usage.get("input_tokens_details")
        self.cached_tokens = _number(details, "cached_tokens") or self.cached_tokens
        self.input_tokens = _number(usage, "input_tokens") or self.input_tokens
        self.output_tokens = _number(usage, "output_tokens") or self.output_tokens


class ResponsesStreamAnswer(ResponsesAnswer):
    """A streamed answer. Feed it every chunk as it passes; it may be cut anywhere and keeps no copy."""

    def __init__(self, max_text: int = MAX_TEXT) -> None:
        super().__init__(max_text)
        self._parser = SseParser()

    def feed(self, chunk: bytes) -> None:
        """Look at the next bytes of the (decoded) stream."""
        for event in self._parser.feed(chunk):
            self._event(event)

    def finish(self) -> None:
        """The stream is over; an event without its closing blank line is still read."""
        for event in self._parser.close():
            self._event(event)

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


class ResponsesJsonAnswer(ResponsesAnswer):
    """A whole answer in one JSON body. Feed it every chunk, then `finish`; memory is bounded by ``max_bytes``."""

    def __init__(self, max_text: int = MAX_TEXT, max_bytes: int = MAX_JSON_BYTES) -> None:
        super().__init__(max_text)
        self.max_bytes = max_bytes
        self._chunks: list[bytes] = []
        self._received = 0

    def feed(self, chunk: bytes) -> None:
        """Keep the next bytes of the (decoded) body."""
        self._received += len(chunk)
        if self._received <= self.max_bytes:
            self._chunks.append(chunk)
        else:
            self.truncated = True
            self._chunks.clear()

    def finish(self) -> None:
        """The body is over: read it. A body that is no response leaves everything empty and ``complete`` false."""
        if not self.truncated:
            self._response(self._decode(b"".join(self._chunks)))
        self._chunks.clear()


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
