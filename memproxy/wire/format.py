"""What the relay needs of a wire format. One module per format implements it; the relay knows no field's name."""

from collections.abc import Callable
from typing import NamedTuple, Protocol

from memproxy.wire import chat, responses
from memproxy.wire.answer import ChatJsonAnswer, ChatStreamAnswer
from memproxy.wire.request import RequestBody
from memproxy.wire.responses_answer import ResponsesJsonAnswer, ResponsesStreamAnswer


class Answer(Protocol):
    """An answer as memory sees it, filled in by `feed` and closed by `finish`.

    ``response_id`` is what a later request may go on from, where the format has that; ``begun`` says that the answer
    is fetched by it later. ``user_fields`` are the API's own fields that name the user, where the answer repeats them.
    """

    model: str | None
    finish_reason: str | None
    response_id: str | None
    begun: bool
    user_fields: dict[str, str]
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
    @property
    def ending(self) -> bool: ...
    @property
    def held(self) -> int: ...
    def feed(self, chunk: bytes) -> None: ...
    def finish(self) -> None: ...


class WireFormat(NamedTuple):
    """One wire format: how its requests are read and its answers looked at.

    ``read_request`` raises `splice.Unreadable` for a body that cannot be spliced safely and goes on untouched, and
    `errors.RequestError` when one of our own fields in it is wrong. ``end_line`` tells whether a stream ends by the
    line ``data: [DONE]``; else by an event that only reading it shows.
    """

    name: str
    read_request: Callable[[bytes], RequestBody]
    stream_answer: Callable[[], Answer]
    json_answer: Callable[[], Answer]
    end_line: bool


CHAT = WireFormat("chat", chat.read_request, ChatStreamAnswer, ChatJsonAnswer, end_line=True)
RESPONSES = WireFormat("responses", responses.read_request, ResponsesStreamAnswer, ResponsesJsonAnswer, end_line=False)
