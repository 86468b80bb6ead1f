"""What memory reads of any request body, whatever its format: who said what, our own fields, the tools offered."""

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import msgspec

from memproxy.core.block import NAME, shown_texts, strip_blocks
from memproxy.core.turn import INSTRUCTIONS, Message, quoted_digests, text_digest
from memproxy.wire import splice
from memproxy.wire.chat_message import ChatMessage, is_filled
from memproxy.wire.own_fields import OURS, read_config, read_context
from memproxy.wire.splice import Edit, ObjectSpans, Unreadable
from memproxy.wire.tool_rounds import KeptCalls, ToolFormat

Position = Literal["auto", "before_last_user", "after_system", "system", "within_user"]
"""Where a block goes; ``auto`` is ``before_last_user`` here (what an upstream takes is known to the relay)."""

Blocks = Sequence[tuple[int, str]]
"""Blocks with the indexes of the messages they belong to, in the messages' order."""


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """How the sent conversation differs from the client's.

    ``replayed`` are earlier messages, role and text, put before the user's last one. The messages ``left_out``
    (indexes) are taken out; ``state`` stands for them, before the message that follows the last of them. ``notes`` is
    put behind the block of the user's last message.
    """

    replayed: Sequence[tuple[str, str]] = ()
    left_out: Sequence[int] = ()
    state: str | None = None
    notes: str | None = None


NO_BLOCKS: Mapping[int, str] = MappingProxyType({})
AS_SENT = Context()
"""The conversation as the client sent it."""

MOST_BYTES = 8 * 1024 * 1024
MOST_MESSAGES = 5_000
MOST_CHARACTERS = 1024 * 1024
"""Bounds of what memory looks at: a body's bytes, its messages, and the characters of each (a quarter of a million
tokens). Anything beyond goes on untouched: the parser holds Python's lock for a millisecond or two for each
mebibyte, and all other requests wait for that.
"""

LONGEST_NAME = 256
"""Characters of a model's name that memory keeps; providers' are a tenth of that."""

_ANY = msgspec.json.Decoder()
_FOLLOW_UPS = frozenset({"tool", "function"})
_SAID = frozenset({"user", "assistant", "tool", "function"})


