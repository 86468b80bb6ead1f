"""An answer to a request that offered tools of ours beside the client's, read in rounds: the parts of both formats, and
those of chat's alone.

What is the client's passes as it comes, byte for byte where nothing of ours is in it and no round was before; calls of
our tools are kept back. A round that calls ours alone is followed by another; one that calls the client's too is the
last, for only the client can answer those.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import msgspec

from memproxy.wire.answer import is_soon_read
from memproxy.wire.splice import Edit, ObjectSpans, append_element, apply, check_encoding, without_half_surrogates
from memproxy.wire.sse import MAX_EVENT_BYTES, SseEvent, SseParser

MOST_ARGUMENTS = 256 * 1024
"""Characters of the arguments of one call; more are no use to any of our tools."""

MOST_BYTES = 16 * 1024 * 1024
"""Most bytes of a whole answer, or of the calls in one round of a stream; a longer one passes unread."""

EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_DONE = b"[DONE]"


class ToolCall(msgspec.Struct):
    """A call of one of our tools. ``arguments`` None: what the model wrote there is no JSON object, or too long."""

    id: str
    name: str
    arguments: dict[str, Any] | None


class ClientView(msgspec.Struct):
    """What the client got in the rounds so far: the stream's head, whether there was text, the items of a
    response and the number of its next event, and the tokens of the rounds before this one.
    """

    head: dict[str, Any] = {}
    role: bool = False
    text: bool = False
    output: list[Any] = []
    sequence: int = 0
    usage: dict[str, Any] = {}


class Round(ABC):
    """One answer of the upstream. After `finish`, or once it is ``done``: ``calls`` are those of our tools, ``others``
    the names of the client's calls, ``tail`` is what the client gets when nothing follows.
    """

    def __init__(self, names: Collection[str], client_view: ClientView) -> None:
        """``names`` are those of our tools; ``client_view`` is carried on from round to round."""
        self._names = names
        self._client_view = client_view
        self._reply: list[dict[str, Any]] = []
        self._called: list[dict[str, Any]] = []
        self.calls: list[ToolCall] = []
        self.others: list[str] = []
        self.tail = b""
        self.done = False

    @abstractmethod
    def feed(self, chunk: bytes) -> bytes:
        """Take the next bytes; returns what the client gets of them now."""

    @abstractmethod
    def finish(self) -> bytes:
        """The answer is over; returns what the client gets now."""

    @property
    def goes_on(self) -> bool:
        """Whether it calls tools of ours alone, so that another one follows."""
        return bool(self.calls) and not self.others

    def reply_json(self) -> bytes:
        """What the model said, with our calls, as the next request has it (JSON, commas between)."""
        return b",".join(map(encoded, self._reply))

    def call_json(self, index: int) -> bytes:
        """One of our calls as it stands there."""
        return encoded(self._called[index])

    def _spend(self, body: dict[str, Any]) -> bool:
        """Count the tokens; whether the whole answer now tells of more than its own."""
        usage = body.get("usage")
        if self.goes_on:
            self._client_view.usage = sum_usage(self._client_view.usage, usage if isinstance(usage, dict) else {})
        elif isinstance(usage, dict) and self._client_view.usage:
            body["usage"] = sum_usage(self._client_view.usage, usage)
            return True
        return False


@dataclass(frozen=True)
class ToolFormat:
    """How one format offers tools and has them called: ``tool`` writes one of which name, description and parameters
    are given, ``result`` what a call answered. ``conversation_field`` is the request's member with the conversation.
    """

    stream: type[Round]
    whole: type[Round]
    tool: Callable[[dict[str, Any]], bytes]
    result: Callable[[ToolCall, str], bytes]
    conversation_field: str

    def next_round(self, body: bytes, reply: bytes, *, last: bool) -> bytes:
        """The request that follows this one in a tool loop: with ``reply`` (JSON, commas between) at its end. ``last``:
        the model may call no more tools. Raises `Unreadable` where the request cannot be spliced.
        """
        check_encoding(body)
        text = without_half_surrogates(body)
        top = ObjectSpans(text)
        member = top.by_name[self.conversation_field]
        start, end = member.value_start, member.value_end
        if text.startswith(b"[", start):
            edits = [append_element(text, start, end, reply)]
        else:  # a text, which is one message of the user
            edits = [Edit(start, start, b'[{"role":"user","content":'), Edit(end, end, b"}," + reply + b"]")]
        if last:
            choice, first = top.by_name.get("tool_choice"), top.members[0].key_start
            edits.append(
                Edit(first, first, b'"tool_choice":"none",')
                if choice is None
                else Edit(choice.value_start, choice.value_end, b'"none"')
            )
        return apply(body, edits)


class KeptCalls(msgspec.Struct, frozen=True):
    """Calls that the client does not know of, and their results, as a request has them: JSON with commas between."""

    calls: bytes
    results: bytes


class Events(Round):
    """The events of a streamed answer, one at a time; once one of them, or what is kept back of them, is too long to be
    held in memory, all passes as it comes.
    """

    def __init__(self, names: Collection[str], client_view: ClientView) -> None:
        super().__init__(names, client_view)
        self._first = not client_view.head
        self._buffer = bytearray()
        self._blind = False
        self._kept_back = 0
        """Bytes of the events that the client did not get."""

    def feed(self, chunk: bytes) -> bytes:
        if self._blind:
            return chunk
        start = max(0, len(self._buffer) - 3)
        self._buffer += chunk
        out, done = [], 0
        while end := EVENT_END.search(self._buffer, max(start, done)):
            out.append(self._event(bytes(self._buffer[done : end.end()])))
            done = end.end()
        del self._buffer[:done]
        if len(self._buffer) > MAX_EVENT_BYTES or self._kept_back > MOST_BYTES:
            self._blind = True
            out += [self._let_go(), self.tail, bytes(self._buffer)]
            self._buffer, self.tail = bytearray(), b""
        return b"".join(out)

    def finish(self) -> bytes:
        rest, self._buffer = bytes(self._buffer), bytearray()
        out = self._event(rest) if rest else b""
        self._end()
        return out + self._let_go()

    @abstractmethod
    def _event(self, raw: bytes) -> bytes:
        """One event, its blank line included: itself, what is the client's of it, or nothing."""

    def _end(self) -> None:
        """No more events come."""
        self.done = True

    def _let_go(self) -> bytes:
        """What waits before the tail, for the client."""
        return b""


