"""A vector engine beside which the memories of who was searched lately are held in memory (`owner_indexes`).

It stands right above the engine, below encryption and expiry: it sees points and conditions as the engine does. Only
for an engine that this process alone writes to.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from memproxy.metrics import metrics
from memproxy.stores.backend import Backend, Found, Hybrid, Ranking, Scores, Stored, Written
from memproxy.stores.filters import Owner, Where, owner_of
from memproxy.stores.owner_columns import OWNER_PAYLOAD, NotHere, owned_by
from memproxy.stores.owner_index import OwnerIndex, Row
from memproxy.stores.owner_indexes import OwnerIndexes


class IndexedBackend:
    """`backend.Backend` over another one. ``check`` raises `errors.StoreUnavailable` when the engine would."""

    def __init__(self, inner: Backend, indexes: OwnerIndexes, check: Callable[[], None]) -> None:
        self._inner = inner
        self._indexes = indexes
        self._check = check
        by_index, by_engine = (metrics().store_searches.labels(answered_by=one) for one in ("index", "engine"))
        self._by_index, self._by_engine = by_index, by_engine

    async def scores(self, asked: Hybrid) -> Scores | None:
        owner = owner_of(asked.where)
        index = None if owner is None else self._indexes.of(owner, background=asked.background)
        if index is not None:
            self._check()
            try:
                found = index.search(asked)
            except NotHere:
                pass
            else:
                self._by_index.inc()
                return found
        self._by_engine.inc()
        return await self._inner.scores(asked)

    async def upsert(self, points: Sequence[Written]) -> None:
        owners = {_owner(one.payload) for one in points}
        with self._dropped_unless_done(*owners):
            await self._inner.upsert(points)
        for owner in owners:
            mine = [one for one in points if _owner(one.payload) == owner]
            for index in self._indexes.concerned(owner):
                with self._changing(index):
                    index.put([Row(one.id, one.payload, one.dense, one.bm25) for one in mine])

    async def set_payload(self, ids: Sequence[str], fields: dict[str, Any]) -> None:
        try:
            await self._inner.set_payload(ids, fields)
        except BaseException:
            # it may still be done, and what is read while an index is made does not say whose it is
            self._indexes.drop_unfinished()
            for index in self._indexes.holding(ids):
                self._indexes.drop(index.owner)
            raise
        for index in self._indexes.holding(ids):
            with self._changing(index):
                index.change(ids, fields)

    async def delete(self, where: Where) -> int:
        owner = owner_of(where)
        if owner is None:
            try:
                return await self._inner.delete(where)
            finally:
                self._indexes.clear()
        with self._dropped_unless_done(owner):
            count = await self._inner.delete(where)
        for index in self._indexes.concerned(owner):
            with self._changing(index):
                index.delete(where)
        if where == owned_by(owner):
            self._indexes.forget(owner)
        return count

    @contextmanager
    def _dropped_unless_done(self, *owners: Owner) -> Iterator[None]:
        """The engine writes within it. When it fails, or its caller leaves, nobody knows what was written."""
        try:
            yield
        except BaseException:
            for owner in owners:
                self._indexes.drop(owner)
            raise

    @contextmanager
    def _changing(self, index: OwnerIndex) -> Iterator[None]:
        """What the engine has done is told to the index within it; what it cannot hold ends it."""
        try:
            yield
        except NotHere:
            self._indexes.drop(index.owner)
        else:
            self._indexes.changed(index)

    async def scroll(
        self,
        where: Where,
        *,
        limit: int,
        fields: Sequence[str] | None = None,
        order: str | None = None,
        after_id: str | None = None,
    ) -> list[Found]:
        return await self._inner.scroll(where, limit=limit, fields=fields, order=order, after_id=after_id)

    async def rank(self, rankings: Sequence[Ranking]) -> list[list[tuple[str, float]]]:
        return await self._inner.rank(rankings)

    async def retrieve(self, ids: Sequence[str]) -> list[Found]:
        return await self._inner.retrieve(ids)

    async def stored(self, ids: Sequence[str]) -> list[Stored]:
        return await self._inner.stored(ids)

    async def count(self, where: Where) -> int:
        return await self._inner.count(where)


def _owner(payload: Mapping[str, Any]) -> Owner:
    tenant, user = (str(payload.get(name)) for name in OWNER_PAYLOAD)
    return tenant, user