class RequestBody(ABC):
    """A request: its body as it came, and what memory needs to know of it. One subclass for each format.

    ``user``, ``safety_identifier`` and ``metadata_user_id`` are the API's own fields, read and left in place.
    ``has_ours`` says that ``memory_context`` or ``memory_config`` must be taken out. ``has_tools`` counts the older
    ``functions`` too; ``tool_choice_forced`` means that the answer will be a tool call. ``chain`` names what the
    upstream keeps of the conversation (a former response, a conversation object), None where the client sends it whole.
    """

    def __init__(self, body: bytes, text: bytes) -> None:
        """``text`` is what is looked into: the body, or its stand-in of the same length without half surrogates."""
        top = ObjectSpans(text)
        self.body = body
        self._text = text
        self._top = top
        self.messages = self._read_messages()
        if len(self.messages) > MOST_MESSAGES or any(len(text) > MOST_CHARACTERS for text in self.texts):
            raise Unreadable("too_long")
        self.model = self._string("model")
        self.stream = self.field("stream") is True
        self.user = user_name(self.field("user"))
        self.safety_identifier = user_name(self.field("safety_identifier"))
        metadata = _decoded(self._own("metadata"))
        self.metadata_user_id = user_name(metadata.get("user_id")) if isinstance(metadata, dict) else None
        self.context = read_context(self._own("memory_context"))
        self.config = read_config(self._own("memory_config"))
        self._ours = self._fields_of_ours()
        self.has_ours = any(name in top.by_name for name in self._ours)
        self.has_tools = is_filled(self._raw("tools")) or is_filled(self._raw("functions"))
        self.tool_choice_forced = _forced(self.field("tool_choice")) or _forced(self.field("function_call"))
        self.chain: str | None = None

    def _fields_of_ours(self) -> tuple[str, ...]:
        return OURS

    @property
    def offered_tools(self) -> list[tuple[str, str]]:
        """Name and description (may be empty) of each tool that the model may call."""
        return [*_offered(self._raw("tools")), *_offered(self._raw("functions"))]

    @property
    def may_offer_tools(self) -> bool:
        """Whether the model may be offered tools that the client does not know: none is forced or forbidden."""
        choice = self.field("tool_choice")
        return self._top.by_name.get("tool_choice") is None or choice is None or choice == "auto"

    @property
    @abstractmethod
    def tool_format(self) -> ToolFormat:
        """How tools are offered and called in this format."""

    def with_tools(self, tools: Sequence[bytes]) -> list[Edit]:
        """The edits that put these tools (JSON) behind the client's own."""
        member, added = self._top.by_name.get("tools"), b",".join(tools)
        if member is None:
            first = self._top.members[0].key_start
            return [Edit(first, first, b'"tools":[' + added + b"],")]
        if self._text.startswith(b"[", member.value_start):
            return [splice.append_element(self._text, member.value_start, member.value_end, added)]
        return [Edit(member.value_start, member.value_end, b"[" + added + b"]")]

    @abstractmethod
    def called(self) -> dict[int, list[str]]:
        """The names of the calls that were made together, by the last message (index) that has one of them."""

    @abstractmethod
    def with_earlier_calls(self, earlier: Mapping[int, KeptCalls]) -> list[Edit]:
        """The edits that put calls of ours, and their results, back beside the client's calls in these messages."""

    @property
    def sends_history(self) -> bool:
        """Whether the client sends the whole conversation each time, and the upstream keeps none of it."""
        return True

    @cached_property
    def user_indexes(self) -> list[int]:
        return [index for index, message in enumerate(self.messages) if message.role == "user"]

    @cached_property
    def texts(self) -> list[str]:
        return [content if type(content := message.content) is str else message.text for message in self.messages]

    @cached_property
    def user_texts(self) -> list[str]:
        return [self.texts[index] for index in self.user_indexes]

    @cached_property
    def digests(self) -> list[str]:
        """`core.turn.text_digest` of every message's text, in order."""
        return [text_digest(text) for text in self.texts]

    @property
    def user_digests(self) -> list[str]:
        return [self.digests[index] for index in self.user_indexes]

    @property
    def last_user_index(self) -> int | None:
        """Which message is the user's last, or None."""
        return self.user_indexes[-1] if self.user_indexes else None

    @property
    def last_answer(self) -> str | None:
        """The text of the assistant's last message that has one, or None."""
        texts = (message.text for message in reversed(self.messages) if message.role == "assistant")
        return next((text for text in texts if text), None)

    @property
    def is_tool_followup(self) -> bool:
        """The last message brings a tool's result: the turn goes on, nobody said anything new."""
        return bool(self.messages) and self.messages[-1].role in _FOLLOW_UPS

    def look(self) -> None:
        """Compute the lazy properties now: those of a large body in a thread, where nobody waits."""
        _ = self.present, self.new_messages

    @property
    def kept_model(self) -> str | None:
        """The model's name as memory keeps it: None for what is too long to be one."""
        return self.model if self.model is not None and len(self.model) <= LONGEST_NAME else None

    @cached_property
    def present(self) -> list[str]:
        """Digests of all that the request says already: messages, what stands in them by itself, lines of sent back
        blocks.
        """
        return self.present_without(())

    def present_without(self, gone: Collection[int]) -> list[str]:
        """The same without these messages (indexes)."""
        remaining = [index for index in range(len(self.messages)) if index not in gone]
        users = [self.texts[index] for index in self.user_indexes if index not in gone]
        held = [self.digests[index] for index in remaining] + quoted_digests(self._instructions(), users)
        # a client may have changed the case of a block's letters, or escaped some
        is_marked = splice.contains(self.body, b"<" + NAME.encode(), b"<", any_case=True)
        if is_marked or splice.contains(self.body, b"\\u00", b"\\"):
            held += [text_digest(text) for index in remaining for text in shown_texts(self.texts[index])]
        return held

    def _instructions(self) -> list[str]:
        return [message.text for message in self.messages if message.role in INSTRUCTIONS]

    @property
    def new_messages(self) -> list[Message]:
        """The messages that this request adds to the conversation: those after the assistant's last answer to the user.

        Within a tool loop that reaches back to the user's message. Instructions, an answer's beginning that the client
        wants continued (an assistant's message at the very end) and messages without text are left out, and so is any
        injected block that a client sent back.
        """
        return [message for _, message in self._new]

    @cached_property
    def _new(self) -> list[tuple[int, Message]]:
        new, begin = [], self._answered()
        for index, message in enumerate(self.messages[begin:], begin):
            text = strip_blocks(message.text) if message.role in _SAID else ""
            if text.strip():
                new.append((index, Message(role=message.role, content=text, name=message.name)))
        while new and new[-1][1].role == "assistant":
            new.pop()
        return new

    @property
    def said_again(self) -> list[int]:
        """Which messages of the user (indexes) are among the new ones, but not the last: earlier requests may have
        brought them, and nobody answered them in words (the model called tools, or failed).
        """
        begin = self._answered()
        return [index for index in self.user_indexes if index >= begin][:-1]

    def new_messages_at(self, times: Sequence[datetime | None]) -> list[Message]:
        """New messages, of which those that are said again, and what follows each, have the ``times`` at which they
        came first: by them they are known to be the same.
        """
        if not any(times):
            return self.new_messages
        begins = self.said_again
        said_at = [None, *times]  # before the first of them, then since each
        return [
            msgspec.structs.replace(message, timestamp=said_at[bisect_right(begins, index)])
            if index < (self.last_user_index or 0)
            else message
            for index, message in self._new
        ]

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

    def rebuild(
        self,
        blocks: Mapping[int, str] = NO_BLOCKS,
        position: Position = "before_last_user",
        context: Context = AS_SENT,
        more: Sequence[Edit] = (),
    ) -> bytes:
        """The body for the upstream: without our fields, with each block (by the index of the message it belongs to)
        where ``position`` says, with another context, and with ``more`` edits of the body.

        Every other byte is the client's. Without any of them and without our fields it is the very same object. A
        request without messages gets no block.

        Raises:
            IndexError: there is no message of that index.
        """
        edits = [*self._top.remove(self._ours), *more] if self.has_ours else [*more]
        ordered = [(index, blocks[index]) for index in sorted(blocks) if blocks[index]]
        replayed: Sequence[tuple[str, str]] = ()
        if context is not AS_SENT:
            ordered, replayed = self._with_context(ordered, context), context.replayed
        if (ordered or replayed) and self.messages:
            edits += self._block_edits(ordered, position, replayed)
        # each with the comma behind it; the last message is none of them
        gone = [Edit(self.messages[index].start, self.messages[index + 1].start) for index in context.left_out]
        return splice.apply(self.body, [*edits, *gone] if gone else edits)

    def _with_context(self, blocks: Blocks, context: Context) -> list[tuple[int, str]]:
        """The blocks of messages that stay, with the state before the first of them and the notes behind the last."""
        gone = frozenset(context.left_out)
        remaining = [(index, block) for index, block in blocks if index not in gone]
        if context.state and gone:
            remaining.insert(0, (max(gone) + 1, context.state))
        if context.notes:
            remaining.append((self.last_user_index or 0, context.notes))
        return sorted(remaining, key=itemgetter(0))

    @property
    def may_hold_blocks(self) -> bool:
        """Whether blocks may stand ``within_user``, as the client sends no instructions of its own."""
        return False

    @abstractmethod
    def _block_edits(self, blocks: Blocks, position: Position, replayed: Sequence[tuple[str, str]]) -> list[Edit]:
        """The edits that put blocks where ``position`` says, and ``replayed`` messages before the user's last one."""

    def _each(self, blocks: Blocks) -> list[Edit]:
        """The edits that put each block before the message of its index."""
        starts = [self.messages[index].start for index, _ in blocks]
        return [Edit(at, at, messages_json([("system", block)])) for at, (_, block) in zip(starts, blocks, strict=True)]

    @abstractmethod
    def _read_messages(self) -> list[ChatMessage]:
        """The messages, each with its place in the body."""

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

    def field(self, name: str) -> Any:
        """A field of the request, decoded; None where there is none."""
        return _decoded(self._raw(name))

    def _string(self, name: str) -> str | None:
        value = self.field(name)
        return value if isinstance(value, str) and value else None


