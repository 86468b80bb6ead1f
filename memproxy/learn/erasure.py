"""What a deletion leaves beside the memories: erased when its row is carried out, however late that is."""

from collections.abc import Sequence

from memproxy.core.memory import Memory
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.scope import Scope
from memproxy.learn.parts import Parts
from memproxy.ports import JournalRow, MemoryFilter, every
from memproxy.retention.leftovers import erase_empty_places, erase_unsaid_names


async def complete(parts: Parts, row: JournalRow, request: PlanBody, deleted: Sequence[Memory]) -> None:
    """Erase what the state holds of the user or session, up to this row and with it (the deletion is flushed before),
    and names in which nothing is left: of wings, after a project of closets and aliases, of an undone session in a
    project the receipts; after single memories (``deleted``) those of their wings and closets.
    """
    where, owner = request.delete_where, row.entry.scope.whole
    store, state, flush = parts.store, parts.state, parts.flushes.flush
    if request.undo_session is None and (where is None or where.ids):
        await erase_empty_places(store, state, owner, deleted)
        if deleted:
            await erase_unsaid_names(store, state, owner, deleted, flush)
        return
    await flush()
    await _erase_empty_wings(parts, owner)
    if where != Deletion():
        await erase_unsaid_names(store, state, owner, None, flush)
    if where is not None and where.project_ids:
        await _erase_empty_closets(parts, owner)
        await state.forget_receipts(owner, where.project_ids, where.session_ids)
        for project in where.project_ids if not where.session_ids else ():
            await state.erase_aliases(owner, project)
    if request.undo_session is not None and row.entry.scope.is_narrow:
        await state.forget_receipts(owner, [row.entry.scope.project or ""], [request.undo_session])
    elif request.undo_session is not None:
        await _forget(parts, owner, request.undo_session, row)
    elif where is not None and not where.project_ids and not where.agent_ids:
        for session in [*where.session_ids] or (None,):
            await _forget(parts, owner, session, row)


async def _forget(parts: Parts, owner: Scope, session: str | None, row: JournalRow) -> None:
    rows = await parts.state.forget(owner, session=session, until=row.number)
    if parts.working is not None:
        await parts.working.forget_working(owner, session)
    parts.on_rows_erased([number for number in rows if number != row.number])


async def _erase_empty_wings(parts: Parts, owner: Scope) -> None:
    names = set((await parts.state.palace_names(owner)).values())
    empty = [name for name in names if not await parts.store.count(owner, MemoryFilter(wings=(name,)))]
    if empty:
        await parts.state.erase_wings(owner, empty)


async def _erase_empty_closets(parts: Parts, owner: Scope) -> None:
    """Topics are words that were said. After a crash a project's are not known, so that all memories are looked at."""
    closets = {(row.parent, row.name) for row in await parts.state.palace_rows(owner) if row.kind == "closet"}
    async for memory in every(parts.store, owner, MemoryFilter()):
        closets.discard(("/".join((memory.pointer or "").split("/")[:2]), memory.closet or ""))
        if not closets:
            return
    if closets:
        await parts.state.erase_closets(owner, sorted(closets))
