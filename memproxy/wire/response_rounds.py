"""An answer of ``/v1/responses`` to a request that offered tools of ours beside the client's, read in rounds, as
`tool_rounds` says.

What is the client's passes as it comes. Events of our calls are kept back, and so is a thought (``reasoning``) until it
is known what follows it: one that led to a call of ours goes with that call, for an upstream takes neither back alone.
What follows is numbered anew.
"""

from collections.abc import Collection, Sequence
from typing import Any

from memproxy.wire.request_body import quoted
from memproxy.wire.tool_rounds import (
    ClientView,
    Events,
    Round,
    ToolCall,
    ToolFormat,
    WholeBody,
    encoded,
    json_object,
    one_event,
    readable_arguments,
)

BEGINNINGS = frozenset({"response.created", "response.queued", "response.in_progress"})
ENDS = frozenset({"response.completed", "response.incomplete"})
FAILURES = frozenset({"response.failed", "response.cancelled", "error"})
"""Events about the whole response: its beginning, its end, and its failure."""

_ADDED, _ITEM_DONE = "response.output_item.added", "response.output_item.done"
_THOUGHT, _APPROVAL = "reasoning", "mcp_approval_request"


class _Read(Round):
    """What a round read in the whole response."""

    def _is_ours(self, item: Any) -> bool:
        return (
            isinstance(item, dict) and item.get("type") == "function_call" and text_of(item.get("name")) in self._names
        )

    def _for_client(self, items: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The items without our calls; apart, the thoughts at their end, which led only to those calls."""
        theirs = [item for item in items if not self._is_ours(item)]
        end = len(theirs)
        while end and theirs[end - 1].get("type") == _THOUGHT:
            end -= 1
        return theirs[:end], theirs[end:]

    def _take_calls(self, response: dict[str, Any], items: list[dict[str, Any]]) -> None:
        """Take a whole response's calls, if it came to its end."""
        if response.get("status", "completed") != "completed":
            return
        self._called = [item for item in items if self._is_ours(item)]
        self.calls = [_call(item, index) for index, item in enumerate(self._called)]
        self.others = [name for item in items if not self._is_ours(item) and (name := _asked_of_client(item))]
        self._reply = _as_input(
            [item for item in items if _asked_of_client(item) is None or self._is_ours(item)], response
        )


class ResponseStreamRound(Events, _Read):
    """A streamed response."""

    def __init__(self, names: Collection[str], client_view: ClientView) -> None:
        super().__init__(names, client_view)
        self._changed = not self._first
        self._positions: dict[int, int] = {}
        self._next_position = len(client_view.output)
        self._ours: set[int | None] = set()
        self._thoughts: set[int | None] = set()
        self._waiting: list[tuple[bytes, dict[str, Any]]] = []
        self._items: dict[int, dict[str, Any]] = {}

    def _event(self, raw: bytes) -> bytes:
        event = one_event(raw)
        value = json_object(event.data.strip()) if event is not None else None
        if event is None or value is None or self.done:
            return self._or_later(raw)
        kind = text_of(value.get("type")) or event.event
        if kind in BEGINNINGS:
            return self._show(raw, value) if self._first else b""
        return self._ends(raw, value) if kind in ENDS else self._of_item(raw, value, kind)

    def _of_item(self, raw: bytes, value: dict[str, Any], kind: str | None) -> bytes:
        """An event of one of the response's items, or of none."""
        position, item = _position_in(value), value.get("item")
        if kind == _ADDED and self._is_ours(item):
            self._ours.add(position)
            self._changed = True
        elif kind == _ADDED and isinstance(item, dict) and item.get("type") == _THOUGHT:
            self._thoughts.add(position)
        elif kind == _ITEM_DONE and isinstance(item, dict):
            self._items[len(self._items) if position is None else position] = item
        if position in self._ours or position in self._thoughts:
            self._kept_back += len(raw)
            if position in self._thoughts:
                self._waiting.append((raw, value))
            return b""
        goes_on = (position is None or position in self._positions) and kind not in FAILURES
        return (b"" if goes_on else self._let_go()) + self._show(raw, value)

    def _let_go(self) -> bytes:
        waiting, self._waiting, self._thoughts = self._waiting, [], set()
        return b"".join([self._show(*event) for event in waiting])

    def _show(self, raw: bytes, value: dict[str, Any]) -> bytes:
        """An event as the client gets it."""
        response = value.get("response")
        if isinstance(response, dict) and response.get("id") != self._client_view.head.get("id", response.get("id")):
            response["id"] = self._client_view.head["id"]  # all of a stream is one response
        elif not self._client_view.head:
            self._client_view.head = {"id": response.get("id")} if isinstance(response, dict) else {"begun": True}
        if (position := _position_in(value)) is not None:
            if position not in self._positions:
                self._positions[position] = self._next_position
                self._next_position += 1
            value["output_index"] = self._positions[position]
        number = value.get("sequence_number")
        if isinstance(number, int):
            value["sequence_number"] = number if not self._changed else self._client_view.sequence
            self._client_view.sequence = value["sequence_number"] + 1
        return _written(value) if self._changed else raw

    def _ends(self, raw: bytes, value: dict[str, Any]) -> bytes:
        """The response is whole: from here on a round with calls of ours waits for what comes of them."""
        response = value["response"] if isinstance(value.get("response"), dict) else {}
        items = items_of(response) or [self._items[position] for position in sorted(self._items)]
        self._take_calls(response, items)
        self.done = True
        spent = self._spend(response)
        shown, thoughts = self._for_client(items)
        if self.goes_on:
            self._client_view.output = [*self._client_view.output, *shown]
            self._waiting = []
            return b""
        out, shown = self._let_go(), [*self._client_view.output, *shown, *thoughts]
        if spent or len(shown) != len(items):
            response["output"], self._changed = shown, True
        return out + self._or_later(self._show(raw, value))

    def _or_later(self, raw: bytes) -> bytes:
        if not self.calls:
            return raw
        self.tail += raw
        return b""


class ResponseWholeRound(WholeBody, _Read):
    """A response in one JSON body."""

    def _take(self, body: dict[str, Any]) -> bool:
        items = items_of(body)
        self._take_calls(body, items)
        if not any(map(self._is_ours, items)):
            return False
        body["output"] = [item for item in items if not self._is_ours(item)]
        return True


def _tool(described: dict[str, Any]) -> bytes:
    return encoded({"type": "function", **described, "strict": False})


def _result(call: ToolCall, result: str) -> bytes:
    return b'{"type":"function_call_output","call_id":' + quoted(call.id) + b',"output":' + quoted(result) + b"}"


RESPONSES_TOOLS = ToolFormat(ResponseStreamRound, ResponseWholeRound, _tool, _result, "input")


def _call(item: dict[str, Any], index: int) -> ToolCall:
    """The call of an item. What cannot be sent back is mended in it."""
    name = item["call_id"] = item.get("call_id") or f"call_memproxy_{index}"
    arguments, item["arguments"] = readable_arguments(item.get("arguments"))
    return ToolCall(str(name), str(item["name"]), arguments)


def _asked_of_client(item: dict[str, Any]) -> str | None:
    """The name of a call that only the client can answer; calls of the upstream's own tools have none."""
    kind, name = text_of(item.get("type")) or "", item.get("call_id")
    if kind == _APPROVAL:
        name = item.get("id")
    elif not kind.endswith("_call"):
        return None
    return name if isinstance(name, str) and name else None


def _as_input(items: Sequence[dict[str, Any]], response: dict[str, Any]) -> list[dict[str, Any]]:
    """A response's items as the next request's input. A thought that the upstream does not keep goes back only where
    all of it is there, encrypted; without it the others go without their ids, which would ask for it.
    """
    sendable = [
        item
        for item in items
        if item.get("type") != _THOUGHT or response.get("store") is True or item.get("encrypted_content")
    ]
    if len(sendable) == len(items):
        return sendable
    return [{name: value for name, value in item.items() if name != "id"} for item in sendable]


def _written(value: dict[str, Any]) -> bytes:
    kind = text_of(value.get("type"))
    named = b"event: " + kind.encode("utf-8", "replace") + b"\n" if kind is not None else b""
    return named + b"data: " + encoded(value) + b"\n\n"


def items_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    """The items of a response's output, as far as they are objects."""
    listed = response.get("output")
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def _position_in(value: dict[str, Any]) -> int | None:
    position = value.get("output_index")
    return position if isinstance(position, int) else None


def text_of(value: Any) -> str | None:
    """The text that a value is; None where it is none."""
    return value if isinstance(value, str) else None
