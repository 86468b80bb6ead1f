"""The HTTP server of both processes: uvicorn, told to add nothing of its own and to leave signals to us."""

import asyncio
import contextlib
import json
import logging
import re
import resource
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import httptools
import uvicorn
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from memproxy.core.receipt import REQUEST_ID_HEADER, new_request_id
from memproxy.tasks import happens

log = logging.getLogger(__name__)

CLIENT_KEEP_ALIVE_S = 75
"""Idle client connections stay open this long; nginx's number, longer than clients' own pools keep them."""


CUT_OFF_S = 1
"""How long uvicorn waits for open requests when it stops: they had their grace before."""


LEAST_BYTES_PER_S = 1_000
"""Least rate at which a client must send a body, measured over ``server.body_timeout_s``."""

MOST_BODY_S = 3_600.0
"""Longest time for a whole body, however fast it comes."""

MOST_WITHOUT_HEADERS = 4_096
"""Most connections that may be sending headers at once; beyond it, those that take longest are closed."""

MOST_HEADER_BYTES = 262_144
"""About the most bytes of headers that a request may have; few servers take a quarter of it."""

_OTHER_UPGRADES = re.compile(rb"\r\nupgrade:(?![^\r\n]*websocket)[^\r\n]*(?=\r\n)", re.IGNORECASE)
"""Offers to go on in another protocol (HTTP/2: Java's own client makes one with its first request). They may be
declined by answering as ever (RFC 9110, section 7.8); but the parser drops the body that comes with them.
"""

STATUS_LINE.update({status: b"HTTP/1.1 %d \r\n" % status for status in range(600, 1000)})
"""Uvicorn's table ends at 599; there are upstreams (and gateways before them) that answer with what is beyond."""

httptools_impl.HEADER_VALUE_RE = re.compile(rb"[\x00\r\n]")
"""What would end a header's value. Uvicorn refuses all control characters, and the whole answer with them; clients take
them, and upstreams send what their models or users wrote.
"""

_HTTP_PORT = 80

MOST_FILES = 65_536

_TICK_S = 0.1
_TICKS_OF_A_LOOK = 10
_TICKS_OF_A_DAY = 864_000
_TURNS_TO_CLOSE = 3
"""Turns of the event loop until a closed idle connection has noticed."""


class Patience(NamedTuple):
    """How slowly clients may send: seconds for a request's headers, seconds in which a part of its body must come
    (`LEAST_BYTES_PER_S` for each), and seconds for all of the body.
    """

    headers_s: float
    body_s: float
    whole_body_s: float = MOST_BODY_S
    without_headers: int = MOST_WITHOUT_HEADERS


class _UntilClosed(int):
    """How many bytes of a body are left, for uvicorn, where its end is the connection's: never too many or too few."""

    def __lt__(self, _other: object) -> bool:
        return False

    def __sub__(self, _other: object) -> "_UntilClosed":
        return self

    def __ne__(self, _other: object) -> bool:
        return False

    __hash__ = int.__hash__


class WatchedProtocol(HttpToolsProtocol):
    """A client's connection that knows how long its client has been sending a request: uvicorn itself would wait for
    ever. It also keeps to HTTP where uvicorn does not: it bounds headers, sends no chunks to HTTP/1.0, and does not
    take trailers for headers.
    """

    _owed_since: float | None = None
    _owed_bytes = 0
    _owes_body = False
    _looked_at = 0.0
    _looked_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._owes(body=False)

    def data_received(self, data: bytes) -> None:
        if self._owed_since is None:
            self._owes(body=False)
        self._owed_bytes += len(data)
        super().data_received(data if self._owes_body else _without_upgrades(data))
        if self._owed_since is not None and not self._owes_body and self._owed_bytes > MOST_HEADER_BYTES:
            self._refuse(431, "The request's headers are too long.")

    def _unsupported_upgrade_warning(self) -> None:
        """Uvicorn would tell the operator to install a library for websockets; the relay answers with 501."""

    def on_headers_complete(self) -> None:
        if not self.url.startswith(b"/"):
            self._take_in_target()
        super().on_headers_complete()
        self._owes(body=True)
        self.headers = []  # trailers would be taken for headers of the request, which is read with its body
        if self.parser.get_http_version() == "1.0":
            self.cycle.chunked_encoding = False
            self.cycle.expected_content_length = _UntilClosed()

    def _take_in_target(self) -> None:
        """A target may be a whole address, as proxies are asked. Its host is the one that is meant (RFC 9112, section
        3.2.2), and stands first of the ``Host`` headers where these say another: several are refused.
        """
        target = httptools.parse_url(self.url)
        if not target.schema or not target.host:
            return  # an authority alone, or `*`: uvicorn tells what it makes of it
        host = b"[%b]" % target.host if b":" in target.host else target.host
        named = host if target.port in {None, _HTTP_PORT} else b"%b:%d" % (host, target.port)
        if target.userinfo:
            named = target.userinfo + b"@" + named
        hosts = {value.lower().removesuffix(b":%d" % _HTTP_PORT) for name, value in self.headers if name == b"host"}
        if hosts != {named.lower()}:
            self.headers.insert(0, (b"host", named))
        self.url = (target.path or b"/") + (b"?" + target.query if target.query else b"")

    def on_message_complete(self) -> None:
        self._owed_since = None
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn when the parser cannot go on."""
        self._refuse(400, msg)

    def _refuse(self, status: int, message: str) -> None:
        """Answer what is no request, and close; a connection that is in the middle of an answer is closed only."""
        cycle: Any = self.cycle  # None before the first request
        in_body = self._owes_body and self._owed_since is not None and not self.pipeline
        if cycle is not None and in_body and not cycle.response_started:
            cycle.disconnected = cycle.response_complete = True  # this is the answer, whatever the application makes
        if cycle is None or cycle.response_complete:
            error = {"message": message, "type": "invalid_request_error", "param": None, "code": None}
            body, request_id = json.dumps({"error": error}).encode(), new_request_id()
            log.info("%s was no request: %s", request_id, message)
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n%b: %b\r\n\r\n"
            self.transport.write(
                STATUS_LINE[status] + head % (len(body), REQUEST_ID_HEADER, request_id.encode()) + body
            )
        self.transport.close()

    def _owes(self, *, body: bool) -> None:
        self._owed_since = self._looked_at = time.monotonic()
        self._owed_bytes = self._looked_bytes = 0
        self._owes_body = body

    @property
    def headers_owed_since(self) -> float | None:
        """Since when its client has been sending a request's headers; None: it does not."""
        return None if self._owes_body else self._owed_since

    def is_too_slow(self, now: float, patience: Patience) -> bool:
        """Whether its client takes too long over what it owes: nothing while we do not read, for what is behind us is
        slower.
        """
        if self._owed_since is None:
            return False
        if self.flow.read_paused:
            self._owes(body=self._owes_body)
            return False
        if not self._owes_body:
            return now - self._owed_since > patience.headers_s
        if now - self._looked_at <= patience.body_s:
            return now - self._owed_since > patience.whole_body_s
        received = self._owed_bytes - self._looked_bytes
        self._looked_at, self._looked_bytes = now, self._owed_bytes
        return received < LEAST_BYTES_PER_S * patience.body_s or now - self._owed_since > patience.whole_body_s

    def cut_off(self) -> None:
        """Close it, and say why if an answer is due: something of a request came, and nothing of an answer went out."""
        cycle: Any = self.cycle
        answered = cycle is not None and self._owes_body and cycle.response_started
        if answered or not (self._owes_body or self._owed_bytes):
            self.transport.close()
        else:
            self._refuse(408, "The request came too slowly (server.headers_timeout_s, server.body_timeout_s).")


