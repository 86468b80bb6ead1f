"""The wire format of ``/v1/chat/completions``: read a request, splice a block into it, read a copy of the answer."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from memproxy.core.turn import INSTRUCTIONS
from memproxy.wire.answer import Answer, count_of, is_soon_read
from memproxy.wire.chat_message import NOT_THERE, ChatMessage, is_filled, lenient_text, read_messages
from memproxy.wire.request_body import Blocks, Position, RequestBody, messages_json, quoted, readable
from memproxy.wire.splice import Edit, Member, ObjectSpans, Unreadable, append_element
from memproxy.wire.sse import SseEvent
from memproxy.wire.tool_rounds import KeptCalls, StreamRound, ToolCall, ToolFormat, WholeRound, encoded, json_object


class ChatRequest(RequestBody):
    """A chat request; every message of the conversation is in it."""

    @property
    def may_hold_blocks(self) -> bool:
        return bool(self.messages) and self.messages[0].role not in INSTRUCTIONS

    @property
    def may_offer_tools(self) -> bool:
        """And one answer is wanted, and tools are named as they are today."""
        older = ("functions", "function_call")
        plain = self.field("n") in (None, 1) and not any(name in self._top.by_name for name in older)
        return plain and super().may_offer_tools

    @property
    def tool_format(self) -> ToolFormat:
        return CHAT_TOOLS

    def called(self) -> dict[int, list[str]]:
        calling = [(index, message) for index, message in enumerate(self.messages) if message.has_tool_calls]
        return {index: names for index, message in calling if (names := _call_ids(message.tool_calls))}

    def with_earlier_calls(self, earlier: Mapping[int, KeptCalls]) -> list[Edit]:
        """Messages that cannot be spliced are left out."""
        edits = []
        for index, ours in earlier.items():
            message = self.messages[index]
            try:
                calls = ObjectSpans(self._text, message.start, message.end).by_name["tool_calls"]
            except (Unreadable, KeyError):  # a member is there twice, or calls are made in the older way
                continue
            edits.append(append_element(self._text, calls.value_start, calls.value_end, ours.calls))
            edits.append(Edit(message.end, message.end, b"," + ours.results))
        return edits

    def _block_edits(self, blocks: Blocks, position: Position, replayed: Sequence[tuple[str, str]]) -> list[Edit]:
        edits = []
        if replayed:
            start = self.messages[self.last_user_index or 0].start
            edits = [Edit(start, start, messages_json(replayed))]
        if not blocks:
            return edits
        if position == "after_system":
            roles = [message.role in INSTRUCTIONS for message in self.messages]
            return [*edits, self._insert(roles.index(False) if False in roles else len(roles), blocks)]
        if position == "system":
            return edits + self._within_system(blocks)
        return edits + (self._within_users(blocks) if position == "within_user" else self._each(blocks))

    def _within_system(self, blocks: Blocks) -> list[Edit]:
        """Some chat templates want one system message, at the beginning: the blocks become its last paragraphs."""
        first = self.messages[0]
        joined = "\n\n".join(block for _, block in blocks)
        content = self._content_of(first) if first.role in INSTRUCTIONS else None
        kind = self._text[content.value_start : content.value_start + 1] if content else b""
        if content and kind == b'"':
            end = content.value_end - 1
            return [Edit(end, end, quoted("\n\n" + joined if first.text else joined)[1:-1])]
        if content and kind == b"[":
            part = b'{"type":"text","text":' + quoted(joined) + b"}"
            return [append_element(self._text, content.value_start, content.value_end, part)]
        return [self._insert(0, [(0, joined)])]

    def _within_users(self, blocks: Blocks) -> list[Edit]:
        """Some models take no system message at all: blocks become the first paragraphs of their user messages."""
        edits = []
        for index, block in blocks:
            message = self.messages[index]
            content = self._content_of(message) if message.role == "user" else None
            begin = content.value_start + 1 if content else 0
            kind = self._text[begin - 1 : begin]
            within = self._text[begin : content.value_end - 1] if content else b""
            if kind == b'"':
                edits.append(Edit(begin, begin, quoted(block + "\n\n" if within else block)[1:-1]))
            elif kind == b"[":
                part = b'{"type":"text","text":' + quoted(block) + b"}"
                edits.append(Edit(begin, begin, part + b"," if within.strip() else part))
            else:
                edits += self._each([(index, block)])
        return edits

    def _content_of(self, message: ChatMessage) -> Member | None:
        try:
            return ObjectSpans(self._text, message.start, message.end).by_name.get("content")
        except Unreadable:  # a member that we do not read is there twice: nothing can be put into this one
            return None

    def _insert(self, index: int, blocks: Blocks) -> Edit:
        messages = messages_json(("system", block) for _, block in blocks)
        if index < len(self.messages):
            start = self.messages[index].start
            return Edit(start, start, messages)
        end = self.messages[-1].end
        return Edit(end, end, b"," + messages.removesuffix(b","))

    def _read_messages(self) -> list[ChatMessage]:
        member = self._top.by_name.get("messages")
        if member is None:
            return []
        return read_messages(self._text, member.value_start, member.raw)


def read_request(body: bytes) -> ChatRequest:
    """Read a chat request's body, as `readable` says. Messages of an unknown shape are the upstream's to judge."""
    return readable(ChatRequest, body)


def _tool(described: dict[str, Any]) -> bytes:
    return encoded({"type": "function", "function": described})


def _result(call: ToolCall, result: str) -> bytes:
    return b'{"role":"tool","tool_call_id":' + quoted(call.id) + b',"content":' + quoted(result) + b"}"


CHAT_TOOLS = ToolFormat(StreamRound, WholeRound, _tool, _result, "messages")


class _Called(msgspec.Struct):
    id: str = ""


_CALLS = msgspec.json.Decoder(list[_Called])


def _call_ids(raw: msgspec.Raw) -> list[str]:
    try:
        return [call.id for call in _CALLS.decode(raw) if call.id]
    except msgspec.DecodeError:
        return []


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek's name for cached_tokens


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    message: _Delta | None = None
    finish_reason: str | None = None


class _Chunk(msgspec.Struct):
    choices: list[_Choice] | None = None
    model: str | None = None
    usage: _Usage | None = None
    error: msgspec.Raw = NOT_THERE


_CHUNK = msgspec.json.Decoder(_Chunk)
_DONE = b"[DONE]"


class ChatAnswer(Answer):
    """A chat answer. Of several choices (``n`` > 1) only choice 0 is read."""

    __slots__ = ()

    @property
    def complete(self) -> bool:
        return (self.done or self._whole or self.finish_reason is not None) and not self.error

    @property
    def ending(self) -> bool:
        return self._parser is not None and self._parser.may_become(_DONE)

    def _event(self, event: SseEvent) -> None:
        data = event.data.strip()
        if data == _DONE:
            self.done = True
            return
        if event.event == "error":
            self.error = True
        if data:
            self._body(event.data)

    def _body(self, data: bytes) -> None:
        """Read one JSON object of the answer, strictly where it is shaped as the API says, else as far as it goes."""
        if not is_soon_read(data, objects_only=True):
            return
        try:
            chunk = _CHUNK.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            chunk = _lenient_chunk(data)
        if is_filled(chunk.error):
            self.error = True
        for choice in chunk.choices or ():
            if choice.index == 0:
                self._choice(choice)
        if chunk.model and self.model is None:
            self.model = chunk.model
        if (usage := chunk.usage) is not None:
            details = usage.prompt_tokens_details
            cached = (details.cached_tokens if details else None) or usage.prompt_cache_hit_tokens
            self._spent(usage.prompt_tokens, usage.completion_tokens, cached)

    def _choice(self, choice: _Choice) -> None:
        self._whole = self._whole or choice.message is not None  # some never give a whole message a finish reason
        message = choice.delta or choice.message
        if message is not None and message.content:
            self._add_text(message.content)
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
            self.error = self.error or choice.finish_reason == "error"


def _lenient_chunk(data: bytes) -> _Chunk:
    """Providers differ (content in parts, numbers as floats, half surrogates): take what can be understood."""
    value = json_object(data) or {}
    choices, usage, model = value.get("choices"), value.get("usage"), value.get("model")
    return _Chunk(
        choices=[_lenient_choice(choice) for choice in choices if isinstance(choice, dict)]
        if isinstance(choices, list)
        else None,
        model=model if isinstance(model, str) else None,
        usage=_lenient_usage(usage) if isinstance(usage, dict) else None,
        error=msgspec.Raw(b"true") if value.get("error") else NOT_THERE,
    )


def _lenient_choice(value: dict[str, Any]) -> _Choice:
    index, finish = value.get("index"), value.get("finish_reason")
    delta, message = (
        _Delta(content=lenient_text(part.get("content"))) if isinstance(part := value.get(name), dict) else None
        for name in ("delta", "message")
    )
    return _Choice(
        index=int(index) if isinstance(index, int | float) else 0,
        delta=delta,
        message=message,
        finish_reason=finish if isinstance(finish, str) else None,
    )


def _lenient_usage(value: dict[str, Any]) -> _Usage:
    details = value.get("prompt_tokens_details")
    return _Usage(
        prompt_tokens=count_of(value.get("prompt_tokens")),
        completion_tokens=count_of(value.get("completion_tokens")),
        prompt_tokens_details=_Details(count_of(details.get("cached_tokens"))) if isinstance(details, dict) else None,
        prompt_cache_hit_tokens=count_of(value.get("prompt_cache_hit_tokens")),
    )
