"""The flags of turns that an earlier version wrote. It had none, or another rule (`core.telling.VERSION`).

As in `rebuild`, these reads name no owner: every turn of the store is looked at once, and nothing but its flag changes.
"""

import asyncio
from collections.abc import Sequence
from time import monotonic

from memproxy.core.memory import Kind
from memproxy.core.telling import tells_nothing
from memproxy.stores.backend import Backend, Found
from memproxy.stores.filters import TELLS_NOTHING, OneOf, Where
from memproxy.stores.stored import placed
from memproxy.stores.writers import Writers

TURNS = Where((OneOf("kind", (Kind.TURN.value,)),))

CHUNK = 64
"""Turns looked at while writes wait."""


async def flag_turns(backend: Backend, writers: Writers) -> int:
    """Give every turn the flag that it would be written with now; answers how many had another one. Half of the time
    is left to others.

    Raises:
        StoreUnavailable: the store fails; a second run does the rest.
    """
    changed, after = 0, None
    while True:
        begin = monotonic()
        async with writers.paused():
            found = await backend.scroll(TURNS, limit=CHUNK, after_id=after)
            changed += await _flag(backend, found)
        if len(found) < CHUNK:
            return changed
        after = found[-1].id
        await asyncio.sleep(monotonic() - begin)


async def _flag(backend: Backend, found: Sequence[Found]) -> int:
    had = {one.id for one in found if one.payload.get(TELLS_NOTHING)}
    now = {place for place, memory in placed(found) if tells_nothing(memory)}
    if more := sorted(now - had):
        await backend.set_payload(more, {TELLS_NOTHING: True})
    if fewer := sorted(had - now):
        await backend.set_payload(fewer, {TELLS_NOTHING: None})
    return len(more) + len(fewer)
