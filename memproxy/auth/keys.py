"""Mode ``keys``: proxy keys of our own, each bound to a tenant, perhaps to one user or project, with permissions.

A key is proved once by its scrypt hash, in a thread; then it is known by itself for as long as its record stays as it
is. That is looked at whenever the state has news, so that a revoked key ends with the next request everywhere, and
every few seconds, should news be lost.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import TypeVar

import msgspec

from memproxy.auth.hashing import matches
from memproxy.auth.headers import Headers, client_key
from memproxy.auth.naming import named_identity
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import KeyRecord, id_of
from memproxy.errors import StateUnavailable, Unauthenticated

log = logging.getLogger(__name__)

RECORD_SECONDS = 5.0
"""How long a record counts as fresh where no news came: as long may a revoked key still work at most."""

_MOST_KNOWN = 10_000
_PROVED_AT_ONCE = 2
"""Hashes computed side by side: each takes 16 MiB and a core."""

_Value = TypeVar("_Value")
Lookup = Callable[[str], Awaitable[KeyRecord | None]]


News = Callable[[], bytes]
"""Bytes that are others whenever a record was changed by any process; asked for with every request."""


def no_news() -> bytes:
    """Of a state that tells none: records are looked at again by time alone."""
    return b""


class _Known(msgspec.Struct):
    record: KeyRecord
    looked_at: float
    news: bytes


class KeysAuthenticator:
    """Recognises proxy keys: those of the configuration, and those of the state store (``memproxy keys new``)."""

    def __init__(
        self,
        configured: Mapping[str, KeyRecord],
        lookup: Lookup,
        *,
        default_user: str | None,
        record_s: float = RECORD_SECONDS,
        news: News = no_news,
    ) -> None:
        """``lookup`` finds a record by the key's id; ``default_user`` is whom a key without a user is for, when a
        request names nobody; ``record_s`` is how many seconds a record counts as fresh where ``news`` does not change.
        """
        self._record_s = record_s
        self._news = news
        self._configured = configured
        self._lookup = lookup
        self._default_user = default_user
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._refused: OrderedDict[str, None] = OrderedDict()
        self._proving = asyncio.Semaphore(_PROVED_AT_ONCE)

    async def identify(self, headers: Headers) -> Identity:
        """Who calls.

        Raises:
            Unauthenticated: no key, or none that holds.
            Forbidden: the key may not name that user or project.
            RequestError: a header of ours cannot be read.
            StateUnavailable: the key is not known yet and its record cannot be read.
        """
        key = client_key(headers)
        if key is None:
            raise Unauthenticated("No proxy key: send it as `Authorization: Bearer mpk_…`, `api-key` or `x-api-key`.")
        record = await self._record(key)
        if not record.holds(datetime.now(UTC)):
            self._known.pop(key, None)
            raise Unauthenticated("This proxy key is revoked or expired. Ask for a new one (memproxy keys new).")
        return named_identity(
            headers,
            tenant=record.tenant,
            user=record.user,
            default_user=self._default_user,
            project=record.project,
            permissions=record.permissions,
            by=f"key:{record.id}",
        )

    async def _record(self, key: str) -> KeyRecord:
        known = self._known.get(key)
        if known is None:
            return await self._proved(key)
        if known.news != self._news() or monotonic() - known.looked_at > self._record_s:
            await self._look_again(key, known)
        return known.record

    async def _look_again(self, key: str, known: _Known) -> None:
        news = self._news()  # before the record: what changes while it is read is news again
        try:
            record = await self._found(known.record.id)
        except StateUnavailable as error:
            log.warning("proxy keys cannot be looked up, known ones go on: %s", error.message)
            record = known.record
        if record is None or record.hash != known.record.hash:
            self._known.pop(key, None)
            raise _unknown()
        known.record, known.looked_at, known.news = record, monotonic(), news

    async def _proved(self, key: str) -> KeyRecord:
        key_id, news = id_of(key), self._news()
        record = await self._found(key_id) if key_id is not None else None
        if record is None or key in self._refused:
            raise _unknown()
        async with self._proving:
            right = await asyncio.to_thread(matches, key, record.hash)
        if not right:
            _remember(self._refused, key, None)
            raise _unknown()
        _remember(self._known, key, _Known(record, monotonic(), news))
        return record

    async def _found(self, key_id: str) -> KeyRecord | None:
        return self._configured.get(key_id) or await self._lookup(key_id)


def _remember(table: OrderedDict[str, _Value], key: str, value: _Value) -> None:
    table[key] = value
    while len(table) > _MOST_KNOWN:
        table.popitem(last=False)


def _unknown() -> Unauthenticated:
    return Unauthenticated("This proxy key is not known. Check it, or make one with `memproxy keys new`.")
