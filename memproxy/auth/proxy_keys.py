"""Mode ``keys``: proxy keys of our own, each bound to a tenant, perhaps to one user or project, with permissions. Every
request's key is compared with the hash in its record, found by the key's id. Records are kept, keys are not. A record
is read again whenever the state has news, so that a revoked key ends at once, and every few seconds, should news be
lost.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from datetime import UTC, datetime
from time import monotonic

import msgspec

from memproxy.auth.headers import Headers, client_key
from memproxy.auth.identity import named_identity
from memproxy.core.bounded import BoundedCache
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import KeyRecord, id_of, matches
from memproxy.errors import StateUnavailable, Unauthenticated

log = logging.getLogger(__name__)

RECORD_SECONDS = 5.0  # how long a record counts as fresh without news; a revoked key works no longer than that
OUTAGE_SECONDS = 600.0  # how long a record counts while the state cannot be read: the key may be revoked there
_CACHED_BYTES = 16 * 1024 * 1024  # some 10,000 records

Lookup = Callable[[str], Awaitable[KeyRecord | None]]
News = Callable[[], bytes]  # bytes that differ whenever any process changed a record; read with every request


def no_news() -> bytes:
    """The `News` of a state without news: records are read again by age alone."""
    return b""


class _CachedRecord(msgspec.Struct):
    """A record as it was read, and when the state was last asked for it, with or without an answer."""

    record: KeyRecord
    read_at: float
    asked_at: float
    news: bytes


@dataclass(eq=False)
class KeysAuthenticator:
    """Recognises proxy keys of the configuration and of the state store (``memproxy keys new``), where ``lookup`` finds
    a record by the key's id. ``default_user``: whom a key without a user is for, when nobody is named; ``record_s``:
    how long a record is fresh without ``news``; ``outage_s``: how long it counts while the state cannot be read.
    """

    configured: Mapping[str, KeyRecord]
    lookup: Lookup
    _: KW_ONLY
    default_user: str | None
    record_s: float = RECORD_SECONDS
    outage_s: float = OUTAGE_SECONDS
    news: News = no_news
    _cache: BoundedCache[str, _CachedRecord] = field(default_factory=lambda: BoundedCache(_CACHED_BYTES))

    async def identify(self, headers: Headers) -> Identity:
        """Who calls.

        Raises:
            Unauthenticated: no key, or none that holds.
            Forbidden: the key may not name that user or project.
            RequestError: a header of ours cannot be read.
            StateUnavailable: the key's record cannot be read, and was not within the last ten minutes.
        """
        key = client_key(headers)
        if key is None:
            raise Unauthenticated("No proxy key: send it as `Authorization: Bearer mpk_…`, `api-key` or `x-api-key`.")
        key_id = id_of(key)
        record = await self._find(key_id) if key_id is not None else None
        if record is None or not matches(key, record.hash):
            raise Unauthenticated("This proxy key is not known. Check it, or make one with `memproxy keys new`.")
        if not record.holds(datetime.now(UTC)):
            raise Unauthenticated("This proxy key is revoked or expired. Ask for a new one (memproxy keys new).")
        return named_identity(
            headers,
            tenant=record.tenant,
            user=record.user,
            default_user=self.default_user,
            project=record.project,
            permissions=record.permissions,
            by=f"key:{record.id}",
        )

    async def _find(self, key_id: str) -> KeyRecord | None:
        if (configured := self.configured.get(key_id)) is not None:
            return configured
        # read before the record: a change meanwhile is news again
        cached, news, now = self._cache.get(key_id), self.news(), monotonic()
        if cached is not None and cached.news == news and now - cached.asked_at <= self.record_s:
            return cached.record
        try:
            record = await self.lookup(key_id)
        except StateUnavailable as error:
            if cached is None or now - cached.read_at > self.outage_s:
                raise
            log.warning("proxy keys cannot be looked up, known ones go on for ten minutes: %s", error.message)
            cached.asked_at, cached.news = now, news
            return cached.record
        if record is None:
            self._cache.pop(key_id)
        else:
            self._cache.put(key_id, _CachedRecord(record, now, now, news))
        return record
