"""The seam to what is kept about callers: rates, choices, answers given, and the audit log."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

import msgspec

from memproxy.core.audit import Audited, AuditEntry
from memproxy.core.choices import Choices
from memproxy.core.scope import Scope

ANSWERS_KEPT = timedelta(hours=24)
"""How long a call can be repeated by its idempotency key."""


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """``amount`` uses of ``what`` by a user (or, with ``user`` None, by the whole tenant) in the window under way: one
    begins with the first use after the last, and is ``seconds`` long. ``limit`` None counts without a bound.
    """

    tenant: str
    user: str | None = None
    what: str
    seconds: int
    amount: int = 1
    limit: int | None = None


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted in a charge's window under way, and in how many seconds (at least one) it is past."""

    charge: Charge
    used: int
    wait_s: int


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A call that came with an idempotency key: the digest of what was asked, and the sealed answer. ``answer`` None:
    it has not been answered yet, or (``erased``) what it answered was deleted since.
    """

    asked: str
    at: datetime
    answer: bytes | None = None
    erased: bool = False


class AccessState(Protocol):
    """A part of the state store. All calls raise `errors.StateUnavailable` when it does not answer."""

    async def spend(self, charges: Sequence[Charge], now: datetime) -> Spent | None:
        """Count all of these, or none when one would go over its limit: that one is answered. Right over all processes
        that share the state.
        """

    async def spent(self, charge: Charge, now: datetime) -> Spent:
        """What was counted so far in the window under way; nothing is counted by asking."""

    def news(self) -> bytes:
        """Other bytes than before whenever choices or proxy keys were changed, by whatever process."""

    async def choices(self, scope: Scope) -> Choices:
        """What holds for the owner and ``scope.agent``: the agent's settings over the user's. Kept in memory for some
        seconds, and forgotten at once in every process when somebody changes them.
        """

    async def own_choices(self, scope: Scope) -> Choices | None:
        """What was set for exactly the owner (``scope.agent`` None) or that agent; None when nothing was."""

    async def choose(self, scope: Scope, choices: Choices, at: datetime) -> None:
        """Set them for the owner, or its agent; `NOTHING_CHOSEN` deletes them."""

    async def given_answer(self, scope: Scope, name: str) -> GivenAnswer | None:
        """What is kept under this name of the owner's; None when there is nothing (any more)."""

    async def keep_answer(self, scope: Scope, name: str, given: GivenAnswer) -> None:
        """Keep it, in place of an earlier one; for `ANSWERS_KEPT` at least."""

    async def drop_answer(self, scope: Scope, name: str) -> None:
        """The call came to nothing: it may be made again, also with another body."""

    async def erase_answers(self, scope: Scope) -> None:
        """Delete what the owner's answers said; that they were given stays."""

    async def note_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries, in one commit. So many are kept at most, the newest."""

    async def audit(self, tenant: str | None, *, before: int | None, limit: int) -> list[Audited]:
        """Entries of a tenant (None: of all) with numbers below ``before``, newest first."""