class StreamRound(Events):
    """A streamed answer."""

    def __init__(self, names: Collection[str], client_view: ClientView) -> None:
        super().__init__(names, client_view)
        self._parts: list[_Part] = []
        self._at: dict[int, _Part] = {}
        self._usage: dict[str, Any] = {}
        self._text_before = client_view.text
        self._ending = False
        self.message: dict[str, Any] = {"role": "assistant", "content": None}

    def _event(self, raw: bytes) -> bytes:
        event = one_event(raw)
        data = event.data.strip() if event is not None else b""
        if data == _DONE:
            self._end()
            return self._or_later(raw)
        chunk = json_object(data) if data else None
        if chunk is None:
            return self._or_later(raw)
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = usage
        choices = chunk.get("choices")
        choice = next((entry for entry in choices if _is_first(entry)), None) if isinstance(choices, list) else None
        changed = self._look(choice, raw) if choice is not None else False
        if changed is None:
            return b""
        if not self._first:
            changed = self._continue(chunk, choice)
        elif not self._client_view.head:
            self._client_view.head = {name: chunk[name] for name in ("id", "created") if name in chunk}
        if isinstance(usage, dict) and self._client_view.usage:
            chunk["usage"], changed = sum_usage(self._client_view.usage, usage), True
        return self._or_later(b"data: " + encoded(chunk) + b"\n\n" if changed else raw)

    def _or_later(self, raw: bytes) -> bytes:
        """From where the model has said all, a round with calls of ours waits for what comes of them."""
        if not self._ending or not any(part.is_ours for part in self._parts):
            return raw
        self._kept_back += len(raw)
        self.tail += raw
        return b""

    def _look(self, choice: dict[str, Any], raw: bytes) -> bool | None:
        """Take calls of ours out of a choice; whether it changed, None: nothing is left of it."""
        delta, changed = choice.get("delta"), False
        if isinstance(delta, dict):
            entries = delta.get("tool_calls")
            shown = []
            if isinstance(entries, list) and entries:
                shown = [call for entry in entries if (call := self._call(entry)) is not None]
                self._kept_back += len(raw) if len(shown) < len(entries) else 0
                changed = shown != entries
                delta.pop("tool_calls")
            if choice.get("finish_reason"):
                late = [part for part in self._parts if part.is_ours is None and _name(part.fields)]
                shown += [call for part in late if (call := self._settled(part, {"index": 0})) is not None]
                changed = changed or bool(late)
            _merge(self.message, delta)
            if shown:
                delta["tool_calls"] = shown
            if changed and not shown and not choice.get("finish_reason") and not any(delta.values()):
                return None
            self._client_view.role = self._client_view.role or "role" in delta
            self._client_view.text = self._client_view.text or bool(delta.get("content"))
        if choice.get("finish_reason"):
            self._ending = True
        return changed

    def _call(self, entry: Any) -> Any:
        """Add to a call; what the client gets of it. Some upstreams number no calls, or two alike; some repeat the
        name.
        """
        if not isinstance(entry, dict):
            return entry
        index, named = entry.get("index"), entry.get("id")
        if not isinstance(index, int):
            index = len(self._at) if named else max(len(self._at) - 1, 0)
        part = self._at.get(index)
        if part is None or (named and part.fields.get("id") not in {None, "", named}):
            part = self._at[index] = _Part()
            self._parts.append(part)
        piece = {name: value for name, value in entry.items() if name != "index"}
        if part.is_ours is not None and isinstance(function := piece.get("function"), dict):
            piece["function"] = {name: value for name, value in function.items() if name != "name"}
        _merge(part.fields, piece)
        if part.is_ours is None:
            name, is_function = _name(part.fields), part.fields.get("type") in {None, "function"}
            begins_one = name not in self._names and any(own_name.startswith(name) for own_name in self._names)
            if begins_one and is_function and not (name and part.fields["function"].get("arguments")):
                return None  # the rest of its name is to come
        return self._settled(part, entry)

    def _settled(self, part: "_Part", entry: dict[str, Any]) -> dict[str, Any] | None:
        """Decide by its name whose call it is; returns the client's part: all of its call once that is known."""
        if part.is_ours is None:
            part.is_ours = _name(part.fields) in self._names
            if not part.is_ours:
                part.index = sum(other.is_ours is False for other in self._parts) - 1
                entry = {**entry, **part.fields}
        if part.is_ours:
            return None
        return {**entry, "index": part.index} if "index" in entry else entry

    def _continue(self, chunk: dict[str, Any], choice: dict[str, Any] | None) -> bool:
        """Make a later round's chunk go on with the first one's answer."""
        chunk |= self._client_view.head
        delta = choice.get("delta") if choice is not None else None
        if isinstance(delta, dict):
            if self._client_view.role:
                delta.pop("role", None)
            if self._text_before and delta.get("content"):
                delta["content"], self._text_before = "\n\n" + delta["content"], False
        return True

    def _end(self) -> None:
        if self.done:
            return
        self.done = self._ending = True
        ours = [part for part in self._parts if part.is_ours]
        self.calls = [part.call(index) for index, part in enumerate(ours)]
        self._called = self.message["tool_calls"] = [part.fields for part in ours]
        self._reply = [self.message]
        self.others = [str(part.fields.get("id") or "") for part in self._parts if part.is_ours is False]
        if self.goes_on:
            self._client_view.usage = sum_usage(self._client_view.usage, self._usage)


