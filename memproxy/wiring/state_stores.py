"""The state store of each process."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from memproxy.core.backup_manifest import STATE, STORE
from memproxy.ports import StateStore
from memproxy.settings import Settings
from memproxy.settings.home import state_path
from memproxy.stores import edge_files
from memproxy.stores.apart_state import ApartState, WritesApart, Writing
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES
from memproxy.stores.sqlite_schema import VERSION
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_owners import StateOwners

if TYPE_CHECKING:
    from memproxy.stores.postgres_state import PostgresState
    from memproxy.stores.sealing import MasterKeys
    from memproxy.stores.state_sealed import SealedOwners

RELAY_CHECKPOINT_PAGES = 16 * CHECKPOINT_PAGES
"""The engine brings the write-ahead log into the file at a sixteenth of this, so that no answer waits for the disk in a
relay's commit; the log stays below 70 MB when there is no engine.
"""

_SQLITE_USER_VERSION = slice(60, 64)
"""Where a database file's header has ``PRAGMA user_version``."""


def make_state(
    settings: Settings, home: Path, *, checkpoint_pages: int = CHECKPOINT_PAGES, spares: bool = False
) -> "SqliteState | PostgresState":
    """The state store of these settings; the rest is `SqliteState`'s.

    Raises:
        ConfigError: it is to be encrypted, and there is no master key; or its address is none.
    """
    if settings.state.backend == "postgres":
        return _postgres_state(settings, home, spares=spares)
    return _sqlite_state(settings, home, checkpoint_pages=checkpoint_pages, spares=spares)


def make_writing(settings: Settings, home: Path) -> Writing:
    """What writes an embedded state for the engine, in a process of its own. Raises as `make_state`."""
    return Writing(_sqlite_state(settings, home))


def _postgres_state(settings: Settings, home: Path, *, spares: bool) -> "PostgresState":
    """Beside the file that an embedded state would be, turns wait that the server does not take."""
    from memproxy.stores.postgres_state import PostgresState  # noqa: PLC0415 - an extra, and time that SQLite saves

    spill, state = state_path(settings.state, home), settings.state
    if settings.privacy.encrypt:
        from memproxy.stores.postgres_state_sealed import PostgresSealedState  # noqa: PLC0415 - cryptography, as below

        return PostgresSealedState(state.url or "", spill, sync=state.sync, spares=spares, masters=_masters())
    return PostgresState(state.url or "", spill, sync=state.sync, spares=spares)


def _sqlite_state(
    settings: Settings, home: Path, *, checkpoint_pages: int = CHECKPOINT_PAGES, spares: bool = False
) -> SqliteState:
    path, sync = state_path(settings.state, home), settings.state.sync
    if settings.privacy.encrypt:
        from memproxy.stores.state_sealed import SealedState  # noqa: PLC0415 - cryptography, which others do not need

        return SealedState(path, sync=sync, masters=_masters(), checkpoint_pages=checkpoint_pages, spares=spares)
    return SqliteState(path, sync=sync, checkpoint_pages=checkpoint_pages, spares=spares)


def make_apart_state(settings: Settings, home: Path, socket: Path) -> StateStore:
    """The state for a process that computes: the one that listens on this socket writes for it. A server needs none.
    Raises as `make_state`.
    """
    if settings.state.backend == "postgres":
        return _postgres_state(settings, home, spares=False)
    path, sync = state_path(settings.state, home), settings.state.sync
    state: WritesApart = ApartState(path, sync=sync, reads_only=True)
    if settings.privacy.encrypt:
        from memproxy.stores.state_sealed import ApartSealedState  # noqa: PLC0415 - cryptography, as below

        state = ApartSealedState(path, sync=sync, masters=_masters(), reads_only=True)
    state.writes_by(socket)
    return state


def _masters(environ: Mapping[str, str] = os.environ) -> "MasterKeys":
    from memproxy.stores.sealing import MASTER_KEY, MasterKeys  # noqa: PLC0415 - cryptography, as above

    return MasterKeys.read(environ.get(MASTER_KEY))


def keys_of(state: object) -> "SealedOwners | None":
    """Where users' keys are, when the state has them."""
    if not isinstance(state, StateOwners) or not state.seals:
        return None
    from memproxy.stores.state_sealed import SealedOwners  # noqa: PLC0415 - cryptography, as above

    return state if isinstance(state, SealedOwners) else None


def check_master_key(settings: Settings, environ: Mapping[str, str]) -> None:
    """See that there is a master key where one is needed; else raise `ConfigError`, which says how to make one."""
    if settings.privacy.encrypt:
        _masters(environ)


def newer_form(heads: Mapping[str, bytes]) -> str | None:
    """Which part of a backup has a form that this version does not know, in words; None where it knows all of them.
    ``heads`` are the beginnings of the backup's files, by their names in it.
    """
    state = int.from_bytes(heads.get(STATE, b"")[_SQLITE_USER_VERSION], "big")
    if state > VERSION:
        return f"its state has version {state}, {VERSION} is the newest known"
    try:
        store = msgspec.json.decode(heads.get(f"{STORE}/{edge_files.MARKER}", b"{}"), type=_StoreForm).version
    except msgspec.DecodeError:
        return "its store's marker cannot be read"
    if store > edge_files.VERSION:
        return f"its store has version {store}, {edge_files.VERSION} is the newest known"
    return None


class _StoreForm(msgspec.Struct):
    version: int = 0