AnyRequest = TypeVar("AnyRequest", bound=RequestBody)


def readable(kind: type[AnyRequest], body: bytes) -> AnyRequest:
    """The body read as a request of this kind.

    Raises:
        Unreadable: it is no JSON object that can be spliced safely (its ``reason`` says why), or too large.
        RequestError: a field of ``memory_context`` or ``memory_config`` is wrong; the message names it.
    """
    if len(body) > MOST_BYTES:
        raise Unreadable("too_long")
    splice.check_encoding(body)
    try:
        try:
            return kind(body, body)
        except Unreadable as error:
            if error.reason != "json" or (text := splice.without_half_surrogates(body)) is body:
                raise
        return kind(body, text)
    except RecursionError as error:
        raise Unreadable("too_deep") from error


def _decoded(raw: msgspec.Raw | None) -> Any:
    """A member's value, None where there is none or no machine type holds it."""
    try:
        return None if raw is None else _ANY.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None


def user_name(value: Any) -> str | None:
    """Whom a field of the API's own names: a whole number by its digits, as in a token. What is no name at all is one
    that no user can have, for nobody but the unnamed are the default user.
    """
    if value is None or isinstance(value, str):
        return value or None
    return str(value) if type(value) is int else "\0"


def quoted(text: str) -> bytes:
    """A JSON string in ASCII, so that it fits into a body of any encoding of JSON's escapes; never half a surrogate."""
    return json.dumps(text.encode("utf-8", "replace").decode(), ensure_ascii=True).encode()


