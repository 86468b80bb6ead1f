"""One HTTP request as the relay sees it: a thin reading of the ASGI scope, and the body within its limit."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote

from memproxy.auth import ALLOWED_ORIGIN, Headers
from memproxy.core.request_id import HEADER, new_request_id
from memproxy.errors import BodyTooLarge

AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]


_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class ClientGone(Exception):
    """The client closed its connection before its answer was complete. Nobody is left to be told."""


class Request:
    """Method, path, headers and body of one request, and where its answer goes."""

    __slots__ = (
        "_receive",
        "_request_id",
        "for_pages",
        "has_host",
        "headers",
        "method",
        "path",
        "pieces",
        "raw_path",
        "received_all",
        "send",
        "started_answer",
        "told",
    )

    def __init__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        query: bytes = scope.get("query_string", b"")
        path: bytes = scope["raw_path"]
        self.raw_path = path + (b"?" + query if query else b"")
        self.path = path.decode("latin-1")
        """As it was sent. What routes a request, what the upstream gets and what the engine gets are these bytes: a
        path that is decoded as a whole has other pieces."""
        self.pieces = [unquote(piece) for piece in self.path.split("/")]
        """What stands between the slashes that were sent as such; an encoded one is part of a name."""
        self.headers = Headers(scope["headers"])
        self.has_host = scope.get("http_version") != "1.1" or self.headers.get(b"host") is not None
        """Whether it names the host that it is for, which HTTP/1.1 demands (RFC 9112, 3.2)."""
        self._receive = receive
        self.send = send
        self.received_all = False
        self.started_answer = False
        self.for_pages: RawHeaders = []
        """What lets a web page of an allowed origin read the answer, unless the answer itself says who may."""
        self._request_id: str | None = None
        self.told: RawHeaders = []
        """What the answer's headers say of memory, whoever answers: the upstream, or we with an error."""

    @property
    def loose_path(self) -> str | None:
        """The path as the most lenient server would read it: decoded twice, a backslash taken for a slash, several
        slashes for one. None where it has control characters, or a piece of it is ``.`` or ``..``, also before a ``;``.
        """
        read = unquote(unquote(self.path)).replace("\\", "/")
        pieces = read.split("/")
        if _CONTROLS.search(read) or any(piece.partition(";")[0].strip() in {".", ".."} for piece in pieces):
            return None
        return "/" + "/".join(filter(None, pieces))

    @property
    def request_id(self) -> str:
        """The name that the answer's headers, the log and the receipt have for this request."""
        if self._request_id is None:
            self._request_id = new_request_id()
        return self._request_id

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives.

        Raises:
            ClientGone: the client left before the end of its body.
        """
        while not self.received_all:
            if chunk := await self._part():
                yield chunk

    async def _part(self) -> bytes:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.received_all = not message.get("more_body", False)
        part: bytes = message.get("body", b"")
        return part

    async def body(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            BodyTooLarge: it is longer than ``limit`` bytes.
            ClientGone: the client left before the end of its body.
        """
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        size = 0
        while not self.received_all:
            chunk = await self._part()
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            parts.append(chunk)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def gone(self) -> None:
        """Returns when the client closes its connection; only after the body was read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def begin(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send the answer's status and headers, and ours."""
        self.started_answer = True
        sent = list(headers)
        if self.for_pages and not any(name.lower() == ALLOWED_ORIGIN for name, _ in sent):
            sent += self.for_pages
        sent.append((HEADER, self.request_id.encode()))
        sent += self.told
        await self.send({"type": "http.response.start", "status": status, "headers": sent})

    async def write(self, data: bytes) -> None:
        """Send a part of the answer's body; waits while the client reads slowly."""
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        """Send the last part of the answer's body."""
        await self.send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Send a whole answer."""
        await self.begin(status, headers)
        await self.end(b"" if self.method == "HEAD" else body)


def _too_large(limit: int) -> BodyTooLarge:
    return BodyTooLarge(f"The request's body is over {limit} bytes (server.max_body_bytes). Send less, or raise it.")
