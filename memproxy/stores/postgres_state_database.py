"""The connection to the state's database: transactions of one owner at a time, and its errors in our words.

Whoever changes what is an owner's holds the owner's lock until the commit (`PostgresDatabase.of`), on whatever machine.
So the journal's numbers are given in the order in which they can be seen, and what was read is still so when written.
"""

import asyncio
import hashlib
import os
import re
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Literal
from weakref import WeakValueDictionary

import msgspec
import psycopg
from psycopg import AsyncConnection, errors
from psycopg.types.string import StrDumper, TextLoader
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import RequestError, StateUnavailable
from memproxy.stores.postgres_server import CONNECT, CONNECT_S, POOL, check_url, explained, refusal
from memproxy.stores.state_part import Db as AnyDb
from memproxy.stores.state_part import Result, Row, Work
from memproxy.tasks import cancellations, heed_cancellation

SCHEMA = "memproxy"
"""Schema of the tables; nothing of ours is in another one."""

CHANNEL = "memproxy_state"
"""Where processes tell each other of changes (`LISTEN`)."""

SETTING = "state.url"  # what names its address
CONNECTIONS = 8  # of one process, beside the one that listens
AWAY_S = 0.2  # while it is known to be away, calls wait no longer than this for it
STATEMENT_MS = 15_000  # longest time of one statement
ANSWERED_S = 30.0  # a server that has not done with a call by then hangs, or is cut off: the connection is given up
GLANCED_S = 2.0  # the same of a few rows that a request waits for
LOCK_MS = 5_000  # longest wait for another process's transaction; ours take milliseconds
LEAST_SKEW = timedelta(seconds=1)  # a clock that is wrong by less than this is right


PLACE = "tenant, user_id, project, agent, session"
"""Columns of a scope."""

_VALUE = re.compile(r"(?<!:):([a-z]\w*)")


class Db(AsyncConnection[Row]):
    """`state_part.Db`."""

    scope_columns, scope_read = PLACE, PLACE
    scope_values = ":tenant, :user, :project, :agent, :session"
    scope_update = "project = excluded.project, agent = excluded.agent"
    now, arrival, true, names_users = "clock_timestamp()", "number", "true", True

    async def all(self, statement: str, /, **values: Any) -> list[Row]:
        return await (await self.execute(_translate(statement), _written(values))).fetchall()

    async def first(self, statement: str, /, **values: Any) -> Row | None:
        return await (await self.execute(_translate(statement), _written(values))).fetchone()

    async def run(self, statement: str, /, **values: Any) -> int:
        return (await self.execute(_translate(statement), _written(values))).rowcount

    async def run_each(self, statement: str, values: Sequence[dict[str, Any]]) -> None:
        if values:
            async with self.cursor() as cursor:
                await cursor.executemany(_translate(statement), list(map(_written, values)))

    async def numbered(self, statement: str, /, **values: Any) -> int | None:
        row = await self.first(f"{statement} RETURNING number", **values)
        return None if row is None else int(row[0])

    async def insert(
        self, table: str, columns: str, rows: Sequence[Sequence[Any]], conflict: str = "DO NOTHING"
    ) -> None:
        if rows:
            places = ", ".join(["%s"] * len(rows[0]))
            text = f"INSERT INTO {table} ({columns}) VALUES ({places}) ON CONFLICT {conflict}"
            async with self.cursor() as cursor:
                await cursor.executemany(text, rows)

    async def drop_some(self, table: str, key: str, where: str, most: int, **values: Any) -> int:  # noqa: ARG002
        chosen = f"SELECT ctid FROM {table} WHERE {where} LIMIT :most FOR UPDATE SKIP LOCKED"
        return await self.run(f"DELETE FROM {table} WHERE ctid = ANY(ARRAY({chosen}))", most=most, **values)

    def json(self, value: Any) -> bytes:
        return msgspec.json.encode(value)

    def stored_time(self, time: datetime) -> datetime:
        return time

    def moment(self, stored: datetime) -> datetime:
        return stored

    def scope(self, *stored: Any) -> Scope:
        return scope_of(*stored)

    def scope_params(self, scope: Scope) -> dict[str, Any]:
        return {
            "tenant": scope.tenant,
            "user": scope.user,
            "project": scope.project,
            "agent": scope.agent,
            "session": scope.session,
        }

    def scoped(self, name: str) -> str:
        return name

    def begins(self, column: str, text: str) -> str:
        return f"starts_with({column}, :{text})"

    def holds(self, column: str, text: str) -> str:
        return f"position(:{text} IN {column}) > 0"


def scope_of(tenant: str, user: str, project: str | None, agent: str | None, session: str | None) -> Scope:
    """The scope in the columns `PLACE`."""
    return Scope(tenant=tenant, user=user, project=project, agent=agent, session=session or None)