def _without_upgrades(data: bytes) -> bytes:
    """The beginning of a request without the offers of `_OTHER_UPGRADES`."""
    end = data.find(b"\r\n\r\n") + 2
    head = data[:end] if end >= 2 else data
    return _OTHER_UPGRADES.sub(b"", head) + data[len(head) :] if _OTHER_UPGRADES.search(head) else data


class Server(uvicorn.Server):
    """Uvicorn without signal handlers of its own, the process's `main` owns them; with a bound on slow clients; and
    ended at once by `leave`, where uvicorn looks ten times a second whether it is to end, and then waits for a tenth.
    """

    def __init__(self, config: uvicorn.Config, patience: Patience | None = None) -> None:
        """``patience`` None: clients may take as long as they like (they are processes of ours)."""
        super().__init__(config)
        self.patience = patience
        self._stopped = asyncio.Event()

    def leave(self) -> None:
        """Take no connection more, and let `serve` return when what is open has ended (`CUT_OFF_S` at most)."""
        self.should_exit = True
        self._stopped.set()

    async def main_loop(self) -> None:
        """Called by uvicorn: returns when it is to end."""
        counter = 0
        while not await self.on_tick(counter):
            counter = (counter + 1) % _TICKS_OF_A_DAY
            await happens(self._stopped, _TICK_S)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn: close idle connections, wait for the others, and cancel what takes too long."""
        for server in self.servers:
            server.close()
        for listening in sockets or []:
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        for _ in range(_TURNS_TO_CLOSE):
            await asyncio.sleep(0)
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await self._wait_tasks_to_complete()
        except TimeoutError:
            log.warning("%d open requests were cut off", len(self.server_state.tasks))
            for task in self.server_state.tasks:
                task.cancel()
        if not self.force_exit:
            await self.lifespan.shutdown()

    async def on_tick(self, counter: int) -> bool:
        """Called by uvicorn; whether to stop."""
        if self.patience is not None and counter % _TICKS_OF_A_LOOK == 0:
            self._cut_off_slow(self.patience)
        return await super().on_tick(counter)

    def _cut_off_slow(self, patience: Patience) -> None:
        now = time.monotonic()
        watched = {protocol for protocol in self.server_state.connections if isinstance(protocol, WatchedProtocol)}
        slow = {connection for connection in watched if connection.is_too_slow(now, patience)}
        since = {protocol: when for protocol in watched - slow if (when := protocol.headers_owed_since) is not None}
        slow.update(sorted(since, key=since.__getitem__)[: max(0, len(since) - patience.without_headers)])
        for connection in slow:
            connection.cut_off()
        if slow:
            log.warning(
                "%d connections were cut off: their clients took too long to send a request (server.headers_timeout_s, "
                "server.body_timeout_s)",
                len(slow),
            )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def server_config(app: Callable[..., Awaitable[None]], **more: object) -> uvicorn.Config:
    """Uvicorn's settings: only the application's bytes, no headers of its own, and of its logs the warnings."""
    logger = logging.getLogger("uvicorn.error")
    # of an answer that we leave unfinished on purpose our own log line says why
    logger.addFilter(lambda record: "without completing response" not in record.getMessage())
    logger.setLevel(logging.WARNING)
    return uvicorn.Config(
        app,
        http=WatchedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        timeout_keep_alive=CLIENT_KEEP_ALIVE_S,
        timeout_graceful_shutdown=CUT_OFF_S,
        **more,  # type: ignore[arg-type]
    )


def allow_many_files() -> None:
    """Let this process have as many connections as the system allows: a stream takes two, and many systems begin with
    a limit of 1,024 files that a process may raise itself.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
