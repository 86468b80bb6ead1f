"""The name that an answer's headers, the log and the receipt have for a request."""

import os

HEADER = b"x-memproxy-request-id"
"""Of every answer that goes to a client."""


def new_request_id() -> str:
    """A fresh one."""
    return f"req_{os.urandom(16).hex()}"
