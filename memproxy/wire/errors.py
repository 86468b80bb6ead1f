"""Errors of ours as an OpenAI client expects them."""

import msgspec

from memproxy.errors import (
    AuthUnavailable,
    BodyTimeout,
    MemoryUnavailable,
    MemproxyError,
    Overloaded,
    TooManyRequests,
    Unauthenticated,
)

RETRY_AFTER_S = 1
"""Seconds that a client should wait after it met a limit."""


def error_response(error: MemproxyError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers (names in lower case) and JSON body of an error."""
    body = msgspec.json.encode(error.body())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if isinstance(error, Overloaded | AuthUnavailable | MemoryUnavailable):
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if isinstance(error, TooManyRequests):
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if isinstance(error, BodyTimeout):
        headers.append((b"connection", b"close"))
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b"Bearer"))
    return error.status, headers, body
