"""What is kept of sessions: how far learning is, how their conversations are recognised, and their blocks.

A count of erasures stands beside the blocks, so that a block that was put together before a memory was erased is never
kept after it. It is counted by groups of owners (a hash of 16 bits): exact enough, bounded, and it names nobody.
"""

import hashlib
import sqlite3
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from memproxy.core.history import STATE
from memproxy.core.scope import Scope
from memproxy.ports import BlockLine, JournalEntry, KnownSession, SessionBlocks, SessionProgress
from memproxy.stores import sqlite_erased as erased
from memproxy.stores import sqlite_journal as journal
from memproxy.stores.sqlite_part import (
    PRUNE_EVERY,
    Columns,
    Owner,
    Sealing,
    SqlitePart,
    chunks,
    marks,
    micros,
    moment,
    run,
)

SESSIONS_PER_KEY = 5
"""Conversations that may begin alike and still be told apart; the oldest are forgotten."""

KEYS_KEPT = timedelta(days=90)
"""A conversation that was silent for longer is not recognised by its prefix any more."""

BLOCKS_KEPT = timedelta(days=7)
"""No provider's prompt cache lives longer; a conversation taken up again later recalls anew."""

BLOCKS_PER_SESSION = 200
"""The oldest beyond it are forgotten (a session whose history is edited over and over makes new ones each time)."""

PRUNED_AT_ONCE = 2_000
"""Lines of one pruning, so that no single transaction is long."""

LINE = "block.line"
"""What the column with a line is sealed as."""

_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ROWS = 32
"""Lines of one statement; a block has some ten."""


_LEARNS = """
    SELECT 1 FROM journal WHERE tenant = ? AND user = ? AND lane = 'learn' AND state != 'parked'
    AND ifnull(session, '') = ?
"""
_NOT_LEARNING = """NOT EXISTS (
            SELECT 1 FROM journal WHERE journal.tenant = progress.tenant AND journal.user = progress.user
            AND journal.lane = 'learn' AND journal.state != 'parked' AND ifnull(journal.session, '') = progress.session)
"""
_TAKE = """
    UPDATE progress SET unlearned = max(0, unlearned - ?) WHERE tenant = ? AND user = ? AND session = ?
"""


