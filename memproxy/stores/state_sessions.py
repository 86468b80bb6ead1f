"""What is kept of sessions: how far learning is, how their conversations are recognised, and their blocks
(`ports.SessionStore`, `ports.BlockStore`).

A count of erasures stands beside the blocks, so that a block that was put together before a memory was erased is never
kept after it. It is counted by groups of owners (a hash of 16 bits): exact enough, bounded, and it names nobody.
"""

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.history import STATE
from memproxy.core.scope import OwnerKey, Scope
from memproxy.ports import BlockLine, JournalEntry, KnownSession, SessionBlocks, SessionProgress
from memproxy.stores.state_journal import StateJournal
from memproxy.stores.state_part import OWNED, PRUNE_EVERY, Columns, Db, owned, within

SESSIONS_PER_KEY = 5  # conversations that may begin alike and still be told apart; the oldest are forgotten
KEYS_KEPT = timedelta(days=90)  # a conversation that was silent for longer is not recognised by its prefix any more

BLOCKS_KEPT = timedelta(days=7)
"""No provider's prompt cache lives longer; a conversation taken up again later recalls anew."""

BLOCKS_PER_SESSION = 200
"""The oldest beyond it are forgotten (a session whose history is edited over and over makes new ones each time)."""

PRUNED_AT_ONCE = 2_000  # lines of one pruning, so that no single transaction is long

LINE = "block.line"

_SESSION = f"{OWNED} AND session = :session"
_NOT_LEARNING = """NOT EXISTS (
            SELECT 1 FROM journal WHERE journal.tenant = progress.tenant AND journal.user_id = progress.user_id
            AND journal.lane = 'learn' AND journal.state != 'parked'
            AND coalesce(journal.session, '') = progress.session)
"""