@lru_cache(maxsize=1024)
def _translate(statement: str) -> str:
    return _VALUE.sub(r"%(\1)s", statement)


def _written(values: dict[str, Any]) -> dict[str, Any]:
    return {
        name: msgspec.json.encode(value) if isinstance(value, msgspec.Struct) else value
        for name, value in values.items()
    }


class PostgresDatabase:
    """The state's database, as one process uses it (`state_part.Database`).

    Args:
        url: a connection string; ``postgresql://user:password@host/name``.
        sync: `full` sees to it that a commit is on the server's disk, should the server be set not to wait for that.
        now: this machine's clock. It may be wrong: times that replicas compare with each other's are the database's
            (`shared`).
    """

    def __init__(
        self, url: str, *, sync: Literal["normal", "full"], now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.now = now
        self._url = url
        self._sync = sync
        self._skew = timedelta()
        self.is_measured = False
        self._is_given_shared = False
        self._erased_key = b""
        self._pool: AsyncConnectionPool[Db] | None = None
        self._is_away = False
        self._turns: WeakValueDictionary[OwnerKey, asyncio.Lock] = WeakValueDictionary()
        self.location = f"PostgreSQL at {_shown_address(url)}"

    async def open(self) -> None:
        """Connect. Raises `StateUnavailable`: the server cannot be reached, refuses, or cannot be used for this."""
        if self._pool is not None:
            return
        async with self.alone() as db:
            if (why := await refusal(db, self.location, SETTING)) is not None:
                raise StateUnavailable(why)
            await self.measure(db)
        pool = AsyncConnectionPool(
            self._url,
            connection_class=Db,
            configure=self._configure,
            max_size=CONNECTIONS,
            name="memproxy state",
            **POOL,
        )
        await pool.open()
        self._pool, self._erased_key = pool, b""

    async def close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[Db]:
        """A connection of one's own, outside of the pool: that one tells only its log why it cannot connect."""
        async with self._in_our_words(), await Db.connect(self._url, **CONNECT) as db:
            await self._configure(db)
            yield db

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Db]:
        """A connection on which each statement is a transaction of its own."""
        async with self._in_our_words(), self._borrow(ANSWERED_S) as db:
            yield db

    @asynccontextmanager
    async def transaction(self, within_s: float = ANSWERED_S) -> AsyncIterator[Db]:
        """A connection within one transaction: committed at the end of the block, or nothing of it happened."""
        async with self._in_our_words(), self._borrow(within_s) as db, db.transaction():
            yield db

    @asynccontextmanager
    async def of(self, *owners: OwnerKey) -> AsyncIterator[Db]:
        """The same, in which nobody else changes what is these owners'. Within this process they come in the order in
        which they asked, and those that wait for a turn hold no connection.
        """
        async with AsyncExitStack() as turns:
            for owner in sorted(set(owners)):
                lock = self._turns.setdefault(owner, asyncio.Lock())
                await turns.enter_async_context(lock)
            async with self.transaction() as db:
                await _lock_owners(db, owners)
                yield db

    async def read(self, work: Work[Result]) -> Result:
        async with self.connected() as db:
            return await work(db)

    once = read

    async def glance(self, work: Work[Result]) -> Result:
        async with self._in_our_words(), self._borrow(GLANCED_S) as db:
            return await work(db)

    async def write(self, work: Work[Result], *owners: OwnerKey) -> Result:
        async with self.of(*owners) as db:
            return await work(db)

    async def run(self, statement: str, /, **values: Any) -> int:
        async with self.connected() as db:
            return await db.run(statement, **values)

    async def erased_key(self, db: AnyDb) -> bytes:
        if not self._erased_key and (row := await db.first("SELECT value FROM secrets WHERE name = 'erased'")):
            self._erased_key = row[0]
        return self._erased_key

    async def has_erased(self, db: AnyDb) -> bool:  # noqa: ARG002 - the protocol's
        """True: to know would take a query of its own."""
        return True

    def clock(self) -> Callable[[], datetime]:
        """The database's, as far as this machine can tell it."""
        self._is_given_shared = True
        return self.time

    def time(self) -> datetime:
        """The time by the clock that callers give times by."""
        return self.now() + self._skew if self._is_given_shared else self.now()

    def shared(self, time: datetime) -> datetime:
        """A time by the caller's clock, as the database's clock has it."""
        return time if self._is_given_shared else time + self._skew

    def of_machine(self, time: datetime) -> datetime:
        """A time by this machine's own clock, as the database's clock has it, whoever the caller is."""
        return time + self._skew

    def local(self, time: datetime) -> datetime:
        """A time by the database's clock, as the caller's has it."""
        return time if self._is_given_shared else time - self._skew

    async def measure(self, db: Db) -> None:
        """See how far this machine's clock is from the database's."""
        sent_at = self.now()
        (database_time,) = await single_row(db, "SELECT clock_timestamp()")
        skew = database_time - (sent_at + (self.now() - sent_at) / 2)
        self._skew = skew if abs(skew) >= LEAST_SKEW else timedelta()
        self.is_measured = True

    @asynccontextmanager
    async def _borrow(self, within_s: float) -> AsyncIterator[Db]:
        pool = self._pool
        if pool is None:
            raise StateUnavailable(f"The state in {self.location} is not open; open it, or wait until it is.")
        cancelled = cancellations()
        try:
            db = await pool.getconn(timeout=AWAY_S if self._is_away else CONNECT_S)
        except PoolTimeout:
            self._is_away = True
            raise
        self._is_away = False
        late = asyncio.get_running_loop().call_later(within_s, _cut, db)
        try:
            heed_cancellation(since=cancelled)
            yield db
        finally:
            late.cancel()
            await pool.putconn(db)

    async def _configure(self, db: Db) -> None:
        """Once for each connection: text as it is kept, and the session's settings."""
        db.adapters.register_dumper(str, _Text)
        db.adapters.register_loader("text", _TextRead)
        db.prepare_threshold = 2
        await db.execute(
            "SELECT set_config('search_path', %s, false), set_config('timezone', 'UTC', false), "
            "set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false), "
            "set_config('idle_in_transaction_session_timeout', '60000', false)",
            [SCHEMA, str(STATEMENT_MS), str(LOCK_MS)],
        )
        if self._sync == "full":
            await db.execute(
                "SELECT set_config('synchronous_commit', 'on', false) "
                "WHERE current_setting('synchronous_commit') = 'off'"
            )

    @asynccontextmanager
    async def _in_our_words(self) -> AsyncIterator[None]:
        try:
            yield
        except (psycopg.DataError, UnicodeEncodeError) as error:
            raise RequestError(f"This cannot be written to the state: {type(error).__name__}.") from error
        except (psycopg.IntegrityError, psycopg.ProgrammingError) as error:
            if isinstance(error, errors.InsufficientPrivilege | errors.UndefinedTable):
                raise failed(self.location, error) from error
            raise  # a mistake of ours; waiting does not mend it
        except (psycopg.Error, PoolTimeout, OSError) as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():  # it was to end, and waited for a server that hangs
                raise asyncio.CancelledError from error
            raise failed(self.location, error) from error


