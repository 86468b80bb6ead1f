"""The wire format of ``/v1/chat/completions``: read a request, and put a memory block into it by a splice."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.turn import Message, text_digest
from memproxy.wire.chat_message import ChatMessage, is_filled, read_messages
from memproxy.wire.controls import OURS, MemoryConfig, MemoryContext, read_config, read_context
from memproxy.wire.splice import (
    ArraySpans,
    Edit,
    Member,
    ObjectSpans,
    Unreadable,
    apply,
    check_encoding,
    without_half_surrogates,
)

__all__ = ["ChatMessage", "ChatRequest", "MemoryConfig", "MemoryContext", "Position", "Unreadable", "read_request"]

Position = Literal["auto", "before_last_user", "after_system", "system"]
"""Where a block goes; ``auto`` is ``before_last_user`` here (what an upstream takes is known to the relay)."""

_ANY = msgspec.json.Decoder()
_INSTRUCTIONS = frozenset({"system", "developer"})
_FOLLOW_UPS = frozenset({"tool", "function"})
_SAID = frozenset({"user", "assistant", "tool", "function"})


def read_request(body: bytes) -> "ChatRequest":
    """Read a chat request's body. Only what memory needs is decoded.

    A body without messages, or with messages of an unknown shape, is readable: it goes on, and the upstream judges it.

    Raises:
        Unreadable: the body is no JSON object that can be spliced safely (its ``reason`` says why).
        RequestError: a field of ``memory_context`` or ``memory_config`` is wrong; the message names it.
    """
    check_encoding(body)
    try:
        return _read(body)
    except RecursionError as error:
        raise Unreadable("too_deep") from error


def _read(body: bytes) -> "ChatRequest":
    try:
        return ChatRequest(body, body)
    except Unreadable as error:
        text = without_half_surrogates(body) if error.reason == "json" else body
        if text is body:
            raise
    return ChatRequest(body, text)


class ChatRequest:
    """A chat request: its body as it came, and what memory needs to know of it.

    ``user``, ``safety_identifier`` and ``metadata_user_id`` are the API's own fields, read and left in place.
    ``has_ours`` says that ``memory_context`` or ``memory_config`` must be taken out. ``has_tools`` counts the older
    ``functions`` too; ``tool_choice_forced`` means that the answer will be a tool call.
    """

    __slots__ = (
        "_digests",
        "_text",
        "_top",
        "body",
        "config",
        "context",
        "has_ours",
        "has_tools",
        "messages",
        "metadata_user_id",
        "model",
        "n",
        "safety_identifier",
        "stream",
        "tool_choice_forced",
        "user",
    )

    def __init__(self, body: bytes, text: bytes) -> None:
        """``text`` is what is looked into: the body, or its stand-in of the same length without half surrogates."""
        top = ObjectSpans(text)
        self.body = body
        self._text = text
        self._top = top
        self._digests: list[str] | None = None
        self.messages = self._read_messages()
        self.model = self._string("model")
        self.stream = self._value("stream") is True
        self.n = self._count("n")
        self.user = self._string("user")
        self.safety_identifier = self._string("safety_identifier")
        self.metadata_user_id = self._metadata_user()
        self.context = read_context(self._own("memory_context"))
        self.config = read_config(self._own("memory_config"))
        self.has_ours = any(name in top.by_name for name in OURS)
        self.has_tools = self._filled("tools") or self._filled("functions")
        self.tool_choice_forced = _forced(self._value("tool_choice")) or _forced(self._value("function_call"))

    def __repr__(self) -> str:
        return f"ChatRequest({self.model}, {len(self.messages)} messages, {len(self.body)} bytes)"

    @property
    def tool_names(self) -> list[str]:
        """Names of the tools that the model may call."""
        return [name for name, _ in self.offered_tools]

    @property
    def offered_tools(self) -> list[tuple[str, str]]:
        """Name and description (may be empty) of each tool that the model may call."""
        tools = self._value("tools")
        functions = self._value("functions")
        declared = tools if isinstance(tools, list) else []
        older = functions if isinstance(functions, list) else []
        found = [_offered_tool(tool) for tool in (*declared, *older)]
        return [tool for tool in found if tool is not None]

    @property
    def user_texts(self) -> list[str]:
        """The texts of the user's messages, in order."""
        return [message.text for message in self.messages if message.role == "user"]

    @property
    def last_user_index(self) -> int | None:
        """Which message is the user's last, or None."""
        for index in range(len(self.messages) - 1, -1, -1):
            if self.messages[index].role == "user":
                return index
        return None

    @property
    def is_tool_followup(self) -> bool:
        """The last message brings a tool's result: the turn goes on, nobody said anything new."""
        return bool(self.messages) and self.messages[-1].role in _FOLLOW_UPS

    @property
    def digests(self) -> list[str]:
        """`core.turn.text_digest` of every message's text, in order; computed at first use."""
        if self._digests is None:
            self._digests = [text_digest(message.text) for message in self.messages]
        return self._digests

    def new_messages(self) -> list[Message]:
        """What this request adds to the conversation: what came after the assistant's last answer to the user.

        Within a tool loop that reaches back to the user's message. Instructions, an answer's beginning that the client
        wants continued (an assistant's message at the very end) and messages without text are left out, and so is any
        injected block that a client sent back.
        """
        found = []
        for message in self.messages[self._answered() :]:
            text = strip_blocks(message.text) if message.role in _SAID else ""
            if text.strip():
                found.append(Message(role=message.role, content=text, name=message.name))
        while found and found[-1].role == "assistant":
            found.pop()
        return found

    def _answered(self) -> int:
        """The index after the last assistant's message that answered the user, one at the very end not counted."""
        end = len(self.messages)
        while end and self.messages[end - 1].role == "assistant":
            end -= 1
        for index in range(end - 1, -1, -1):
            message = self.messages[index]
            if message.role == "assistant" and not message.has_tool_calls:
                return index + 1
        return 0

    def rebuild(self, block: str | None, position: Position = "before_last_user") -> bytes:
        """The body for the upstream: without our fields, with the block where ``position`` says.

        Every other byte is the client's. Without a block and without our fields it is the very same object. A request
        without messages gets no block; one without a user's message gets it after the instructions.
        """
        place = self.last_user_index
        if place is None and position in {"auto", "before_last_user"}:
            position = "after_system"
        return self.rebuild_with({place or 0: block} if block else {}, position)

    def rebuild_with(self, blocks: Mapping[int, str], position: Position = "before_last_user") -> bytes:
        """Like `rebuild`, with several blocks: each right before the message of its index, or all of them, in the order
        of their indexes, where ``position`` says.

        Raises:
            IndexError: there is no message of that index.
        """
        edits = self._top.remove(OURS) if self.has_ours else []
        ordered = [(index, blocks[index]) for index in sorted(blocks) if blocks[index]]
        if ordered and self.messages:
            edits += _POSITIONS[position](self, ordered)
        return apply(self.body, edits)

    def _before_each(self, blocks: "Blocks") -> list[Edit]:
        starts = [self.messages[index].start for index, _ in blocks]
        return [
            Edit(start, start, _system_message(block) + b",") for start, (_, block) in zip(starts, blocks, strict=True)
        ]

    def _after_system(self, blocks: "Blocks") -> list[Edit]:
        for index, message in enumerate(self.messages):
            if message.role not in _INSTRUCTIONS:
                return [self._insert(index, blocks)]
        return [self._insert(len(self.messages), blocks)]

    def _within_system(self, blocks: "Blocks") -> list[Edit]:
        """Some chat templates want one system message, at the beginning: the blocks become its last paragraphs."""
        first = self.messages[0]
        joined = "\n\n".join(block for _, block in blocks)
        if first.role not in _INSTRUCTIONS:
            return [self._insert(0, [(0, joined)])]
        content = self._content_of(first)
        kind = self._text[content.value_start : content.value_start + 1] if content else b""
        if content and kind == b'"':
            end = content.value_end - 1
            return [Edit(end, end, _quoted("\n\n" + joined if first.text else joined)[1:-1])]
        if content and kind == b"[":
            parts = ArraySpans(self._text, content.value_start, content.value_end)
            return [parts.insert(len(parts.elements), b'{"type":"text","text":' + _quoted(joined) + b"}")]
        return [self._insert(0, [(0, joined)])]

    def _content_of(self, message: ChatMessage) -> Member | None:
        try:
            return ObjectSpans(self._text, message.start, message.end).by_name.get("content")
        except Unreadable:  # a member that we do not read is there twice: nothing can be put into this one
            return None

    def _insert(self, index: int, blocks: "Blocks") -> Edit:
        messages = b",".join(_system_message(block) for _, block in blocks)
        if index < len(self.messages):
            start = self.messages[index].start
            return Edit(start, start, messages + b",")
        end = self.messages[-1].end
        return Edit(end, end, b"," + messages)

    def _read_messages(self) -> list[ChatMessage]:
        member = self._top.by_name.get("messages")
        if member is None:
            return []
        return read_messages(self._text, member.value_start, member.raw)

    def _raw(self, name: str) -> msgspec.Raw | None:
        member = self._top.by_name.get(name)
        return None if member is None else member.raw

    def _own(self, name: str) -> msgspec.Raw | None:
        """The raw value of a field of ours, proved to have no duplicate names."""
        member = self._top.by_name.get(name)
        if member is None:
            return None
        if self._text.startswith(b"{", member.value_start):
            ObjectSpans(self._text, member.value_start, member.value_end)
        return member.raw

    def _value(self, name: str) -> Any:
        return _decoded(self._raw(name))

    def _string(self, name: str) -> str | None:
        value = self._value(name)
        return value if isinstance(value, str) and value else None

    def _count(self, name: str) -> int:
        value = self._value(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1

    def _filled(self, name: str) -> bool:
        return is_filled(self._raw(name))

    def _metadata_user(self) -> str | None:
        value = _decoded(self._own("metadata"))
        user = value.get("user_id") if isinstance(value, dict) else None
        return user if isinstance(user, str) and user else None


Blocks = Sequence[tuple[int, str]]
"""Blocks with the indexes of the messages they belong to, in the messages' order."""

_POSITIONS: dict[str, Callable[[ChatRequest, Blocks], list[Edit]]] = {
    "auto": ChatRequest._before_each,  # noqa: SLF001 - a table of this class's own methods
    "before_last_user": ChatRequest._before_each,  # noqa: SLF001
    "after_system": ChatRequest._after_system,  # noqa: SLF001
    "system": ChatRequest._within_system,  # noqa: SLF001
}


def _decoded(raw: msgspec.Raw | None) -> Any:
    """A member's value, None where there is none or no machine type holds it."""
    try:
        return None if raw is None else _ANY.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def _system_message(text: str) -> bytes:
    return b'{"role":"system","content":' + _quoted(text) + b"}"


def _quoted(text: str) -> bytes:
    """A JSON string in ASCII, so that it fits into a body of any encoding of JSON's escapes; never half a surrogate."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=True).encode()


def _forced(choice: Any) -> bool:
    """Whether a ``tool_choice`` (or ``function_call``) makes the model call a tool."""
    if isinstance(choice, str):
        return choice in {"required", "any"}
    if not isinstance(choice, dict):
        return False
    if choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools")
        return isinstance(allowed, dict) and allowed.get("mode") == "required"
    return True


def _offered_tool(tool: Any) -> tuple[str, str] | None:
    if not isinstance(tool, dict):
        return None
    described = tool.get("function") or tool.get("custom")
    found = described if isinstance(described, dict) else tool
    name, description = found.get("name"), found.get("description")
    return (name, description if isinstance(description, str) else "") if isinstance(name, str) and name else None