class WholeBody(Round):
    """An answer in one JSON body; all of it waits for its end. One longer than `MOST_BYTES` passes unread."""

    def __init__(self, names: Collection[str], client_view: ClientView) -> None:
        super().__init__(names, client_view)
        self._chunks: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        self._size += len(chunk)
        self._chunks.append(chunk)
        if self._size <= MOST_BYTES:
            return b""
        passed = b"".join(self._chunks)
        self._chunks = []
        return passed

    def finish(self) -> bytes:
        self.done = True
        raw = b"".join(self._chunks)
        body = json_object(raw) if self._size <= MOST_BYTES else None
        if body is None:
            return raw
        changed = self._take(body)
        changed = self._spend(body) or changed
        if self.goes_on:
            return b""
        if self.calls:
            self.tail = encoded(body)
            return b""
        return encoded(body) if changed else raw

    @abstractmethod
    def _take(self, body: dict[str, Any]) -> bool:
        """Take our calls out of the answer; whether it is another one then, where it is not to be continued."""


class WholeRound(WholeBody):
    """An answer in one JSON body."""

    def _take(self, body: dict[str, Any]) -> bool:
        choices = body.get("choices")
        choice = next((entry for entry in choices if _is_first(entry)), None) if isinstance(choices, list) else None
        message = choice.get("message") if choice is not None else None
        calls = message.get("tool_calls") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(calls, list):
            return False
        ours: list[dict[str, Any]] = []
        foreign: list[Any] = []
        for call in calls:
            (ours if isinstance(call, dict) and _name(call) in self._names else foreign).append(call)
        parts = [_Part(fields=call, is_ours=True) for call in ours]
        self.calls = [part.call(index) for index, part in enumerate(parts)]
        self._reply, self._called = [{**message, "tool_calls": ours}], ours
        if ours and foreign:
            message["tool_calls"] = foreign
        self.others = [str(call.get("id") or "") for call in foreign if isinstance(call, dict)]
        return bool(ours)


