"""Whose memories are held in memory (`owner_index`): made in the background, told every write, within so many bytes.

Beside Qdrant Edge, which stays the store of truth, for an engine that this process alone writes to. An index is made by
reading the owner's points, a few at a time, while writes go on. All calls of the engine run one after the other in one
thread, and what they answer arrives in the same order: so each read that is put in and each write that is told are
applied in the order in which the engine saw them, and the index is as the engine is. Where that is not sure (a write
failed or its caller left), the index of who was written is dropped.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any, Protocol

from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError
from memproxy.metrics import metrics
from memproxy.stores.backend import Hybrid, Scores, Written
from memproxy.stores.filters import Owner, Where, owned, owner_of
from memproxy.stores.owner_index import NotHere, OwnerIndex, least_bytes
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

CHUNK = 64
"""Points read at once while an index is made: the engine holds Python's lock meanwhile."""

READ_AHEAD = 16
"""Memories read ahead at once: with the notes made of them it takes 1 to 2 ms, in which nobody else is served."""

SEARCHES = 2
"""Searches of one owner before an index is made: who asks once is answered by the engine."""

KEEP_S = 60.0
"""An owner who was searched so many seconds ago does not make room for another one."""

_MOST_COUNTED = 4_096
"""Owners whose searches are counted, and owners who are left to the engine."""


class Reading(Protocol):
    """How the points of an owner are read from the engine."""

    async def rows(self, where: Where, limit: int, after_id: str | None) -> list[Written]:
        """Those that match, with their vectors and `owner_index.PAYLOAD`, in the order of their ids, ``after_id``
        excluded; all of one moment.
        """

    async def count(self, where: Where) -> int:
        """How many there are."""


ReadAhead = Callable[[Sequence[str]], Awaitable[bool]]
"""Reads the memories at these places before somebody asks for them; False when there is no room for more."""


