"""Rates: how often a tenant and its users may do something. Counted in the state store, so that all processes count
together; without a limit in the settings nothing is counted and nothing is asked.
"""

from collections.abc import Callable
from datetime import datetime

import msgspec

from memproxy.core.scope import Scope
from memproxy.errors import TooManyRequests
from memproxy.metrics import metrics
from memproxy.ports import Charge, Spent, UsageStore
from memproxy.settings import LimitsSettings

MINUTE, HOUR = 60, 3600
QUOTA = "quota_exceeded"  # code of a 429 that waiting does not end
CHAT, TURNS, TOKENS = "chat_per_minute", "turns_per_minute", "model_tokens_per_hour"
MEMORIES = "memories"


class Rates:
    """Counts against ``limits.tenant`` and ``limits.user``."""

    def __init__(self, limits: LimitsSettings, state: UsageStore, now: Callable[[], datetime]) -> None:
        tenant, user = limits.tenant, limits.user
        self._per_minute = {
            CHAT: (tenant.chat_per_minute, user.chat_per_minute),
            TURNS: (tenant.turns_per_minute, user.turns_per_minute),
        }
        self._tokens_per_hour = user.model_tokens_per_hour
        self._state = state
        self._now = now

    def bounds(self, resource: str) -> bool:
        """Whether these (`CHAT`, `TURNS`) are counted at all."""
        return any(self._per_minute[resource])

    async def chat(self, tenant: str, user: str | None) -> None:
        """Count one chat request; ``user`` None: nobody is named, it counts for the tenant alone.

        Raises:
            TooManyRequests: it is one too many.
            StateUnavailable: that cannot be known.
        """
        await self._spend(CHAT, tenant, user, amount=1)

    async def turns(self, scope: Scope, count: int) -> None:
        """Count turns to be captured, all or none.

        Raises:
            TooManyRequests: they are too many.
            StateUnavailable: that cannot be known.
        """
        await self._spend(TURNS, scope.tenant, scope.user, amount=count)

    async def learning(self, scope: Scope) -> None:
        """Refuse when the user's model tokens of this hour are used up.

        Raises:
            TooManyRequests: it is.
            StateUnavailable: that cannot be known.
        """
        if (limit := self._tokens_per_hour) is None:
            return
        charge = Charge(tenant=scope.tenant, user=scope.user, what=TOKENS, seconds=HOUR, limit=limit)
        usage = await self._state.spent(charge, self._now())
        if usage.used >= limit:
            raise _refused(usage)

    async def _spend(self, resource: str, tenant: str, user: str | None, *, amount: int) -> None:
        per_tenant, per_user = self._per_minute[resource]
        charge = Charge(tenant=tenant, what=resource, seconds=MINUTE, amount=amount, limit=per_tenant)
        charges = [charge] if per_tenant is not None else []
        if user is not None and per_user is not None:
            charges.append(msgspec.structs.replace(charge, user=user, limit=per_user))
        if charges and (over := await self._state.spend(charges, self._now())) is not None:
            raise _refused(over)


def _refused(over: Spent) -> TooManyRequests:
    charge = over.charge
    whose = "tenant" if charge.user is None else "user"
    once = f" This call alone asks for {charge.amount}." if charge.amount > 1 else ""
    words = f"{charge.limit}; it begins anew in {over.wait_s} s.{once}"
    return limit_reached(whose, charge.what, words, wait_s=over.wait_s)


def limit_reached(whose: str, resource: str, words: str, *, wait_s: int, code: str | None = None) -> TooManyRequests:
    """The refusal by ``limits.<whose>.<resource>``, counted."""
    metrics().limits_reached.labels(limit=resource, of=whose).inc()
    return TooManyRequests(f"limits.{whose}.{resource} is {words}", retry_after_s=wait_s, code=code)
