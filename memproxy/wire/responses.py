"""The wire format of ``/v1/responses``: read a request, put a memory block where it breaks no chain, and read a copy of
the answer.

A client either sends the whole conversation each time or names what the upstream keeps of it (``previous_response_id``,
``conversation``). What the upstream keeps nobody can take out again when its memory is erased. So a block goes into
``input``, late, only where the client manages the conversation itself; else into ``instructions``, which no chain
carries on (docs/decisions/0013).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memproxy.core.turn import INSTRUCTIONS
from memproxy.wire.answer import Answer, count_of
from memproxy.wire.chat_message import ChatMessage, Part, is_spaced, lengths_by_members, lenient_text, spans
from memproxy.wire.own_fields import OURS
from memproxy.wire.request_body import Blocks, Position, RequestBody, messages_json, quoted, readable, user_name
from memproxy.wire.response_rounds import BEGINNINGS, ENDS, FAILURES, RESPONSES_TOOLS, items_of, text_of
from memproxy.wire.splice import Edit, ObjectSpans, decode_array
from memproxy.wire.sse import SseEvent
from memproxy.wire.tool_rounds import KeptCalls, ToolFormat, json_object

LONGEST_ID = 256
"""Characters of a response's or a conversation's id that is kept as it is."""

MADE_ID = "resp_memproxy_"
"""How the id of a response begins that we made: no upstream knows it."""

_CALL, _OUTPUT = "_call", "_call_output"
_KEPT = ("previous_response_id", "conversation")


class _Item(msgspec.Struct, gc=False):
    """One item of ``input``, as far as memory reads it: a message, a tool's call or its output, or something else."""

    type: str = ""
    role: str = ""
    content: str | list[Part] | None = None
    output: str | list[Part] | None = None
    name: str | None = None


class _Called(msgspec.Struct):
    call_id: str | None = None


_ITEM = msgspec.json.Decoder(_Item)
_CALL_ID = msgspec.json.Decoder(_Called)


