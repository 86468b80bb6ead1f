"""One HTTP request as the relay sees it: its ASGI scope, its body within a limit, and whether its client is there."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from types import TracebackType
from typing import Any
from urllib.parse import unquote

from memproxy.auth.browser import ALLOWED_ORIGIN
from memproxy.auth.headers import Headers
from memproxy.core.receipt import REQUEST_ID_HEADER, new_request_id
from memproxy.errors import BodyTooLarge
from memproxy.relay.intake import Intake, Share
from memproxy.tasks import TaskOwner

AsgiScope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

LOOK_AFTER_S = 0.2
"""Most answers are complete sooner; only longer ones get a task that waits for the client to leave."""

DISCARD_S = 2.0
"""How long the rest of a body that is too large is read on, for a client that reads its answer only after sending."""

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


class ClientGone(Exception):
    """The client closed its connection before its answer was complete: no answer can be sent."""


class Request:
    """Method, path, headers and body of one request, and where its answer goes.

    ``path`` is the path as it was sent: these bytes route a request, and go to upstream and engine. ``for_pages`` are
    headers that let a web page of an allowed origin read the answer, unless the answer itself says who may.
    ``memory_headers`` say what memory did; errors of ours have them too.
    """

    __slots__ = (
        "_intake",
        "_receive",
        "_request_id",
        "_share",
        "for_pages",
        "has_host",
        "headers",
        "memory_headers",
        "method",
        "path",
        "raw_path",
        "received_all",
        "send",
        "started_answer",
    )

    def __init__(self, scope: AsgiScope, receive: Receive, send: Send, intake: Intake) -> None:
        self.method: str = scope["method"]
        query: bytes = scope.get("query_string", b"")
        path: bytes = scope["raw_path"]
        self.raw_path = path + (b"?" + query if query else b"")
        self.path = path.decode("latin-1")
        self.headers = Headers(scope["headers"])
        self.has_host = scope.get("http_version") != "1.1" or self.headers.get(b"host") is not None  # RFC 9112, 3.2
        self._receive = receive
        self._intake = intake
        self._share = Share()
        self.send = send
        self.received_all = False
        self.started_answer = False
        self.for_pages: RawHeaders = []
        self.memory_headers: RawHeaders = []
        self._request_id: str | None = None

    @property
    def pieces(self) -> list[str]:
        """The parts of the path between its slashes; an encoded slash is part of a name."""
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
        """The name of this request in the answer's headers, the log and the receipt."""
        if self._request_id is None:
            self._request_id = new_request_id()
        return self._request_id

    async def body(self, limit: int) -> bytes:
        """The whole body.

        Raises:
            BodyTooLarge: it is longer than ``limit`` bytes.
            BodyTimeout: it does not come to its end, and others wait.
            Overloaded: there is no room for it.
            ClientGone: the client left before the end of its body.
        """
        declared = self.headers.get(b"content-length")
        too_large = declared is not None and declared.isdigit() and int(declared) > limit
        body = None if too_large else await self._intake.whole(self._share, self._part, limit)
        if body is None:
            raise BodyTooLarge(
                f"The request's body is over {limit} bytes (server.max_body_bytes). Send less, or raise it."
            )
        return body

    def begin_upload(self) -> None:
        """The body is going to be read by its `chunks`; `Overloaded` where too many bodies are being sent at once."""
        self._intake.upload(self._share)

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, after `begin_upload`; raises `ClientGone` where the client leaves before its end."""
        while not self.received_all:
            chunk, ended = await self._part()
            if ended:
                self._intake.end_upload(self._share)
            if chunk:
                yield chunk

    async def _part(self) -> tuple[bytes, bool]:
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        self.received_all = not message.get("more_body", False)
        return message.get("body", b""), self.received_all

    def hold(self, size: int) -> None:
        """Count bytes that are kept in memory for this request, beside its body; `Overloaded` without room for them."""
        self._intake.hold(self._share, size)

    def release(self) -> None:
        """The request is over: nothing is held for it any more."""
        self._intake.release(self._share)

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
        sent.append((REQUEST_ID_HEADER, self.request_id.encode()))
        sent += self.memory_headers
        await self.send({"type": "http.response.start", "status": status, "headers": sent})

    async def write(self, data: bytes) -> None:
        """Send a part of the answer's body; waits while the client reads slowly."""
        await self.send({"type": "http.response.body", "body": data, "more_body": True})

    async def end(self, data: bytes = b"") -> None:
        await self.send({"type": "http.response.body", "body": data, "more_body": False})

    async def answer(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        await self.begin(status, headers)
        await self.end(b"" if self.method == "HEAD" else body)

    async def answer_sender(self, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
        """Answer a client that still sends its body, and throw that away for a while: a connection that is closed with
        bytes unread is reset, and the answer with it.
        """
        await self.begin(status, headers)
        await self.write(body)
        with contextlib.suppress(TimeoutError, ClientGone):
            async with asyncio.timeout(DISCARD_S):
                while not self.received_all:
                    await self._part()
        await self.end()


class Hangups:
    """Cancels the work for clients that leave, within a second. One timer serves all: one for each would be slow."""

    def __init__(self, tasks: TaskOwner) -> None:
        self._tasks = tasks
        self._young: dict[_Watch, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watching(self, request: Request) -> "_Watch":
        """A ``with`` block that is cancelled, and raises `ClientGone`, when the client closes its connection."""
        return _Watch(request, self)

    def add(self, watch: "_Watch") -> None:
        loop = asyncio.get_running_loop()
        self._young[watch] = loop.time() + LOOK_AFTER_S
        if self._timer is None:
            self._timer = loop.call_later(LOOK_AFTER_S, self._look)

    def discard(self, watch: "_Watch") -> None:
        """A request is over. The timer stays, for the next one."""
        self._young.pop(watch, None)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for watch in [watch for watch, when in self._young.items() if when <= now]:
            del self._young[watch]
            if not watch.begin(self._tasks):
                self._young[watch] = now + LOOK_AFTER_S
        if self._young:  # in the order of their times: each is added behind those that were there
            self._timer = loop.call_later(max(0.0, next(iter(self._young.values())) - now), self._look)


class _Watch:
    """One request's block, see `Hangups.watching`."""

    __slots__ = ("_all", "_gone", "_request", "_waiting", "_worker")

    def __init__(self, request: Request, hangups: Hangups) -> None:
        self._request = request
        self._all = hangups
        self._worker = asyncio.current_task()
        self._waiting: asyncio.Task[None] | None = None
        self._gone = False

    def __enter__(self) -> None:
        self._all.add(self)

    def begin(self, tasks: TaskOwner) -> bool:
        """Begin to wait for the client to leave; False while its body is still being read."""
        if not self._request.received_all:
            return False
        self._waiting = tasks.start(self._wait(), "hangup")
        return True

    async def _wait(self) -> None:
        await self._request.gone()
        self._gone = True
        if self._worker is not None:
            self._worker.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._all.discard(self)
        if self._waiting is not None:
            self._waiting.cancel()
        if self._gone and self._worker is not None:
            self._worker.uncancel()
            if isinstance(error, asyncio.CancelledError):
                raise ClientGone from error
