"""The upstream's side: one pool of connections, raw bytes in both directions, nothing interpreted.

The pool keeps no cookies (they must not cross tenants), follows no redirects, decompresses nothing and has no total
timeout: an answer may stream for hours, but not be silent for longer than ``upstream.timeout_s``.
"""

import asyncio
import logging
import time
from base64 import b64encode
from collections import deque
from collections.abc import AsyncIterable, Callable, Sequence
from ipaddress import ip_address
from typing import Self
from urllib.parse import unquote_to_bytes, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from memproxy.auth import Headers
from memproxy.errors import MemproxyError, NotFound, UpstreamTimeout, UpstreamUnreachable
from memproxy.relay.connections import AT_ONCE, PART, Connections, in_parts
from memproxy.relay.raw_headers import HeadersAsBytes, RawRequest, text_or_bytes
from memproxy.relay.request import RawHeaders
from memproxy.relay.tls import tls_context
from memproxy.settings import UpstreamSettings

log = logging.getLogger(__name__)

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"trailers",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers that concern one connection only (RFC 9110, section 7.6.1)."""

_SERVED = "/v1/"
"""How paths begin that are relayed; what follows is appended to ``upstream.base_url``."""

_OURS = b"x-memproxy-"
_NEVER_UPSTREAM = frozenset({b"host", b"expect", b"content-length"})
_KEY_HEADERS = frozenset({b"authorization", b"api-key", b"x-api-key"})
_NOT_SENT = HOP_BY_HOP | _NEVER_UPSTREAM
_NOT_SENT_NOR_KEYS = _NOT_SENT | _KEY_HEADERS
_AUTOMATIC = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")
_SWITCHED = 101
READ_BUFFER = 2**18

MOST_HEADERS = 1_000
"""Of an answer; their bytes are bounded too, one by one."""

STALE_WITHIN_S = 1.0
"""A kept connection that breaks so soon after a request was sent, with nothing answered, had been closed before."""

MOST_URLS = 64
"""Addresses that are remembered; clients choose them, so they are bounded."""

_NAME_NOTHING_MORE = (["keep-alive"], ["Keep-Alive"])
"""The usual ``Connection``: the header that it names is never passed on anyway."""


class Upstream:
    """Sends requests to ``upstream.base_url`` and hands out its answers unread."""

    def __init__(self, settings: UpstreamSettings, *, takes_client_key: bool = True, route: int | None = None) -> None:
        """``takes_client_key`` False: without a configured key none is sent, for the client's is another host's.
        ``route`` is which of ``upstream.routes`` it is of; None: the default.
        """
        self.route = route
        self._settings = settings
        self._proxy = environment_proxy(settings.base_url) if settings.environment_proxy else None
        self._base = settings.base_url.rstrip("/")
        address = urlsplit(self._base)
        user, _, self.host = address.netloc.rpartition("@")
        self.name = self.host + address.path
        self._asked = URL(address._replace(netloc=self.host).geturl(), encoded=True)
        self._authorization = _authorization(settings, user)
        self._takes_client_key = takes_client_key and self._authorization is None
        self._session: aiohttp.ClientSession | None = None
        self._raw_session: aiohttp.ClientSession | None = None
        self._connections: Connections | None = None
        self._urls: dict[bytes, URL] = {}

    async def open(self) -> None:
        """Make the pool."""
        settings = self._settings
        self._connections = Connections(tls_context(settings.ca_file))
        self._session = self._made_session(self._connections, aiohttp.ClientRequest)
        self._raw_session = self._made_session(self._connections, RawRequest)

    def _made_session(
        self, connector: aiohttp.TCPConnector, request_class: type[aiohttp.ClientRequest]
    ) -> aiohttp.ClientSession:
        settings = self._settings
        return aiohttp.ClientSession(
            connector=connector,
            request_class=request_class,
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
        """Close the pool."""
        for session in (self._session, self._raw_session):
            if session is not None:
                await session.close()

    @property
    def base_url(self) -> str:
        """The base URL, without a slash at its end."""
        return self._base

    @property
    def takes_client_key(self) -> bool:
        """Whether the client's own key goes there (else the configured one does, or none)."""
        return self._takes_client_key

    def headers_for(self, headers: Headers, length: int | None) -> CIMultiDict[str]:
        """The client's headers as the upstream gets them: ours and hop-by-hop ones removed, the key perhaps replaced.

        ``length`` is the body's, if it is known.
        """
        dropped = _NOT_SENT if self._takes_client_key else _NOT_SENT_NOR_KEYS
        if (connection := headers.all(b"connection")) and connection not in _NAME_NOTHING_MORE:
            dropped |= _connection_named(headers.raw)
        sent: CIMultiDict[str]
        try:
            sent = CIMultiDict(_passed_on(headers.raw, dropped, bytes.decode))
        except UnicodeDecodeError:
            sent = HeadersAsBytes(_passed_on(headers.raw, dropped, text_or_bytes))
        if self._authorization is not None:
            sent["authorization"] = self._authorization
        if length is not None:
            sent["content-length"] = str(length)
        return sent

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
                    raise self._explain(error) from error
                log.debug("a kept connection to %s was closed; the request is sent on another one", self.host)
            else:
                if response.status == _SWITCHED:
                    response.close()
                    raise UpstreamUnreachable(
                        f"The upstream {self.host} switched to another protocol, which nobody asked for. Check "
                        "upstream.base_url."
                    )
                return UpstreamAnswer(response, self._explain)
            finally:
                connections.made_one()

    async def _request(
        self, method: str, url: URL, headers: CIMultiDict[str], body: bytes | AsyncIterable[bytes] | None
    ) -> aiohttp.ClientResponse:
        session = self._raw_session if isinstance(headers, HeadersAsBytes) else self._session
        assert session is not None, "open() comes first"  # noqa: S101 - a programming error, not an input
        size = 0 if body is None else len(body) if isinstance(body, bytes) else None
        if size is not None and size <= AT_ONCE:
            return await session.request(
                method, url, headers=headers, data=body, allow_redirects=False, proxy=self._proxy
            )
        patience_s = self._settings.timeout_s
        whole = size is not None and size <= PART  # has as long to be taken as for its answer to begin
        async with asyncio.timeout(2 * patience_s if whole else None) as limit:
            sent = body if whole or body is None else in_parts(body, limit, patience_s)
            return await session.request(
                method, url, headers=headers, data=sent, allow_redirects=False, proxy=self._proxy
            )

    def _url(self, raw_path: bytes) -> URL:
        """The address; most requests have the same few, whose parts are taken apart once.

        It is put together from parts, not read from a text: nothing in a path can become a part of the host.
        """
        url = self._urls.get(raw_path)
        if url is None:
            path, _, query = raw_path.decode("latin-1").partition("?")
            if not path.startswith(_SERVED):
                raise NotFound("Only paths below /v1/ are relayed.")
            url = URL.build(
                scheme=self._asked.scheme,
                authority=self._asked.raw_authority,
                path=self._asked.raw_path.rstrip("/") + path.removeprefix("/v1"),
                query_string=query,
                encoded=True,
            )
            assert url.origin() == self._asked.origin(), "the client's path has no part in it"  # noqa: S101
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
        what = type(error).__name__
        if isinstance(error, aiohttp.ClientConnectorError) and error.os_error is not None:
            what = error.os_error.strerror or what
        return UpstreamUnreachable(
            f"The upstream {self.host} cannot be reached ({what}). Check upstream.base_url and the network."
        )