class ResponsesRequest(RequestBody):
    """A request for a response. ``messages`` are the input's items, a text being one message of the user."""

    def __init__(self, body: bytes, text: bytes) -> None:
        self._is_text = False
        super().__init__(body, text)
        self.chain = self._chain()

    @property
    def kept_upstream(self) -> list[tuple[str, str]]:
        """The former response and the conversation that the request names, as field and name. A name that is no text
        counts, and so does a field in other letters, for there are servers that take it.
        """
        named = []
        for name in self._top.by_name:
            field = name.casefold()
            if field in _KEPT and name not in self._ours and (value := self.field(name)) is not None:
                inner = value.get("id") if isinstance(value, dict) else value
                named.append((field, inner if isinstance(inner, str) else json.dumps(inner)))
        return named

    @property
    def sends_history(self) -> bool:
        """Whether the client sends the conversation itself: nothing that is put into ``input`` is kept upstream for
        later requests, or none of them names it.
        """
        if self.chain is not None:
            return False
        return self.field("store") is False or any(message.role == "assistant" for message in self.messages)

    @property
    def may_offer_tools(self) -> bool:
        """And only where the upstream keeps nothing. What a tool answers becomes part of ``input``, where nobody could
        take it out again when it is erased here; and a response that goes on behind calls of ours is several of the
        upstream's, none of which a later request could name.
        """
        is_kept = self.chain is not None or self.field("store") is not False or self.field("background") is True
        return not is_kept and bool(self.messages) and super().may_offer_tools

    @property
    def tool_format(self) -> ToolFormat:
        return RESPONSES_TOOLS

    def called(self) -> dict[int, list[str]]:
        call_ids: dict[int, list[str]] = {}
        names: list[str] = []
        for index, message in enumerate(self.messages):
            if not message.has_tool_calls:
                names = []
            elif name := _call_id(self._text[message.start : message.end]):
                names.append(name)
                call_ids.pop(index - 1, None)
                call_ids[index] = names
        return call_ids

    def with_earlier_calls(self, earlier: Mapping[int, KeptCalls]) -> list[Edit]:
        ends = [self.messages[index].end for index in earlier]
        return [
            Edit(end, end, b"," + ours.calls + b"," + ours.results)
            for end, ours in zip(ends, earlier.values(), strict=True)
        ]

    def _block_edits(self, blocks: Blocks, position: Position, replayed: Sequence[tuple[str, str]]) -> list[Edit]:
        """Each right before the message of its index where the client sends the whole conversation, else all of them
        as the last paragraphs of ``instructions``. What was said before is no memory, but the conversation that the
        client goes on with: it stands in ``input``.
        """
        edits = []
        if blocks and (position == "system" or not self.sends_history):
            edit = self._instruction_edit("\n\n".join(block for _, block in blocks))
            if edit is not None:
                edits, blocks = [edit], ()
        if position == "after_system":
            first = next((index for index, message in enumerate(self.messages) if message.role not in INSTRUCTIONS), 0)
            blocks = [(first, block) for _, block in blocks]
        return [*edits, *self._before_each(blocks, replayed)]

    def _instruction_edit(self, text: str) -> Edit | None:
        """The edit that adds a paragraph to ``instructions``; None when there is something of another type there."""
        member = self._top.by_name.get("instructions")
        if member is None:
            first = self._top.members[0].key_start
            return Edit(first, first, b'"instructions":' + quoted(text) + b",")
        instructions = self.field("instructions")
        if isinstance(instructions, str):
            end = member.value_end - 1
            return Edit(end, end, quoted("\n\n" + text if instructions else text)[1:-1])
        is_null = self._text.startswith(b"null", member.value_start)  # what cannot be decoded is something, too
        return Edit(member.value_start, member.value_end, quoted(text)) if is_null else None

    def _before_each(self, blocks: Blocks, replayed: Sequence[tuple[str, str]]) -> list[Edit]:
        if not blocks and not replayed:
            return []
        if self._is_text:
            start, end = self.messages[0].start, self.messages[0].end
            items = messages_json([*replayed, *(("system", block) for _, block in blocks)])
            return [Edit(start, start, b"[" + items + b'{"role":"user","content":'), Edit(end, end, b"}]")]
        last = self.messages[self.last_user_index or 0].start
        return [*([Edit(last, last, messages_json(replayed))] if replayed else ()), *self._each(blocks)]

    def _fields_of_ours(self) -> tuple[str, ...]:
        former = self.field("previous_response_id")
        is_made = isinstance(former, str) and former.startswith(MADE_ID)
        return (*OURS, "previous_response_id") if is_made else OURS

    def _chain(self) -> str | None:
        """The former response or the conversation that this request goes on from."""
        former = self._string("previous_response_id")
        if former is not None:
            return response_key(former)
        conversation = self.field("conversation")
        name = conversation.get("id") if isinstance(conversation, dict) else conversation
        return f"v:{kept_id(name)}" if isinstance(name, str) and name else None

    def _instructions(self) -> list[str]:
        return [*super()._instructions(), *filter(None, [self._string("instructions")])]

    def _read_messages(self) -> list[ChatMessage]:
        member = self._top.by_name.get("input")
        if member is None:
            return []
        if self._text.startswith(b'"', member.value_start):
            self._is_text = True
            text = self.field("input")
            return [ChatMessage(role="user", content=text, start=member.value_start, end=member.value_end)]
        return _items(self._text, member.value_start, member.raw)


def read_request(body: bytes) -> ResponsesRequest:
    """Read the body of a request for a response, as `readable` says."""
    return readable(ResponsesRequest, body)


