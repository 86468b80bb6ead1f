"""Rates: how often a tenant and its users may do something. Counted in the state store, so that all processes count
together; without a limit in the settings nothing is counted and nothing is asked.
"""

from collections.abc import Callable
from datetime import datetime

from memproxy.core.scope import Scope
from memproxy.errors import TooManyRequests
from memproxy.metrics import metrics
from memproxy.ports import Charge, Spent, UsageStore
from memproxy.settings import LimitsSettings

MINUTE, HOUR = 60, 3600
QUOTA = "quota_exceeded"
"""Code of a 429 that waiting does not end."""

CHAT, TURNS, TOKENS = "chat_per_minute", "turns_per_minute", "model_tokens_per_hour"
MEMORIES = "memories"


class Rates:
    """Counts against ``limits.tenant`` and ``limits.user``."""

    def __init__(self, limits: LimitsSettings, state: UsageStore, now: Callable[[], datetime]) -> None:
        self._limits = limits
        self._state = state
        self._now = now

    @property
    def bounds_chat(self) -> bool:
        """Whether chat requests are counted at all."""
        return bool(self._limits.tenant.chat_per_minute or self._limits.user.chat_per_minute)

    @property
    def bounds_turns(self) -> bool:
        """Whether turns are counted at all."""
        return bool(self._limits.tenant.turns_per_minute or self._limits.user.turns_per_minute)

    async def chat(self, tenant: str, user: str | None) -> None:
        """Count one chat request; ``user`` None: nobody is named, it counts for the tenant alone.

        Raises:
            TooManyRequests: it is one too many.
            StateUnavailable: that cannot be known.
        """
        if self.bounds_chat:
            per_tenant, per_user = self._limits.tenant.chat_per_minute, self._limits.user.chat_per_minute
            await self._spend(CHAT, (tenant, user), (per_tenant, per_user), amount=1)

    async def turns(self, scope: Scope, count: int) -> None:
        """Count turns that are to be taken in, all or none.

        Raises:
            TooManyRequests: they are too many.
            StateUnavailable: that cannot be known.
        """
        if self.bounds_turns:
            per_tenant, per_user = self._limits.tenant.turns_per_minute, self._limits.user.turns_per_minute
            await self._spend(TURNS, scope.owner, (per_tenant, per_user), amount=count)

    async def learning(self, scope: Scope) -> None:
        """Refuse when the user's model tokens of this hour are used up.

        Raises:
            TooManyRequests: it is.
            StateUnavailable: that cannot be known.
        """
        limit = self._limits.user.model_tokens_per_hour
        if limit is None:
            return
        tenant, user = scope.owner
        charge = Charge(tenant=tenant, user=user, what=TOKENS, seconds=HOUR, limit=limit)
        usage = await self._state.spent(charge, self._now())
        if usage.used >= limit:
            raise _refused(usage)

    async def _spend(
        self, what: str, who: tuple[str, str | None], limits: tuple[int | None, int | None], *, amount: int
    ) -> None:
        tenant, user = who
        charges = [Charge(tenant=tenant, what=what, seconds=MINUTE, amount=amount, limit=limits[0])]
        if user is not None:
            charges.append(Charge(tenant=tenant, user=user, what=what, seconds=MINUTE, amount=amount, limit=limits[1]))
        limited = [charge for charge in charges if charge.limit is not None]
        if limited and (over := await self._state.spend(limited, self._now())) is not None:
            raise _refused(over)


def _refused(over: Spent) -> TooManyRequests:
    charge = over.charge
    whose = "tenant" if charge.user is None else "user"
    once = f" This call alone asks for {charge.amount}." if charge.amount > 1 else ""
    words = f"{charge.limit}; it begins anew in {over.wait_s} s.{once}"
    return limit_reached(whose, charge.what, words, wait_s=over.wait_s)


def limit_reached(whose: str, what: str, words: str, *, wait_s: int, code: str | None = None) -> TooManyRequests:
    """The refusal by ``limits.<whose>.<what>``, counted."""
    metrics().limits_reached.labels(limit=what, of=whose).inc()
    return TooManyRequests(f"limits.{whose}.{what} is {words}", retry_after_s=wait_s, code=code)
