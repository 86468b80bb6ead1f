"""The upstream's side: one pool of connections, raw bytes in both directions, nothing interpreted.

The pool keeps no cookies (they must not cross tenants), follows no redirects, decompresses nothing and has no total
timeout: an answer may stream for hours, but not be silent for longer than ``upstream.timeout_s``.
"""

import asyncio
import contextlib
import logging
import secrets
import ssl
import time
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast
from urllib.parse import unquote_to_bytes, urlsplit

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from multidict import CIMultiDict
from yarl import URL

from memproxy.auth.headers import Headers, client_key
from memproxy.core.protocol import UpstreamAccess
from memproxy.errors import MemproxyError, NotFound, UpstreamTimeout, UpstreamUnreachable
from memproxy.relay.network import environment_proxy, tls_context
from memproxy.relay.request import RawHeaders
from memproxy.settings import UpstreamSettings


class Bytes(str):
    """A header's value: ``raw`` are its bytes, the text is the word that stands for them."""

    __slots__ = ("raw",)
    raw: bytes

    def __new__(cls, raw: bytes) -> Self:
        text = super().__new__(cls, secrets.token_hex(16))
        text.raw = raw
        return text


def _text_or_bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Bytes(value)


class RawRequest(aiohttp.ClientRequest):
    """A request with headers whose bytes are no UTF-8 (RFC 9110's obs-text, mostly Latin-1), sent as they came.

    aiohttp's writer takes text, encodes it as UTF-8 and drops lone surrogates, so no text comes out as such bytes. A
    random word stands for each of these values until the request's head is written, and there the bytes take its place.
    """

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """As aiohttp's own; the first thing that it writes begins with the whole head."""
        protocol = conn.protocol
        values = [value for value in self.headers.values() if isinstance(value, Bytes)]
        if values and protocol is not None and protocol.transport is not None:
            protocol.transport = cast(Any, _Head(protocol, protocol.transport, values))
        return await super().send(conn)


class _Head:
    """Stands in for a connection's transport during its next write alone."""

    def __init__(self, protocol: ResponseHandler, transport: Any, values: Iterable[Bytes]) -> None:
        self._protocol = protocol
        self._transport = transport
        self._values = values

    def write(self, data: bytes) -> None:
        self._protocol.transport = self._transport
        for value in self._values:
            data = data.replace(value.encode(), value.raw, 1)
        self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


if TYPE_CHECKING:
    from aiohttp.tracing import Trace

log = logging.getLogger(__name__)

HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-authenticate proxy-authorization proxy-connection te trailer trailers "
    b"transfer-encoding upgrade".split()
)
"""Headers that concern one connection only (RFC 9110, section 7.6.1)."""

_SERVED = "/v1/"
"""How relayed paths begin; the rest is appended to ``upstream.base_url``."""

_OURS = b"x-memproxy-"
_NOT_SENT = HOP_BY_HOP | {b"host", b"expect", b"content-length"}
_NOT_SENT_NOR_KEYS = _NOT_SENT | {b"authorization", b"api-key", b"x-api-key"}
_AUTOMATIC = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
_SWITCHING_PROTOCOLS = 101
_NOT_MODIFIED = 304

KEEP_ALIVE_S = 15.0
"""Idle connections are closed after this long: sooner than most servers do, so that few requests meet a stale one."""

STALE_WITHIN_S = 1.0
"""A kept connection that breaks this soon after a request was sent, with nothing answered, was closed before."""

READ_BUFFER = 2**18
AT_ONCE = 2**15
"""A body of at most this many bytes fits into a connection's own buffer, so sending it never waits for the upstream."""

PART = 2**20
"""A longer body is sent in parts of this many bytes."""

MOST_HEADERS = 1_000
"""Of an answer; their bytes are bounded too, one by one."""

MOST_URLS = 64
"""Addresses that are remembered; clients choose them, so they are bounded."""

