"""The wire formats, as the relay sees them: it knows no field's name."""

from collections.abc import Callable
from typing import NamedTuple

from memproxy.wire import chat, responses
from memproxy.wire.answer import Answer
from memproxy.wire.chat import ChatJsonAnswer, ChatStreamAnswer
from memproxy.wire.request_body import RequestBody
from memproxy.wire.responses import ResponsesJsonAnswer, ResponsesStreamAnswer


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
