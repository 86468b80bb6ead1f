"""The way to a Qdrant server: gRPC where it answers, else REST; errors in our words; a pause after failures."""

import asyncio
import contextlib
import ipaddress
import logging
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from time import monotonic
from typing import TypeVar
from urllib.parse import urlsplit

import httpx
from grpc import StatusCode
from grpc.aio import AioRpcError
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.client_exceptions import QdrantException, ResourceExhaustedResponse
from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

from memproxy.core.breaker import Breaker
from memproxy.errors import ConfigError, RequestError, StoreUnavailable

log = logging.getLogger(__name__)

Result = TypeVar("Result")

CONNECT_S = 2.0
"""A server that is down is known after this; recall's own deadline is far shorter, writes are tried again."""

TIMEOUT_S = 10  # longest time of one call
SNAPSHOT_S = 6 * 3600  # longest time of a snapshot
MISSED_S = 0.05
"""A caller that cancels a call after this time had a deadline; one that cancels sooner left for other reasons."""

REST_PORT = 6333

LEAST: tuple[int, ...] = (1, 16)
"""The oldest server that works: without ``update_filter``, two engines could give one collection two identities."""

IDF_WITHIN: tuple[int, ...] = (1, 19)
"""Counts how rare a word is within a filter from this version on, before within the whole collection."""

_STATUS = {
    StatusCode.INVALID_ARGUMENT: 400,
    StatusCode.OUT_OF_RANGE: 413,  # a message that is too long
    StatusCode.UNAUTHENTICATED: 401,
    StatusCode.PERMISSION_DENIED: 403,
    StatusCode.NOT_FOUND: 404,
    StatusCode.ALREADY_EXISTS: 409,
    StatusCode.FAILED_PRECONDITION: 412,
    StatusCode.RESOURCE_EXHAUSTED: 429,
    StatusCode.INTERNAL: 500,
}
"""Answers of gRPC as REST gives them. All others mean that there was no answer."""

_REMEDIES = {
    401: "Check store.api_key.",
    403: "Check store.api_key: it may not do this (a key for reading alone keeps no memories).",
    404: "The collection is gone: restore a snapshot of it.",
    412: "It is locked or being restored.",
    429: "It limits its callers' rate (strict mode).",
}
_DISK_FULL = re.compile(r"no space left|not enough (disk )?space|disk (is )?full|out of disk", re.IGNORECASE)


