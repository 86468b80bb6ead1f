"""The form of a backup: a folder with ``store/``, ``state.db``, the installation's secret, and a manifest of them. Of
memories in Qdrant the manifest names their snapshot there; a state in PostgreSQL is dumped by its operator.
"""

from datetime import datetime

import msgspec

VERSION = 2  # of the form: each file is packed by zstd and named ``NAME.zst``
PACKED = ".zst"
MANIFEST = "manifest.json"
STORE = "store"
STATE = "state.db"
SECRET = "secret"  # noqa: S105 - a file's name


class BackedUp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of the backup: its bytes and SHA-256 unpacked; ``packed`` is its size in the backup's folder."""

    size: int
    sha256: str
    packed: int = 0

    def is_same(self, other: "BackedUp | None") -> bool:
        """Whether both hold the same bytes."""
        return other is not None and (self.size, self.sha256) == (other.size, other.sha256)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that a Qdrant server keeps: its size in bytes, and its SHA-256 in hex where the server tells it."""

    collection: str
    name: str
    size: int
    sha256: str | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder holds; written last, so that a folder without it is no backup. ``files`` are by relative path;
    ``shared`` of them are hard links to those of the backup before. ``snapshot``: of memories on a Qdrant server.
    """

    version: int
    made_at: datetime
    memproxy: str
    files: dict[str, BackedUp]
    shared: int = 0
    snapshot: Snapshot | None = None

    @property
    def size(self) -> int:
        """Bytes of the files in the backup's folder."""
        return sum(file.packed for file in self.files.values())
