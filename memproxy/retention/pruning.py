"""Prunes memories: what has expired, and what is over the limit of its user, by `core.retention`. A pass looks at all
owners, and soon after a write at its owner. What goes is deleted as a call would delete it: through the journal, with
its slot, its place in its chain and its lines in blocks.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from datetime import timedelta

from memproxy.core.memory import Kind
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.retention import Due, Policy, batches, due
from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError
from memproxy.metrics import metrics
from memproxy.ports import Clock, MemoryFilter, MemoryStore, StateStore, every
from memproxy.retention.leftovers import forget_queries_of
from memproxy.settings import RetentionSettings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

GATHER_S = 1.0  # how long the first write waits for others before its user is pruned
FIRST_AFTER_S = 60.0  # how long after a start the first pass begins: requests come first
MOST_NOTED = 10_000  # users noted to be looked at; those beyond wait for the next pass
OWNERS = 500
BATCH = 100  # memories deleted by one row of the journal: as many as the activity lists for one row


class Policies:
    """The policy of each tenant: its own, else the deployment's. ``is_active``: anything is pruned at all;
    ``has_time_to_live``: any tenant's memories expire by themselves.
    """

    def __init__(self, settings: RetentionSettings) -> None:
        self._usual = _policy(settings.ttl_days, settings.max_per_user)
        self._by_tenant = {
            tenant: _policy(theirs.ttl_days or settings.ttl_days, theirs.max_per_user or settings.max_per_user)
            for tenant, theirs in settings.tenants.items()
        }
        self.every_s = settings.prune_every_s
        self.is_active = settings.prune or bool(self._by_tenant) or self._usual != Policy()
        self.has_time_to_live = any(policy.ttl is not None for policy in (self._usual, *self._by_tenant.values()))

    def of(self, tenant: str) -> Policy:
        """What holds for this tenant."""
        return self._by_tenant.get(tenant, self._usual)

    def time_to_live(self, tenant: str) -> timedelta | None:
        """How long this tenant's memories are kept; None: for ever."""
        return self.of(tenant).ttl


def _policy(days: float | None, most: int | None) -> Policy:
    return Policy(ttl=timedelta(days=days) if days is not None else None, most=most)


Plan = Callable[[Scope, PlanBody], Awaitable[bool]]
"""Writes a plan through the journal: True when it is applied, False when it waits for the store."""


@dataclass(eq=False)
class Pruner:
    """Keeps everybody within what the settings say."""

    policies: Policies
    _: KW_ONLY
    store: MemoryStore
    state: StateStore
    plan: Plan
    clock: Clock
    gather_s: float = GATHER_S

    def __post_init__(self) -> None:
        self._tasks = TaskOwner("retention.pruning")
        self._noted: set[tuple[str, str]] = set()
        self._wake = asyncio.Event()

    def start(self) -> None:
        """Begin to look at everybody now and then, where anything is to be pruned."""
        if self.policies.is_active:
            self._tasks.start(self._pass_again(), "pass")
            self._tasks.start(self._look_at_noted(), "noted")

    async def close(self) -> None:
        """End; what is deleted already is in the journal."""
        await self._tasks.cancel()

    def wrote(self, owner: tuple[str, str]) -> None:
        """Something was written for this user; returns at once."""
        if self.policies.of(owner[0]).most is not None and len(self._noted) < MOST_NOTED:
            self._noted.add(owner)
            self._wake.set()

    async def due(self, scope: Scope) -> list[Due]:
        """What would be pruned of a user now; nothing is changed.

        Raises:
            StoreUnavailable: the store does not answer.
        """
        owner, now = scope.whole, self.clock.now()
        policy = self.policies.of(owner.tenant)
        total = await self.store.count(owner, MemoryFilter())
        live = await self.store.count(owner, MemoryFilter(now=now))
        if live == total and (policy.most is None or live <= policy.most):
            return []
        return due([memory async for memory in every(self.store, owner, MemoryFilter())], policy, now=now)

    async def prune(self, scope: Scope) -> Counter[str]:
        """Prune a user; how many went, by reason.

        Raises:
            StoreUnavailable, StateUnavailable: not all of it was deleted; the next pass goes on.
        """
        owner = scope.whole
        gone: Counter[str] = Counter()
        for batch in batches(await self.due(owner), BATCH):
            if await self.plan(owner, _deletion(batch)):
                gone[batch[0].reason] += len(batch)
                metrics().memories_pruned.labels(reason=batch[0].reason).inc(len(batch))
                await forget_queries_of(self.state, owner, [item.memory for item in batch])
        if gone:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(gone.items()))
            log.info("pruned %d memories of one user (%s)", gone.total(), reasons)
        return gone

    async def everybody(self) -> list[Scope]:
        """All users, for a pass."""
        users: list[Scope] = []
        after: tuple[str, str] | None = None
        while True:
            owners = await self.state.owners(after=after, limit=OWNERS)
            users += [Scope(tenant=tenant, user=user) for tenant, user in owners]
            if len(owners) < OWNERS:
                return users
            after = owners[-1]

    async def _pass_again(self) -> None:
        await asyncio.sleep(min(self.policies.every_s, FIRST_AFTER_S))
        while True:
            try:
                for owner in await self.everybody():
                    await self.prune(owner)
            except MemproxyError as error:
                log.warning("a pass of pruning ended early, the next one goes on: %s", error.message)
            await asyncio.sleep(self.policies.every_s)

    async def _look_at_noted(self) -> None:
        while True:
            await self._wake.wait()
            await asyncio.sleep(self.gather_s)
            self._wake.clear()
            owners, self._noted = self._noted, set()
            for tenant, user in sorted(owners):
                try:
                    await self.prune(Scope(tenant=tenant, user=user))
                except MemproxyError as error:
                    log.warning("a user over the limit waits for the next pass: %s", error.message)


def _deletion(batch: Sequence[Due]) -> PlanBody:
    """The row that deletes these; a turn's namesake in another session stays."""
    ids, first = [item.memory.id for item in batch], batch[0].memory
    if first.kind is Kind.TURN and first.session_id is not None:
        return PlanBody(delete_where=Deletion(ids=ids, session_ids=[first.session_id]), deleted_by=batch[0].reason)
    return PlanBody(deletes=ids, deleted_by=batch[0].reason)