def kept_id(upstream_id: str) -> str:
    """An id of the upstream's as it is kept: itself, or a digest where it is longer than any real one."""
    if len(upstream_id) <= LONGEST_ID:
        return upstream_id
    return "#" + hashlib.blake2b(upstream_id.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def response_key(response_id: str) -> str:
    """The key of a request that continues this response."""
    return f"r:{kept_id(response_id)}"


def background_key(response_id: str) -> str:
    """The key of a response that is made in the background, until its answer was read."""
    return f"b:{kept_id(response_id)}"


def _items(text: bytes, start: int, array: msgspec.Raw) -> list[ChatMessage]:
    """The items of the array that begins at ``start`` as messages, each with its offsets; none if it is no array.
    Raises `Unreadable` where an item says something twice.
    """
    if not text.startswith(b"[", start):
        return []
    messages = []
    proved = not is_spaced(text, start) and lengths_by_members(array) is not None
    elements = decode_array(array)
    for raw, (begin, end) in zip(elements, spans(text, start, elements), strict=True):
        if not proved and text.startswith(b"{", begin):
            ObjectSpans(text, begin, end)
        message = _message(raw)
        message.start, message.end = begin, end
        messages.append(message)
    return messages


def _message(raw: msgspec.Raw) -> ChatMessage:
    try:
        item = _ITEM.decode(raw)
    except msgspec.ValidationError:
        try:
            item = _lenient(json.loads(bytes(raw)))
        except ValueError:  # the strict decoder refuses numbers that no machine has, and Python those of many digits
            item = _Item()
    if item.type.endswith(_OUTPUT):
        return ChatMessage(role="tool", content=item.output)
    if item.type.endswith(_CALL):
        return ChatMessage(role="assistant", tool_calls=msgspec.Raw(b"[true]"))
    is_message = item.type in ("", "message")
    return ChatMessage(
        role=item.role if is_message else "", content=item.content if is_message else None, name=item.name
    )


def _call_id(raw: bytes) -> str | None:
    try:
        return _CALL_ID.decode(raw).call_id
    except msgspec.DecodeError:
        return None


def _lenient(value: Any) -> _Item:
    """An item that is not shaped as the API says, as far as it can be understood."""
    if not isinstance(value, dict):
        return _Item()
    texts = {name: value.get(name) for name in ("type", "role", "name")}
    members = {name: text for name, text in texts.items() if isinstance(text, str)}
    return _Item(**members, content=lenient_text(value.get("content")), output=lenient_text(value.get("output")))


_ENDED = frozenset({"completed", "incomplete"})
_BEGUN = frozenset({"queued", "in_progress"})
_DELTA = "response.output_text.delta"
_WANTED = (b"output_text.delta", b"response.", b"error")


class ResponsesAnswer(Answer):
    """An answer of ``/v1/responses``; ``text`` are the output's text parts of all messages.

    A stream consists of typed events; its text comes in ``response.output_text.delta`` events, and the last event holds
    the whole response again. The text is taken from there when it is there, because it is what the client ends up with.
    """

    __slots__ = ()

    @property
    def complete(self) -> bool:
        return self.finish_reason in _ENDED and not self.error

    def _body(self, data: bytes) -> None:
        self._response(json_object(data))

    def _response(self, response: Any) -> None:
        """Read a response object: what it says, how it ended, what it cost."""
        if not isinstance(response, dict):
            return
        self.response_id = text_of(response.get("id")) or self.response_id
        self.model = text_of(response.get("model")) or self.model
        status = text_of(response.get("status"))
        self.error = self.error or bool(response.get("error")) or status in ("failed", "cancelled")
        if status in _ENDED:
            self.finish_reason = status
        self.begun = status in _BEGUN and self.response_id is not None and not self.error
        self.user_fields = _user_fields(response)
        if text := "".join(_text_in(item) for item in items_of(response) if item.get("type") == "message"):
            self._parts, self._size = [], 0
            self._add_text(text)
        usage = response.get("usage")
        if isinstance(usage, dict):
            details = usage.get("input_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            self._spent(*map(count_of, (usage.get("input_tokens"), usage.get("output_tokens"), cached)))

    def _event(self, event: SseEvent) -> None:
        if not any(name in event.data for name in _WANTED):
            return
        value = json_object(event.data) or {}
        kind = text_of(value.get("type")) or event.event or ""
        if kind == _DELTA:
            self._add_text(text_of(value.get("delta")) or "")
        elif kind in ENDS:
            self._response(value.get("response"))
            self.finish_reason = self.finish_reason or kind.removeprefix("response.")
            self.done = True
        elif kind in FAILURES:
            self.error = True
            self.begun = False
        elif kind in BEGINNINGS:
            response = value.get("response")
            # in the background it goes on without its stream, and may be fetched by its id
            if isinstance(response, dict) and response.get("background") is True:
                self.response_id = text_of(response.get("id"))
                self.begun = self.response_id is not None


def _user_fields(response: dict[str, Any]) -> dict[str, str]:
    metadata = response.get("metadata")
    fields = {
        "metadata.user_id": metadata.get("user_id") if isinstance(metadata, dict) else None,
        "safety_identifier": response.get("safety_identifier"),
        "user": response.get("user"),
    }
    return {name: named for name, value in fields.items() if (named := user_name(value))}


def _text_in(item: dict[str, Any]) -> str:
    content = item.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return "".join(text_of(part.get("text")) or "" for part in parts if part.get("type") == "output_text")
