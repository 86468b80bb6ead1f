"""The form of a backup: a folder with ``store/``, ``state.db``, the installation's secret, and a manifest of them."""

from datetime import datetime

import msgspec

VERSION = 2
"""Of the form. In 2 each file is packed by zstd and named ``NAME.zst``; in 1 it is as it was, holes written in full."""

PACKED = ".zst"
MANIFEST = "manifest.json"
STORE = "store"
STATE = "state.db"
SECRET = "secret"  # noqa: S105 - a file's name


class BackedUp(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A file of the backup, unpacked: its size in bytes and its SHA-256 in hex. ``packed`` is its size in the backup's
    folder; 0 in a backup of version 1.
    """

    size: int
    sha256: str
    packed: int = 0

    def is_same(self, other: "BackedUp | None") -> bool:
        """Whether both hold the same bytes."""
        return other is not None and (self.size, self.sha256) == (other.size, other.sha256)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What the folder holds; written last, so that a folder without it is no backup. ``files`` are by relative path.

    ``shared`` of the files are those of the backup before, under a second name (hard links).
    """

    version: int
    made_at: datetime
    memproxy: str
    files: dict[str, BackedUp]
    shared: int = 0

    @property
    def size(self) -> int:
        """Bytes of the files in the backup's folder."""
        return sum(one.packed or one.size for one in self.files.values())

    def stored_as(self, name: str) -> str:
        """The path, in the backup's folder, of the file that is called so."""
        return name if self.version == 1 else name + PACKED
