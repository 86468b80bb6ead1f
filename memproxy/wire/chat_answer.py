"""Read a chat answer from a copy of its bytes, streamed or whole, while the original goes on untouched."""

import json
from typing import Any

import msgspec

from memproxy.wire.answer import Answer, StreamedAnswer, WholeAnswer, is_soon_read
from memproxy.wire.chat_message import NOT_THERE, is_filled, lenient_text
from memproxy.wire.sse import SseEvent


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
        """A finish reason, the end mark or a whole message came, and no error."""
        return (self.done or self._whole or self.finish_reason is not None) and not self.error

    def _read(self, data: bytes) -> None:
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
        said = choice.delta or choice.message
        if said is not None and said.content:
            self._add_text(said.content)
        if choice.finish_reason:
            self.finish_reason = choice.finish_reason
            self.error = self.error or choice.finish_reason == "error"


class ChatStreamAnswer(StreamedAnswer, ChatAnswer):
    """A streamed answer."""

    __slots__ = ()

    @property
    def ending(self) -> bool:
        """As `Answer.ending`."""
        return self._parser.may_become(_DONE)

    def _event(self, event: SseEvent) -> None:
        data = event.data.strip()
        if data == _DONE:
            self.done = True
            return
        if event.event == "error":
            self.error = True
        if data:
            self._read(event.data)


class ChatJsonAnswer(WholeAnswer, ChatAnswer):
    """A whole answer in one JSON body."""

    __slots__ = ()

    def _body(self, data: bytes) -> None:
        self._read(data)


def _lenient_chunk(data: bytes) -> _Chunk:
    """Providers differ (content in parts, numbers as floats, half surrogates): take what can be understood."""
    try:
        value = json.loads(data) if is_soon_read(data) else None
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        return _Chunk()
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
        _Delta(content=lenient_text(said.get("content"))) if isinstance(said := value.get(name), dict) else None
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
        prompt_tokens=_number(value, "prompt_tokens"),
        completion_tokens=_number(value, "completion_tokens"),
        prompt_tokens_details=_Details(_number(details, "cached_tokens")) if isinstance(details, dict) else None,
        prompt_cache_hit_tokens=_number(value, "prompt_cache_hit_tokens"),
    )


def _number(value: dict[str, Any], name: str) -> int | None:
    number = value.get(name)
    return int(number) if isinstance(number, int | float) else None
