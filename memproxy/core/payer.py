"""For which tenant a piece of work is done: said where that is known, read where something is paid for."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_PAYER: ContextVar[str | None] = ContextVar("payer", default=None)


@contextmanager
def paid_by(tenant: str) -> Iterator[None]:
    """Within it, and in tasks begun within it, what is asked of a model is this tenant's."""
    token = _PAYER.set(tenant)
    try:
        yield
    finally:
        _PAYER.reset(token)


def payer() -> str | None:
    """The tenant of the work under way; None for work of our own."""
    return _PAYER.get()
