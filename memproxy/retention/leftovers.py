"""What deleted or moved memories leave in the state: queries, and the palace's places and names."""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.palace import USER, is_role, mentions, pointer, subject_name
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import PalaceRow
from memproxy.ports import MemoryFilter, MemoryStore, PalaceStore, ReceiptStore, every

_AT_ONCE = 200  # memories read in one call


async def forget_queries_of(state: ReceiptStore, scope: Scope, gone: Sequence[Memory]) -> None:
    """Erase the queries that deleted messages became. (`learn.index` has erased the names of their places.)

    Raises:
        StateUnavailable: some may be left.
    """
    if turns := [memory for memory in gone if memory.kind is Kind.TURN]:
        owner = scope.whole
        await state.forget_queries(owner, {turn.session_id or "" for turn in turns}, {turn.id for turn in turns})


async def erase_empty_places(store: MemoryStore, state: PalaceStore, scope: Scope, gone: Sequence[Memory]) -> None:
    """Erase the wings and closets of memories that were deleted, or moved, in which nothing is left.

    Raises:
        StoreUnavailable, StateUnavailable: some may be left.
    """
    owner = scope.whole
    wings = {memory.wing for memory in gone if memory.wing is not None}
    empty = [wing for wing in sorted(wings) if not await store.count(owner, MemoryFilter(wings=(wing,)))]
    if empty:
        await state.erase_wings(owner, empty)
    closets = {
        (memory.wing, memory.room, memory.closet, "/".join(memory.pointer.split("/")[:2]))
        for memory in gone
        if memory.wing and memory.room and memory.closet and memory.pointer and memory.wing not in empty
    }
    empty_closets = [
        (parent, closet)
        for wing, room, closet, parent in sorted(closets)
        if not await store.count(owner, MemoryFilter(wings=(wing,), rooms=(room,), closets=(closet,)))
    ]
    if empty_closets:
        await state.erase_closets(owner, empty_closets)


async def erase_unsaid_names(
    store: MemoryStore,
    state: PalaceStore,
    scope: Scope,
    gone: Sequence[Memory] | None,
    flush: Callable[[], Awaitable[None]],
) -> None:
    """Of all names, or those that deleted memories said (``gone``), that no remaining memory says: erase aliases, and
    rename wings, which keep their number, so that pointers stay. The state changes after ``flush`` made what was
    written durable, so that it can be repeated after a crash.

    Raises:
        StoreUnavailable, StateUnavailable: do it again.
    """
    owner = scope.whole
    rows = [row for row in await state.palace_rows(owner) if row.kind in {"wing", "alias"}]
    names = {row.name for row in rows if row.name != USER and not is_role(row.name)}
    if gone is not None:
        names &= {name for memory in gone for name in _names_in(memory)}
    if not names:
        return
    async for memory in every(store, owner, MemoryFilter()):
        names.difference_update(_names_in(memory))
        if not names:
            return
    renamed = _new_names(rows, names)
    for name, other in renamed.items():
        await _rename(store, owner, name, other)
    if renamed:
        await flush()
    await state.rename_wings(owner, renamed, names)


def _names_in(memory: Memory) -> Iterator[str]:
    """The names that a memory may be found by."""
    relations = [end for relation in memory.relations for end in (relation.subject, relation.object)]
    for field in (memory.subject, memory.object, *memory.entities, *relations):
        if field:
            yield subject_name(field)
            yield from mentions(field)
    yield from mentions(memory.content)


def _new_names(rows: Sequence[PalaceRow], unsaid: Collection[str]) -> dict[str, str]:
    """What wings of unsaid names become: another name that holds everywhere ("user", "dog"), else the number."""
    wings = {row.name: row.number for row in rows if row.kind == "wing"}
    aliases = defaultdict[int, list[str]](list)
    for row in rows:
        if row.kind == "alias" and not row.parent and row.name not in unsaid and row.name not in wings:
            aliases[row.number].append(row.name)
    gone = {name: number for name, number in wings.items() if name in unsaid}
    return {
        name: min(aliases[number], key=lambda other: (other != USER, other), default=pointer(number).lower())
        for name, number in gone.items()
    }


async def _rename(store: MemoryStore, owner: Scope, name: str, other: str) -> None:
    where, cursor = MemoryFilter(wings=(name,)), None
    while True:
        page = await store.page(owner, where, limit=_AT_ONCE, cursor=cursor)
        changes: dict[str | None, dict[str, dict[str, Any]]] = defaultdict(dict)
        for memory in page.memories:
            changes[memory.session_id][memory.id] = {"wing": other}
        for session, fields in changes.items():
            await store.set_fields(msgspec.structs.replace(owner, session=session), fields)
        if (cursor := page.next_cursor) is None:
            return