class _Part(msgspec.Struct):
    """A call as it grows."""

    fields: dict[str, Any] = {}
    is_ours: bool | None = None
    index: int = 0

    def call(self, index: int) -> ToolCall:
        """The call. What cannot be sent back is mended in it."""
        function = self.fields["function"] = dict(self.fields["function"])
        name = self.fields["id"] = self.fields.get("id") or f"call_memproxy_{index}"
        self.fields.setdefault("type", "function")
        arguments, function["arguments"] = readable_arguments(function.get("arguments"))
        return ToolCall(str(name), str(function["name"]), arguments)


def readable_arguments(written: Any) -> tuple[dict[str, Any] | None, str]:
    """The arguments of a call as they were written, read and as they can be sent back: some upstreams refuse a history
    with what is no JSON. None: they are no object, or too long.
    """
    arguments: Any = written
    if isinstance(written, str):
        arguments = json_object(written.encode("utf-8", "replace")) if len(written) <= MOST_ARGUMENTS else None
        arguments = {} if not written.strip() else arguments
    if not isinstance(arguments, dict):
        return None, "{}"
    return arguments, written if isinstance(written, str) and written.strip() else encoded(arguments).decode()


def one_event(raw: bytes) -> SseEvent | None:
    """The event in these bytes; None where there is none (a comment)."""
    parser = SseParser()
    return next(iter([*parser.feed(raw), *parser.close()]), None)


def encoded(value: Any) -> bytes:
    """JSON in ASCII; half surrogates stay what they were."""
    return json.dumps(value, separators=(",", ":")).encode()


def sum_usage(earlier: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """The sum of two reports of tokens: numbers are added, all else is the later one's."""
    total = {**earlier, **newer}
    for name, value in earlier.items():
        later = newer.get(name)
        if isinstance(value, dict) and isinstance(later, dict):
            total[name] = sum_usage(value, later)
        elif _is_number(value) and _is_number(later):
            total[name] = value + later
        elif later is None:
            total[name] = value
    return total


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _merge(into: dict[str, Any], delta: dict[str, Any]) -> None:
    """Add a piece of a message: texts are joined, objects merged, all else is what came last."""
    for name, value in delta.items():
        held = into.get(name)
        if isinstance(held, str) and isinstance(value, str) and name not in {"role", "id", "type"}:
            into[name] = held + value
        elif isinstance(held, dict) and isinstance(value, dict):
            _merge(held, value)
        elif value is not None:
            into[name] = dict(value) if isinstance(value, dict) else value


def _name(call: dict[str, Any]) -> str:
    function = call.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else ""


def _is_first(choice: Any) -> bool:
    return isinstance(choice, dict) and choice.get("index", 0) == 0


def json_object(data: bytes) -> dict[str, Any] | None:
    """A JSON object; None for anything else."""
    try:
        value = json.loads(data) if is_soon_read(data) else None
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
