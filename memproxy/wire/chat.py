"""The wire format of ``/v1/chat/completions``: read a request, and put a memory block into it by a splice."""

from collections.abc import Callable, Mapping, Sequence

from memproxy.core.turn import INSTRUCTIONS
from memproxy.wire.chat_message import ChatMessage, read_messages
from memproxy.wire.controls import OURS, MemoryConfig, MemoryContext
from memproxy.wire.request import Position, RequestBody, quoted, readable, system_message
from memproxy.wire.splice import Edit, Member, ObjectSpans, Unreadable, append_element, apply

__all__ = ["ChatMessage", "ChatRequest", "MemoryConfig", "MemoryContext", "Position", "Unreadable", "read_request"]


def read_request(body: bytes) -> "ChatRequest":
    """Read a chat request's body. Only what memory needs is decoded.

    A body without messages, or with messages of an unknown shape, is readable: it goes on, and the upstream judges it.

    Raises:
        Unreadable: the body is no JSON object that can be spliced safely (its ``reason`` says why).
        RequestError: a field of ``memory_context`` or ``memory_config`` is wrong; the message names it.
    """
    return readable(ChatRequest, body)


class ChatRequest(RequestBody):
    """A chat request; every message of the conversation is in it."""

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
            Edit(start, start, system_message(block) + b",") for start, (_, block) in zip(starts, blocks, strict=True)
        ]

    def _after_system(self, blocks: "Blocks") -> list[Edit]:
        for index, message in enumerate(self.messages):
            if message.role not in INSTRUCTIONS:
                return [self._insert(index, blocks)]
        return [self._insert(len(self.messages), blocks)]

    def _within_system(self, blocks: "Blocks") -> list[Edit]:
        """Some chat templates want one system message, at the beginning: the blocks become its last paragraphs."""
        first = self.messages[0]
        joined = "\n\n".join(block for _, block in blocks)
        if first.role not in INSTRUCTIONS:
            return [self._insert(0, [(0, joined)])]
        content = self._content_of(first)
        kind = self._text[content.value_start : content.value_start + 1] if content else b""
        if content and kind == b'"':
            end = content.value_end - 1
            return [Edit(end, end, quoted("\n\n" + joined if first.text else joined)[1:-1])]
        if content and kind == b"[":
            part = b'{"type":"text","text":' + quoted(joined) + b"}"
            return [append_element(self._text, content.value_start, content.value_end, part)]
        return [self._insert(0, [(0, joined)])]

    def _content_of(self, message: ChatMessage) -> Member | None:
        try:
            return ObjectSpans(self._text, message.start, message.end).by_name.get("content")
        except Unreadable:  # a member that we do not read is there twice: nothing can be put into this one
            return None

    def _insert(self, index: int, blocks: "Blocks") -> Edit:
        messages = b",".join(system_message(block) for _, block in blocks)
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


Blocks = Sequence[tuple[int, str]]
"""Blocks with the indexes of the messages they belong to, in the messages' order."""

_POSITIONS: dict[str, Callable[[ChatRequest, Blocks], list[Edit]]] = {
    "auto": ChatRequest._before_each,  # noqa: SLF001 - a table of this class's own methods
    "before_last_user": ChatRequest._before_each,  # noqa: SLF001
    "after_system": ChatRequest._after_system,  # noqa: SLF001
    "system": ChatRequest._within_system,  # noqa: SLF001
}
