"""How much a tenant and its users may keep, and how often calls may write: what the engine knows of ``limits``."""

import asyncio

from memproxy.auth.limits import MEMORIES, QUOTA, Rates, limit_reached
from memproxy.core.changes import Change, ChangeNotices, What
from memproxy.core.scope import Scope
from memproxy.learn.budget import budgets, spent_on_learning
from memproxy.ports import Clock, MemoryFilter, MemoryStore, UsageStore
from memproxy.settings import LimitsSettings, Settings

COUNT_SECONDS = 5.0
"""How long a count of memories counts; what calls added since is counted besides."""

QUOTA_RETRY_S = 3600
"""``retry-after`` of a full quota: nothing but forgetting makes room, so there is no hurry."""

_MOST_KNOWN = 10_000


class Quotas:
    """Counts memories, and knows the rates. One instance for an engine; what other engines write is counted with the
    next look, a deletion at once.
    """

    def __init__(
        self, settings: Settings, state: UsageStore, store: MemoryStore, clock: Clock, changes: ChangeNotices
    ) -> None:
        """``changes`` tell whose memories are to be counted again."""
        self._budgets = budgets(settings.learn)
        self._state = state
        self._store = store
        self._clock = clock
        self.take(settings.limits)
        self._held: dict[tuple[str, str | None], tuple[float, int]] = {}
        self._counting = asyncio.Lock()
        changes.subscribe(self._changed)

    def take(self, limits: LimitsSettings) -> None:
        """Hold to these limits from now on; what was counted counts on."""
        self._limits = limits
        self._rates = Rates(limits, self._state, self._clock.now)

    async def admit_turns(self, scope: Scope, count: int) -> None:
        """Pass turns that may be taken in, and count them.

        Raises:
            TooManyRequests: too many in this minute, or too many memories.
            StoreUnavailable, StateUnavailable: that cannot be known.
        """
        await self._rates.turns(scope, count)
        await self.admit_memories(scope, count)

    async def admit_memories(self, scope: Scope, count: int) -> None:
        """Pass memories that may be kept beside those there are.

        Raises:
            TooManyRequests: they would be too many.
            StoreUnavailable: how many there are cannot be known.
        """
        limited = self._quotas_of(scope)
        if not limited:
            return
        async with self._counting:
            for whose, counted, most in limited:
                if await self._count(counted) + count > most:
                    words = f"{most}, and {count} more would be too many: forget some first."
                    raise limit_reached(whose, MEMORIES, words, wait_s=QUOTA_RETRY_S, code=QUOTA)
            for _, counted, _ in limited:
                if counted in self._held:
                    read_at, held = self._held[counted]
                    self._held[counted] = (read_at, held + count)

    async def full(self, scope: Scope) -> str | None:
        """Whose quota of memories has no room any more: ``user``, ``tenant`` or nobody's.

        Raises:
            StoreUnavailable: how many there are cannot be known.
        """
        async with self._counting:
            for whose, counted, most in self._quotas_of(scope):
                if await self._count(counted) >= most:
                    return whose
        return None

    async def admit_learning(self, scope: Scope) -> None:
        """Pass while the hour's (day's) model tokens of tenant and user are not used up.

        Raises:
            TooManyRequests: they are; learning goes on by itself in the next hour (day).
            StateUnavailable: that cannot be known.
        """
        await self._rates.learning(scope)
        for budget in self._budgets:
            begun, until = budget.window(now := self._clock.now())
            if await spent_on_learning(self._state, scope.tenant, begun) >= budget.tokens:
                wait = int((until - now).total_seconds()) + 1
                words = f"used up by learning ({budget.name}: {budget.tokens}); it goes on by itself in {wait} s."
                raise limit_reached("tenant", budget.name.removeprefix("learn."), words, wait_s=wait)

    def _quotas_of(self, scope: Scope) -> list[tuple[str, tuple[str, str | None], int]]:
        """The quotas that there are: whose, of which tenant and user, how many memories."""
        user, tenant = self._limits.user.memories, self._limits.tenant.memories
        quotas = [("user", scope.owner, user), ("tenant", (scope.tenant, None), tenant)]
        return [(whose, counted, most) for whose, counted, most in quotas if most is not None]

    async def _count(self, counted: tuple[str, str | None]) -> int:
        now = self._clock.now().timestamp()
        cached = self._held.get(counted)
        if cached is not None and 0 <= now - cached[0] < COUNT_SECONDS:
            return cached[1]
        tenant, user = counted
        if user is None:
            held = await self._store.count_tenant(tenant)
        else:
            held = await self._store.count(Scope(tenant=tenant, user=user), MemoryFilter())
        if len(self._held) >= _MOST_KNOWN:
            self._held.clear()
        self._held[counted] = (now, held)
        return held

    def _changed(self, change: Change | None) -> None:
        """Something was deleted: count again."""
        if change is not None and change.what is What.REPLACED:
            return
        if change is None:
            self._held.clear()
            return
        for counted in ((change.tenant, change.user), (change.tenant, None)):
            self._held.pop(counted, None)
