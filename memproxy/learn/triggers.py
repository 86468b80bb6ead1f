"""When learning begins: enough new turns in a session, or a session that has been silent for a while."""

from datetime import datetime, timedelta

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.protocol import LearnBody
from memproxy.core.scope import Scope
from memproxy.learn.access import ModelAccess
from memproxy.learn.locks import OwnerLocks
from memproxy.ports import Clock, JournalEntry, JournalKind, MemoryFilter, MemoryStore, SessionProgress, StateStore
from memproxy.settings import LearnSettings

_AT_ONCE = 100
_ALL = 10_000


class Triggers:
    """Looks for sessions whose turns are due, and appends their ``learn`` rows."""

    def __init__(
        self,
        *,
        settings: LearnSettings,
        state: StateStore,
        store: MemoryStore,
        access: ModelAccess,
        locks: OwnerLocks,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._state = state
        self._store = store
        self._locks = locks
        self._access = access
        self._clock = clock

    async def look(self) -> int:
        """Begin learning wherever it is due; answers in how many sessions.

        Raises:
            StateUnavailable, StoreUnavailable: look again later.
        """
        every = self._settings.every_turns
        idle_before = self._clock.now() - timedelta(seconds=self._settings.idle_s)
        begun = 0
        for progress in await self._state.due_sessions(every=every, idle_before=idle_before, limit=_AT_ONCE):
            reason = "turns" if progress.unlearned >= every else "idle"
            begun += await self._begin(progress.scope, progress.unlearned, reason) is not None
        return begun

    async def begin(self, scope: Scope, reason: str) -> int | None:
        """Begin learning in one session now; the row's number, or None when learning is under way there.

        With nothing new the row is still made (and does nothing): it stands behind all earlier ones of its owner.

        Raises:
            StateUnavailable, StoreUnavailable: nothing was begun.
        """
        due = await self._state.due_sessions(every=1, idle_before=self._clock.now(), limit=_ALL)
        mine = [progress for progress in due if _is_of(progress, scope)]
        return await self._begin(mine[0].scope if mine else scope, mine[0].unlearned if mine else 0, reason)

    async def _begin(self, scope: Scope, unlearned: int, reason: str) -> int | None:
        # Under the lock: turns are counted as unlearned before they are written, and these must be among those seen.
        async with self._locks.of(scope.owner):
            until = await self._newest(scope)
            model = self._access.model_of(scope.tenant)
            body = LearnBody(unlearned=unlearned, reason=reason, model=model, until=until)
            entry = JournalEntry(kind=JournalKind.LEARN, scope=scope, body=msgspec.json.encode(body))
            return await self._state.begin_learning(entry, unlearned=unlearned)

    async def _newest(self, scope: Scope) -> datetime | None:
        sessions = (scope.session,) if scope.session is not None else ()
        page = await self._store.page(scope, MemoryFilter(kinds=(Kind.TURN,), session_ids=sessions), limit=1)
        return page.memories[0].created_at if page.memories else None


def _is_of(progress: SessionProgress, scope: Scope) -> bool:
    return progress.scope.owner == scope.owner and progress.scope.session == scope.session
