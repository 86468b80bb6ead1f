"""Windows: a session's turns as one extraction reads them, the new ones after some that lead up to them."""

import math
from collections.abc import Sequence
from datetime import datetime

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.turn import in_order
from memproxy.learn.candidates import Window
from memproxy.ports import MemoryFilter, MemoryStore

_PAGE = 200
_SLACK = 2
"""Turns before the new ones that are read as new too: an exchange that came while the row was made is not missed, and
what is read twice changes nothing.
"""


class Windows:
    """Reads a session's turns and cuts them.

    Args:
        most: ``learn.window_turns``, turns of one window. A longer conversation has at most two thirds of them new in
            each, the rest are those before (10 and 5 of 15).
    """

    def __init__(self, store: MemoryStore, most: int) -> None:
        self._store = store
        self._most = most

    async def unlearned(self, scope: Scope, count: int, until: datetime | None) -> list[Window]:
        """The last ``count`` turns of those said until then, all of them new."""
        unlearned = count + _SLACK
        turns = await self.turns(scope, unlearned + self._most, until)
        return cut(turns, first=max(0, len(turns) - unlearned), most=self._most)

    async def whole(self, scope: Scope, until: datetime | None) -> list[Window]:
        """The session from its beginning."""
        return cut(await self.turns(scope, None, until), first=0, most=self._most)

    async def turns(self, scope: Scope, count: int | None, until: datetime | None) -> list[Memory]:
        """The last ``count`` turns of the session (None: all) said until then, in order.

        Raises:
            StoreUnavailable: they could not be read.
        """
        sessions = (scope.session,) if scope.session is not None else ()
        where = MemoryFilter(kinds=(Kind.TURN,), session_ids=sessions)
        found: list[Memory] = []
        cursor = None
        while count is None or len(found) < count:
            page = await self._store.page(scope, where, limit=_PAGE, cursor=cursor)
            found += [turn for turn in page.memories if until is None or turn.created_at <= until]
            if (cursor := page.next_cursor) is None:
                break
        return in_order(found)[-count:] if count is not None else in_order(found)


def cut(turns: Sequence[Memory], *, first: int, most: int) -> list[Window]:
    """The turns from ``first`` on in windows of at most ``most`` turns, evenly long, each after some before it."""
    count = len(turns) - first
    size = count if count <= most else math.ceil(count / math.ceil(count / max(1, most * 2 // 3)))
    windows = []
    for start in range(first, len(turns), max(1, size)):
        new = turns[start : start + size]
        lead = turns[max(0, start - (most - len(new))) : start]
        windows.append(Window(turns=[*lead, *new], new_ids=frozenset(turn.id for turn in new)))
    return windows