class SqliteSessions(SqlitePart):
    """`ports.ProgressStore`, `ports.SessionStore` and `ports.BlockStore`."""

    _remembered = 0
    _saved_blocks = 0

    async def note_turns(self, scope: Scope, *, count: int, at: datetime) -> None:
        row = (*scope.owner, scope.session or "", msgspec.json.encode(scope).decode(), count, micros(at))
        more = """
            INSERT INTO progress (tenant, user, session, scope, unlearned, last_turn_at) VALUES (?, ?, ?, ?, ?, ?)
            ON CONFLICT (tenant, user, session) DO UPDATE SET
                scope = excluded.scope, unlearned = unlearned + excluded.unlearned,
                last_turn_at = max(last_turn_at, excluded.last_turn_at), ended_at = NULL
            """
        await self._commits.add(lambda db: run(db, more, row))

    async def note_end(self, scope: Scope, *, at: datetime) -> None:
        over = "UPDATE progress SET ended_at = ? WHERE tenant = ? AND user = ? AND session = ?"
        await self._commits.add(lambda db: run(db, over, (micros(at), *scope.owner, scope.session or "")))

    async def ended(self, scope: Scope, names: Sequence[str]) -> set[str]:
        def work(db: sqlite3.Connection) -> set[str]:
            found: set[str] = set()
            for some in chunks(names):
                rows = db.execute(
                    "SELECT session FROM progress "  # noqa: S608 (no value in the text)
                    f"WHERE tenant = ? AND user = ? AND ended_at IS NOT NULL AND session IN ({marks(some)})",
                    (*scope.owner, *some),
                )
                found |= {session for (session,) in rows}
            return found

        return await self._file.read(work)

    async def due_sessions(self, *, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
        return await self._file.read(lambda db: due_sessions(db, every, idle_before, limit))

    async def silent_sessions(self, *, silent_before: datetime, limit: int) -> list[SessionProgress]:
        def work(db: sqlite3.Connection) -> list[SessionProgress]:
            rows = db.execute(
                f"SELECT scope, unlearned, last_turn_at FROM progress WHERE ended_at IS NULL AND last_turn_at <= ? "  # noqa: S608 (constants)
                f"AND {_NOT_LEARNING} ORDER BY last_turn_at LIMIT ?",
                (micros(silent_before), limit),
            )
            return [_progress(*row) for row in rows]

        return await self._file.read(work)

    async def progress(self, scope: Scope) -> SessionProgress | None:
        def work(db: sqlite3.Connection) -> SessionProgress | None:
            row = db.execute(
                "SELECT scope, unlearned, last_turn_at FROM progress WHERE tenant = ? AND user = ? AND session = ?",
                (*scope.owner, scope.session or ""),
            ).fetchone()
            return _progress(*row) if row is not None else None

        return await self._file.glance(work)

    async def begin_learning(self, entry: JournalEntry, *, unlearned: int) -> int | None:
        def work(db: sqlite3.Connection) -> int | None:
            session = (*entry.scope.owner, entry.scope.session or "")
            if db.execute(_LEARNS, session).fetchone() is not None:
                return None
            db.execute(_TAKE, (unlearned, *session))
            return journal.insert(db, self._sealing.made(db, entry.scope.owner), entry)

        return await self._commits.add(work)

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        def work(db: sqlite3.Connection) -> dict[str, list[KnownSession]]:
            columns = self._sealing.of(db, scope.owner)
            return {} if columns is None else find_sessions(db, columns, scope.owner, keys)

        return await self._file.glance(work)

    async def remember_session(
        self, scope: Scope, keys: Sequence[str], known: KnownSession, *, asked_at: datetime | None = None
    ) -> None:
        def work(db: sqlite3.Connection) -> None:
            if not erased.is_too_late(db, msgspec.structs.replace(scope, session=known.session), asked_at):
                remember_session(db, self._sealing.made(db, scope.owner), scope.owner, keys, known)

        self._remembered += 1
        await self._commits.add(work)
        if self._remembered % PRUNE_EVERY == 1:
            await self._file.write(lambda db: prune_sessions(db, known.said_at))

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        now = datetime.now(UTC)
        return await self._file.glance(lambda db: find_blocks(db, self._sealing, scope, messages, now))

    async def save_block(
        self, scope: Scope, message: str, lines: Sequence[BlockLine], *, erasures: int, at: datetime
    ) -> bool:
        self._saved_blocks += 1
        prunes = self._saved_blocks % PRUNE_EVERY == 1

        def work(db: sqlite3.Connection) -> bool:
            if prunes:
                prune_blocks(db, at)
            columns = self._sealing.of(db, scope.owner)
            if columns is None or (lines and _erasures(db, scope.owner) != erasures):
                return False  # something, or everything, that the block may show was erased
            save_block(db, columns, scope, message, lines, at=at)
            return True

        return await self._commits.add(work)

    async def drop_from_blocks(self, scope: Scope, memory_ids: Sequence[str] | None) -> int:
        return await self._file.write(lambda db: drop_lines(db, self._sealing, scope.owner, memory_ids))


def due_sessions(db: sqlite3.Connection, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
    """Sessions that learning should look at, those waiting longest first."""
    rows = db.execute(
        f"""
        SELECT scope, unlearned, last_turn_at FROM progress
        WHERE unlearned > 0 AND (unlearned >= ? OR last_turn_at <= ?) AND {_NOT_LEARNING}
        AND coalesce(
            (SELECT learning FROM choices WHERE choices.tenant = progress.tenant AND choices.user = progress.user
             AND choices.agent = json_extract(progress.scope, '$.agent')),
            (SELECT learning FROM choices WHERE choices.tenant = progress.tenant AND choices.user = progress.user
             AND choices.agent = ''), 1)
        ORDER BY last_turn_at LIMIT ?
        """,  # noqa: S608 (constants)
        (every, micros(idle_before), limit),
    )
    return [_progress(*row) for row in rows]


def _progress(scope: str, unlearned: int, last_turn_at: int) -> SessionProgress:
    return SessionProgress(
        scope=msgspec.json.decode(scope, type=Scope), unlearned=unlearned, last_turn_at=moment(last_turn_at)
    )


def find_sessions(
    db: sqlite3.Connection, columns: Columns, owner: Owner, keys: Sequence[str]
) -> dict[str, list[KnownSession]]:
    """Sessions by key, newest first."""
    wanted = {columns.name(key): key for key in keys}
    found: dict[str, list[KnownSession]] = {}
    for some in chunks(list(wanted)):
        rows = db.execute(
            "SELECT key, session, said_at, answer FROM session_keys "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND key IN ({marks(some)}) ORDER BY said_at DESC",
            (*owner, *some),
        )
        for name, session, said_at, answer in rows:
            digest = None if answer is None else columns.plain_name(answer)
            known = KnownSession(session=session, said_at=moment(said_at), answer=digest)
            found.setdefault(wanted[name], []).append(known)
    return found


def remember_session(
    db: sqlite3.Connection, columns: Columns, owner: Owner, keys: Sequence[str], known: KnownSession
) -> None:
    """Note the session under each key, and forget the oldest beyond what is kept of a key.

    What is known stays: a repeated request keeps the time its message first came; an answer is replaced by a newer one.
    """
    answer = None if known.answer is None else columns.name(known.answer)
    for key in map(columns.name, keys):
        db.execute(
            """
            INSERT INTO session_keys VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, user, key, session) DO UPDATE SET
                said_at = min(said_at, excluded.said_at), answer = ifnull(excluded.answer, answer)
            """,
            (*owner, key, known.session, micros(known.said_at), answer),
        )
        db.execute(
            """
            DELETE FROM session_keys WHERE tenant = ?1 AND user = ?2 AND key = ?3 AND session IN (
                SELECT session FROM session_keys WHERE tenant = ?1 AND user = ?2 AND key = ?3
                ORDER BY said_at DESC LIMIT -1 OFFSET ?4)
            """,
            (*owner, key, SESSIONS_PER_KEY),
        )


def prune_sessions(db: sqlite3.Connection, now: datetime) -> None:
    """Forget some keys that are too old; called now and then, so that no single call is long."""
    db.execute(
        """
        DELETE FROM session_keys WHERE (tenant, user, key, session) IN (
            SELECT tenant, user, key, session FROM session_keys WHERE said_at < ? LIMIT 1000)
        """,
        (micros(now - KEYS_KEPT),),
    )


def erase(db: sqlite3.Connection, scope: Scope, session: str | None) -> None:
    """Delete progress, keys and blocks of an owner, or of one of its sessions."""
    where, values = ("AND session = ?", (session,)) if session is not None else ("", ())
    _note_erasure(db, scope.owner)
    for table in ("progress", "session_keys", "block_lines"):
        db.execute(
            f"DELETE FROM {table} WHERE tenant = ? AND user = ? {where}",  # noqa: S608 (no value in the text)
            (*scope.owner, *values),
        )


def find_blocks(
    db: sqlite3.Connection, sealing: Sealing, scope: Scope, messages: Sequence[str], now: datetime
) -> SessionBlocks:
    """The blocks of these messages of the session, without lines of what has expired; one without any memory's line
    left, or with a line that cannot be read, is not there.
    """
    columns = sealing.of(db, scope.owner)
    blocks: dict[str, list[BlockLine]] = {}
    unreadable = set()
    wanted = {} if columns is None else {columns.name(message): message for message in messages}
    for some in chunks(list(wanted)):
        rows = db.execute(
            "SELECT message, memory, line, expires FROM block_lines "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND session = ? AND message IN ({marks(some)}) "
            "AND (expires IS NULL OR expires > ?) ORDER BY message, place",
            (*scope.owner, scope.session or "", *some, micros(now)),
        )
        for name, memory, line, expires in rows:
            text = "" if columns is None else columns.open_text(line, LINE)
            if line and not text:
                unreadable.add(wanted[name])
            until = moment(expires) if expires is not None else None
            block = blocks.setdefault(wanted[name], [])
            block.append(BlockLine(text=text, memory_id=memory, expires_at=until))
    whole = {
        message: lines
        for message, lines in blocks.items()
        if message not in unreadable and any(line.memory_id for line in lines)
    }
    return SessionBlocks(blocks=whole, erasures=_erasures(db, scope.owner))


def save_block(
    db: sqlite3.Connection, columns: Columns, scope: Scope, message: str, lines: Sequence[BlockLine], *, at: datetime
) -> None:
    """Note the block of a message in place of an earlier one."""
    place = (*scope.owner, scope.session or "", columns.name(message))
    db.execute("DELETE FROM block_lines WHERE tenant = ? AND user = ? AND session = ? AND message = ?", place)
    for start in range(0, len(lines), _ROWS):  # in one statement: between two Python's lock may go to another thread
        some = lines[start : start + _ROWS]
        db.execute(
            f"INSERT INTO block_lines VALUES {', '.join([_ROW] * len(some))}",  # noqa: S608 (no value in the text)
            [
                value
                for number, line in enumerate(some, start)
                for value in (
                    *place,
                    number,
                    line.memory_id,
                    columns.seal_text(line.text, LINE),
                    micros(at),
                    micros(line.expires_at) if line.expires_at else None,
                )
            ],
        )
    db.execute(
        """
        DELETE FROM block_lines WHERE tenant = ?1 AND user = ?2 AND session = ?3 AND message IN (
            SELECT message FROM block_lines WHERE tenant = ?1 AND user = ?2 AND session = ?3
            GROUP BY message ORDER BY max(at) DESC LIMIT -1 OFFSET ?4)
        """,
        (*scope.owner, scope.session or "", BLOCKS_PER_SESSION),
    )


def drop_lines(db: sqlite3.Connection, sealing: Sealing, owner: Owner, memory_ids: Sequence[str] | None) -> int:
    """Delete these memories' lines (None: all blocks) of an owner, and states that rest on them as a whole; answers how
    many lines went.
    """
    _note_erasure(db, owner)
    if memory_ids is None:
        return db.execute("DELETE FROM block_lines WHERE tenant = ? AND user = ?", owner).rowcount
    columns = sealing.of(db, owner)
    state = (*owner, STATE if columns is None else columns.name(STATE))
    return sum(
        db.execute(
            "DELETE FROM block_lines WHERE tenant = ? AND user = ? AND message = ? AND session IN ("  # noqa: S608
            "SELECT session FROM block_lines WHERE tenant = ? AND user = ? AND message = ? "
            f"AND memory IN ({marks(some)}))",
            (*state, *state, *some),
        ).rowcount
        for some in chunks(memory_ids)
    ) + sum(
        db.execute(
            "DELETE FROM block_lines "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND memory IN ({marks(some)})",
            (*owner, *some),
        ).rowcount
        for some in chunks(memory_ids)
    )


def prune_blocks(db: sqlite3.Connection, now: datetime) -> None:
    """Forget some blocks that are too old; called now and then."""
    db.execute(
        """
        DELETE FROM block_lines WHERE (tenant, user, session, message, place) IN (
            SELECT tenant, user, session, message, place FROM block_lines WHERE at < ? LIMIT ?)
        """,
        (micros(now - BLOCKS_KEPT), PRUNED_AT_ONCE),
    )


def _erasures(db: sqlite3.Connection, owner: Owner) -> int:
    row = db.execute("SELECT erasures FROM block_erasures WHERE owners = ?", (_owners(owner),)).fetchone()
    return 0 if row is None else int(row[0])


def _note_erasure(db: sqlite3.Connection, owner: Owner) -> None:
    db.execute(
        "INSERT INTO block_erasures VALUES (?, 1) ON CONFLICT (owners) DO UPDATE SET erasures = erasures + 1",
        (_owners(owner),),
    )


def _owners(owner: Owner) -> int:
    """The group of owners that this one is counted with."""
    name = "\x1f".join(owner).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=2, person=b"blocks").digest(), "big")
