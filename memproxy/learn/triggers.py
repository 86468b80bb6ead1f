"""When learning begins: enough new turns in a session, another topic, or a session silent for a while."""

from datetime import datetime, timedelta

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.protocol import LearnBody
from memproxy.core.scope import Scope
from memproxy.learn.access import ModelAccess
from memproxy.learn.drift import Drift
from memproxy.learn.locks import OwnerLocks
from memproxy.ports import Clock, JournalEntry, JournalKind, MemoryFilter, MemoryStore, StateStore
from memproxy.settings import LearnSettings

_AT_ONCE = 100


class Triggers:
    """Looks for sessions whose turns are due, and appends their ``learn`` rows."""

    def __init__(
        self,
        *,
        settings: LearnSettings,
        state: StateStore,
        store: MemoryStore,
        access: ModelAccess,
        drift: Drift,
        locks: OwnerLocks,
        clock: Clock,
    ) -> None:
        self._settings = settings
        self._state = state
        self._store = store
        self._locks = locks
        self._access = access
        self._drift = drift
        # The rules ask no model: there is nothing to save up for.
        self._every = settings.every_turns if settings.mode == "model" else 1
        self._clock = clock

    async def look(self) -> int:
        """Begin learning wherever it is due; answers in how many sessions.

        Raises:
            StateUnavailable, StoreUnavailable: look again later.
        """
        every = self._every
        idle_before = self._clock.now() - timedelta(seconds=self._settings.idle_s)
        begun = 0
        for progress in await self._state.due_sessions(every=every, idle_before=idle_before, limit=_AT_ONCE):
            reason = "turns" if progress.unlearned >= every else "idle"
            begun += await self._begin(progress.scope, reason, known=True) is not None
        return begun

    async def came(self, scope: Scope, *, asked: bool) -> None:
        """Turns of the session were indexed: begin at once when that was asked for, or the topic has just changed.

        Raises:
            StateUnavailable, StoreUnavailable: nothing was begun.
        """
        if asked:
            await self.begin(scope, "asked")
        elif await self._drift.is_drifting(scope):
            await self.begin(scope, "drift")

    async def begin(self, scope: Scope, reason: str) -> int | None:
        """Begin learning in one session now; the row's number, or None when learning is under way there.

        With nothing new the row is still made (and does nothing): it stands behind all earlier ones of its owner.

        Raises:
            StateUnavailable, StoreUnavailable: nothing was begun.
        """
        return await self._begin(scope, reason)

    async def _begin(self, scope: Scope, reason: str, *, known: bool = False) -> int | None:
        # Under the lock, and counted only there: turns are counted as unlearned before they are written, and what came
        # while we waited must be among those that the count, taken from the session's end, reaches.
        async with self._locks.of(scope.owner):
            progress = await self._state.progress(scope)
            if known and progress is None:
                return None  # it was erased since it was found due: nothing may name it again
            scope, unlearned = (progress.scope, progress.unlearned) if progress is not None else (scope, 0)
            until = await self._newest(scope)
            model = self._access.model_of(scope.tenant)
            body = LearnBody(unlearned=unlearned, reason=reason, model=model, until=until)
            entry = JournalEntry(kind=JournalKind.LEARN, scope=scope, body=msgspec.json.encode(body))
            return await self._state.begin_learning(entry, unlearned=unlearned)

    async def _newest(self, scope: Scope) -> datetime | None:
        sessions = (scope.session,) if scope.session is not None else ()
        page = await self._store.page(scope, MemoryFilter(kinds=(Kind.TURN,), session_ids=sessions), limit=1)
        return page.memories[0].created_at if page.memories else None
