"""What stands behind the state port."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from memproxy.errors import ConfigError
from memproxy.home import state_path
from memproxy.ports import StateStore
from memproxy.settings import Settings
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.thread import Apart

if TYPE_CHECKING:
    from memproxy.stores.sealed_state import SealedState

RELAY_CHECKPOINT_PAGES = 16 * CHECKPOINT_PAGES
"""The engine brings the write-ahead log into the file at a sixteenth of this, so that no answer waits for the disk in a
relay's commit; the log stays below 70 MB when there is no engine.
"""


def make_state(
    settings: Settings,
    home: Path,
    *,
    checkpoint_pages: int = CHECKPOINT_PAGES,
    apart: Apart | None = None,
    spares: bool = False,
) -> StateStore:
    """The state store of these settings; the rest is `SqliteState`'s.

    Raises:
        ConfigError: it is to be encrypted, and there is no master key.
    """
    path = state_path(settings.state, home)
    if settings.privacy.encrypt:
        return sealed_state(settings, path, checkpoint_pages=checkpoint_pages, apart=apart)
    sync = settings.state.sync
    return SqliteState(path, sync=sync, checkpoint_pages=checkpoint_pages, apart=apart, spares=spares)


def sealed_state(
    settings: Settings,
    path: Path,
    *,
    checkpoint_pages: int = CHECKPOINT_PAGES,
    apart: Apart | None = None,
) -> "SealedState":
    """The encrypted state store of these settings. Raises as `make_state`."""
    from memproxy.stores.sealed_state import SealedState  # noqa: PLC0415 - cryptography, which others do not need
    from memproxy.stores.sealing import MASTER_KEY, MasterKeys  # noqa: PLC0415 - the same

    masters = MasterKeys.read(os.environ.get(MASTER_KEY))
    return SealedState(path, sync=settings.state.sync, masters=masters, checkpoint_pages=checkpoint_pages, apart=apart)


def keys_of(state: StateStore) -> "SealedState | None":
    """Where users' keys are, when the state has them."""
    if not isinstance(state, SqliteState) or not state.seals:
        return None
    from memproxy.stores.sealed_state import SealedState  # noqa: PLC0415 - cryptography, as above

    return state if isinstance(state, SealedState) else None


def check_master_key(settings: Settings, environ: Mapping[str, str]) -> None:
    """See that there is a master key where one is needed.

    Raises:
        ConfigError: there is none, or it is none; the message says how to make one. Also without an embedded state,
            the only one that can be encrypted.
    """
    if not settings.privacy.encrypt:
        return
    from memproxy.stores.sealing import MASTER_KEY, MasterKeys  # noqa: PLC0415 - cryptography, as above

    MasterKeys.read(environ.get(MASTER_KEY))
    if settings.state.backend != "sqlite":
        raise ConfigError("privacy.encrypt: works with state.backend: sqlite alone.")
