"""Windows: a session's turns as one extraction reads them, the new ones after some that lead up to them.

Several agents (projects) may use one session: what is new in a window was said to one of them, and nothing in it to
another.
"""

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
        self.most = most

    async def unlearned(self, scope: Scope, count: int, until: datetime | None) -> list[Window]:
        """The last ``count`` turns of those said until then, all of them new, in whatever project and agent."""
        unlearned = count + _SLACK
        turns = await self.turns(scope.at(None, None), unlearned + self.most, until)
        return of_places(turns, first=max(0, len(turns) - unlearned), most=self.most)

    async def whole(self, scope: Scope, until: datetime | None) -> list[Window]:
        """The session from its beginning, in whatever project and agent."""
        return of_places(await self.turns(scope.at(None, None), None, until), first=0, most=self.most)

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


def said_where(scope: Scope, turn: Memory) -> Scope:
    """The scope with the project and agent that a turn was said to: what is learned from it belongs there."""
    return scope.at(turn.project_id, turn.agent_id)


def is_seen(scope: Scope, turn: Memory) -> bool:
    """Whether what is learned in the scope's project and agent may draw on a turn: it is theirs, or of none."""
    return turn.project_id in {None, scope.project} and turn.agent_id in {None, scope.agent}


def of_places(turns: Sequence[Memory], *, first: int, most: int) -> list[Window]:
    """The windows of each project and agent that the turns from ``first`` on were said to, those said first first."""
    windows = []
    for place in dict.fromkeys((turn.project_id, turn.agent_id) for turn in turns[first:]):
        new = {turn.id for turn in turns[first:] if (turn.project_id, turn.agent_id) == place}
        seen = [turn for turn in turns if turn.project_id in {None, place[0]} and turn.agent_id in {None, place[1]}]
        begins = next(position for position, turn in enumerate(seen) if turn.id in new)
        windows += [
            Window(turns=window.turns, new_ids=window.new_ids & new)
            for window in cut(seen, first=begins, most=most)
            if not new.isdisjoint(window.new_ids)
        ]
    return windows


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
