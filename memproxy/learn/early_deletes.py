"""Deletions that go ahead of rows for which the store has no room, where the order makes no difference: rows are
carried out in their order, so that nothing comes back that a later one deletes, and a full disk would keep that.
"""

from collections.abc import Sequence

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.protocol import Deletion, TurnsBody
from memproxy.core.scope import OwnerKey
from memproxy.core.similar import repeats
from memproxy.core.turn import make_turns
from memproxy.learn.index import decoded
from memproxy.learn.parts import Parts
from memproxy.ports import JournalKind, JournalRow


class _Deletions(msgspec.Struct, frozen=True):
    """What a ``plan`` row says of deletions; its memories are passed over unread."""

    upserts: list[msgspec.Raw] = []
    changes: dict[str, msgspec.Raw] = {}
    turn_changes: dict[str, msgspec.Raw] = {}
    deletes: list[str] = []
    delete_where: Deletion | None = None
    undo_session: str | None = None


class EarlyDeletes:
    """Says which deletions may go ahead of which rows."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._users: dict[OwnerKey, JournalRow] = {}

    def note(self, row: JournalRow) -> None:
        """A row was appended. A whole user's deletion is remembered, however many rows stand before it."""
        deletions = _deletions_of(row)
        if deletions is not None and deletions.delete_where == Deletion():
            self._users[row.entry.scope.owner] = row

    def ended(self, row: JournalRow) -> None:
        """A row is done, refused or parked."""
        noted = self._users.get(row.entry.scope.owner)
        if noted is not None and noted.number <= row.number and row.entry.kind is not JournalKind.LEARN:
            del self._users[row.entry.scope.owner]

    def later_rows(self, rows: Sequence[JournalRow]) -> list[JournalRow]:
        """The owner's rows after the first of these, as far as this engine knows them."""
        if rows[0].entry.kind is JournalKind.LEARN:
            return []
        noted = self._users.get(rows[0].entry.scope.owner)
        return [*rows[1:], *([noted] if noted is not None and noted.number > rows[-1].number else [])]

    async def may_go(self, row: JournalRow, earlier_rows: Sequence[JournalRow]) -> bool:
        """Whether a row deletes, and may do so before these earlier ones: it erases them all as well, or they bring
        messages alone, and it erases these or concerns none. Raises `RequestError` where one of them cannot be read.
        """
        deletions = _deletions_of(row)
        if deletions is None or deletions.delete_where == Deletion():
            return deletions is not None
        # a row that does nothing is written by the API to see that those before it are done
        remaining = [earlier for earlier in earlier_rows if _deletions_in(earlier) != _Deletions()]
        if any(earlier.entry.kind is not JournalKind.TURNS for earlier in remaining):
            return False  # what is written to a memory, the deletion may have to see
        remaining = [earlier for earlier in remaining if not _erases(deletions, earlier)]
        where = deletions.delete_where
        if where is not None and where.project_ids:
            return not any(earlier.entry.scope.project in where.project_ids for earlier in remaining)
        ids = [*deletions.deletes, *(where.ids if where is not None else ())]
        if not ids:
            return True
        going = await self._parts.store.get(row.entry.scope.at(None, None), ids)
        facts = [memory for memory in going.values() if memory.kind is not Kind.TURN]
        bodies = [(earlier.entry.scope, decoded(earlier.entry.body, TurnsBody)) for earlier in remaining]
        turns = [turn for scope, body in bodies for turn in make_turns(scope, body.messages, now=body.said_at)]
        return not any(turn.id in ids or any(repeats(turn.content, fact, None) for fact in facts) for turn in turns)

    async def erase(self, row: JournalRow, earlier_rows: Sequence[JournalRow]) -> list[JournalRow]:
        """Take earlier rows of an undone conversation, whose turns its plan cannot name, out of the journal."""
        deletions, erased = _deletions_of(row), self.erased(row, earlier_rows)
        if deletions is None or deletions.undo_session is None or not erased:
            return []
        session, until = deletions.undo_session, row.number - 1
        self._parts.on_rows_erased(await self._parts.state.forget(row.entry.scope.whole, session=session, until=until))
        return erased

    def erased(self, row: JournalRow, earlier_rows: Sequence[JournalRow]) -> list[JournalRow]:
        """Those of the earlier rows that went with a deletion which was carried out."""
        deletions = _deletions_of(row)
        return [earlier for earlier in earlier_rows if deletions is not None and _erases(deletions, earlier)]


def _deletions_of(row: JournalRow) -> _Deletions | None:
    """What a row deletes; None when it does anything else."""
    deletions = _deletions_in(row)
    if deletions is None or deletions.upserts or deletions.changes or deletions.turn_changes:
        return None
    agents = deletions.delete_where.agent_ids if deletions.delete_where is not None else []
    if agents or (deletions.undo_session is not None and row.entry.scope.is_narrow):
        return None  # what others said there stays in the journal, so this one waits for its turn
    does = deletions.deletes or deletions.delete_where is not None or deletions.undo_session is not None
    return deletions if does else None


def _deletions_in(row: JournalRow) -> _Deletions | None:
    """None for a row that is no plan, or cannot be read (which is reported when the row is handled)."""
    if row.entry.kind is not JournalKind.PLAN:
        return None
    try:
        return msgspec.json.decode(row.entry.body, type=_Deletions)
    except msgspec.DecodeError:
        return None


def _erases(deletions: _Deletions, row: JournalRow) -> bool:
    """Whether the deletion takes the earlier row out of the journal (`index.erase_what_is_left`)."""
    session, where = row.entry.scope.session, deletions.delete_where
    if deletions.undo_session is not None:
        return deletions.undo_session == session
    if where is None or where.ids or where.project_ids:
        return False
    return not where.session_ids or session in where.session_ids
