"""What learning's model calls and paid embeddings cost, and the budgets that bound it."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from memproxy.core.text import estimate
from memproxy.errors import BudgetSpent, StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Charge, ChatModel, Clock, Credential, ModelReply, UsageStore
from memproxy.settings import LearnSettings
from memproxy.tasks import TaskOwner, happens

log = logging.getLogger(__name__)


Spent = dict[str, tuple[int, int]]  # input and output tokens by source

_TALLY: ContextVar[Spent | None] = ContextVar("tokens", default=None)
"""A second count of tokens for the piece of work of the current task."""


@contextmanager
def tallied(spent: Spent) -> Iterator[None]:
    """Add to ``spent`` what is counted within."""
    token = _TALLY.set(spent)
    try:
        yield
    finally:
        _TALLY.reset(token)


_OWNER: ContextVar[tuple[str, str] | None] = ContextVar("owner", default=None)
"""Tenant and user whose learning the current task does."""


@contextmanager
def charged_to(owner: tuple[str, str]) -> Iterator[None]:
    """Within it, learning's tokens count for this user too."""
    token = _OWNER.set(owner)
    try:
        yield
    finally:
        _OWNER.reset(token)


_LEARNING = frozenset({"compress", "extract", "judge", "summary", "dream"})
"""Sources that the budget is for: what recall asks a model, and embedding, has no part in it."""

SOURCES = _LEARNING | {"rewrite", "rerank", "embed"}  # everything that asks a model


class Budget(NamedTuple):
    """Tokens that a tenant's learning may cost in each of these spans of the clock."""

    name: str
    tokens: int
    span: timedelta

    def window(self, now: datetime) -> tuple[datetime, datetime]:
        """When the span began that it is now in, and when the next one does."""
        begun = _hour(now) if self.span < timedelta(days=1) else _hour(now).replace(hour=0)
        return begun, begun + self.span


def budgets(learn: LearnSettings) -> list[Budget]:
    """Those that are set."""
    hour = ("learn.model_tokens_per_hour", learn.model_tokens_per_hour, timedelta(hours=1))
    day = ("learn.model_tokens_per_day", learn.model_tokens_per_day, timedelta(days=1))
    return [Budget(name, tokens, span) for name, tokens, span in (hour, day) if tokens is not None]


async def spent_on_learning(state: UsageStore, tenant: str, since: datetime) -> int:
    """Tokens of the tenant's learning since then."""
    counted = await state.tokens_spent(tenant, since=since)
    return sum(sum(pair) for source, pair in counted.items() if source in _LEARNING)


