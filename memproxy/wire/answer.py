"""Read a chat answer from a copy of its bytes, streamed or whole, while the original goes on untouched."""

import json
from typing import Any

import msgspec

from memproxy.wire.chat_message import NOT_THERE, FunctionCall, calls_tools, is_filled, lenient_calls, lenient_text
from memproxy.wire.seen import MAX_JSON_BYTES, MAX_TEXT, SeenAnswer, WholeBody, is_soon_read
from memproxy.wire.sse import SseEvent, SseParser
from memproxy.wire.streamed import Streamed


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    prompt_cache_hit_tokens: int | None = None  # DeepSeek's name for cached_tokens


class _Delta(msgspec.Struct):
    content: str | None = None
    tool_calls: msgspec.Raw = NOT_THERE
    function_call: FunctionCall | None = None


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


class ChatAnswer(SeenAnswer):
    """A chat answer. Of several choices (``n`` > 1) only choice 0 is read."""

    __slots__ = ("_whole",)

    def __init__(self, max_text: int = MAX_TEXT) -> None:
        super().__init__(max_text)
        self._whole = False

    @property
    def complete(self) -> bool:
        """The upstream said all it had to say: a finish reason, the end mark or a whole message came, and no error."""
        return (self.done or self._whole or self.finish_reason is not None) and not self.error

    def _read(self, data: bytes) -> None:
        """Read one JSON object of the answer, strictly where it is shaped as the API says, else as far as it goes."""
        if not is_soon_read(data, objects_only=True):
            self.unreadable += 1
            return
        try:
            chunk = _CHUNK.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            chunk = self._lenient(data)
        if is_filled(chunk.error):
            self.error = True
        if chunk.choices:
            self._choices(chunk.choices)
        if chunk.model and self.model is None:
            self.model = chunk.model
        if chunk.usage is not None:
            self._usage(chunk.usage)

    def _choices(self, choices: list[_Choice]) -> None:
        for choice in choices:
            if choice.index != 0:
                continue
            self._whole = self._whole or choice.message is not None  # some never give a whole message a finish reason
            said = choice.delta or choice.message
            if said is not None:
                if said.content:
                    self._add_text(said.content)
                if calls_tools(said.tool_calls, said.function_call):
                    self.has_tool_calls = True
            if choice.finish_reason:
                self.finish_reason = choice.finish_reason
                self.error = self.error or choice.finish_reason == "error"

    def _usage(self, usage: _Usage) -> None:
        details = usage.prompt_tokens_details
        cached = (details.cached_tokens if details else None) or usage.prompt_cache_hit_tokens
        self.cached_tokens = cached or self.cached_tokens
        self.input_tokens = usage.prompt_tokens or self.input_tokens
        self.output_tokens = usage.completion_tokens or self.output_tokens

    def _lenient(self, data: bytes) -> _Chunk:
        """Providers differ (content in parts, numbers as floats, half surrogates): take what can be understood."""
        try:
            value = json.loads(data) if is_soon_read(data) else None
        except (ValueError, RecursionError):
            value = None
        if value is None:
            self.unreadable += 1
            return _Chunk()
        return _lenient_chunk(value) if isinstance(value, dict) else _Chunk()


class ChatStreamAnswer(Streamed, ChatAnswer):
    """A streamed answer."""

    __slots__ = ("_parser",)

    def __init__(self, max_text: int = MAX_TEXT) -> None:
        super().__init__(max_text)
        self._parser = SseParser()

    @property
    def ending(self) -> bool:
        """As `SeenAnswer.ending`."""
        return self._parser.may_become(_DONE)

    def _event(self, event: SseEvent) -> None:
        if event.data.strip() == _DONE:
            self.done = True
            return
        if event.event == "error":
            self.error = True
        if event.data.strip():
            self._read(event.data)


class ChatJsonAnswer(ChatAnswer):
    """A whole answer in one JSON body. Feed it every chunk, then `finish`; memory is bounded by ``max_bytes``."""

    __slots__ = ("_body",)

    def __init__(self, max_text: int = MAX_TEXT, max_bytes: int = MAX_JSON_BYTES) -> None:
        super().__init__(max_text)
        self._body = WholeBody(max_bytes)

    @property
    def _kept(self) -> int:
        return self._body.held

    def feed(self, chunk: bytes) -> None:
        """Keep the next bytes of the (decoded) body."""
        self._body.feed(chunk)
        self.truncated = self.truncated or self._body.too_long

    def finish(self) -> None:
        """The body is over: read it. A body that is no JSON object leaves everything empty and ``complete`` false."""
        if not self._body.too_long:
            self._read(self._body.take())


def _lenient_chunk(value: dict[str, Any]) -> _Chunk:
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
    delta, message = value.get("delta"), value.get("message")
    return _Choice(
        index=int(index) if isinstance(index, int | float) else 0,
        delta=_lenient_delta(delta) if isinstance(delta, dict) else None,
        message=_lenient_delta(message) if isinstance(message, dict) else None,
        finish_reason=finish if isinstance(finish, str) else None,
    )


def _lenient_delta(value: dict[str, Any]) -> _Delta:
    return _Delta(content=lenient_text(value.get("content")), tool_calls=lenient_calls(value))


def _lenient_usage(value: dict[str, Any]) -> _Usage:
    details = value.get("prompt_tokens_details")
    return _Usage(
        prompt_tokens=_number(value, "prompt_tokens"),
        completion_tokens=_number(value, "completion_tokens"),
        prompt_tokens_details=_Details(_number(details, "cached_tokens")) if isinstance(details, dict) else None,
        prompt_cache_hit_tokens=_number(value, "prompt_cache_hit_tokens"),
    )


def _number(value: dict[str, Any], name: str) -> int | None:
    number = value.get(name)
    return int(number) if isinstance(number, int | float) else None
