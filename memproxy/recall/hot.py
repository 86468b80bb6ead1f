"""Hot memories: the best of each user in a project and for an agent, kept for some minutes, so that a session can begin
with its stable facts without a search, and a recall whose store is away or too slow has something to give.

Best is by the score of pruning (docs/retention.md), without importance and opinions. They are read in the background,
read again soon after a write, and forgotten when anything is changed or deleted: an erasure takes effect at once.
"""

import asyncio
import math
from collections import Counter, OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from time import monotonic

from memproxy.core.bounded import BoundedCache
from memproxy.core.changes import Change, ChangeNotices, What
from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import RecallLimits
from memproxy.core.retention import Weights, score
from memproxy.core.scope import OwnerKey, Scope
from memproxy.core.telling import tells_nothing
from memproxy.errors import CacheUnavailable, StoreUnavailable
from memproxy.ports import Clock, HotPlace, HotStore, MemoryFilter, MemoryStore, TellsChanges
from memproxy.recall import listed
from memproxy.recall.listed import STABLE_KINDS
from memproxy.recall.ranking import Scored
from memproxy.recall.select import Limits, is_gone
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner

WEIGHTS = Weights(importance=0.0, feedback=0.0)

KEPT_BYTES = 32 * 1024 * 1024
"""For the hot memories of all users in this process; those asked for least recently go first."""

READ_S = 0.03
"""How long a request waits for hot memories of a shared cache."""

REFRESH_S = 30.0
"""The longest that reading them anew, in the background, may take."""

SOON_S = 0.5
"""How long after a change they are read anew, together with what else changes until then."""

REST = 9.0
"""How many times longer the pause after reading one user's is than the reading: a tenth of the time at most."""

MOST_WAITING = 200
"""Most reads that wait; a later recall asks for any others again."""

HELD_S = 3600.0
"""The longest that one row keeps its owner without hot memories: another engine may have carried it out."""

_MOST_OWNERS = 10_000


