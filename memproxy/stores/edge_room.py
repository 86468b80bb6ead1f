"""How much room on the disk an embedded store needs, and whether it is there.

The engine writes through mapped memory: a page for which the disk has no place ends the whole process (SIGBUS) instead
of failing, so the engine must not get that far. Its files are sparse: a new store takes 0.3 MB of a disk. Where the
disk is memory itself (tmpfs), reading a hole takes its place, too, and an opening reads most of them.
"""

import os
import shutil
from pathlib import Path

from memproxy.errors import StoreUnavailable

LEAST_ROOM = 64 * 1024 * 1024
"""Bytes that stay free on the disk: more than one call of the engine writes, and an import's piece in the journal."""

MARKS = 8
"""Changed fields are written with this part of it free: no vector comes with them, one call's payloads are under a
mebibyte, and a deletion has turns to hide and facts to end, which must not wait until somebody frees space."""

SPARE = 8 * 1024 * 1024
"""What is left beside an opening: for the lock, the marker and the index of a field that is new."""

IN_MEMORY_NEW = 112 * 1024 * 1024
"""What a new store took of a tmpfs until it was open (measured: 106 MiB)."""

_NOT_READ = ("payload_storage", "vector_storage-bm25")
"""Folders of a segment whose holes an opening leaves alone (measured)."""

_MEMORY = "tmpfs"


class Disk:
    """The disk that a folder is on."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def free(self) -> int:
        """Bytes that are free. Raises OSError: the folder is gone."""
        return shutil.disk_usage(self._path).free

    def in_memory(self) -> bool:
        """Whether it is memory (tmpfs); False, too, where the system does not tell."""
        try:
            device = self._path.stat().st_dev
            mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        name = f"{os.major(device)}:{os.minor(device)}"
        lines = [line.split() for line in mounts.splitlines()]
        return any(line[2] == name and line[line.index("-") + 1] == _MEMORY for line in lines if "-" in line)


class Room:
    """Says when the disk of a store has too little room.

    Args:
        path: The store's folder.
        least: With fewer bytes free no points are written.
        disk: What is asked.
    """

    def __init__(self, path: Path, *, least: int, disk: Disk | None = None) -> None:
        self._path = path
        self._least = least
        self._disk = disk or Disk(path)

    def check_points(self) -> None:
        """There is room for memories. Raises `errors.StoreUnavailable`."""
        self._check(self._least, f"memories are written again when there are {_mib(self._least)}")

    def check_fields(self) -> None:
        """There is room for changes of memories that are there. Raises `errors.StoreUnavailable`."""
        least = self._least // MARKS
        self._check(least, f"memories are changed again when there are {_mib(least)}")

    def check_creation(self) -> None:
        """There is room for a new, empty store. Raises `errors.StoreUnavailable`."""
        self._check_opening(IN_MEMORY_NEW if self._disk.in_memory() else 0, "a new store")

    def check_opening(self, shard: Path) -> None:
        """There is room to open the store in this folder: where the disk is no memory it takes none. Raises
        `errors.StoreUnavailable`.
        """
        if self._disk.in_memory() and (taken := _read_holes(shard)):
            self._check_opening(taken, "this store")

    def _check_opening(self, taken: int, what: str) -> None:
        least = taken + SPARE
        self._check(least, f"opening {what} takes {_mib(least)} here")

    def _check(self, least: int, then: str) -> None:
        try:
            free = self._disk.free()
        except OSError:
            return  # that the folder is gone is for `StoreFolder.check` to say
        if free < least:
            raise StoreUnavailable(
                f"The disk of the store in {self._path} has {free >> 20} MiB left. Free some space: {then}."
            )


def _mib(number: int) -> str:
    return f"{-(-number >> 20)} MiB"


def _read_holes(shard: Path) -> int:
    """Bytes of a shard's files that have no place on the disk yet and are read when it is opened."""
    taken = 0
    for folder, below, files in os.walk(shard):
        below[:] = [name for name in below if name not in _NOT_READ]
        for name in files:
            told = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - of every file of the store
            taken += max(0, told.st_size - told.st_blocks * 512)
    return taken
