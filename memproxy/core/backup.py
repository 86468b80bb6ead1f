"""The form of a backup: a folder with ``store/``, ``state.db``, the installation's secret, and a manifest of them."""

from datetime import datetime

import msgspec

VERSION = 1
MANIFEST = "manifest.json"
STORE = "store"
STATE = "state.db"
SECRET = "secret"  # noqa: S105 - a file's name


class BackedUp(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the backup: its size in bytes and its SHA-256 in hex."""

    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder holds; written last, so that a folder without it is no backup. ``files`` are by relative path."""

    version: int = VERSION
    made_at: datetime
    memproxy: str
    files: dict[str, BackedUp]
