"""A small HTTP server in a thread, for tests of what calls out synchronously or from another process."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeVar


class QuietHandler(BaseHTTPRequestHandler):
    """Answers JSON and logs nothing; a subclass has ``do_GET`` or ``do_POST``."""

    def answer(self, value: Any, status: int = 200) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the base class names it
        """Quiet."""


class ThreadedServer(ThreadingHTTPServer):
    """On a free port of this machine."""

    daemon_threads = True

    def __init__(self, handler: type[QuietHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


Server = TypeVar("Server", bound=ThreadedServer)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """``server`` answering, until the block ends."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
