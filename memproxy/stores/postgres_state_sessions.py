"""What is kept of sessions in PostgreSQL: how far learning is, how their conversations are recognised, and the blocks
they were given (`ports.ProgressStore`, `ports.SessionStore`, `ports.BlockStore`).
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.history import STATE
from memproxy.core.scope import Scope
from memproxy.ports import BlockLine, JournalEntry, KnownSession, SessionBlocks, SessionProgress
from memproxy.stores.postgres_state_database import Db, Owner, Row, one
from memproxy.stores.postgres_state_journal import PostgresJournal
from memproxy.stores.postgres_state_part import PLACE, place_of, scope_of
from memproxy.stores.sqlite_part import PRUNE_EVERY, Columns
from memproxy.stores.sqlite_sessions import (
    BLOCKS_KEPT,
    BLOCKS_PER_SESSION,
    KEYS_KEPT,
    LINE,
    PRUNED_AT_ONCE,
    SESSIONS_PER_KEY,
)

_NOT_LEARNING = """NOT EXISTS (
                    SELECT FROM journal WHERE journal.tenant = progress.tenant AND journal.user_id = progress.user_id
                    AND journal.lane = 'learn' AND journal.state != 'parked'
                    AND coalesce(journal.session, '') = progress.session)
"""
_SESSION = "tenant = %(tenant)s AND user_id = %(user)s AND session = %(session)s"


class PostgresSessions(PostgresJournal):
    """`ports.ProgressStore`, `ports.SessionStore` and `ports.BlockStore`; learning is begun in the journal."""

    _remembered = 0
    _saved_blocks = 0

    async def note_turns(self, scope: Scope, *, count: int, at: datetime) -> None:
        async with self._database.connected() as db:
            await db.execute(
                f"""
                INSERT INTO progress ({PLACE}, unlearned, last_turn_at) VALUES (%s, %s, %s, %s, %s, %s, %s)
                ON CONFLICT (tenant, user_id, session) DO UPDATE SET
                    project = excluded.project, agent = excluded.agent,
                    unlearned = progress.unlearned + excluded.unlearned,
                    last_turn_at = greatest(progress.last_turn_at, excluded.last_turn_at), ended_at = NULL
                """,
                [*place_of(scope)[:-1], scope.session or "", count, self._database.shared(at)],
            )

    async def note_end(self, scope: Scope, *, at: datetime) -> None:
        async with self._database.connected() as db:
            await db.execute(f"UPDATE progress SET ended_at = %(at)s WHERE {_SESSION}", {**_session(scope), "at": at})

    async def ended(self, scope: Scope, names: Sequence[str]) -> set[str]:
        async with self._database.connected() as db:
            found = await db.execute(
                "SELECT session FROM progress "
                "WHERE tenant = %s AND user_id = %s AND ended_at IS NOT NULL AND session = ANY(%s)",
                [*scope.owner, list(names)],
            )
            return {session for (session,) in await found.fetchall()}

    async def due_sessions(self, *, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
        async with self._database.connected() as db:
            found = await db.execute(
                f"""
                SELECT {PLACE}, unlearned, last_turn_at FROM progress
                WHERE unlearned > 0 AND (unlearned >= %(every)s OR last_turn_at <= %(idle)s) AND {_NOT_LEARNING}
                AND coalesce(
                    (SELECT learning FROM choices WHERE choices.tenant = progress.tenant
                     AND choices.user_id = progress.user_id AND choices.agent = progress.agent),
                    (SELECT learning FROM choices WHERE choices.tenant = progress.tenant
                     AND choices.user_id = progress.user_id AND choices.agent = ''), true)
                ORDER BY last_turn_at LIMIT %(limit)s
                """,
                {"every": every, "idle": self._database.shared(idle_before), "limit": limit},
            )
            return [self._progress(row) for row in await found.fetchall()]

    async def silent_sessions(self, *, silent_before: datetime, limit: int) -> list[SessionProgress]:
        async with self._database.connected() as db:
            found = await db.execute(
                f"""
                SELECT {PLACE}, unlearned, last_turn_at FROM progress
                WHERE ended_at IS NULL AND last_turn_at <= %s AND {_NOT_LEARNING} ORDER BY last_turn_at LIMIT %s
                """,
                [self._database.shared(silent_before), limit],
            )
            return [self._progress(row) for row in await found.fetchall()]

    async def progress(self, scope: Scope) -> SessionProgress | None:
        async with self._database.glance() as db:
            found = await db.execute(
                f"SELECT {PLACE}, unlearned, last_turn_at FROM progress WHERE {_SESSION}", _session(scope)
            )
            row = await found.fetchone()
        return None if row is None else self._progress(row)

    def _progress(self, row: Row) -> SessionProgress:
        *place, unlearned, last_turn_at = row
        return SessionProgress(
            scope=scope_of(*place), unlearned=unlearned, last_turn_at=self._database.own(last_turn_at)
        )

    async def begin_learning(self, entry: JournalEntry, *, unlearned: int) -> int | None:
        session = _session(entry.scope)
        async with self._database.of(entry.scope.owner) as db:
            (is_learning,) = await one(
                db,
                "SELECT EXISTS (SELECT FROM journal WHERE tenant = %(tenant)s AND user_id = %(user)s "
                "AND lane = 'learn' AND state != 'parked' AND coalesce(session, '') = %(session)s)",
                session,
            )
            if is_learning:
                return None
            await db.execute(
                f"UPDATE progress SET unlearned = greatest(0, unlearned - %(count)s) WHERE {_SESSION}",
                {**session, "count": unlearned},
            )
            number = await self._insert(db, entry)
        self._replicas.rows_came()
        return number

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        found: dict[str, list[KnownSession]] = {}
        async with self._database.glance() as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return {}
            wanted = {columns.name(key): key for key in keys}
            rows = await db.execute(
                "SELECT key, session, said_at, answer FROM session_keys "
                "WHERE tenant = %s AND user_id = %s AND key = ANY(%s) ORDER BY said_at DESC",
                [*scope.owner, list(wanted)],
            )
            for name, session, said_at, answer in await rows.fetchall():
                digest = None if answer is None else columns.plain_name(answer)
                known = KnownSession(session=session, said_at=self._database.own(said_at), answer=digest)
                found.setdefault(wanted[name], []).append(known)
        return found

    async def remember_session(
        self, scope: Scope, keys: Sequence[str], known: KnownSession, *, asked_at: datetime | None = None
    ) -> None:
        self._remembered += 1
        known = msgspec.structs.replace(known, said_at=self._database.shared(known.said_at))
        async with self._database.of(scope.owner) as db:
            if await self._erased.is_too_late(db, msgspec.structs.replace(scope, session=known.session), asked_at):
                return
            await _remember(db, await self._sealing.made(db, scope.owner), scope.owner, keys, known)
        if self._remembered % PRUNE_EVERY == 1:
            async with self._database.connected() as db:
                await db.execute(
                    "DELETE FROM session_keys WHERE (tenant, user_id, key, session) IN ("
                    "SELECT tenant, user_id, key, session FROM session_keys WHERE said_at < %s LIMIT %s)",
                    [known.said_at - KEYS_KEPT, PRUNED_AT_ONCE],
                )

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        blocks: dict[str, list[BlockLine]] = {}
        unreadable = set()
        async with self._database.glance() as db:
            columns = await self._sealing.of(db, scope.owner)
            wanted = {} if columns is None else {columns.name(message): message for message in messages}
            erasures = await _erasures(db, scope.owner)  # first: what is erased after it is not counted
            found = await db.execute(
                f"SELECT message, memory, line, expires FROM block_lines WHERE {_SESSION} "
                "AND message = ANY(%(messages)s) AND (expires IS NULL OR expires > %(now)s) ORDER BY message, place",
                {**_session(scope), "messages": list(wanted), "now": self._database.time()},
            )
            lines = await found.fetchall()
        for name, memory, line, expires in lines:
            text = "" if columns is None else columns.open_text(line, LINE)
            if line and not text:
                unreadable.add(wanted[name])
            block = blocks.setdefault(wanted[name], [])
            block.append(BlockLine(text=text, memory_id=memory, expires_at=expires))
        whole = {
            message: block
            for message, block in blocks.items()
            if message not in unreadable and any(line.memory_id for line in block)
        }
        return SessionBlocks(blocks=whole, erasures=erasures)

    async def save_block(
        self, scope: Scope, message: str, lines: Sequence[BlockLine], *, erasures: int, at: datetime
    ) -> bool:
        self._saved_blocks += 1
        if self._saved_blocks % PRUNE_EVERY == 1:
            await self._prune_blocks(at)
        async with self._database.of(scope.owner) as db:
            columns = await self._sealing.of(db, scope.owner)
            if columns is None or (lines and await _erasures(db, scope.owner) != erasures):
                return False  # something, or everything, that the block may show was erased
            await _save_block(db, columns, scope, message, lines, at=at)
        return True

    async def _prune_blocks(self, now: datetime) -> None:
        """Forget some blocks that are too old."""
        async with self._database.connected() as db:
            await db.execute(
                "DELETE FROM block_lines WHERE (tenant, user_id, session, message, place) IN ("
                "SELECT tenant, user_id, session, message, place FROM block_lines WHERE at < %s LIMIT %s)",
                [now - BLOCKS_KEPT, PRUNED_AT_ONCE],
            )

    async def drop_from_blocks(self, scope: Scope, memory_ids: Sequence[str] | None) -> int:
        async with self._database.of(scope.owner) as db:
            await _note_erasure(db, scope.owner)
            columns = await self._sealing.of(db, scope.owner)
            gone = await db.execute(  # a state goes as a whole with the first turn that it rests on
                "DELETE FROM block_lines WHERE tenant = %(tenant)s AND user_id = %(user)s "
                "AND (%(memories)s::text[] IS NULL OR memory = ANY(%(memories)s) OR (message = %(state)s "
                "AND session IN (SELECT session FROM block_lines WHERE tenant = %(tenant)s AND user_id = %(user)s "
                "AND message = %(state)s AND memory = ANY(%(memories)s))))",
                {
                    "tenant": scope.tenant,
                    "user": scope.user,
                    "memories": None if memory_ids is None else list(memory_ids),
                    "state": STATE if columns is None else columns.name(STATE),
                },
            )
            return gone.rowcount


def _session(scope: Scope) -> dict[str, str]:
    return {"tenant": scope.tenant, "user": scope.user, "session": scope.session or ""}


async def _remember(db: Db, columns: Columns, owner: Owner, keys: Sequence[str], known: KnownSession) -> None:
    """Note the session under each key, and forget the oldest beyond what is kept of a key.

    What is known stays: a repeated request keeps the time its message first came; an answer is replaced by a newer one.
    """
    names = list({columns.name(key) for key in keys})
    answer = None if known.answer is None else columns.name(known.answer)
    await db.execute(
        """
        INSERT INTO session_keys (tenant, user_id, key, session, said_at, answer)
        SELECT %s, %s, key, %s, %s, %s FROM unnest(%s::text[]) AS key
        ON CONFLICT (tenant, user_id, key, session) DO UPDATE SET
            said_at = least(session_keys.said_at, excluded.said_at),
            answer = coalesce(excluded.answer, session_keys.answer)
        """,
        [*owner, known.session, known.said_at, answer, names],
    )
    await db.execute(
        """
        DELETE FROM session_keys AS old USING (
            SELECT key, session, row_number() OVER (PARTITION BY key ORDER BY said_at DESC) AS place
            FROM session_keys WHERE tenant = %(tenant)s AND user_id = %(user)s AND key = ANY(%(keys)s)) AS found
        WHERE old.tenant = %(tenant)s AND old.user_id = %(user)s AND old.key = found.key
            AND old.session = found.session AND found.place > %(most)s
        """,
        {"tenant": owner[0], "user": owner[1], "keys": names, "most": SESSIONS_PER_KEY},
    )


async def _save_block(
    db: Db, columns: Columns, scope: Scope, message: str, lines: Sequence[BlockLine], *, at: datetime
) -> None:
    """Note the block of a message in place of an earlier one."""
    place = {**_session(scope), "message": columns.name(message)}
    await db.execute(f"DELETE FROM block_lines WHERE {_SESSION} AND message = %(message)s", place)
    await db.execute(
        """
        INSERT INTO block_lines (tenant, user_id, session, message, place, memory, line, at, expires)
        SELECT %(tenant)s, %(user)s, %(session)s, %(message)s, line.place - 1, memory, text, %(at)s, expires
        FROM unnest(%(memories)s::text[], %(lines)s::text[], %(expires)s::timestamptz[])
            WITH ORDINALITY AS line (memory, text, expires, place)
        """,
        {
            **place,
            "at": at,
            "memories": [line.memory_id for line in lines],
            "lines": [columns.seal_text(line.text, LINE) for line in lines],
            "expires": [line.expires_at for line in lines],
        },
    )
    await db.execute(
        f"""
        DELETE FROM block_lines WHERE {_SESSION} AND message IN (
            SELECT message FROM block_lines WHERE {_SESSION}
            GROUP BY message ORDER BY max(at) DESC OFFSET %(most)s)
        """,
        {**place, "most": BLOCKS_PER_SESSION},
    )


async def erase(db: Db, scope: Scope, session: str | None) -> None:
    """Delete progress, keys and blocks of an owner, or of one of its sessions."""
    await _note_erasure(db, scope.owner)
    for table in ("progress", "session_keys", "block_lines"):
        await db.execute(
            f"DELETE FROM {table} WHERE tenant = %(tenant)s AND user_id = %(user)s "
            "AND (%(session)s::text IS NULL OR session = %(session)s)",
            {"tenant": scope.tenant, "user": scope.user, "session": session},
        )


# A count of erasures stands beside the blocks, so that one that was put together before a memory was erased is never
# kept after it. It is counted by groups of owners (a hash of 16 bits): exact enough, bounded, and it names nobody.


async def _erasures(db: Db, owner: Owner) -> int:
    (count,) = await one(
        db, "SELECT coalesce((SELECT erasures FROM block_erasures WHERE owners = %s), 0)", [_group(owner)]
    )
    return int(count)


async def _note_erasure(db: Db, owner: Owner) -> None:
    await db.execute(
        "INSERT INTO block_erasures VALUES (%s, 1) "
        "ON CONFLICT (owners) DO UPDATE SET erasures = block_erasures.erasures + 1",
        [_group(owner)],
    )


def _group(owner: Owner) -> int:
    """The group of owners that this one is counted with."""
    name = "\x1f".join(owner).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=2, person=b"blocks").digest(), "big")
