"""Which arm of the experiment a user is in (``experiment.holdout``), and what is counted of both: in metrics by arm
alone, and in the state by a keyed digest of the user, which goes with the user's erasure.
"""

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from memproxy.core.experiment_arms import SIGNALS, Arm, Comparison, arm_of, compare
from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import ARM, Charge, UsageStore
from memproxy.tasks import TaskOwner, happens

log = logging.getLogger(__name__)

GATHER_S = 2.0  # counts are written together, this long after the first; a process that is killed loses as much
KEPT_S = 10 * 365 * 86_400  # how long an experiment may run
MOST_CHARGES = 500  # counts that are written in one commit
CLOSE_S = 2.0


@dataclass(eq=False)
class Experiment:
    """Says who is held out, and counts. With a share of 0 there is no experiment, and nothing is counted."""

    share: float
    secret: bytes
    state: UsageStore
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _tasks: TaskOwner = field(default_factory=lambda: TaskOwner("experiment"))
    _waiting: defaultdict[tuple[str, str], Counter[str]] = field(default_factory=partial(defaultdict, Counter))
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    async def close(self) -> None:
        """Write what was counted."""
        self._wake.set()
        await self._tasks.drain(CLOSE_S)

    def arm(self, scope: Scope) -> Arm | None:
        """The arm of the scope's user; None where there is no experiment."""
        return arm_of(self.secret, *scope.owner, self.share) if self.share else None

    def note_request(self, scope: Scope, arm: Arm, seconds: float, tokens: tuple[int, int, int] | None) -> None:
        """A request was answered; ``tokens`` are input, output and cached, None where the upstream does not say."""
        metrics().experiment_seconds.labels(arm).observe(seconds)
        counts = {"requests": 1, "milliseconds": round(seconds * 1000)}
        if tokens is not None:
            for kind, count in zip(("input", "output", "cached"), tokens, strict=True):
                metrics().experiment_tokens.labels(arm, kind).inc(count)
                counts[f"{kind}_tokens"] = count
            counts["priced"] = 1
        self._note(scope, counts)

    def note_signal(self, scope: Scope, signal: str, count: int = 1) -> None:
        """The user judged what memory gave (one of `SIGNALS`), or corrected messages in the chat (``followup``)."""
        if (arm := self.arm(scope)) is not None:
            metrics().experiment_feedback.labels(arm, signal).inc(count)
            self._note(scope, {signal if signal in SIGNALS else "followups": count})

    def _note(self, scope: Scope, counts: dict[str, int]) -> None:
        if not self._waiting:
            self._tasks.start(self._write_soon(), "write")
        self._waiting[scope.owner].update(counts)

    async def _write_soon(self) -> None:
        await happens(self._wake, GATHER_S)
        waiting, self._waiting = self._waiting, defaultdict(Counter)
        charges = [  # a new share is a new experiment, with counts of its own
            Charge(tenant=tenant, user=user, what=f"{ARM}{self.share:g}/{arm}/{name}", seconds=KEPT_S, amount=count)
            for (tenant, user), counts in waiting.items()
            for arm in (arm_of(self.secret, tenant, user, self.share),)
            for name, count in counts.items()
            if count
        ]
        try:
            for start in range(0, len(charges), MOST_CHARGES):
                await self.state.spend(charges[start : start + MOST_CHARGES], self.now())
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="experiment").inc()
            log.warning("counts of the experiment are lost, memory and requests are not: %s", error.message)

    async def results(self, tenant: str) -> Comparison | None:
        """What the tenant's users of both arms came to so far; None where there is no experiment.

        Raises:
            StateUnavailable: it cannot be read.
        """
        if not self.share:
            return None
        beginning = f"{ARM}{self.share:g}/"
        users: defaultdict[str, defaultdict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
        for use in await self.state.uses(tenant, beginning):
            arm, _, name = use.what.removeprefix(beginning).partition("/")
            users[arm][use.who][name] = use.used
        return compare(self.share, {arm: list(of_user.values()) for arm, of_user in users.items()})