class TokenMeter:
    """Counts tokens by tenant and source, and says when a tenant's hour is used up.

    Args:
        learn: ``model_tokens_per_hour`` and ``model_tokens_per_day``: input and output tokens of learning's calls
            within one hour (day) of the clock (UTC). A call that begins within the budget is made whole: an hour may
            end above it by the calls that were under way (two at most). None: there is no budget.
        per_user: ``limits.user.model_tokens_per_hour``: the same of one user, for work within `charged_to`.
    """

    def __init__(
        self, state: UsageStore, clock: Clock, learn: LearnSettings | None, *, per_user: int | None = None
    ) -> None:
        self._state = state
        self._clock = clock
        self._budgets = budgets(learn) if learn is not None else []
        self._per_user = per_user
        self._logged: dict[tuple[str, str], datetime] = {}

    async def admit(self, tenant: str) -> None:
        """Return when the tenant may make another call. Raises `BudgetSpent` where its hour or day is used up."""
        await self._admit_user()
        for budget in self._budgets:
            begun, until = budget.window(self._clock.now())
            spent = await spent_on_learning(self._state, tenant, begun)
            if spent >= budget.tokens:
                self._tell(tenant, budget, begun, spent, until)
                used = f"{spent} of {budget.tokens} tokens are used up"
                raise BudgetSpent(f"{budget.name}: {used}; learning goes on at {until}", until=until)

    async def _admit_user(self) -> None:
        owner, now = _OWNER.get(), self._clock.now()
        if self._per_user is None or owner is None:
            return
        spent = await self._state.spent(token_charge(*owner), now)
        if spent.used >= self._per_user:
            metrics().learn_budget_waits.inc()
            until, used = now + timedelta(seconds=spent.wait_s), f"{self._per_user} tokens are used up"
            raise BudgetSpent(f"limits.user.model_tokens_per_hour: {used}; learning goes on at {until}", until=until)

    async def ask(
        self,
        model: ChatModel,
        credential: Credential,
        tenant: str,
        source: str,
        *,
        system: str,
        user: str,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """The answer to a call of learning's, counted for its source. Raises as `admit`, and the model's errors."""
        await self.admit(tenant)
        reply = await model.complete(credential, system=system, user=user, json_mode=True, schema=schema)
        await self.note(tenant, source, reply, f"{system}\n{user}")
        return reply

    def _tell(self, tenant: str, budget: Budget, begun: datetime, spent: int, until: datetime) -> None:
        metrics().learn_budget_waits.inc()
        if self._logged.get((tenant, budget.name)) == begun:
            return
        day = begun - timedelta(days=1)
        self._logged = {key: at for key, at in self._logged.items() if at > day} | {(tenant, budget.name): begun}
        used = f"{spent} tokens are used up, {budget.name} is {budget.tokens}"
        log.warning("learning of tenant %s waits until %s: %s", tenant, until.isoformat(), used)

    async def note(self, tenant: str, source: str, reply: ModelReply, prompt: str) -> None:
        """Count what a call cost; estimated from the texts when the provider does not say."""
        input_tokens = reply.input_tokens or estimate(prompt)
        output_tokens = reply.output_tokens or estimate(reply.text)
        metrics().model_tokens.labels(source=source, direction="input").inc(input_tokens)
        metrics().model_tokens.labels(source=source, direction="output").inc(output_tokens)
        await self.add(tenant, source, input_tokens, output_tokens)

    async def add(self, tenant: str, source: str, input_tokens: int, output_tokens: int = 0) -> None:
        """Count tokens of the tenant's. Of an embedder, whose calls tenants share, the caller counts for the metric."""
        if (tally := _TALLY.get()) is not None:
            counted = tally.get(source, (0, 0))
            tally[source] = (counted[0] + input_tokens, counted[1] + output_tokens)
        now = self._clock.now()
        amounts = {"input_tokens": input_tokens, "output_tokens": output_tokens}
        await self._state.note_tokens(tenant, source, **amounts, at=_hour(now))
        owner = _OWNER.get()
        if self._per_user is not None and owner is not None and source in _LEARNING:
            await self._state.spend([token_charge(*owner, amount=input_tokens + output_tokens)], now)


def token_charge(tenant: str, user: str, *, amount: int = 0) -> Charge:
    """Tokens of learning's model calls that count for a user."""
    return Charge(tenant=tenant, user=user, what="model_tokens_per_hour", seconds=3600, amount=amount)


def _hour(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


WRITE_SECONDS = 1.0  # how long a count is held in memory at most: what a killed process loses
_CLOSE_SECONDS = 5.0


class QuestionTally:
    """Adds up tokens of questions by tenant, and writes them every ``write_s`` seconds and at the end."""

    def __init__(self, meter: TokenMeter, *, write_s: float = WRITE_SECONDS) -> None:
        self._meter = meter
        self._write_s = write_s
        self._tasks = TaskOwner("questions")
        self._closing = asyncio.Event()
        self._due: dict[str, int] = {}
        self._writer: asyncio.Task[None] | None = None

    def add(self, tenant: str, text: str) -> None:
        """A question of this tenant went to the embedder. Takes microseconds; needs a running event loop."""
        self._due[tenant] = self._due.get(tenant, 0) + estimate(text)
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.start(self._write(), "tokens")

    async def close(self) -> None:
        """Write what is left. The state must still be open."""
        self._closing.set()
        await self._tasks.drain(_CLOSE_SECONDS)
        try:
            await self._write_down()
        except StateUnavailable as error:
            log.warning("tokens of %d tenants' questions are not counted: %s", len(self._due), error.message)

    async def _write(self) -> None:
        warned = False
        while self._due and not self._closing.is_set():
            await happens(self._closing, self._write_s)
            try:
                await self._write_down()
            except StateUnavailable as error:
                log.log(logging.DEBUG if warned else logging.WARNING, "questions are counted later: %s", error.message)
                warned = True

    async def _write_down(self) -> None:
        while self._due:
            tenant, tokens = self._due.popitem()
            try:
                await self._meter.add(tenant, "embed", tokens)
            except StateUnavailable:
                self._due[tenant] = self._due.get(tenant, 0) + tokens
                raise