class OwnerIndexes:
    """By owner; the ones searched longest ago go first. For the event loop's thread alone."""

    def __init__(self, *, most_bytes: int, dimension: int) -> None:
        """``most_bytes`` is for all of them together, also for the one that is being made."""
        self._most_bytes = most_bytes
        self._dimension = dimension
        self._keep_s = KEEP_S
        self._chunk = CHUNK
        self._reading: Reading | None = None
        self._read_ahead: ReadAhead | None = None
        self._kept: dict[Owner, OwnerIndex] = {}
        self._used_at: dict[Owner, float] = {}
        self._bytes: dict[Owner, int] = {}
        self._asked: OrderedDict[Owner, int] = OrderedDict()
        self._refused: OrderedDict[Owner, float] = OrderedDict()
        self._wanted: OrderedDict[Owner, None] = OrderedDict()
        self._building: OwnerIndex | None = None
        self._tasks = TaskOwner("store.index")
        self._builder: asyncio.Task[None] | None = None
        by_index, by_engine = (metrics().store_searches.labels(answered_by=one) for one in ("index", "engine"))
        self._by_index, self._by_engine = by_index, by_engine

    def read_from(self, reading: Reading, read_ahead: ReadAhead) -> None:
        """Where points are read from now on. ``read_ahead`` is given the places of each index that was made: what a
        search finds is then there already.
        """
        self._reading = reading
        self._read_ahead = read_ahead

    @property
    def nbytes(self) -> int:
        """About what all of them take."""
        return sum(self._bytes.values())

    def search(self, asked: Hybrid) -> Scores | None:
        """Both searches, answered from memory; None where the engine has to be asked. A search that somebody waits for
        counts towards making the owner's index.
        """
        owner = owner_of(asked.where)
        index = None if owner is None else self._kept.get(owner)
        if owner is not None and not asked.background:
            if index is None:
                self._count(owner)
            else:
                self._used_at[owner] = monotonic()
        if index is not None:
            try:
                found = index.search(asked)
            except NotHere:
                pass
            else:
                self._by_index.inc()
                return found
        self._by_engine.inc()
        return None

    def _count(self, owner: Owner) -> None:
        if self._is_building(owner) or self._refused.get(owner, -math.inf) > monotonic():
            return
        count = self._asked.pop(owner, 0) + 1
        if count >= SEARCHES:
            self._want(owner)
        else:
            _note(self._asked, owner, count)

    def failed(self, owners: Iterable[Owner]) -> None:
        """A write of these owners' failed, or its caller left: nobody knows what was written."""
        for owner in owners:
            self._drop(owner)

    def holding(self, places: Sequence[str]) -> set[Owner]:
        """Whose index has one of these points; also whose is being made, of whom that is not known yet."""
        kept = {owner for owner, index in self._kept.items() if any(place in index for place in places)}
        return kept if self._building is None else {*kept, self._building.owner}

    def everyone(self) -> set[Owner]:
        """Whose memories are held."""
        return {index.owner for index in self._held()}

    def put(self, points: Sequence[Written]) -> None:
        """The engine has written these points."""
        for owner, mine in by_owner(points).items():
            for index in self._held(owner):
                with self._changing(index):
                    index.put(mine)

    def change(self, places: Sequence[str], fields: Mapping[str, Any]) -> None:
        """The engine has set these fields of these points."""
        for index in self._held():
            if any(place in index for place in places):
                with self._changing(index):
                    index.change(places, fields)

    def delete(self, where: Where) -> None:
        """The engine has deleted what matches."""
        owner = owner_of(where)
        if owner is None:
            self.clear()
            return
        for index in self._held(owner):
            with self._changing(index):
                index.delete(where)
        if where == _all_of(owner):  # neither memories are left here, nor that somebody searched
            self._building = None if self._is_building(owner) else self._building
            self._drop(owner)
            for some in (self._asked, self._wanted, self._refused):
                some.pop(owner, None)

    def _held(self, owner: Owner | None = None) -> list[OwnerIndex]:
        """All indexes, or this owner's, also one that is being made."""
        building = [] if self._building is None else [self._building]
        if owner is None:
            return [*building, *self._kept.values()]
        kept = [self._kept[owner]] if owner in self._kept else []
        return [one for one in (*building, *kept) if one.owner == owner]

    @contextmanager
    def _changing(self, index: OwnerIndex) -> Iterator[None]:
        """What the engine has done is told to the index within it. What it cannot hold ends it, and so may its size."""
        try:
            yield
        except NotHere:
            self._drop(index.owner)
        else:
            if self._kept.get(index.owner) is index:
                self._bytes[index.owner] = index.nbytes
                self._evict(0, idle_since=math.inf, last=index.owner)

    def _drop(self, owner: Owner) -> None:
        """Forget what is held of this owner; one that is being made is begun anew."""
        for some in (self._kept, self._used_at, self._bytes):
            some.pop(owner, None)
        if self._is_building(owner):
            self._building = None
            self._want(owner)
        self._show()

    def clear(self) -> None:
        """Forget everything: what the engine holds may be another state."""
        self.failed(self.everyone())
        self._refused.clear()

    async def settled(self) -> None:
        """Returns when nothing is being made."""
        while self._builder is not None and not self._builder.done():
            await asyncio.wait([self._builder])

    async def close(self) -> None:
        """Forget everything, and make nothing any more."""
        self._building = None
        self._wanted.clear()
        await self._tasks.cancel()
        self.clear()
        self._asked.clear()

    def _is_building(self, owner: Owner) -> bool:
        return self._building is not None and self._building.owner == owner

    def _want(self, owner: Owner) -> None:
        self._wanted[owner] = None
        if self._builder is None or self._builder.done():
            self._builder = self._tasks.start(self._build_all(), "build")

    async def _build_all(self) -> None:
        while self._wanted:
            owner, _ = self._wanted.popitem(last=False)
            if self._reading is None:
                continue
            try:
                await self._build(owner, self._reading)
                await self._warm(owner)
            except NotHere as reason:
                log.info("the memories of one user are searched by the engine alone: %s", reason)
                _note(self._refused, owner, math.inf)
            except MemproxyError as error:
                # the store is away, as the engine's own answers say; the next searches ask for an index again
                log.warning("an index of memories was not made: %s", error)
            finally:
                self._building = None

    async def _build(self, owner: Owner, reading: Reading) -> None:
        index = self._building = OwnerIndex(owner)
        where, after = _all_of(owner), None
        count = await reading.count(where)
        if self._building is not index or not self._has_room(owner, least_bytes(count, self._dimension)):
            return
        index.reserve(count, self._dimension)
        while self._has_room(owner, index.nbytes):
            begin = monotonic()
            rows = await reading.rows(where, self._chunk, after)
            if self._building is not index:
                return
            index.put(rows)
            if len(rows) < self._chunk:
                if len(index) and self._has_room(owner, index.nbytes):
                    self._building = None
                    self._kept[owner], self._bytes[owner], self._used_at[owner] = index, index.nbytes, monotonic()
                    self._show()
                return
            after = rows[-1].id
            await asyncio.sleep(monotonic() - begin)  # half of the time is left to others
            if self._building is not index:
                return

    async def _warm(self, owner: Owner) -> None:
        """Read the memories of an index that was made."""
        index = self._kept.get(owner)
        places = [] if index is None else index.places()
        for start in range(0, len(places), READ_AHEAD):
            begin = monotonic()
            if self._kept.get(owner) is not index or self._read_ahead is None:
                return
            if not await self._read_ahead(places[start : start + READ_AHEAD]):
                return
            await asyncio.sleep(monotonic() - begin)

    def _has_room(self, owner: Owner, wanted: int) -> bool:
        """Whether there is so much room now; those who were not searched lately make some."""
        if wanted > self._most_bytes:
            raise NotHere("they take more than store.index_bytes")
        idle_since = monotonic() - self._keep_s
        busy = sum(size for one, size in self._bytes.items() if self._used_at[one] > idle_since)
        if busy + wanted > self._most_bytes:
            _note(self._refused, owner, monotonic() + self._keep_s)
            return False
        self._evict(wanted, idle_since=idle_since)
        return True

    def _evict(self, wanted: int, *, idle_since: float, last: Owner | None = None) -> None:
        """Make so much room by forgetting the ones used longest ago; ``last`` only if it alone is too much."""
        total = wanted + self.nbytes
        if total > self._most_bytes:
            for owner in sorted(self._kept, key=lambda one: (one == last, self._used_at[one])):
                if total <= self._most_bytes or self._used_at[owner] > idle_since:
                    break
                total -= self._bytes[owner]
                self._drop(owner)
        self._show()

    def _show(self) -> None:
        metrics().store_index_bytes.set(self.nbytes)
        metrics().store_index_owners.set(len(self._kept))


def by_owner(points: Sequence[Written]) -> dict[Owner, list[Written]]:
    """The points of each owner."""
    owners: dict[Owner, list[Written]] = {}
    for one in points:
        owners.setdefault((str(one.payload.get("tenant")), str(one.payload.get("user_id"))), []).append(one)
    return owners


def _all_of(owner: Owner) -> Where:
    return owned(Scope(tenant=owner[0], user=owner[1]))


def _note(some: OrderedDict[Owner, Any], owner: Owner, value: float) -> None:
    """Note it of the owner, and forget the oldest beyond what is counted."""
    some.pop(owner, None)
    some[owner] = value
    if len(some) > _MOST_COUNTED:
        some.popitem(last=False)