class Server:
    """A Qdrant server, or a cluster behind one address. ``url``: its REST address; None with a ``client``, which is
    used as it is (local mode). ``grpc_port``: None: one above REST's; 0: REST alone. ``location``: what messages speak
    of.
    """

    def __init__(
        self,
        *,
        url: str | None,
        api_key: str | None,
        grpc_port: int | None,
        location: str,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        if url is None and client is None:
            raise ConfigError("store.url: missing; `store.backend: qdrant` needs the address of a Qdrant server.")
        self.location = location
        self.version: tuple[int, ...] = IDF_WITHIN if client is not None else (0, 0)
        self.is_local = client is not None
        self._url = url or ""
        self._api_key = api_key
        self._grpc_port = grpc_port
        self._given_client = client
        self._client = client
        self._breaker = Breaker()

    @property
    def by_grpc(self) -> bool:
        return self._client is not None and bool(self._client.init_options.get("prefer_grpc"))

    @property
    def counts_within(self) -> bool:
        """Whether it counts within a filter how rare a word is."""
        return self.version >= IDF_WITHIN

    async def connect(self) -> None:
        """See by REST that it is there, and new enough; calls go by REST from here on. Raises `StoreUnavailable`."""
        if self.is_local or self._client is not None:
            return
        _warn_of_an_open_key(self._url, self._api_key)
        self._client = self._new_client(prefer_grpc=False)
        try:
            version = (await self.call(lambda client: client.info())).version
            self.version = _numbers(version)
            if self.version < LEAST:
                least = ".".join(map(str, LEAST))
                raise StoreUnavailable(
                    f"The {self.location} is on Qdrant {version}, which is too old: memproxy needs {least} or newer. "
                    "Update the server; it is looked at again until then."
                )
        except BaseException:
            await self.close()
            raise
        if not self.counts_within:
            log.info(
                "Qdrant %s counts how rare a word is among all users; from 1.19 on it is counted for each by himself",
                version,
            )

    async def prefer_grpc(self, same: Callable[[AsyncQdrantClient], Awaitable[bool]]) -> None:
        """Go on by gRPC, where that answers and is the ``same`` server."""
        port = self._port_of_grpc()
        if self.is_local or self.by_grpc or port is None:
            return
        client = self._new_client(prefer_grpc=True, grpc_port=port)
        try:
            reason = None if await asyncio.wait_for(same(client), CONNECT_S) else "it is another server's"
        except (AioRpcError, QdrantException, OSError, RuntimeError, ValueError, TimeoutError) as error:
            reason = error.code().name.lower() if isinstance(error, AioRpcError) else type(error).__name__
        if reason is None:
            unused, self._client = self._client, client
            log.info("the %s is reached by gRPC, port %d", self.location, port)
        else:
            unused = client
            log.warning(
                "the %s is reached by REST, which takes more time than gRPC: port %d does not answer (%s). Open it, or "
                "set store.grpc_port to Qdrant's gRPC port, or to 0 for REST alone",
                self.location,
                port,
                reason,
            )
        if unused is not None:
            await unused.close()

    def _port_of_grpc(self) -> int | None:
        address = urlsplit(self._url)
        if self._grpc_port is not None:
            return self._grpc_port or None
        # behind a path a gateway stands, and what is beside its port is nobody's
        return (address.port or REST_PORT) + 1 if address.path in {"", "/"} else None

    def _new_client(self, *, prefer_grpc: bool, grpc_port: int = 0, timeout_s: int = TIMEOUT_S) -> AsyncQdrantClient:
        transport = _QuickConnect(limits=httpx.Limits(max_connections=64, max_keepalive_connections=16))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Api key is used with an insecure connection")  # told by us, and once
            return AsyncQdrantClient(
                url=self._url,
                api_key=self._api_key,
                timeout=timeout_s,
                check_compatibility=False,
                transport=transport,
                prefer_grpc=prefer_grpc,
                grpc_port=grpc_port,
                grpc_options={
                    "grpc.initial_reconnect_backoff_ms": 200,
                    "grpc.max_reconnect_backoff_ms": 1000,  # by default two minutes after a restart
                    "grpc.keepalive_time_ms": 20_000,
                    "grpc.keepalive_timeout_ms": 5000,
                },
            )

    async def close(self) -> None:
        if self._given_client is None and self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def call(self, work: Callable[[AsyncQdrantClient], Awaitable[Result]], *, writes: bool = False) -> Result:
        """One call of the client, its errors in our words. Raises `RequestError`: this can never be written; else
        `StoreUnavailable`.
        """
        client = self._client
        if client is None:
            raise StoreUnavailable(f"The {self.location} is not connected; open the store, or wait until it is.")
        if not self._breaker.may_try():
            raise StoreUnavailable(f"The {self.location} did not answer lately; it is tried again every second.")
        async with self._watched(), self._our_errors(writes=writes):
            return await work(client)

    async def patiently(self, work: Callable[[AsyncQdrantClient], Awaitable[Result]]) -> Result:
        """One call by REST that may take hours. Raises `StoreUnavailable`."""
        client = self._new_client(prefer_grpc=False, timeout_s=SNAPSHOT_S)
        try:
            async with self._our_errors(writes=False):
                return await work(client)
        finally:
            await client.close()

    @contextlib.asynccontextmanager
    async def _watched(self) -> AsyncIterator[None]:
        """The breaker learns how a call ended."""
        began = monotonic()
        try:
            yield
        except _Unanswered:
            self._breaker.note_failure(refused=monotonic() - began < MISSED_S)
            raise
        except asyncio.CancelledError:
            if monotonic() - began > MISSED_S:
                self._breaker.note_failure()
            raise
        except (StoreUnavailable, RequestError):
            self._breaker.note_success()
            raise
        else:
            self._breaker.note_success()

    @contextlib.asynccontextmanager
    async def _our_errors(self, *, writes: bool) -> AsyncIterator[None]:
        try:
            yield
        except UnexpectedResponse as error:
            raise self._answered(error.status_code or 0, error.content.decode(errors="replace"), writes) from error
        except ResourceExhaustedResponse as error:
            raise self._answered(429, "", writes) from error
        except AioRpcError as error:
            status = _STATUS.get(error.code())
            if status is None:
                raise self._unanswered(error.code().name.lower().replace("_", " ")) from error
            raise self._answered(status, error.details() or "", writes) from error
        except (ApiException, QdrantException, httpx.HTTPError, OSError, RuntimeError, ValueError) as error:
            # ValueError: an answer that is not Qdrant's; what can be stored was checked before
            raise self._unanswered(str(getattr(error, "source", None) or error) or type(error).__name__) from error
        except AttributeError as error:
            # gRPC answers None where it cannot read an answer, and the client asks that for its result
            if error.obj is not None:
                raise
            raise self._unanswered("its answer cannot be read") from error

    def _answered(self, status: int, text: str, writes: bool) -> StoreUnavailable | RequestError:
        # the answer's text may quote payloads, so it is not told
        if writes and status in {400, 413, 422}:
            return RequestError(f"The {self.location} refused what was to be written (status {status}).")
        if _DISK_FULL.search(text):
            return StoreUnavailable(f"The {self.location} has no room on its disk. Free some, or give it a larger one.")
        remedy = _REMEDIES.get(status, "Look into Qdrant's log.")
        return StoreUnavailable(f"The {self.location} failed (status {status}). {remedy}")

    def _unanswered(self, reason: str) -> "_Unanswered":
        return _Unanswered(
            f"The {self.location} does not answer as Qdrant does ({reason[:200]}). Check that Qdrant runs and that "
            "store.url is right."
        )


class _Unanswered(StoreUnavailable):
    """There was no answer, or none of Qdrant's."""


class _QuickConnect(httpx.AsyncHTTPTransport):
    """Gives up connecting sooner than reading: the client knows one timeout for both."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "connect": CONNECT_S}
        return await super().handle_async_request(request)


def _numbers(version: str) -> tuple[int, ...]:
    """The first two numbers of a version; what has none is taken for a new one (a build of one's own)."""
    match = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else IDF_WITHIN


def _warn_of_an_open_key(url: str, api_key: str | None) -> None:
    host = urlsplit(url).hostname or ""
    if api_key is None or not url.startswith("http:") or host == "localhost":
        return
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(host).is_loopback:
            return
    log.warning("store.api_key goes to %s where all on the way can read it: use https", host)