class StateSessions(StateJournal):
    """`ports.SessionStore` and `ports.BlockStore`; learning is begun in the journal."""

    _remembered = 0
    _saved_blocks = 0

    async def note_turns(self, scope: Scope, *, count: int, at: datetime) -> None:
        async def work(db: Db) -> None:
            await db.run(
                f"""
                INSERT INTO progress ({db.scope_columns}, unlearned, last_turn_at)
                VALUES ({db.scope_values}, :count, :at)
                ON CONFLICT (tenant, user_id, session) DO UPDATE SET
                    {db.scope_update}, unlearned = progress.unlearned + excluded.unlearned, ended_at = NULL,
                    last_turn_at = CASE WHEN progress.last_turn_at > excluded.last_turn_at
                        THEN progress.last_turn_at ELSE excluded.last_turn_at END
                """,
                **{**db.scope_params(scope), "session": scope.session or ""},
                count=count,
                at=self._database.shared(at),
            )

        await self._database.once(work)

    async def note_end(self, scope: Scope, *, at: datetime) -> None:
        await self._database.run(f"UPDATE progress SET ended_at = :at WHERE {_SESSION}", at=at, **_session(scope))

    async def ended(self, scope: Scope, names: Sequence[str]) -> set[str]:
        over = f"SELECT session FROM progress WHERE {OWNED} AND ended_at IS NOT NULL AND session = ANY(:names)"
        rows = await self._database.read(lambda db: db.all(over, names=list(names), **owned(scope.owner)))
        return {session for (session,) in rows}

    async def due_sessions(self, *, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
        async def work(db: Db) -> list[SessionProgress]:
            return await self._progress(
                db,
                f"""
                unlearned > 0 AND (unlearned >= :every OR last_turn_at <= :idle) AND {_NOT_LEARNING}
                AND coalesce(
                    (SELECT learning FROM choices WHERE choices.tenant = progress.tenant
                     AND choices.user_id = progress.user_id AND choices.agent = {db.scoped("progress.agent")}),
                    (SELECT learning FROM choices WHERE choices.tenant = progress.tenant
                     AND choices.user_id = progress.user_id AND choices.agent = ''), true)
                ORDER BY last_turn_at LIMIT :limit
                """,
                every=every,
                idle=self._database.shared(idle_before),
                limit=limit,
            )

        return await self._database.read(work)

    async def silent_sessions(self, *, silent_before: datetime, limit: int) -> list[SessionProgress]:
        where = f"ended_at IS NULL AND last_turn_at <= :before AND {_NOT_LEARNING} ORDER BY last_turn_at LIMIT :limit"
        shared_time = self._database.shared(silent_before)
        return await self._database.read(lambda db: self._progress(db, where, before=shared_time, limit=limit))

    async def progress(self, scope: Scope) -> SessionProgress | None:
        sessions = await self._database.glance(lambda db: self._progress(db, _SESSION, **_session(scope)))
        return sessions[0] if sessions else None

    async def _progress(self, db: Db, where: str, **values: Any) -> list[SessionProgress]:
        rows = await db.all(f"SELECT {db.scope_read}, unlearned, last_turn_at FROM progress WHERE {where}", **values)
        return [
            SessionProgress(
                scope=db.scope(*scope_row),
                unlearned=unlearned,
                last_turn_at=self._database.local(db.moment(last_turn_at)),
            )
            for *scope_row, unlearned, last_turn_at in rows
        ]

    async def begin_learning(self, entry: JournalEntry, *, unlearned: int) -> int | None:
        session = _session(entry.scope)

        async def work(db: Db) -> int | None:
            learns = await db.first(
                f"SELECT 1 FROM journal WHERE {OWNED} AND lane = 'learn' AND state != 'parked' "
                "AND coalesce(session, '') = :session",
                **session,
            )
            if learns is not None:
                return None
            await db.run(
                "UPDATE progress SET unlearned = CASE WHEN unlearned > :count THEN unlearned - :count ELSE 0 END "
                f"WHERE {_SESSION}",
                count=unlearned,
                **session,
            )
            return await self._insert(db, entry)

        number = await self._database.write(work, entry.scope.owner)
        if number is not None:
            self._rows_came()
        return number

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        async def work(db: Db) -> dict[str, list[KnownSession]]:
            sessions: dict[str, list[KnownSession]] = {}
            columns = await self._sealing.of(db, scope.owner)
            if columns is None:
                return sessions
            keys_by_name = {columns.name(key): key for key in keys}
            rows = await db.all(
                "SELECT key, session, said_at, answer FROM session_keys "
                f"WHERE {OWNED} AND key = ANY(:keys) ORDER BY said_at DESC",
                keys=list(keys_by_name),
                **owned(scope.owner),
            )
            for name, session, said_at, answer in rows:
                digest = None if answer is None else columns.plain_name(answer)
                entry = KnownSession(session=session, said_at=self._database.local(db.moment(said_at)), answer=digest)
                sessions.setdefault(keys_by_name[name], []).append(entry)
            return sessions

        return await self._database.glance(work)

    async def remember_session(
        self, scope: Scope, keys: Sequence[str], session: KnownSession, *, asked_at: datetime | None = None
    ) -> None:
        self._remembered += 1
        session = msgspec.structs.replace(session, said_at=self._database.shared(session.said_at))

        async def work(db: Db) -> None:
            session_scope = msgspec.structs.replace(scope, session=session.session)
            if not await self._erased.is_too_late(db, session_scope, asked_at):
                await _remember(db, await self._sealing.for_writing(db, scope.owner), scope.owner, keys, session)

        await self._database.write(work, scope.owner)
        if self._remembered % PRUNE_EVERY == 1:
            key, kept_since = "tenant, user_id, key, session", session.said_at - KEYS_KEPT
            await self._database.write(
                lambda db: db.drop_some("session_keys", key, "said_at < :before", PRUNED_AT_ONCE, before=kept_since)
            )

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        async def work(db: Db) -> SessionBlocks:
            """Without expired lines, and without blocks that no memory's line is left of or that cannot be read."""
            columns = await self._sealing.of(db, scope.owner)
            erasures = await _erasures(db, scope.owner)  # first: what is erased after it is not counted
            blocks: dict[str, list[BlockLine]] = {}
            if columns is None:
                return SessionBlocks(erasures=erasures)
            messages_by_name = {columns.name(message): message for message in messages}
            unreadable = set()
            rows = await db.all(
                f"SELECT message, memory, line, expires FROM block_lines WHERE {_SESSION} "
                "AND message = ANY(:messages) AND (expires IS NULL OR expires > :now) ORDER BY message, place",
                messages=list(messages_by_name),
                now=self._database.time(),
                **_session(scope),
            )
            for name, memory, line, expires in rows:
                text = columns.open_text(line, LINE)
                if line and not text:
                    unreadable.add(messages_by_name[name])
                until = None if expires is None else db.moment(expires)
                block = blocks.setdefault(messages_by_name[name], [])
                block.append(BlockLine(text=text, memory_id=memory, expires_at=until))
            whole = {
                message: lines
                for message, lines in blocks.items()
                if message not in unreadable and any(line.memory_id for line in lines)
            }
            return SessionBlocks(blocks=whole, erasures=erasures)

        return await self._database.glance(work)

    async def save_block(
        self, scope: Scope, message: str, lines: Sequence[BlockLine], *, erasures: int, at: datetime
    ) -> bool:
        self._saved_blocks += 1
        prunes = self._saved_blocks % PRUNE_EVERY == 1

        async def work(db: Db) -> bool:
            if prunes:
                await prune_blocks(db, at)
            columns = await self._sealing.of(db, scope.owner)
            if columns is None or (lines and await _erasures(db, scope.owner) != erasures):
                return False  # something, or everything, that the block may show was erased
            session, name, kept_at = _session(scope), columns.name(message), db.stored_time(at)
            await db.run(f"DELETE FROM block_lines WHERE {_SESSION} AND message = :message", message=name, **session)
            await db.insert(
                "block_lines",
                "tenant, user_id, session, message, place, memory, line, at, expires",
                [
                    (
                        *session.values(),
                        name,
                        index,
                        line.memory_id,
                        columns.seal_text(line.text, LINE),
                        kept_at,
                        None if line.expires_at is None else db.stored_time(line.expires_at),
                    )
                    for index, line in enumerate(lines)
                ],
            )
            await db.run(
                f"""
                DELETE FROM block_lines WHERE {_SESSION} AND message NOT IN (
                    SELECT message FROM block_lines WHERE {_SESSION}
                    GROUP BY message ORDER BY max(at) DESC LIMIT :most)
                """,
                most=BLOCKS_PER_SESSION,
                **session,
            )
            return True

        return await self._database.write(work, scope.owner)

    async def drop_from_blocks(self, scope: Scope, memory_ids: Sequence[str] | None) -> int:
        async def work(db: Db) -> int:
            await _note_erasure(db, scope.owner)
            if memory_ids is None:
                return await db.run(f"DELETE FROM block_lines WHERE {OWNED}", **owned(scope.owner))
            columns = await self._sealing.of(db, scope.owner)
            memories, owner = list(memory_ids), owned(scope.owner)
            states = await db.run(  # a state goes as a whole with the first turn that it rests on
                f"DELETE FROM block_lines WHERE {OWNED} AND message = :state AND session IN ("
                f"SELECT session FROM block_lines WHERE {OWNED} AND message = :state AND memory = ANY(:memories))",
                memories=memories,
                state=STATE if columns is None else columns.name(STATE),
                **owner,
            )
            lines = f"DELETE FROM block_lines WHERE {OWNED} AND memory = ANY(:memories)"
            return states + await db.run(lines, memories=memories, **owner)

        return await self._database.write(work, scope.owner)


def _session(scope: Scope) -> dict[str, str]:
    return {**owned(scope.owner), "session": scope.session or ""}


async def _remember(db: Db, columns: Columns, owner: OwnerKey, keys: Sequence[str], session: KnownSession) -> None:
    """Note the session under each key, and forget the oldest beyond what is kept of a key. A repeated request keeps the
    time its message first came; an answer is replaced by a newer one.
    """
    names = list({columns.name(key): None for key in keys})
    said_at, answer = db.stored_time(session.said_at), None if session.answer is None else columns.name(session.answer)
    await db.insert(
        "session_keys",
        "tenant, user_id, key, session, said_at, answer",
        [(*owner, name, session.session, said_at, answer) for name in names],
        """
        (tenant, user_id, key, session) DO UPDATE SET answer = coalesce(excluded.answer, session_keys.answer),
            said_at = CASE WHEN excluded.said_at < session_keys.said_at
                THEN excluded.said_at ELSE session_keys.said_at END
        """,
    )
    await db.run(
        f"""
        DELETE FROM session_keys WHERE {OWNED} AND key = ANY(:keys) AND :most <= (
            SELECT count(*) FROM session_keys AS newer WHERE newer.tenant = :tenant AND newer.user_id = :user
            AND newer.key = session_keys.key
            AND (newer.said_at, newer.session) > (session_keys.said_at, session_keys.session))
        """,
        keys=names,
        most=SESSIONS_PER_KEY,
        **owned(owner),
    )


async def prune_blocks(db: Db, now: datetime) -> None:
    """Forget some blocks that are too old; called now and then."""
    key = "tenant, user_id, session, message, place"
    await db.drop_some("block_lines", key, "at < :before", PRUNED_AT_ONCE, before=now - BLOCKS_KEPT)


async def erase(db: Db, scope: Scope, session: str | None) -> None:
    """Delete progress, keys and blocks of an owner, or of one of its sessions."""
    await _note_erasure(db, scope.owner)
    for table in ("progress", "session_keys", "block_lines"):
        await db.run(f"DELETE FROM {table} WHERE {OWNED}{within(session)}", session=session, **owned(scope.owner))


async def _erasures(db: Db, owner: OwnerKey) -> int:
    row = await db.first("SELECT erasures FROM block_erasures WHERE owners = :group", group=_group(owner))
    return 0 if row is None else int(row[0])


async def _note_erasure(db: Db, owner: OwnerKey) -> None:
    await db.run(
        "INSERT INTO block_erasures VALUES (:group, 1) "
        "ON CONFLICT (owners) DO UPDATE SET erasures = block_erasures.erasures + 1",
        group=_group(owner),
    )


def _group(owner: OwnerKey) -> int:
    """The group of owners that this one is counted with."""
    name = "\x1f".join(owner).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=2, person=b"blocks").digest(), "big")