_NAME_NOTHING_MORE = (["keep-alive"], ["Keep-Alive"])
"""The usual ``Connection``: the header that it names is never passed on anyway."""


READY = "ready"


class Upstream:
    """Sends requests to ``upstream.base_url`` and hands out its answers unread.

    ``base_url`` has no slash at its end; ``name`` is its host and path. ``takes_client_key``: the client's own key goes
    there, else the configured one, or none.
    ``state``: ``ready``, or ``degraded`` and why it did not answer when it was last asked; None: it was not yet.
    """

    def __init__(self, settings: UpstreamSettings, *, takes_client_key: bool = True) -> None:
        """``takes_client_key`` False: the client's key is one of ours, which no upstream may see."""
        self._settings = settings
        self._proxy = environment_proxy(settings)
        self.base_url = settings.base_url.rstrip("/")
        address = urlsplit(self.base_url)
        user, _, self.host = address.netloc.rpartition("@")
        self.name = self.host + address.path
        self._base = URL(address._replace(netloc=self.host).geturl(), encoded=True)
        self._authorization = _authorization(settings, user)
        self.takes_client_key = takes_client_key and self._authorization is None
        self.state: str | None = None
        self._session: aiohttp.ClientSession | None = None
        self._connections: Connections | None = None
        self._urls: dict[bytes, URL] = {}

    async def open(self) -> None:
        settings = self._settings
        self._connections = Connections(tls_context(settings.ca_file))
        self._session = aiohttp.ClientSession(
            connector=self._connections,
            request_class=RawRequest,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=settings.connect_timeout_s, sock_read=settings.timeout_s
            ),
            skip_auto_headers=_AUTOMATIC,
            max_line_size=65536,
            max_field_size=65536,
            max_headers=MOST_HEADERS,
            read_bufsize=READ_BUFFER,
        )

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def headers_for(self, headers: Headers, length: int | None) -> CIMultiDict[str]:
        """The client's headers as the upstream gets them: ours and hop-by-hop ones removed, the key perhaps replaced.

        ``length`` is the body's, if it is known.
        """
        dropped = _NOT_SENT if self.takes_client_key else _NOT_SENT_NOR_KEYS
        if (connection := headers.all(b"connection")) and connection not in _NAME_NOTHING_MORE:
            dropped |= _connection_named(headers.raw)
        passed = [
            (name.decode("latin-1"), _text_or_bytes(value))
            for name, value in headers.raw
            if (lower := name.lower()) not in dropped and not lower.startswith(_OURS)
        ]
        sent = CIMultiDict(passed)
        if self._authorization is not None:
            sent["authorization"] = self._authorization
        if length is not None:
            sent["content-length"] = str(length)
        return sent

    def access(self, headers: Headers, model: str | None) -> UpstreamAccess:
        """How a request with these headers reaches its model, so that learning can use the same way."""
        key = client_key(headers) if self.takes_client_key else None
        return UpstreamAccess(base_url=self.base_url, model=model or "", api_key=key)

    async def send(
        self, method: str, raw_path: bytes, headers: CIMultiDict[str], body: bytes | AsyncIterable[bytes] | None
    ) -> "UpstreamAnswer":
        """Send one request (``raw_path`` as the client sent it, with its query) and wait for the answer's headers.

        A kept connection that the upstream closed while it was idle costs no request: it is sent again on another one.
        That needs a body that is there as a whole.

        Raises:
            UpstreamUnreachable: no connection, or it broke before the answer began.
            UpstreamTimeout: no connection, none of the body taken, or no answer in time.
            NotFound: the path is not below ``/v1/``.
        """
        connections = self._connections
        assert connections is not None, "open() comes first"  # noqa: S101 - a programming error, not an input
        url, began = self._url(raw_path), time.monotonic()
        while True:
            try:
                response = await self._request(method, url, headers, body)
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                repeatable = body is None or isinstance(body, bytes)
                soon = time.monotonic() - began < STALE_WITHIN_S
                if connections.made_one() or not (repeatable and soon and _without_answer(error)):
                    explained = self._explain(error)
                    self.state = f"degraded: {explained.message}"
                    raise explained from error
                log.debug("a kept connection to %s was closed; the request is sent on another one", self.host)
            else:
                if response.status == _SWITCHING_PROTOCOLS:
                    response.close()
                    raise UpstreamUnreachable(
                        f"The upstream {self.host} switched to another protocol, which nobody asked for. Check "
                        "upstream.base_url."
                    )
                self.state = READY
                return UpstreamAnswer(response, self._explain)
            finally:
                connections.made_one()

    async def _request(
        self, method: str, url: URL, headers: CIMultiDict[str], body: bytes | AsyncIterable[bytes] | None
    ) -> aiohttp.ClientResponse:
        session = self._session
        assert session is not None, "open() comes first"  # noqa: S101 - a programming error, not an input
        ask = partial(session.request, method, url, headers=headers, allow_redirects=False, proxy=self._proxy)
        size = 0 if body is None else len(body) if isinstance(body, bytes) else None
        if size is not None and size <= AT_ONCE:
            return await ask(data=body)
        patience_s = self._settings.timeout_s
        if size is not None and size <= PART:  # has as long to be taken as for its answer to begin
            async with asyncio.timeout(2 * patience_s):
                return await ask(data=body)
        async with asyncio.timeout(None) as limit:
            return await ask(data=_in_parts(body or b"", limit, patience_s))

    def _url(self, raw_path: bytes) -> URL:
        """The address; most requests have the same few, whose parts are taken apart once. It is put together from
        parts, not read from a text: nothing in a path can become a part of the host.
        """
        url = self._urls.get(raw_path)
        if url is None:
            path, _, query = raw_path.decode("latin-1").partition("?")
            if not path.startswith(_SERVED):
                raise NotFound("Only paths below /v1/ are relayed.")
            url = URL.build(
                scheme=self._base.scheme,
                authority=self._base.raw_authority,
                path=self._base.raw_path.rstrip("/") + path.removeprefix("/v1"),
                query_string=query,
                encoded=True,
            )
            assert url.origin() == self._base.origin(), "the client's path has no part in it"  # noqa: S101
            if len(self._urls) >= MOST_URLS:
                self._urls.clear()
            self._urls[raw_path] = url
        return url

    def _explain(self, error: Exception) -> MemproxyError:
        if isinstance(error, TimeoutError):
            return UpstreamTimeout(
                f"The upstream {self.host} did not answer in time. Try again, or raise upstream.timeout_s "
                f"({self._settings.timeout_s:g} s) or upstream.connect_timeout_s "
                f"({self._settings.connect_timeout_s:g} s)."
            )
        if type(error) is aiohttp.ClientResponseError:  # a refusal of the environment's proxy is of a kind of its own
            return UpstreamUnreachable(
                f"What the upstream {self.host} answered cannot be read as HTTP. Check upstream.base_url."
            )
        cause = type(error).__name__
        if isinstance(error, aiohttp.ClientConnectorError) and error.os_error is not None:
            cause = error.os_error.strerror or cause
        return UpstreamUnreachable(
            f"The upstream {self.host} cannot be reached ({cause}). Check upstream.base_url and the network."
        )


