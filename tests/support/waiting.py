"""Waiting for what another process does: ask again until it is so or a deadline passed."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar, overload

T = TypeVar("T")
LONGEST_S = 60.0
"""How long a test waits unless it says something else: beside other work on two processors all takes many times as
long, and only who fails waits for nothing.
"""

_FIRST_POLL_S = 0.004
_POLL_S = 0.05
"""Most of what is waited for is so within milliseconds: it is asked for often at first, then less and less."""


@overload
async def eventually(
    predicate: Callable[[], Awaitable[T]], deadline_s: float = ..., *, what: str | Callable[[], str] = ...
) -> T: ...


@overload
async def eventually(
    predicate: Callable[[], T], deadline_s: float = ..., *, what: str | Callable[[], str] = ...
) -> T: ...


async def eventually(
    predicate: Callable[[], Any], deadline_s: float = LONGEST_S, *, what: str | Callable[[], str] = ""
) -> Any:
    """Ask ``predicate`` until it answers something true, and return that; fails the test after ``deadline_s``.

    ``what`` says what was waited for; given as a function it is asked only when it did not happen.
    """
    last: object = None
    pause = _FIRST_POLL_S
    try:
        async with asyncio.timeout(deadline_s):
            while True:
                answer = predicate()
                last = (await answer) if inspect.isawaitable(answer) else answer
                if last:
                    return last
                await asyncio.sleep(pause)
                pause = min(1.5 * pause, _POLL_S)
    except TimeoutError:
        said = what() if callable(what) else what
        raise AssertionError(f"not so within {deadline_s:.0f} s: {said or predicate}; last answer {last!r}") from None
