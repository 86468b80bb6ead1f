"""Connections to an upstream: which were kept from before, and how long one may take nothing of what it is sent."""

import asyncio
import contextlib
from collections.abc import AsyncIterable, AsyncIterator
from ssl import SSLContext
from typing import TYPE_CHECKING, Any

import aiohttp

if TYPE_CHECKING:
    from aiohttp.client_proto import ResponseHandler
    from aiohttp.tracing import Trace

KEEP_ALIVE_S = 15.0
"""Idle connections are closed after this long: sooner than most servers do, so that few requests meet a stale one."""

AT_ONCE = 2**15
"""A body of so many bytes always fits into a connection's own buffer, so sending it never waits for the upstream."""

PART = 2**20
"""A body of more bytes is sent in parts of so many."""


class Connections(aiohttp.TCPConnector):
    """The pool of one upstream. It knows which requests got a new connection, and which one that was kept."""

    def __init__(self, ssl: SSLContext | bool) -> None:
        super().__init__(limit=0, keepalive_timeout=KEEP_ALIVE_S, enable_cleanup_closed=False, ssl=ssl)
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


def in_parts(body: bytes | AsyncIterable[bytes], limit: asyncio.Timeout, patience_s: float) -> AsyncIterator[bytes]:
    """The body in parts. While the upstream takes nothing of one, ``limit`` runs out within ``patience_s``; what the
    client takes to send the next one does not count.
    """
    return _timed(_parts(body) if isinstance(body, bytes) else body, limit, patience_s)


async def _parts(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), PART):
        yield body[start : start + PART]


async def _timed(parts: AsyncIterable[bytes], limit: asyncio.Timeout, patience_s: float) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    async for part in parts:
        _set(limit, loop.time() + patience_s)
        yield part
        _set(limit, None)


def _set(limit: asyncio.Timeout, when: float | None) -> None:
    with contextlib.suppress(RuntimeError):  # it is over: the answer began before all of the body was sent
        limit.reschedule(when)
