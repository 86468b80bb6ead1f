"""What a deletion leaves beside the memories: erased when its row is carried out, however late that is."""

from collections.abc import Callable, Sequence

from memproxy.core.memory import Memory
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.scope import Scope
from memproxy.learn.parts import Parts
from memproxy.ports import JournalRow, MemoryFilter, every
from memproxy.retention.leftovers import erase_empty_places, erase_unsaid_names

RowsErased = Callable[[Sequence[int]], None]
"""Is told the numbers of rows that an erasure took out of the journal."""


class Erasure:
    """Completes deletions of a user, a session, a project or single memories."""

    def __init__(self, parts: Parts, on_rows_erased: RowsErased) -> None:
        """``on_rows_erased`` is called with the numbers of the rows that went with it."""
        self._parts = parts
        self._on_rows_erased = on_rows_erased

    async def going(self, scope: Scope, plan: PlanBody) -> list[Memory]:
        """The single memories that a plan deletes, as long as they are there: read before it is applied."""
        ids = [*plan.deletes, *(plan.delete_where.ids if plan.delete_where is not None else ())]
        return list((await self._parts.store.get(scope.at(None, None), ids)).values()) if ids else []

    async def complete(self, row: JournalRow, request: PlanBody, deleted: Sequence[Memory]) -> None:
        """Erase what the state holds of the user or the session, up to this row (which goes too: the deletion is
        flushed before), and names of wings in which nothing is left; after the deletion of a project also those of
        closets, and what wings were called in it; of a session that is undone in a project the receipts there. Where
        single memories were deleted (``deleted``), the names of their wings and closets alone.
        """
        where = request.delete_where
        owner = row.entry.scope.whole
        if request.undo_session is None and (where is None or where.ids):
            await erase_empty_places(self._parts.store, self._parts.state, owner, deleted)
            if deleted:
                await erase_unsaid_names(
                    self._parts.store, self._parts.state, owner, deleted, self._parts.flushes.flush
                )
            return
        await self._parts.flushes.flush()
        await self._erase_empty_wings(owner)
        if where != Deletion():
            await erase_unsaid_names(self._parts.store, self._parts.state, owner, None, self._parts.flushes.flush)
        if where is not None and where.project_ids:
            await self._erase_empty_closets(owner)
            await self._parts.state.forget_receipts(owner, where.project_ids, where.session_ids)
            for project in where.project_ids if not where.session_ids else ():
                await self._parts.state.erase_aliases(owner, project)
        if request.undo_session is not None and row.entry.scope.is_narrow:
            await self._parts.state.forget_receipts(owner, [row.entry.scope.project or ""], [request.undo_session])
        elif request.undo_session is not None:
            await self._forget(owner, request.undo_session, row)
        elif where is not None and not where.project_ids and not where.agent_ids:
            sessions: list[str | None] = [*where.session_ids] or [None]
            for session in sessions:
                await self._forget(owner, session, row)

    async def _forget(self, owner: Scope, session: str | None, row: JournalRow) -> None:
        rows = await self._parts.state.forget(owner, session=session, until=row.number)
        if self._parts.working is not None:
            await self._parts.working.forget_working(owner, session)
        self._on_rows_erased([number for number in rows if number != row.number])

    async def _erase_empty_wings(self, owner: Scope) -> None:
        names = set((await self._parts.state.palace_names(owner)).values())
        empty = [name for name in names if not await self._parts.store.count(owner, MemoryFilter(wings=(name,)))]
        if empty:
            await self._parts.state.erase_wings(owner, empty)

    async def _erase_empty_closets(self, owner: Scope) -> None:
        """Topics are words that were said. Which ones a project had cannot be told any more when the row is done again
        after a crash, so that all memories that are left are looked at.
        """
        closets = {(row.parent, row.name) for row in await self._parts.state.palace_rows(owner) if row.kind == "closet"}
        async for memory in every(self._parts.store, owner, MemoryFilter()):
            closets.discard(("/".join((memory.pointer or "").split("/")[:2]), memory.closet or ""))
            if not closets:
                return
        if closets:
            await self._parts.state.erase_closets(owner, sorted(closets))
