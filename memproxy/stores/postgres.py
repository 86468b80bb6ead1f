"""The memory store in PostgreSQL with the extension pgvector (0.5 or newer).

A table of collections says, under the configured name, which collection is in use and what it was built with; changing
that row is the switch of a reindex. What a crash leaves is gone on with by the next one.
"""

from urllib.parse import urlsplit

import msgspec
import psycopg
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Point
from memproxy.stores.backend import Written
from memproxy.stores.edge_files import VERSION, Marker, check_built_with
from memproxy.stores.postgres_collection import EXACT_UP_TO, Collection, Row
from memproxy.stores.rebuild import EVERYBODY, CollectionRebuild
from memproxy.stores.vector_store import VectorStore
from memproxy.stores.writers import Writers

CONNECTIONS = 8
"""Open at most; a recall needs one for a few milliseconds."""

CONNECT_S = 3.0
"""A server that is down is known after this."""

STATEMENT_MS = 10_000
"""Longest time of one statement, after which the server gives it up."""

_SESSION = "-c idle_in_transaction_session_timeout=60000 -c jit=off"
"""Options of each connection. Compiling a statement (``jit``) takes longer than a search of one owner's memories."""

_LOCK = 0x6D656D70726F7879
"""Key of the advisory lock under which tables are made and collections switched ("memproxy" in ASCII)."""

_EXTENSION = "CREATE EXTENSION IF NOT EXISTS vector"


