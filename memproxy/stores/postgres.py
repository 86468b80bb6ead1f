"""The memory store in PostgreSQL with the extension pgvector (0.5 or newer).

A table of collections says, under the configured name, which collection is in use and what it was built with; changing
that row is the switch of a reindex. What a crash leaves is gone on with by the next one.
"""

import asyncio
import contextlib
import logging
from urllib.parse import urlsplit

import msgspec
import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.stores.edge_files import Marker
from memproxy.stores.postgres_collection import EXACT_UP_TO, Collection, NearestIndex, Row
from memproxy.stores.postgres_server import CONNECT, POOL, check_url, explained, refusal
from memproxy.stores.server_store import ServerStore
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

CONNECTIONS = 8  # open at most; a recall needs one for a few milliseconds
SETTING = "store.url"  # what names its address
STATEMENT_MS = 10_000  # longest time of one statement, after which the server gives it up

_SESSION = (
    "SELECT set_config('statement_timeout', %s, false), set_config('jit', 'off', false), "
    "set_config('idle_in_transaction_session_timeout', '60000', false)"
)
"""Once for each connection. Compiling a statement (``jit``) takes longer than a search of one owner's memories."""

_LOCK = 0x6D656D70726F7879
"""Key of the advisory lock under which tables are made and collections switched ("memproxy" in ASCII)."""

_INDEX_LOCK = 0x6D656D70
"""First half of the key of the lock of who makes a collection's index; who waited for it would hold the index up."""

_EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector"
_VERSION = "SELECT extversion FROM pg_extension WHERE extname = 'vector'"
OLDEST_PGVECTOR = (0, 5)


