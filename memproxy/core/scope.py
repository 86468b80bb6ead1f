"""Whose memory: the one type that says for whom a store is read or written, and who pays for a model's work."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

OwnerKey = tuple[str, str]  # tenant and user: the unit of isolation, of ordering and of erasure


class Scope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The owner of memories, and the narrower place within them. Every store call takes one, so a read without an owner
    cannot be written down. With ``project`` (``agent``) a caller sees that project's (agent's) memories and those that
    have none; without, all of the user's. ``session`` is where writes land; a filter, not the scope, narrows reads.
    """

    tenant: str
    user: str
    project: str | None = None
    agent: str | None = None
    session: str | None = None

    @property
    def owner(self) -> OwnerKey:
        """Whose it is."""
        return (self.tenant, self.user)

    @property
    def whole(self) -> "Scope":
        """All of the owner's: every project, agent and session."""
        return Scope(tenant=self.tenant, user=self.user)

    @property
    def sessions(self) -> tuple[str, ...]:
        """Its session for a filter; empty, which means all, without one."""
        return () if self.session is None else (self.session,)

    def at(self, project: str | None, agent: str | None) -> "Scope":
        """The same owner and session in another project and agent; None and None: in all of them."""
        return msgspec.structs.replace(self, project=project, agent=agent)

    @property
    def is_narrow(self) -> bool:
        """Whether it is a project or an agent that sees not all of the user's."""
        return self.project is not None or self.agent is not None

    def sees(self, project: str | None, agent: str | None) -> bool:
        """Whether this scope may see memories of this project and agent: those of its own, and those of none."""
        return project in {None, self.project or project} and agent in {None, self.agent or agent}


_PAYER: ContextVar[str | None] = ContextVar("payer", default=None)


@contextmanager
def paid_by(tenant: str) -> Iterator[None]:
    """A context that charges model calls in it, and in its tasks, to this tenant."""
    token = _PAYER.set(tenant)
    try:
        yield
    finally:
        _PAYER.reset(token)


def payer() -> str | None:
    """The tenant of the work under way; None for work of our own."""
    return _PAYER.get()