def _authorization(settings: UpstreamSettings, user: str) -> str | None:
    """What is sent in the place of the client's own: the configured key, else the user and password of the address."""
    if settings.api_key is not None:
        return f"Bearer {settings.api_key.get_secret_value()}"
    name, _, password = user.partition(":")
    pair = unquote_to_bytes(name) + b":" + unquote_to_bytes(password)
    return f"Basic {b64encode(pair).decode()}" if user else None


def environment_proxy(base_url: str) -> str | None:
    """The proxy that the environment names for this address, by the usual rules (`urllib.request`); None: no proxy.
    What runs on this machine is never asked for through one.

    aiohttp's own ``trust_env`` is not used: it would add passwords of a ``.netrc`` file to requests.
    """
    address = urlsplit(base_url)
    if address.hostname is None or _is_loopback(address.hostname) or proxy_bypass(address.netloc.rpartition("@")[2]):
        return None
    return getproxies().get(address.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class UpstreamAnswer:
    """An answer whose body is still to be read."""

    __slots__ = ("_explain", "_peeked", "_response", "status")

    def __init__(self, response: aiohttp.ClientResponse, explain: Callable[[Exception], MemproxyError]) -> None:
        self._response = response
        self._explain = explain
        self._peeked: deque[bytes] = deque()
        self.status = response.status

    @property
    def headers(self) -> RawHeaders:
        """The answer's headers as they came, hop-by-hop ones removed, duplicates and order kept."""
        raw = self._response.raw_headers
        dropped = HOP_BY_HOP
        connection = self._response.headers.getall("connection", [])
        if connection and connection not in _NAME_NOTHING_MORE:
            dropped |= _connection_named(raw)
        return [(name, value) for name, value in raw if name.lower() not in dropped]

    def header(self, name: str) -> str | None:
        """One header's value."""
        return self._response.headers.get(name)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """The next part of the body, as it arrived.

        Raises:
            UpstreamUnreachable: the connection broke in the middle.
            UpstreamTimeout: the upstream fell silent.
        """
        if self._peeked:
            return self._peeked.popleft()
        if not (chunk := await self._read()):
            raise StopAsyncIteration
        return chunk

    @property
    def ended(self) -> bool:
        """Whether nothing is left to read, as far as is known: the next part may still turn out to be none."""
        return not self._peeked and self._response.content.at_eof()

    async def peek(self, limit: int) -> bytes:
        """The body's first ``limit`` bytes, or all of a shorter one. Iterating gives them again.

        Raises:
            UpstreamUnreachable, UpstreamTimeout: as when iterating; what came before is not lost.
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
        """Done with it: an answer read to its end gives its connection back, any other is cut off."""
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


def _passed_on(
    raw: Sequence[tuple[bytes, bytes]], dropped: frozenset[bytes], text: Callable[[bytes], str]
) -> list[tuple[str, str]]:
    return [
        (name.decode("latin-1"), text(value))
        for name, value in raw
        if (lower := name.lower()) not in dropped and not lower.startswith(_OURS)
    ]
