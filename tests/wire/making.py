"""Chat requests and a block, for the tests of the wire."""

import json
from typing import Any

from memproxy.wire.chat import ChatRequest, read_request
from memproxy.wire.request_body import Position, RequestBody

BLOCK = '<recalled-memory id="1">\n- "é" 😀 \u2028 \\ /\n</recalled-memory>'


def request_of(**members: Any) -> ChatRequest:
    return read_request(json.dumps(members).encode())


def conversation(*messages: tuple[str, Any] | dict[str, Any]) -> ChatRequest:
    listed = [
        message if isinstance(message, dict) else dict(zip(("role", "content"), message, strict=True))
        for message in messages
    ]
    return request_of(model="m", messages=listed)


def rebuilt(request: RequestBody, block: str, position: Position = "before_last_user") -> bytes:
    """The request with one block, for the user's last message."""
    return request.rebuild({request.last_user_index or 0: block}, position)