def _cut(db: Db) -> None:
    """End a connection at which nothing comes any more: to cancel would be to wait for the same server."""
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(db.fileno())) as line:
        line.shutdown(socket.SHUT_RDWR)


async def single_row(db: Db, statement: str, values: Sequence[Any] | dict[str, Any] = ()) -> Row:
    """The first row that a statement answers, which always answers one."""
    row = await (await db.execute(statement, values)).fetchone()
    assert row is not None, statement  # noqa: S101 - a programming error, not an input
    return row


async def _lock_owners(db: Db, owners: Sequence[OwnerKey]) -> None:
    """From here to the transaction's end nobody else changes what is these owners'. The order prevents deadlocks."""
    keys = sorted({owner_key(owner) for owner in owners})
    if keys:
        await db.execute("SELECT pg_advisory_xact_lock(key) FROM unnest(%s::bigint[]) AS key", [keys])


def owner_key(owner: OwnerKey) -> int:
    """The number of an owner's advisory lock. Two owners that have the same one only wait for each other."""
    return lock_key("owner", *owner)


def lock_key(*names: str) -> int:
    """The number of the advisory lock of what is named so."""
    name = "\x1f".join(names).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=8, person=b"memproxy").digest(), "big", signed=True)


class _Text(StrDumper):
    """Text in which a NUL, which PostgreSQL does not take, is written as a backslash and a zero."""

    def dump(self, obj: str) -> Any:
        if "\0" in obj or "\\" in obj:
            obj = obj.replace("\\", "\\\\").replace("\0", "\\0")
        return super().dump(obj)


class _TextRead(TextLoader):
    def load(self, data: Any) -> Any:
        text = super().load(data)
        if isinstance(text, str) and "\\" in text:
            return "\\".join(part.replace("\\0", "\0") for part in text.split("\\\\"))
        return text


def failed(location: str, error: Exception) -> StateUnavailable:
    """What happened, where, and what to do about it."""
    return StateUnavailable(f"The state in {location} does not work {explained(error, SETTING)}")


def _shown_address(url: str) -> str:
    """Host, port and database of a connection string, without user and password."""
    check_url(url, SETTING)
    parts = psycopg.conninfo.conninfo_to_dict(url)
    host, port, name = parts.get("host") or "the local socket", parts.get("port"), parts.get("dbname")
    return f"{host}{f':{port}' if port else ''}{f'/{name}' if name else ''}"
