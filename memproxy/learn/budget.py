"""What learning costs a tenant: tokens of our own model calls, counted durably by hour, and the budget for an hour."""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta

from memproxy.core.tokens import estimate
from memproxy.errors import BudgetSpent
from memproxy.metrics import metrics
from memproxy.ports import Charge, Clock, ModelReply, StateStore

log = logging.getLogger(__name__)


Spent = dict[str, tuple[int, int]]
"""Input and output tokens by source."""

_TALLY: ContextVar[Spent | None] = ContextVar("tokens", default=None)
"""Where the piece of work under way counts its tokens besides: its own task's alone."""


@contextmanager
def tallied(spent: Spent) -> Iterator[None]:
    """Add to ``spent`` what is counted within."""
    token = _TALLY.set(spent)
    try:
        yield
    finally:
        _TALLY.reset(token)


_OWNER: ContextVar[tuple[str, str] | None] = ContextVar("owner", default=None)
"""Tenant and user whose learning is the piece of work under way."""


@contextmanager
def charged_to(owner: tuple[str, str]) -> Iterator[None]:
    """Within it, learning's tokens count for this user too."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)


_LEARNING = frozenset({"extract", "judge", "summary"})
"""Sources that the budget is for: what recall asks a model, and embedding, has no part in it."""

SOURCES = _LEARNING | {"rewrite", "rerank", "embed"}
"""Everything that asks a model."""

_DIRECTIONS = ("input", "output")


class TokenMeter:
    """Counts tokens by tenant and source, and says when a tenant's hour is used up.

    Args:
        per_hour: ``learn.model_tokens_per_hour``: input and output tokens of learning's calls within one hour of the
            clock (UTC). A call that begins within the budget is made whole: an hour may end above it by the calls that
            were under way (two at most). None: there is no budget.
        per_user: ``limits.user.model_tokens_per_hour``: the same of one user, for work within `charged_to`.
    """

    def __init__(self, state: StateStore, clock: Clock, per_hour: int | None, *, per_user: int | None = None) -> None:
        self._state = state
        self._clock = clock
        self._per_hour = per_hour
        self._per_user = per_user
        self._told: dict[str, datetime] = {}
        # A label's counter is there from the start, at zero: a dashboard tells "nothing spent" from "not measured".
        for source in sorted(SOURCES):
            for direction in _DIRECTIONS:
                metrics().model_tokens.labels(source=source, direction=direction)

    async def admit(self, tenant: str) -> None:
        """Return when the tenant may make another call.

        Raises:
            BudgetSpent: its hour is used up; ``until`` says when the next one begins.
            StateUnavailable: what was spent cannot be read.
        """
        await self._admit_user()
        if self._per_hour is None:
            return
        hour = _hour(self._clock.now())
        counted = await self._state.tokens_spent(tenant, since=hour)
        spent = sum(sum(pair) for source, pair in counted.items() if source in _LEARNING)
        if spent < self._per_hour:
            return
        until = hour + timedelta(hours=1)
        self._tell(tenant, hour, spent, until)
        raise BudgetSpent(
            f"learn.model_tokens_per_hour: {spent} of {self._per_hour} tokens are used up; learning goes on at {until}",
            until=until,
        )

    async def _admit_user(self) -> None:
        owner, now = _OWNER.get(), self._clock.now()
        if self._per_user is None or owner is None:
            return
        found = await self._state.spent(token_charge(*owner), now)
        if found.used >= self._per_user:
            metrics().learn_budget_waits.inc()
            until = now + timedelta(seconds=found.wait_s)
            raise BudgetSpent(
                f"limits.user.model_tokens_per_hour: {self._per_user} tokens are used up; learning goes on at {until}",
                until=until,
            )

    def _tell(self, tenant: str, hour: datetime, spent: int, until: datetime) -> None:
        """Log once an hour and tenant."""
        metrics().learn_budget_waits.inc()
        if self._told.get(tenant) == hour:
            return
        self._told = {name: at for name, at in self._told.items() if at == hour} | {tenant: hour}
        log.warning(
            "learning of tenant %s waits until %s: %d tokens are used up, learn.model_tokens_per_hour is %d",
            tenant,
            until.isoformat(),
            spent,
            self._per_hour,
        )

    async def note(self, tenant: str, source: str, reply: ModelReply, prompt: str) -> None:
        """Count what a call cost; estimated from the texts when the provider does not say.

        Raises:
            StateUnavailable: it could not be written down.
        """
        given = reply.input_tokens or estimate(prompt)
        made = reply.output_tokens or estimate(reply.text)
        metrics().model_tokens.labels(source=source, direction="input").inc(given)
        metrics().model_tokens.labels(source=source, direction="output").inc(made)
        await self._write(tenant, source, given, made)

    async def note_texts(self, tenant: str, source: str, texts: Sequence[str]) -> None:
        """Count texts that went to a model (an embedder) which several tenants may share in one call: estimated. The
        metric is the caller's, who knows the whole.

        Raises:
            StateUnavailable: it could not be written down.
        """
        await self._write(tenant, source, sum(estimate(text) for text in texts), 0)

    async def note_given(self, tenant: str, source: str, tokens: int) -> None:
        """Count input tokens that were added up before; the metric is the caller's.

        Raises:
            StateUnavailable: it could not be written down.
        """
        await self._write(tenant, source, tokens, 0)

    async def _write(self, tenant: str, source: str, given: int, made: int) -> None:
        if (tally := _TALLY.get()) is not None:
            before = tally.get(source, (0, 0))
            tally[source] = (before[0] + given, before[1] + made)
        now = self._clock.now()
        await self._state.note_tokens(tenant, source, given=given, made=made, at=_hour(now))
        owner = _OWNER.get()
        if self._per_user is not None and owner is not None and source in _LEARNING:
            await self._state.spend([token_charge(*owner, amount=given + made)], now)


def token_charge(tenant: str, user: str, *, amount: int = 0) -> Charge:
    """Tokens of learning's model calls that count for a user."""
    return Charge(tenant=tenant, user=user, what="model_tokens_per_hour", seconds=3600, amount=amount)


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