def messages_json(messages: Iterable[tuple[str, str]]) -> bytes:
    """Messages (role and text) as JSON, a comma behind each; both formats take them in this form."""
    return b"".join(b'{"role":' + quoted(role) + b',"content":' + quoted(text) + b"}," for role, text in messages)


def _forced(choice: Any) -> bool:
    """Whether a ``tool_choice`` (or ``function_call``) makes the model call a tool."""
    if isinstance(choice, str):
        return choice in {"required", "any"}
    if not isinstance(choice, dict):
        return False
    if choice.get("type") == "allowed_tools":
        allowed = choice.get("allowed_tools")
        return (allowed if isinstance(allowed, dict) else choice).get("mode") == "required"
    return True


class _Named(msgspec.Struct, gc=False):
    name: str = ""
    description: str = ""


class _Tool(_Named, gc=False):
    """A tool's name in either format; its parameters are skipped unread."""

    function: _Named | None = None
    custom: _Named | None = None


_TOOLS = msgspec.json.Decoder(list[_Tool])


def _offered(raw: msgspec.Raw | None) -> list[tuple[str, str]]:
    if raw is None:
        return []
    try:
        tools = _TOOLS.decode(raw)
    except (msgspec.DecodeError, RecursionError):  # not all are shaped as the API says
        value = _decoded(raw)
        offered = [_offered_tool(tool) for tool in value] if isinstance(value, list) else []
        return [tool for tool in offered if tool is not None]
    named = [tool.function or tool.custom or tool for tool in tools]
    return [(tool.name, tool.description) for tool in named if tool.name]


def _offered_tool(tool: Any) -> tuple[str, str] | None:
    if not isinstance(tool, dict):
        return None
    described = tool.get("function") or tool.get("custom")
    fields = described if isinstance(described, dict) else tool
    name, description = fields.get("name"), fields.get("description")
    return (name, description if isinstance(description, str) else "") if isinstance(name, str) and name else None
