"""A state, a store or a file that is open until the end of a block."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, TypeVar


class Opens(Protocol):
    """What is opened before and closed after its use."""

    @property
    def open(self) -> Callable[..., Awaitable[object]]: ...

    async def close(self) -> None: ...


One = TypeVar("One", bound=Opens)


@asynccontextmanager
async def opening(one: One, *arguments: object) -> AsyncIterator[One]:
    """Open it, with these arguments of its ``open``; it is closed, too, where that fails."""
    try:
        await one.open(*arguments)
        yield one
    finally:
        await one.close()
