"""Chat requests and a block, for the tests of the wire."""

import json
from typing import Any

from memproxy.wire.chat import ChatRequest, read_request

BLOCK = '<recalled-memory id="1">\n- "é" 😀 \u2028 \\ /\n</recalled-memory>'


def request_of(**members: Any) -> ChatRequest:
    return read_request(json.dumps(members).encode())


def conversation(*messages: tuple[str, Any] | dict[str, Any]) -> ChatRequest:
    listed = [
        message if isinstance(message, dict) else dict(zip(("role", "content"), message, strict=True))
        for message in messages
    ]
    return request_of(model="m", messages=listed)