class HotInProcess:
    """`ports.HotStore` in this process."""

    def __init__(self, *, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._entries: BoundedCache[OwnerKey, dict[HotPlace, tuple[float, list[Memory]]]] = BoundedCache(
            KEPT_BYTES, _bytes
        )
        self._changes = Counter[OwnerKey]()
        self._cleared = 0

    async def generation(self, owner: OwnerKey) -> str:
        return f"{self._cleared}-{self._changes[owner]}"

    async def places(self, owner: OwnerKey) -> list[HotPlace]:
        return list(self._entries.get(owner) or ())

    async def forget(self, owner: OwnerKey) -> list[HotPlace]:
        if len(self._changes) >= _MOST_OWNERS:  # reads under way are thrown away
            self._cleared += 1
            self._changes.clear()
        self._changes[owner] += 1
        return list(self._entries.pop(owner) or ())

    async def read(self, owner: OwnerKey, place: HotPlace) -> list[Memory] | None:
        until, memories = (self._entries.get(owner) or {}).get(place, (0.0, None))
        return memories if until > monotonic() else None

    async def write(
        self, owner: OwnerKey, place: HotPlace, memories: Sequence[tuple[float, Memory]], generation: str
    ) -> bool:
        if generation != await self.generation(owner):
            return False
        entry = (monotonic() + self._ttl_s, [memory for _, memory in memories])
        self._entries.put(owner, {**(self._entries.get(owner) or {}), place: entry})
        return True

    def clear(self) -> None:
        """Forget everybody's."""
        for owner in list(self._entries):
            self._entries.pop(owner)
        self._cleared += 1
        self._changes.clear()


def _bytes(places: dict[HotPlace, tuple[float, list[Memory]]]) -> int:
    """About their size: a memory without its text takes some 2 KB."""
    return sum(2_000 + 4 * len(memory.content) for _, memories in places.values() for memory in memories)


class Hot:
    """Keeps hot memories up to date, and answers from them.

    Args:
        cache: where they are kept.
        store: all memories; it tells of its changes (`ports.TellsChanges`).
        changes: notices of what other processes changed; only hot memories of this process need them.
    """

    def __init__(
        self, cache: HotStore, *, store: MemoryStore, settings: Settings, clock: Clock, changes: ChangeNotices
    ) -> None:
        self._cache = cache
        self._store = store
        self._clock = clock
        self._limits = Limits.of(settings, RecallLimits())
        self._facts = settings.recall.first_turn_facts
        self._most = settings.cache.per_agent
        self._every_s = settings.cache.ttl_s / 2
        self._changes = changes
        self._read_at: OrderedDict[OwnerKey, dict[HotPlace, float]] = OrderedDict()
        """When this process has read them: not each recall has them read anew."""
        self._waiting: set[tuple[OwnerKey, HotPlace]] = set()
        self._held: dict[int, tuple[OwnerKey, float]] = {}
        self._reading = asyncio.Lock()
        self._tasks = TaskOwner("hot")
        if isinstance(store, TellsChanges):
            store.on_changed(self._on_store_change)
        changes.subscribe(self._on_notice)

    async def close(self) -> None:
        """Read nothing any more."""
        await self._tasks.cancel()

    def refresh_later(self, scope: Scope) -> None:
        """A recall was answered: keep its user's memories soon, in the background. Returns at once."""
        read_at = self._read_at.get(scope.owner, {}).get(_place_of(scope), -math.inf)
        if monotonic() - read_at >= self._every_s:
            self._read_soon(scope.owner, _place_of(scope), 0.0)

    async def memories(self, scope: Scope) -> list[Memory]:
        """What is kept for the scope and holds now, best first; nothing while something of the owner's that is to be
        deleted or changed waits.
        """
        if self._is_held(scope.owner):
            return []
        try:
            async with asyncio.timeout(READ_S):
                cached = await self._cache.read(scope.owner, _place_of(scope))
        except (CacheUnavailable, TimeoutError):
            return []
        now = self._clock.now()
        return [memory for memory in cached or () if _may_see(scope, memory) and is_gone(memory, now) is None]

    async def facts(self, scope: Scope, limits: Limits, count: int) -> list[Scored] | None:
        """The stable facts of the scope, as `listed.stable_facts`; None: they are not kept, or the request wants others
        than are.
        """
        if set(limits.kinds) & STABLE_KINDS != set(self._limits.kinds) & STABLE_KINDS or count > self._facts:
            return None
        now = self._clock.now()
        stable = [
            fact for fact in await self.memories(scope) if fact.kind in STABLE_KINDS and listed.holds(fact, limits, now)
        ]
        newest = sorted(stable, key=lambda fact: fact.created_at, reverse=True)
        return listed.most_important(newest, count) or None

    async def hold(self, scope: Scope, number: int) -> None:
        """Give out and read nothing of the owner until `release`: the row of this number will delete or change some of
        it.
        """
        self._held[number] = scope.owner, monotonic() + HELD_S
        await self._forget(scope.owner)

    def release(self, number: int) -> None:
        """The row has ended."""
        self._held.pop(number, None)

    def _is_held(self, owner: OwnerKey) -> bool:
        return any(held_owner == owner and until > monotonic() for held_owner, until in self._held.values())

    def _on_notice(self, change: Change | None) -> None:
        """Another process changed something; a shared cache it has changed itself."""
        if not isinstance(self._cache, HotInProcess):
            return
        if change is None:
            self._cache.clear()
            self._read_at.clear()
        else:
            self._tasks.start(self._forget((change.tenant, change.user)), "forget")

    async def _on_store_change(self, scope: Scope, written: Sequence[Memory] | None) -> None:
        """The store changed. New verbatim turns make nothing kept wrong: they may only displace it."""
        owner = scope.owner
        if written is None or any(memory.kind is not Kind.TURN for memory in written):
            if isinstance(self._cache, HotInProcess):
                self._changes.publish(Change(*owner, What.REPLACED))  # others keep them, too
            await self._forget(owner)
            return
        with suppress(CacheUnavailable):
            for place in await self._cache.places(owner):
                self._read_soon(owner, place, SOON_S)

    async def _forget(self, owner: OwnerKey) -> None:
        self._read_at.pop(owner, None)
        with suppress(CacheUnavailable):  # whoever keeps them sees to it that they are not used
            for place in await self._cache.forget(owner):
                self._read_soon(owner, place, SOON_S)

    def _read_soon(self, owner: OwnerKey, place: HotPlace, delay_s: float) -> None:
        if (owner, place) not in self._waiting and len(self._waiting) < MOST_WAITING:
            self._waiting.add((owner, place))
            self._tasks.start(self._read(owner, place, delay_s), "read")

    async def _read(self, owner: OwnerKey, place: HotPlace, delay_s: float) -> None:
        """Read the owner's memories anew."""
        try:
            await asyncio.sleep(delay_s)
            await self._reading.acquire()
        finally:
            self._waiting.discard((owner, place))
        began = monotonic()
        try:
            if self._is_held(owner):
                return
            async with asyncio.timeout(REFRESH_S):
                generation = await self._cache.generation(owner)
                chosen = await self._best_memories(_scope(owner, place))
                is_written = await self._cache.write(owner, place, chosen, generation)
            await asyncio.sleep(REST * (monotonic() - began))
        except (CacheUnavailable, StoreUnavailable, TimeoutError):
            return  # the next recall asks for it again
        finally:
            self._reading.release()
        if not is_written:  # it was changed meanwhile
            self._read_soon(owner, place, SOON_S)
            return
        self._read_at.setdefault(owner, {})[place] = monotonic()
        self._read_at.move_to_end(owner)
        while len(self._read_at) > _MOST_OWNERS:
            self._read_at.popitem(last=False)

    async def _best_memories(self, scope: Scope) -> list[tuple[float, Memory]]:
        """The best of the scope's memories that may be given out, and the facts that a session begins with, with their
        scores. Of turns, which are all as certain, the newest are looked at.
        """
        now, memories = self._clock.now(), list[Memory]()
        kinds = tuple(kind for kind in self._limits.kinds if kind is not Kind.TURN)
        where = MemoryFilter(kinds=kinds, active=True, quarantined=False, now=now)
        if kinds:
            memories = [memory async for page in listed.pages(self._store, scope, where) for memory in page]
        of_facts = [fact for fact in memories if fact.kind in STABLE_KINDS and listed.holds(fact, self._limits, now)]
        facts = [fact.memory for fact in listed.most_important(of_facts, self._facts)]
        if Kind.TURN in self._limits.kinds:
            where = MemoryFilter(kinds=(Kind.TURN,), active=True, quarantined=False, telling=True, now=now)
            memories += (await self._store.page(scope, where, limit=2 * self._most)).memories
        good = [memory for memory in memories if is_gone(memory, now) is None and not tells_nothing(memory)]
        best = sorted(good, key=lambda memory: -score(memory, WEIGHTS, now=now))[: self._most]
        chosen = {(item.session_id if item.kind is Kind.TURN else None, item.id): item for item in (*best, *facts)}
        return [(score(memory, WEIGHTS, now=now), memory) for memory in chosen.values()]


def _may_see(scope: Scope, memory: Memory) -> bool:
    """Whether the scope may see a memory of a shared cache: only if the memory's own fields say so."""
    return scope.owner == (memory.tenant, memory.user_id) and scope.sees(memory.project_id, memory.agent_id)


def _place_of(scope: Scope) -> HotPlace:
    return scope.project, scope.agent


def _scope(owner: OwnerKey, place: HotPlace) -> Scope:
    return Scope(tenant=owner[0], user=owner[1], project=place[0], agent=place[1])