class PostgresStore(VectorStore):
    """`ports.MemoryStore` in a database. ``url`` is a connection string (``postgresql://user:password@host/name``)."""

    def __init__(
        self,
        *,
        url: str | None,
        collection: str,
        dimension: int,
        embedder_name: str | None,
        exact_up_to: int = EXACT_UP_TO,
    ) -> None:
        """``exact_up_to``: vectors of an owner up to which all are compared; beyond, an index nominates."""
        super().__init__(dimension=dimension, embedder_name=embedder_name)
        if url is None:
            raise ConfigError(
                "store.url: missing; `store.backend: postgres` needs postgresql://user:password@host/name."
            )
        self._url = url
        self._exact_up_to = exact_up_to
        self._collection = collection
        self.place = f"collection {collection} in PostgreSQL at {urlsplit(url).hostname or 'the local socket'}"
        self._pool: AsyncConnectionPool[AsyncConnection[Row]] | None = None
        self._opened: Collection | None = None

    async def open(self, expected_id: str | None) -> str:
        try:
            _, marker = await self._open(expected_id, as_built=False)
        except BaseException:
            await self._leave_pool()
            raise
        metrics().store_points.set(await self.points())
        return marker.store_id

    async def _open(self, expected_id: str | None, *, as_built: bool) -> tuple[Collection, Marker]:
        pool = await self._made_pool()
        await self._prepare(pool)
        plain = Collection(pool, self._collection, self.place, exact_up_to=self._exact_up_to)
        known = await self.known(plain)
        if known is None and expected_id is not None:
            raise self._not_here(expected_id, None)
        name, marker = known or await self._first(plain)
        if expected_id is not None and marker.store_id != expected_id:
            raise self._not_here(expected_id, marker.store_id)
        marker = await self._checked(plain.beside(name), marker, as_built=as_built)
        collection = plain.beside(name)
        self.unfinished = await self.other(collection).exists()
        self.adopt(collection)
        return collection, marker

    async def _made_pool(self) -> AsyncConnectionPool[AsyncConnection[Row]]:
        if self._pool is None:
            try:
                psycopg.conninfo.conninfo_to_dict(self._url)
            except psycopg.ProgrammingError as error:
                raise ConfigError(f"store.url: not a PostgreSQL connection string ({error}).") from error
            self._pool = AsyncConnectionPool(
                self._url,
                kwargs={
                    "application_name": "memproxy",
                    "connect_timeout": int(CONNECT_S),
                    "options": f"-c statement_timeout={STATEMENT_MS} {_SESSION}",
                },
                min_size=1,
                max_size=CONNECTIONS,
                timeout=CONNECT_S,
                open=False,
                name="memproxy store",
            )
            await self._pool.open()
            await self._probe()
        return self._pool

    async def _probe(self) -> None:
        """Connect once outside the pool, which tells only its log why it cannot.

        Raises:
            StoreUnavailable: the server cannot be reached or refuses.
        """
        try:
            connection = await AsyncConnection.connect(self._url, connect_timeout=int(CONNECT_S))
        except psycopg.Error as error:
            reason = str(error).splitlines()[0]
            raise StoreUnavailable(
                f"The {self.place} cannot be opened ({reason[:200]}). Check that PostgreSQL runs, and store.url."
            ) from error
        await connection.close()

    async def _prepare(self, pool: AsyncConnectionPool[AsyncConnection[Row]]) -> None:
        """Make the table of collections, and see that the server has pgvector."""
        plain = Collection(pool, self._collection, self.place)
        async with plain.connected() as connection:
            await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
            found = await connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'")
            if await found.fetchone() is None:
                await self._extend(connection)
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
                f"The {self.place} has no extension `vector`, and it cannot be made by this user. Install pgvector 0.5 "
                f"or newer on the server, then as its administrator: {_EXTENSION};"
            ) from error

    async def known(self, plain: Collection) -> tuple[str, Marker] | None:
        """The collection in use and what it was built with; None: there is none."""
        async with plain.connected() as connection:
            found = await connection.execute(
                "SELECT current, marker FROM memproxy_collections WHERE name = %s", [self._collection]
            )
            row = await found.fetchone()
        return None if row is None else (row[0], msgspec.json.decode(row[1], type=Marker))

    async def _first(self, plain: Collection) -> tuple[str, Marker]:
        """Make the collection, unless somebody else was faster."""
        await plain.create(self._dimension)
        fresh = Marker.fresh(dimension=self._dimension, embedder=self._embedder)
        async with plain.connected() as connection:
            await connection.execute(
                "INSERT INTO memproxy_collections VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                [self._collection, plain.name, msgspec.json.encode(fresh)],
            )
        known = await self.known(plain)
        assert known is not None, "one of us made it"  # noqa: S101
        return known

    async def _checked(self, collection: Collection, marker: Marker, *, as_built: bool) -> Marker:
        if marker.version > VERSION:
            raise ConfigError(
                f"The {self.place} has version {marker.version}; this memproxy knows up to {VERSION}. "
                "Start the version that wrote it, or a newer one."
            )
        if as_built:
            return marker
        built, wanted = (marker.dimension, marker.embedder), (self._dimension, self._embedder)
        check_built_with(self.place, built=built, wanted=wanted)
        if marker.embedder is None and self._embedder is not None:
            marker = msgspec.structs.replace(marker, embedder=self._embedder)
            await self.note(collection, marker)
        return marker

    async def note(self, collection: Collection, marker: Marker) -> None:
        """From now on this collection is in use, and was built so."""
        async with collection.connected() as connection:
            await connection.execute(
                "UPDATE memproxy_collections SET current = %s, marker = %s WHERE name = %s",
                [collection.name, msgspec.json.encode(marker), self._collection],
            )

    @property
    def collection(self) -> Collection | None:
        """The collection in use; None before `open`."""
        return self._opened

    def other(self, used: Collection) -> Collection:
        """The collection that a reindex writes to."""
        return used.beside(f"{self._collection}_a" if used.name != f"{self._collection}_a" else f"{self._collection}_b")

    def adopt(self, collection: Collection) -> None:
        """Go on with this collection, from one call to the next."""
        self._opened = collection
        self._points = self.points_of(collection)

    async def drop_unfinished(self) -> None:
        if self._opened is not None:
            await self.other(self._opened).drop()
        await super().drop_unfinished()

    def written(self, point: Point) -> Written:
        """The point as it is written to a collection of the configured embedder."""
        return self._written(Scope(tenant=point.memory.tenant, user=point.memory.user_id), point)

    async def begin_rebuild(self, expected_id: str | None) -> "PostgresRebuild":
        """As `ports.RebuildableStore` says."""
        opened_here = self._opened is None
        collection, marker = await self._open(expected_id, as_built=True)
        wanted = msgspec.structs.replace(marker, dimension=self._dimension, embedder=self._embedder)
        rebuild = PostgresRebuild(self, collection, wanted, writers=self._writers, opened_here=opened_here)
        try:
            await rebuild.prepare()
        except BaseException:
            await rebuild.close()
            raise
        return rebuild

    def leave(self) -> None:
        """Be as before `open`."""
        self._points = self._opened = None

    async def close(self) -> None:
        self.leave()
        await self._leave_pool()

    async def _leave_pool(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.close()

    async def flush(self) -> None:
        """Nothing to do: every write was committed."""

    def hurry(self) -> None:
        """As `flush`: nothing to do."""

    async def optimize(self) -> bool:
        """As the port says: PostgreSQL vacuums its own files, in its own time."""
        return False

    async def points(self) -> int:
        if self._opened is None:
            raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
        return await self._opened.count(EVERYBODY)

    def _not_here(self, expected_id: str, found_id: str | None) -> StoreUnavailable:
        here = "does not exist" if found_id is None else f"is another store ({found_id})"
        return StoreUnavailable(
            f"The {self.place} {here}, but the state belongs to the store {expected_id}. Restore a dump of the "
            "database, or, if the memories are meant to be gone, remove the state file too."
        )


class PostgresRebuild(CollectionRebuild):
    """`ports.Rebuild` beside the collection of an open `PostgresStore`."""

    def __init__(
        self, store: PostgresStore, first: Collection, wanted: Marker, *, writers: Writers, opened_here: bool
    ) -> None:
        self._store = store
        self._old = first
        self._target = store.other(first)
        self._wanted = wanted
        self._opened_here = opened_here
        self._switched = False
        super().__init__(store.points_of(self._target), writers=writers, written=store.written)

    async def prepare(self) -> None:
        """Make the new collection, or go on with the one that was begun for this embedder."""
        comment = await self._target.comment()
        described = msgspec.json.encode(self._wanted).decode()
        self._resumed = comment == described
        if not self._resumed:
            await self._target.drop()
            await self._target.create(self._wanted.dimension)
            await self._target.set_comment(described)
        await self.begin(self._store.points_of(self._old))

    async def flush(self) -> None:
        """Nothing to do: every write was committed."""

    async def switch(self) -> None:
        try:
            await self._store.note(self._target, self._wanted)
        except StoreUnavailable:
            await self._make_sure()
        self._store.adopt(self._target)
        self._store.unfinished, self._switched = False, True

    async def _make_sure(self) -> None:
        """The commit may have gone through although its answer did not come; writes must not go to the wrong tables."""
        try:
            known = await self._store.known(self._target)
        except StoreUnavailable:
            self._store.leave()
            raise
        if known is None or known[0] != self._target.name:
            raise StoreUnavailable("PostgreSQL did not switch to the new tables; run `memproxy reindex` again.")

    async def close(self) -> None:
        if self._switched:
            self._writers.stop_noting()
            await self._old.drop()
            return
        try:
            self._store.unfinished = True
            await self.leave_unfinished()
        finally:
            if self._opened_here:
                self._store.leave()
