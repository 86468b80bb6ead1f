"""The indexes of the owners who were searched lately, within so many bytes: made in the background, told every write.

An index is made by reading the owner's points from the engine, a few at a time, while writes go on. All calls of the
engine run one after the other in one thread, and what they answer arrives in the same order: so each read that is put
in and each write that is told here are applied in the order in which the engine saw them, and the index is as the
engine is. Where that is not sure (a write failed or its caller left), what it concerns is dropped.
"""

import asyncio
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import monotonic
from typing import Protocol

from memproxy.errors import MemproxyError
from memproxy.metrics import metrics
from memproxy.stores.filters import Owner, Where
from memproxy.stores.owner_columns import NotHere, owned_by
from memproxy.stores.owner_index import OwnerIndex, Row, least_bytes
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

    async def rows(self, where: Where, limit: int, after_id: str | None) -> list[Row]:
        """Those that match, in the order of their ids, ``after_id`` excluded."""

    async def count(self, where: Where) -> int:
        """How many there are."""


ReadAhead = Callable[[Sequence[str]], Awaitable[bool]]
"""Reads the memories at these places before somebody asks for them; False when there is no room for more."""


class OwnerIndexes:
    """By owner; the ones searched longest ago go first. For the event loop's thread alone."""

    def __init__(
        self,
        *,
        most_bytes: int,
        dimension: int,
        searches: int = SEARCHES,
        keep_s: float = KEEP_S,
        chunk: int = CHUNK,
    ) -> None:
        """``most_bytes`` is for all of them together, also for the one that is being made."""
        self._most_bytes = most_bytes
        self._dimension = dimension
        self._searches = searches
        self._keep_s = keep_s
        self._chunk = chunk
        self._reading: Reading | None = None
        self._read_ahead: ReadAhead | None = None
        self._kept: OrderedDict[Owner, OwnerIndex] = OrderedDict()
        self._used_at: dict[Owner, float] = {}
        self._bytes: dict[Owner, int] = {}
        self._asked: OrderedDict[Owner, int] = OrderedDict()
        self._refused: OrderedDict[Owner, float] = OrderedDict()
        self._wanted: OrderedDict[Owner, None] = OrderedDict()
        self._building: OwnerIndex | None = None
        self._tasks = TaskOwner("store.index")
        self._builder: asyncio.Task[None] | None = None

    def read_from(self, reading: Reading, read_ahead: ReadAhead | None = None) -> None:
        """Where points are read from now on. ``read_ahead`` is given the places of each index that was made: what a
        search finds is then there already.
        """
        self._reading = reading
        self._read_ahead = read_ahead

    def of(self, owner: Owner, *, background: bool = False) -> OwnerIndex | None:
        """The owner's index, when there is one; otherwise the search counts towards making it. A search that nobody
        waits for (``background``) counts for nothing.
        """
        index = self._kept.get(owner)
        if background:
            return index
        if index is None:
            self._count(owner)
        else:
            self._kept.move_to_end(owner)
            self._used_at[owner] = monotonic()
        return index

    def _count(self, owner: Owner) -> None:
        if self._is_building(owner) or self._refused.get(owner, -math.inf) > monotonic():
            return
        count = self._asked.pop(owner, 0) + 1
        if count >= self._searches:
            self._want(owner)
            return
        self._asked[owner] = count
        _shorten(self._asked)

    def _want(self, owner: Owner) -> None:
        self._wanted[owner] = None
        if self._builder is None or self._builder.done():
            self._builder = self._tasks.start(self._build_all(), "build")

    def _is_building(self, owner: Owner) -> bool:
        return self._building is not None and self._building.owner == owner

    def concerned(self, owner: Owner) -> list[OwnerIndex]:
        """What a write of this owner is told to: the index, or the one that is being made."""
        building = [self._building] if self._building is not None and self._building.owner == owner else []
        return [*building, *([self._kept[owner]] if owner in self._kept else [])]

    def holding(self, places: Iterable[str]) -> list[OwnerIndex]:
        """What a write to these points is told to."""
        building = [] if self._building is None else [self._building]
        return [one for one in (*building, *self._kept.values()) if any(place in one for place in places)]

    def changed(self, index: OwnerIndex) -> None:
        """A write was told to it: it may take more than it may by now."""
        if self._kept.get(index.owner) is index:
            self._bytes[index.owner] = index.nbytes
            self._evict(0, idle_since=math.inf, last=index.owner)

    def drop(self, owner: Owner) -> None:
        """Forget what is held of this owner; one that is being made is begun anew."""
        self._kept.pop(owner, None)
        self._used_at.pop(owner, None)
        self._bytes.pop(owner, None)
        if self._is_building(owner):
            self._building = None
            self._want(owner)
        self._tell()

    def forget(self, owner: Owner) -> None:
        """Nothing of this owner is left here: neither memories nor that somebody searched."""
        self._building = None if self._is_building(owner) else self._building
        self.drop(owner)
        self._asked.pop(owner, None)
        self._wanted.pop(owner, None)
        self._refused.pop(owner, None)

    def drop_unfinished(self) -> None:
        """Begin anew what is being made."""
        if self._building is not None:
            self.drop(self._building.owner)

    def clear(self) -> None:
        """Forget everything: what the engine holds may be another state."""
        for owner in list(self._kept):
            self.drop(owner)
        self.drop_unfinished()
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
                self._refuse(owner, math.inf)
            except MemproxyError as error:
                # the store is away, as the engine's own answers say; the next searches ask for an index again
                log.warning("an index of memories was not made: %s", error)
            finally:
                self._building = None

    async def _warm(self, owner: Owner) -> None:
        index = self._kept.get(owner)
        if index is None or self._read_ahead is None:
            return
        places = index.places()
        for start in range(0, len(places), READ_AHEAD):
            begin = monotonic()
            if self._kept.get(owner) is not index or not await self._read_ahead(places[start : start + READ_AHEAD]):
                return
            await asyncio.sleep(monotonic() - begin)  # half of the time is left to others

    def _refuse(self, owner: Owner, until: float) -> None:
        """Leave this owner to the engine for so long, or until all of theirs is erased."""
        self._refused.pop(owner, None)
        self._refused[owner] = until
        _shorten(self._refused)

    async def _build(self, owner: Owner, reading: Reading) -> None:
        index = self._building = OwnerIndex(owner)
        where, after = owned_by(owner), None
        count = await reading.count(where)
        if self._building is not index or not self._has_room(owner, least_bytes(count, self._dimension)):
            return
        if not len(index):
            index.reserve(count, self._dimension)
        while self._has_room(owner, index.nbytes):
            begin = monotonic()
            rows = await reading.rows(where, self._chunk, after)
            if self._building is not index:
                return
            index.put(rows)
            if len(rows) < self._chunk:
                self._keep(index)
                return
            after = rows[-1].place
            # half of the time is left to others
            await asyncio.sleep(monotonic() - begin)
            if self._building is not index:
                return

    def _has_room(self, owner: Owner, wanted: int) -> bool:
        """Whether there is so much room now; those who were not searched lately make some."""
        if wanted > self._most_bytes:
            raise NotHere("they take more than store.index_bytes")
        idle_since = monotonic() - self._keep_s
        busy = sum(size for one, size in self._bytes.items() if self._used_at[one] > idle_since)
        if busy + wanted > self._most_bytes:
            self._refuse(owner, monotonic() + self._keep_s)
            return False
        self._evict(wanted, idle_since=idle_since)
        return True

    def _keep(self, index: OwnerIndex) -> None:
        if not len(index) or not self._has_room(index.owner, index.nbytes):
            return
        self._building = None
        self._kept[index.owner], self._bytes[index.owner] = index, index.nbytes
        self._used_at[index.owner] = monotonic()
        self._tell()

    def _evict(self, wanted: int, *, idle_since: float, last: Owner | None = None) -> None:
        """Make so much room by forgetting the ones used longest ago; ``last`` only if it alone is too much."""
        total = wanted + sum(self._bytes.values())
        for owner in sorted(self._kept, key=lambda one: (one == last, self._used_at[one])):
            if total <= self._most_bytes or self._used_at[owner] > idle_since:
                break
            total -= self._bytes[owner]
            self.drop(owner)
        self._tell()

    @property
    def nbytes(self) -> int:
        """About what all of them take."""
        return sum(self._bytes.values())

    def _tell(self) -> None:
        metrics().store_index_bytes.set(self.nbytes)
        metrics().store_index_owners.set(len(self._kept))


def _shorten(some: OrderedDict[Owner, float] | OrderedDict[Owner, int]) -> None:
    if len(some) > _MOST_COUNTED:
        some.popitem(last=False)
