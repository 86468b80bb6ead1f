"""The wire format of ``/v1/chat/completions``: read a request, and put a memory block into it by a splice."""

from collections.abc import Sequence

from memproxy.core.turn import INSTRUCTIONS
from memproxy.wire.chat_message import ChatMessage, read_messages
from memproxy.wire.request import Blocks, Position, RequestBody, quoted, readable, role_message, system_message
from memproxy.wire.splice import Edit, Member, ObjectSpans, Unreadable, append_element


class ChatRequest(RequestBody):
    """A chat request; every message of the conversation is in it."""

    def rebuild(self, block: str | None, position: Position = "before_last_user") -> bytes:
        """As `RequestBody.rebuild`; where no message is the user's, the block goes after the instructions."""
        if self.last_user_index is None and position in {"auto", "before_last_user"}:
            position = "after_system"
        return super().rebuild(block, position)

    def _placed(self, blocks: Blocks, position: Position, said: Sequence[tuple[str, str]]) -> list[Edit]:
        return [*self._said(said), *self._blocks(blocks, position)] if said else self._blocks(blocks, position)

    def _said(self, said: Sequence[tuple[str, str]]) -> list[Edit]:
        start = self.messages[self.last_user_index or 0].start
        return [Edit(start, start, b"".join(role_message(*one) + b"," for one in said))]

    def _blocks(self, blocks: Blocks, position: Position) -> list[Edit]:
        if not blocks:
            return []
        if position == "system":
            return self._within_system(blocks)
        if position == "after_system":
            return self._after_system(blocks)
        starts = [self.messages[index].start for index, _ in blocks]
        return [
            Edit(start, start, system_message(block) + b",") for start, (_, block) in zip(starts, blocks, strict=True)
        ]

    def _after_system(self, blocks: Blocks) -> list[Edit]:
        for index, message in enumerate(self.messages):
            if message.role not in INSTRUCTIONS:
                return [self._insert(index, blocks)]
        return [self._insert(len(self.messages), blocks)]

    def _within_system(self, blocks: Blocks) -> list[Edit]:
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

    def _insert(self, index: int, blocks: Blocks) -> Edit:
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


def read_request(body: bytes) -> ChatRequest:
    """Read a chat request's body, as `readable` says. Messages of an unknown shape are the upstream's to judge."""
    return readable(ChatRequest, body)
