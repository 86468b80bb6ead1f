"""What stands behind the state port."""

from pathlib import Path

from memproxy.home import state_path
from memproxy.ports import StateStore
from memproxy.settings import Settings
from memproxy.stores.sqlite_state import SqliteState


def make_state(settings: Settings, home: Path) -> StateStore:
    """The state store of these settings."""
    return SqliteState(state_path(settings.state, home), sync=settings.state.sync)