class PostgresStore(ServerStore[Collection]):
    """`ports.MemoryStore` in a database. ``url`` is a connection string (``postgresql://user:password@host/name``)."""

    server = "PostgreSQL"
    copied_by = "a dump of the database"
    joint = "_"

    def __init__(
        self,
        *,
        url: str | None,
        collection: str,
        dimension: int,
        embedder_name: str | None,
        exact_up_to: int = EXACT_UP_TO,
        index: NearestIndex | None = None,
    ) -> None:
        """``exact_up_to``: vectors of an owner up to which all are compared; beyond, the ``index`` nominates."""
        if url is None:
            raise ConfigError(
                "store.url: missing; `store.backend: postgres` needs postgresql://user:password@host/name."
            )
        self._at = f"PostgreSQL at {urlsplit(url).hostname or 'the local socket'}"
        location = f"collection {collection} in {self._at}"
        super().__init__(collection=collection, location=location, dimension=dimension, embedder_name=embedder_name)
        self._url = url
        self._exact_up_to = exact_up_to
        self._index = index or NearestIndex()
        self._tasks = TaskOwner("store.index")
        self._renewing: asyncio.Task[None] | None = None
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] | None = None

    async def existing(self) -> tuple[Collection, Marker] | None:
        plain = await self._plain()
        async with plain.connected() as connection:
            result = await connection.execute(
                "SELECT current, marker FROM memproxy_collections WHERE name = %s", [self._configured]
            )
            row = await result.fetchone()
        if row is None:
            return None
        return plain.beside(row[0]), msgspec.json.decode(row[1], type=Marker)

    async def open(self, expected_id: str | None) -> str:
        store_id = await super().open(expected_id)
        self._renewing = self._tasks.start(self.renew_index(), "renew")
        return store_id

    async def settle(self) -> None:
        if self._renewing is not None:
            await asyncio.wait([self._renewing])

    async def renew_index(self) -> None:
        """Make the index that is configured, while the store serves. One engine does it; another finds it done."""
        try:
            async with await AsyncConnection.connect(self._url, **CONNECT) as connection:
                result = await connection.execute(
                    "SELECT pg_try_advisory_lock(%s, hashtext(%s))", [_INDEX_LOCK, self._configured]
                )
                if await result.fetchone() == (True,):
                    await self._in_use().renew_index(connection)
        except psycopg.Error as error:
            log.warning("the index of the %s is not made before the next start: %s", self.location, error)

    async def _create(self) -> tuple[Collection, Marker]:
        plain = await self._plain()
        await plain.create(self.dimension)
        fresh = Marker.fresh(dimension=self.dimension, embedder=self._embedder)
        async with plain.connected() as connection:
            await connection.execute(
                "INSERT INTO memproxy_collections VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [self._configured, plain.name, msgspec.json.encode(fresh)],
            )
        existing = await self.existing()
        assert existing is not None, "one of us made it"  # noqa: S101
        return existing

    async def note(self, collection: Collection, marker: Marker) -> None:
        async with collection.connected() as connection:
            await connection.execute(
                "UPDATE memproxy_collections SET current = %s, marker = %s WHERE name = %s",
                [collection.name, msgspec.json.encode(marker), self._configured],
            )

    async def begun(self, target: Collection) -> Marker | None:
        comment = await target.comment()
        with contextlib.suppress(msgspec.DecodeError):  # what cannot be read is no beginning to go on with
            return msgspec.json.decode(comment, type=Marker) if comment is not None else None
        return None

    async def begin(self, target: Collection, marker: Marker, like: Collection) -> None:  # noqa: ARG002 - the base's
        await target.create(marker.dimension)
        await target.set_comment(msgspec.json.encode(marker).decode())

    async def _plain(self) -> Collection:
        """The collection of the configured name, by a pool that is open."""
        if self._pool is None:
            check_url(self._url, SETTING)
            self._pool = AsyncConnectionPool(
                self._url, configure=_configure, max_size=CONNECTIONS, name="memproxy store", **POOL
            )
            try:
                await self._probe()
                await self._pool.open()
                await self._prepare(self._collection_in(self._pool))
            except BaseException:
                await self._disconnect()
                raise
        return self._collection_in(self._pool)

    def _collection_in(self, pool: AsyncConnectionPool[AsyncConnection[Row]]) -> Collection:
        return Collection(pool, self._configured, self.location, exact_up_to=self._exact_up_to, index=self._index)

    async def _probe(self) -> None:
        """Connect once outside the pool, which tells nobody why it cannot. Raises `StoreUnavailable`."""
        try:
            async with await AsyncConnection.connect(self._url, **CONNECT) as connection:
                why = await refusal(connection, self._at, SETTING)
        except psycopg.Error as error:
            raise StoreUnavailable(f"The {self.location} cannot be opened {explained(error, SETTING)}") from error
        if why is not None:
            raise StoreUnavailable(why)

    async def _prepare(self, plain: Collection) -> None:
        """Make the table of collections, and see that the server has pgvector."""
        async with plain.connected() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            result = await connection.execute(_VERSION)
            if (version := await result.fetchone()) is None:
                await self._extend(connection)
                version = await (await connection.execute(_VERSION)).fetchone()
            assert version is not None, "it was made"  # noqa: S101
            if tuple(map(int, version[0].split(".")[:2])) < OLDEST_PGVECTOR:
                raise StoreUnavailable(
                    f"{self._at} has pgvector {version[0]}; 0.5 or newer is needed. Install it on the server, then as "
                    "its administrator: ALTER EXTENSION vector UPDATE;"
                )
            passes = await connection.execute(
                "SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user"
            )
            if await passes.fetchone() == (True,):
                log.warning(
                    "%s: the user of store.url passes row-level security, the second wall between users' memories. "
                    "Name one that is no superuser and has no BYPASSRLS (docs/postgres.md)",
                    self._at,
                )
            await connection.execute(
                "CREATE TABLE IF NOT EXISTS memproxy_collections "
                "(name text PRIMARY KEY, current text NOT NULL, marker bytea NOT NULL)"
            )

    async def _extend(self, connection: AsyncConnection[Row]) -> None:
        try:
            async with connection.transaction():
                await connection.execute(_EXTENSION)
        except psycopg.Error as error:
            raise StoreUnavailable(
                f"The {self.location} has no extension `vector`, and it cannot be made by this user. Install pgvector "
                f"0.5 or newer on the server, then as its administrator: {_EXTENSION};"
            ) from error

    async def _disconnect(self) -> None:
        await self._tasks.cancel()
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()


async def _configure(connection: AsyncConnection[Row]) -> None:
    await connection.execute(_SESSION, [str(STATEMENT_MS)])
