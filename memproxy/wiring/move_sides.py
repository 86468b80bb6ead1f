"""The two installations of `memproxy move`, opened as what is stored in them."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from memproxy.core.backup_manifest import STATE, STORE
from memproxy.ports import MOVED, STORE_ID
from memproxy.settings import Settings
from memproxy.settings.home import state_path, store_path
from memproxy.stores.moving import SqliteTables, StateTables, StoredPoints
from memproxy.stores.sqlite_file import SqliteDatabase, SqliteFile
from memproxy.stores.state_owners import SEALED
from memproxy.tasks import TaskOwner
from memproxy.wiring.engine_parts import make_embedder, make_store


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """An installation that is moved from, or to. ``store_id``: that of its store. ``sealed``: it is encrypted.
    ``moved``: what its state says of a move (`ports.MOVED`). ``vectors``: how long they are, and of which embedder
    (None: there are none).
    """

    location: str
    state: StateTables
    points: StoredPoints
    store_id: str
    sealed: bool
    moved: str
    vectors: tuple[int, str | None]


def state_location(settings: Settings, home: Path) -> str:
    """Where the state is, so that two configurations can be compared."""
    return settings.state.url or "" if settings.state.backend == "postgres" else str(state_path(settings.state, home))


def memories_location(settings: Settings, home: Path) -> str:
    """The same of the memories."""
    store = settings.store
    return str(store_path(store, home)) if store.backend == "edge" else f"{store.url} {store.collection}"


def _shown_memories(settings: Settings, home: Path) -> str:
    store = settings.store
    if store.backend == "edge":
        return str(store_path(store, home))
    return f"the collection {store.collection} in {'Qdrant' if store.backend == 'qdrant' else 'PostgreSQL'}"


@contextlib.asynccontextmanager
async def opened_side(settings: Settings, home: Path, *, copied: Path | None = None) -> AsyncIterator[Side]:
    """The installation of these settings, which nobody else may have open where it is in files. ``copied``: a folder
    that a backup was made into, in place of its own files.

    Raises:
        ConfigError: its store was built with another embedder.
        StateUnavailable, StoreUnavailable: one of them does not answer.
    """
    if copied is not None:
        state = settings.state.model_copy(update={"path": copied / STATE})
        store = settings.store.model_copy(update={"path": copied / STORE})
        settings = settings.model_copy(update={"state": state, "store": store})
    settings = settings.model_copy(update={"store": settings.store.model_copy(update={"index_bytes": 0})})
    async with contextlib.AsyncExitStack() as held:
        location, tables = await _state(settings, home, held)
        embedder = make_embedder(settings, home, local_files_only=True)
        memories = make_store(settings, home, embedder)
        store_id = await memories.open(await tables.meta(STORE_ID))
        held.push_async_callback(memories.close)
        yield Side(
            location=f"{location} and {_shown_memories(settings, home)}",
            state=tables,
            points=StoredPoints(memories.engine),
            store_id=store_id,
            sealed=await tables.meta(SEALED) is not None,
            moved=await tables.meta(MOVED) or "",
            vectors=(memories.dimension, None if settings.embedding.provider == "none" else embedder.name),
        )
        await memories.flush()


async def _state(settings: Settings, home: Path, held: contextlib.AsyncExitStack) -> tuple[str, StateTables]:
    if settings.state.backend == "sqlite":
        path = state_path(settings.state, home)
        file = SqliteFile(path, sync="full")
        await file.open()
        held.push_async_callback(file.close)
        return str(path), SqliteTables(SqliteDatabase(file, TaskOwner("state")))
    from memproxy.stores.postgres_moving import PostgresTables  # noqa: PLC0415 - an extra
    from memproxy.stores.postgres_state_database import PostgresDatabase  # noqa: PLC0415 - the same

    database = PostgresDatabase(settings.state.url or "", sync="full")
    await database.open()
    held.push_async_callback(database.close)
    return database.location, await PostgresTables.of(database)
