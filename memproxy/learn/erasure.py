"""What a deletion by scope leaves beside the memories: erased when its row is carried out, however late that is."""

from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.learn.writes import Writes
from memproxy.ports import JournalRow, MemoryFilter, MemoryStore, StateStore

_AT_ONCE = 200
"""Memories read in one call."""


class Erasure:
    """Completes deletions of a user, a session or a project."""

    def __init__(self, store: MemoryStore, state: StateStore, writes: Writes) -> None:
        self._store = store
        self._state = state
        self._writes = writes

    async def complete(self, row: JournalRow, asked: PlanBody) -> None:
        """Erase what the state holds of the user or the session, up to this row (which goes too: the deletion is
        flushed before), and names of wings (after the deletion of a project: of closets, too) in which nothing is left.
        Does nothing where single memories were deleted.

        Raises:
            StoreUnavailable, StateUnavailable: the row is done again.
        """
        gone = asked.delete_where
        if asked.undo_session is None and (gone is None or gone.ids):
            return
        owner = Scope(tenant=row.entry.scope.tenant, user=row.entry.scope.user)
        await self._writes.flush()
        await self._leave_empty_wings(owner)
        if gone is not None and gone.project_ids:
            await self._leave_empty_closets(owner)
        if asked.undo_session is not None:
            await self._state.forget(owner, session=asked.undo_session, until=row.number)
        elif gone is not None and not gone.project_ids:
            sessions: list[str | None] = [*gone.session_ids] or [None]
            for session in sessions:
                await self._state.forget(owner, session=session, until=row.number)

    async def _leave_empty_wings(self, owner: Scope) -> None:
        names = set((await self._state.palace_names(owner)).values())
        empty = [name for name in names if not await self._store.count(owner, MemoryFilter(wings=(name,)))]
        if empty:
            await self._state.leave_palace(owner, empty)

    async def _leave_empty_closets(self, owner: Scope) -> None:
        """Topics are words that were said. Which ones a project had cannot be told any more when the row is done again
        after a crash, so that all memories that are left are looked at.
        """
        closets = {(row.parent, row.name) for row in await self._state.palace_rows(owner) if row.kind == "closet"}
        cursor = None
        while closets:
            page = await self._store.page(owner, MemoryFilter(), limit=_AT_ONCE, cursor=cursor)
            closets -= {("/".join((one.pointer or "").split("/")[:2]), one.closet or "") for one in page.memories}
            if (cursor := page.next_cursor) is None:
                break
        if closets:
            await self._state.leave_closets(owner, sorted(closets))
