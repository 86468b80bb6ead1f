"""One HTTP request as the relay sees it: a thin reading of the ASGI scope, and the body within its limit."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any
from urllib.parse import unquote

from memproxy.auth import ALLOWED_ORIGIN, Headers
from memproxy.core.request_id import HEADER, new_request_id
from memproxy.errors import BodyTooLarge
from memproxy.relay.intake import Intake, Share

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
        "_intake",
        "_receive",
        "_request_id",
        "_share",
        "for_pages",
        "has_host",
        "headers",
        "method",
        "path",
        "raw_path",
        "received_all",
        "send",
        "started_answer",
        "told",
    )

    def __init__(self, scope: AsgiScope, receive: Receive, send: Send, intake: Intake) -> None:
        self.method: str = scope["method"]
        query: bytes = scope.get("query_string", b"")
        path: bytes = scope["raw_path"]
        self.raw_path = path + (b"?" + query if query else b"")
        self.path = path.decode("latin-1")
        """As it was sent. What routes a request, what the upstream gets and what the engine gets are these bytes: a
        path that is decoded as a whole has other pieces."""
        self.headers = Headers(scope["headers"])
        self.has_host = scope.get("http_version") != "1.1" or self.headers.get(b"host") is not None
        """Whether it names the host that it is for, which HTTP/1.1 demands (RFC 9112, 3.2)."""
        self._receive = receive
        self._intake = intake
        self._share = Share()
        self.send = send
        self.received_all = False
        self.started_answer = False
        self.for_pages: RawHeaders = []
        """What lets a web page of an allowed origin read the answer, unless the answer itself says who may."""
        self._request_id: str | None = None
        self.told: RawHeaders = []
        """What the answer's headers say of memory, whoever answers: the upstream, or we with an error."""

    @property
    def pieces(self) -> list[str]:
        """What stands between the slashes that were sent as such; an encoded one is part of a name."""
        return [unquote(piece) for piece in self.path.split("/")]

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
        """The body as it arrives, after `begin_upload`.

        Raises:
            ClientGone: the client left before the end of its body.
        """
        while not self.received_all:
            chunk, ended = await self._part()
            if ended:
                self._intake.uploaded(self._share)
            if chunk:
                yield chunk

    def begin_upload(self) -> None:
        """The body is going to be read by its `chunks`.

        Raises:
            Overloaded: too many bodies are being sent at once.
        """
        self._intake.upload(self._share)

    def hold(self, size: int) -> None:
        """So many bytes are held in memory for this request, beside its body.

        Raises:
            Overloaded: there is no room for them.
        """
        self._intake.hold(self._share, size)

    def release(self) -> None:
        """It is over: nothing is held for it any more."""
        self._intake.release(self._share)

    async def _part(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.received_all = not message.get("more_body", False)
        return message.get("body", b""), self.received_all

    async def body(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            BodyTooLarge: it is longer than ``limit`` bytes.
            BodyTimeout: it does not come to its end, and others wait.
            Overloaded: there is no room for it.
            ClientGone: the client left before the end of its body.
        """
        declared = self.headers.get(b"content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise _too_large(limit)
        body = await self._intake.whole(self._share, self._part, limit)
        if body is None:
            raise _too_large(limit)
        return body

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