def _authorization(settings: UpstreamSettings, user: str) -> str | None:
    """What is sent in the place of the client's own: the configured key, else the user and password of the address."""
    if settings.api_key is not None:
        return f"Bearer {settings.api_key.get_secret_value()}"
    name, _, password = user.partition(":")
    pair = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return f"Basic {b64encode(pair).decode()}" if user else None


class Connections(aiohttp.TCPConnector):
    """The pool of one upstream. It knows which requests got a new connection, and which one that was kept."""

    def __init__(self, tls: ssl.SSLContext | bool) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_ALIVE_S, enable_cleanup_closed=False, ssl=tls)
        self._got_new: set[asyncio.Task[Any] | None] = set()

    async def _create_connection(
        self,
        req: aiohttp.ClientRequest,
        traces: list["Trace"],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp calls it so
    ) -> "ResponseHandler":
        self._got_new.add(asyncio.current_task())
        return await super()._create_connection(req, traces, timeout)

    def made_one(self) -> bool:
        """Whether a connection was made for this task since it asked last."""
        task = asyncio.current_task()
        if task not in self._got_new:
            return False
        self._got_new.discard(task)
        return True


class UpstreamAnswer:
    """An answer whose body is still to be read."""

    __slots__ = ("_explain", "_peeked", "_response", "status")

    def __init__(self, response: aiohttp.ClientResponse, explain: Callable[[Exception], MemproxyError]) -> None:
        self._response = response
        self._explain = explain
        self._peeked: deque[bytes] = deque()
        self.status = response.status

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def headers(self) -> RawHeaders:
        """The answer's headers as they came, hop-by-hop ones removed, duplicates and order kept."""
        raw = self._response.raw_headers
        dropped = HOP_BY_HOP if self.status != _NOT_MODIFIED else HOP_BY_HOP | {b"content-length"}  # of no body
        connection = self._response.headers.getall("connection", [])
        if connection and connection not in _NAME_NOTHING_MORE:
            dropped |= _connection_named(raw)
        return [(name, value) for name, value in raw if name.lower() not in dropped]

    def header(self, name: str) -> str | None:
        return self._response.headers.get(name)

    def is_stream(self, *, asked_for: bool) -> bool:
        """Whether it is one of events; where one was asked for, also if it does not say that it is JSON: clients take
        it so.
        """
        kind = (self.header("content-type") or "").lower()
        return kind.startswith("text/event-stream") or (asked_for and "json" not in kind)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next part of the body, as it arrived. Raises `UpstreamUnreachable` where the connection breaks,
        `UpstreamTimeout` where the upstream falls silent.
        """
        if self._peeked:
            return self._peeked.popleft()
        if not (chunk := await self._read()):
            raise StopAsyncIteration
        return chunk

    @property
    def ended(self) -> bool:
        """Whether the end was read already; if not, the next part may still be empty."""
        return not self._peeked and self._response.content.at_eof()

    async def peek(self, limit: int) -> bytes:
        """The body's first ``limit`` bytes, or all of a shorter one. Iterating gives them again. Raises as when
        iterating; what came before is not lost.
        """
        while sum(map(len, self._peeked)) < limit and (chunk := await self._read()):
            self._peeked.append(chunk)
        return b"".join(self._peeked)[:limit]

    async def _read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._explain(error) from error

    def close(self) -> None:
        """End the answer: one that was read to its end gives its connection back, any other is cut off."""
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _without_answer(error: Exception) -> bool:
    """Whether the connection broke with not even the beginning of an answer, as far as can be told."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # else it is what came of the answer's headers
    return isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)


def _connection_named(raw: Sequence[tuple[bytes, bytes]]) -> frozenset[bytes]:
    values = (value for name, value in raw if name.lower() == b"connection")
    return frozenset(part.strip().lower() for value in values for part in value.split(b","))


async def _split(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PART):
        yield body[start : start + PART]


async def _in_parts(
    body: bytes | AsyncIterable[bytes], limit: asyncio.Timeout, patience_s: float
) -> AsyncIterator[bytes]:
    """The body in parts. While the upstream takes nothing of one, ``limit`` runs out within ``patience_s``; the time
    that the client takes to send the next one does not count.
    """
    loop = asyncio.get_running_loop()
    async for part in _split(body) if isinstance(body, bytes) else body:
        with contextlib.suppress(RuntimeError):  # it is over: the answer began before all of the body was sent
            limit.reschedule(loop.time() + patience_s)
        yield part
        with contextlib.suppress(RuntimeError):
            limit.reschedule(None)
