"""What the relay needs of a wire format. One module per format implements it; the relay knows no field's name."""

from collections.abc import Sequence
from typing import Protocol

from memproxy.core.turn import Message
from memproxy.wire.answer import ChatJsonAnswer, ChatStreamAnswer
from memproxy.wire.chat import Position, read_request
from memproxy.wire.controls import MemoryConfig, MemoryContext


class RequestMessage(Protocol):
    """One message of a request, as far as memory reads it."""

    @property
    def role(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def has_tool_calls(self) -> bool: ...


class Request(Protocol):
    """A request as memory sees it (`wire.chat.ChatRequest` says what each means)."""

    body: bytes
    model: str | None
    stream: bool
    n: int
    user: str | None
    safety_identifier: str | None
    metadata_user_id: str | None
    context: MemoryContext
    config: MemoryConfig
    has_ours: bool
    has_tools: bool
    tool_choice_forced: bool

    @property
    def messages(self) -> Sequence[RequestMessage]: ...
    @property
    def tool_names(self) -> list[str]: ...
    @property
    def user_texts(self) -> list[str]: ...
    @property
    def is_tool_followup(self) -> bool: ...
    @property
    def digests(self) -> list[str]: ...
    def new_messages(self) -> list[Message]: ...
    def rebuild(self, block: str | None, position: Position = "before_last_user") -> bytes: ...


class Answer(Protocol):
    """An answer as memory sees it, filled in by `feed` and closed by `finish`."""

    model: str | None
    finish_reason: str | None
    done: bool
    error: bool
    has_tool_calls: bool
    truncated: bool
    cached_tokens: int
    input_tokens: int
    output_tokens: int

    @property
    def text(self) -> str: ...
    @property
    def complete(self) -> bool: ...
    def feed(self, chunk: bytes) -> None: ...
    def finish(self) -> None: ...


class RequestFormat(Protocol):
    """One wire format: how its requests are read and its answers looked at."""

    name: str

    def read_request(self, body: bytes) -> Request:
        """Read a request's body.

        Raises:
            Unreadable: it cannot be spliced safely and goes on untouched.
            RequestError: one of our own fields in it is wrong.
        """
        ...

    def stream_answer(self) -> Answer:
        """A reader for one streamed answer."""
        ...

    def json_answer(self) -> Answer:
        """A reader for one whole answer."""
        ...


class ChatFormat:
    """``/v1/chat/completions``."""

    name = "chat"

    def read_request(self, body: bytes) -> Request:
        return read_request(body)

    def stream_answer(self) -> Answer:
        return ChatStreamAnswer()

    def json_answer(self) -> Answer:
        return ChatJsonAnswer()


CHAT: RequestFormat = ChatFormat()
