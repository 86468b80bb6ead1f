"""A vector engine whose memories expire with their tenant's ``ttl_days``: between `vector_store` and the engine.

The time is not stored: what is read has the ``expires_at`` that follows from when it was learned and from the
configuration of now, unless it has one of its own. So another ``ttl_days`` holds at once, for everything.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from memproxy.stores.backend import Backend, Found, Hybrid, Ranking, Scores, Stored, Written
from memproxy.stores.filters import AnyOf, Between, Condition, Missing, OneOf, Where

TimeToLive = Callable[[str], timedelta | None]
"""How long a tenant's memories are kept; None: for ever."""

EXPIRES, LEARNED = "expires_at", "created_at"


class DatedBackend:
    """`backend.Backend` over another one."""

    def __init__(self, inner: Backend, time_to_live: TimeToLive) -> None:
        self._inner = inner
        self._time_to_live = time_to_live

    async def upsert(self, points: Sequence[Written]) -> None:
        await self._inner.upsert([self._undated(point) for point in points])

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        await self._inner.set_payload(ids, fields)

    async def delete(self, where: Where) -> int:
        return await self._inner.delete(self._where(where))

    async def scroll(
        self,
        where: Where,
        *,
        limit: int,
        fields: Sequence[str] | None = None,
        order: str | None = None,
        after_id: str | None = None,
    ) -> list[Found]:
        asked = self._where(where)
        found = await self._inner.scroll(asked, limit=limit, fields=fields, order=order, after_id=after_id)
        return found if fields is not None else [self._dated(one) for one in found]

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        asked = [msgspec.structs.replace(one, where=self._where(one.where)) for one in rankings]
        return await self._inner.rank(asked)

    async def scores(self, asked: Hybrid) -> Scores | None:
        return await self._inner.scores(msgspec.structs.replace(asked, where=self._where(asked.where)))

    async def retrieve(self, ids: Sequence[str]) -> list[Found]:
        return [self._dated(one) for one in await self._inner.retrieve(ids)]

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        return [msgspec.structs.replace(one, found=self._dated(one.found)) for one in await self._inner.stored(ids)]

    async def count(self, where: Where) -> int:
        return await self._inner.count(self._where(where))

    def _end(self, payload: Mapping[str, Any]) -> datetime | None:
        tenant, learned = payload.get("tenant"), payload.get(LEARNED)
        time_to_live = self._time_to_live(tenant) if isinstance(tenant, str) else None
        if time_to_live is None or not isinstance(learned, str):
            return None
        return msgspec.convert(learned, datetime) + time_to_live

    def _dated(self, found: Found) -> Found:
        if found.payload.get(EXPIRES) is not None or (end := self._end(found.payload)) is None:
            return found
        return Found(found.id, {**found.payload, EXPIRES: msgspec.to_builtins(end)})

    def _undated(self, point: Written) -> Written:
        """Without a time that follows from the configuration."""
        if point.payload.get(EXPIRES) is None or point.payload[EXPIRES] != msgspec.to_builtins(
            self._end(point.payload)
        ):
            return point
        kept = {name: value for name, value in point.payload.items() if name != EXPIRES}
        return msgspec.structs.replace(point, payload=kept)

    def _where(self, where: Where) -> Where:
        """Where what has expired is asked to be left out, also what has by its tenant's time."""
        tenant = next((one.values[0] for one in where.must if isinstance(one, OneOf) and one.key == "tenant"), None)
        time_to_live = self._time_to_live(tenant) if isinstance(tenant, str) else None
        now = next((at for one in where.must if (at := _asked_at(one)) is not None), None)
        if time_to_live is None or now is None:
            return where
        young = Between(key=LEARNED, after=now - time_to_live)
        return where.also(AnyOf((young, Between(key=EXPIRES, after=now))))


def _asked_at(condition: Condition) -> datetime | None:
    """The time of the condition that leaves out what has expired (`filters.readable`)."""
    if not isinstance(condition, AnyOf) or Missing(EXPIRES) not in condition.conditions:
        return None
    return next((one.after for one in condition.conditions if isinstance(one, Between) and one.key == EXPIRES), None)
