"""Read an answer of ``/v1/responses`` from a copy of its bytes, streamed or whole; the original goes on untouched.

A stream consists of typed events; its text comes in ``response.output_text.delta`` events, and the last event holds the
whole response again. The text is taken from there when it is there, because it is what the client ends up with.
"""

import json
from typing import Any

from memproxy.wire.answer import Answer, StreamedAnswer, WholeAnswer, is_soon_read
from memproxy.wire.sse import SseEvent

_BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
_ENDS = frozenset({"response.completed", "response.incomplete"})
_FAILURES = frozenset({"response.failed", "response.cancelled", "error"})
_ENDED = frozenset({"completed", "incomplete"})
_BEGUN = frozenset({"queued", "in_progress"})
_DELTA = "response.output_text.delta"
_WANTED = (b"output_text.delta", b"response.", b"error")


class ResponsesAnswer(Answer):
    """An answer of ``/v1/responses``; ``text`` are the output's text parts of all messages."""

    __slots__ = ()

    @property
    def complete(self) -> bool:
        """The upstream said all it had to say, and no error."""
        return self.finish_reason in _ENDED and not self.error

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
        usage = response.get("usage")
        if isinstance(usage, dict):
            details = usage.get("input_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            self._spent(*map(_count, (usage.get("input_tokens"), usage.get("output_tokens"), cached)))

    def _output(self, output: Any) -> None:
        items = [item for item in output if isinstance(item, dict)] if isinstance(output, list) else []
        said = "".join(_said(item) for item in items if item.get("type") == "message")
        if said:
            self._forget_text()
            self._add_text(said)


class ResponsesStreamAnswer(StreamedAnswer, ResponsesAnswer):
    """A streamed answer."""

    __slots__ = ()

    def _event(self, event: SseEvent) -> None:
        if not any(wanted in event.data for wanted in _WANTED):
            return
        value = _decoded(event.data)
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


class ResponsesJsonAnswer(WholeAnswer, ResponsesAnswer):
    """A whole answer in one JSON body."""

    __slots__ = ()

    def _body(self, data: bytes) -> None:
        self._response(_decoded(data))


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        value = json.loads(data) if is_soon_read(data) else None
    except (ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) else 0


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


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
