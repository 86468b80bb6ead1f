"""Temporary folders of tests: in main memory while there is room, on the disk otherwise, and gone with their test."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

MEMORY_FOLDER = Path("/dev/shm")
ROOM = 4 * 1024**3
"""Bytes that stay free for what is being written already: a mapped page without a place kills its process."""

_PREFIX = "memproxy-tests-"
_LOCK = "lock"
_ABANDONED_S = 3600.0


def has_room(folder: Path, room: int = ROOM) -> bool:
    """Whether a folder in main memory can be written and leaves ``room`` bytes of it, and of the machine's memory."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return False
    return min(free, psutil.virtual_memory().available) > room and os.access(folder, os.W_OK)


class Folders:
    """Where a test run's folders are made.

    An embedded store flushes some hundred files, for which tests on a busy disk wait several times as long as they
    work; a process that is killed loses nothing in main memory either. Each folder asks anew whether there is room
    (others use that memory too), and is removed at its end, so a run holds what its running tests hold.

    :param memory: the folder in main memory.
    :param disk: where folders are made else.
    :param room: see :func:`has_room`.
    :param keep: leave folders where they are, to be looked at.
    """

    def __init__(self, memory: Path, disk: Path, *, room: int = ROOM, keep: bool = False) -> None:
        self._memory, self._disk, self._room, self._keep = memory, disk, room, keep
        self._roots: dict[Path, tuple[Path, int]] = {}

    @contextmanager
    def new(self, name: str = "folder") -> Iterator[Path]:
        """An empty folder until the end of the block."""
        parent = self._memory if has_room(self._memory, self._room) else self._disk
        folder = Path(tempfile.mkdtemp(prefix=f"{name[:40]}-", dir=self._root(parent)))
        try:
            yield folder
        finally:
            if not self._keep:
                shutil.rmtree(folder, ignore_errors=True)  # a killed process may still be ending

    def close(self) -> None:
        for root, lock in self._roots.values():
            os.close(lock)
            if not self._keep:
                shutil.rmtree(root, ignore_errors=True)
        self._roots.clear()

    def _root(self, parent: Path) -> Path:
        """This run's folder below ``parent``, locked for as long as the run lives."""
        if parent not in self._roots:
            if not self._keep:
                sweep(parent)
            root = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            lock = os.open(root / _LOCK, os.O_CREAT | os.O_RDWR)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._roots[parent] = (root, lock)
        return self._roots[parent][0]


def sweep(parent: Path) -> None:
    """Remove what runs that were killed have left."""
    for root in parent.glob(f"{_PREFIX}*"):
        if _is_abandoned(root):
            shutil.rmtree(root, ignore_errors=True)


def _is_abandoned(root: Path) -> bool:
    try:
        lock = os.open(root / _LOCK, os.O_RDWR)
    except FileNotFoundError:  # just made, or ended halfway
        return root.exists() and time.time() - root.stat().st_mtime > _ABANDONED_S
    except OSError:  # another account's
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
    return True
