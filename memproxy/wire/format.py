"""The wire formats, as the relay sees them: it knows no field's name."""

from collections.abc import Callable
from typing import NamedTuple

from memproxy.wire import chat, responses
from memproxy.wire.answer import Answer
from memproxy.wire.request_body import RequestBody


class WireFormat(NamedTuple):
    """One wire format: how its requests are read and its answers looked at.

    ``read_request`` raises `splice.Unreadable` for a body that cannot be spliced safely and goes on untouched, and
    `errors.RequestError` when one of our own fields in it is wrong. ``end_line`` tells whether a stream ends by the
    line ``data: [DONE]``; else by an event that only reading it shows.
    """

    name: str
    read_request: Callable[[bytes], RequestBody]
    answer: type[Answer]
    end_line: bool


CHAT = WireFormat("chat", chat.read_request, chat.ChatAnswer, end_line=True)
RESPONSES = WireFormat("responses", responses.read_request, responses.ResponsesAnswer, end_line=False)
