"""The folder of an embedded store: who holds it, what it was built with, whether its files are still there, and whether
the disk has room for more.

``memproxy-store.json`` (the marker) is written last, so a folder without it holds nothing that was acknowledged. It
names the subfolder that holds the points, so that replacing this one file switches to another one (`memproxy reindex`);
``memproxy-rebuild.json`` names one that is not complete yet.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import msgspec

from memproxy.errors import ConfigError, StoreUnavailable

VERSION = 2  # version of the folder's layout and of the points' form; a newer one is refused

MARKER = "memproxy-store.json"
REBUILD = "memproxy-rebuild.json"
LOCK = "lock"
SHARD = "shard"
OTHER_SHARD = "shard-2"
"""A reindex writes to the subfolder that is not in use."""

_SETTLED_NS = 2_000_000_000
"""A folder that was changed this long ago has another time after its next change: some disks count whole seconds."""


class Marker(msgspec.Struct, kw_only=True):
    """What the folder holds: the store's own id, what it was built with, and the subfolder of its points."""

    version: int
    store_id: str
    dimension: int
    embedder: str | None
    shard: str = SHARD

    def rebuilt(self, *, dimension: int, embedder: str | None) -> "Marker":
        """The marker after a reindex for this embedder."""
        shard = SHARD if self.shard == OTHER_SHARD else OTHER_SHARD
        return Marker(version=VERSION, store_id=self.store_id, dimension=dimension, embedder=embedder, shard=shard)

    @classmethod
    def fresh(cls, *, dimension: int, embedder: str | None) -> "Marker":
        return cls(version=VERSION, store_id=uuid4().hex, dimension=dimension, embedder=embedder)


class StoreFolder:
    """The folder of one embedded store, held by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shard = path / SHARD
        self._lock: int | None = None
        self._inode: int | None = None
        self._path_text = os.fspath(path)
        self._looked_at: tuple[int, int, int] | None = None

    def marker(self) -> Marker | None:
        """What the folder says it holds; None: no store. Raises `StoreUnavailable`; `ConfigError`: it is a newer
        version's.
        """
        try:
            marker = msgspec.json.decode((self.path / MARKER).read_bytes(), type=Marker)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            raise StoreUnavailable(
                f"The marker {self.path / MARKER} cannot be read ({error}). Restore the store's folder from a backup."
            ) from error
        if marker.version > VERSION:
            raise ConfigError(
                f"The store in {self.path} has layout version {marker.version}; this memproxy knows up to {VERSION}. "
                "Start the version that wrote it, or a newer one."
            )
        return marker

    def write_marker(self, marker: Marker) -> None:
        """Write the marker so that after a crash either the old or the new one is there."""
        self._replace(MARKER, marker)

    def _replace(self, name: str, content: Marker) -> None:
        new = self.path / f"{name}.new"
        with new.open("wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(content)) + b"\n")
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path / name)
        self.sync()

    def switch(self, marker: Marker) -> None:
        """Make what ``marker`` names the store. Raises `OSError`: the store is what it was."""
        try:
            self.write_marker(marker)
        except OSError:
            if self.marker() != marker:
                raise
        self.use(marker)
        self.remember()

    def use(self, marker: Marker) -> None:
        """Use the points where this marker says."""
        self.shard = self.path / marker.shard

    def begun(self) -> Marker | None:
        """What a reindex was writing when it ended early: the marker that it would have switched to."""
        try:
            return msgspec.json.decode((self.path / REBUILD).read_bytes(), type=Marker)
        except (OSError, msgspec.DecodeError):
            return None  # none was begun, or none that could be gone on with

    def begin(self, marker: Marker) -> None:
        """Note that a reindex writes what this marker names."""
        self._replace(REBUILD, marker)

    def drop(self, marker: Marker) -> None:
        """Remove what was begun under this marker."""
        (self.path / REBUILD).unlink(missing_ok=True)
        shutil.rmtree(self.path / marker.shard, ignore_errors=True)

    def tidy(self, marker: Marker) -> None:
        """Remove what a reindex left that ended right after its switch, or before it had begun. Raises `OSError`."""
        begun = self.begun()
        if begun is not None and begun.shard == marker.shard:
            (self.path / REBUILD).unlink()
            begun = None
        for name in (SHARD, OTHER_SHARD):
            if name != marker.shard and (begun is None or begun.shard != name) and (self.path / name).exists():
                shutil.rmtree(self.path / name)

    def sync(self) -> None:
        """Make the folder's own entries durable."""
        entry = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)

    def hold(self, *, wait_s: float, pause: Callable[[float], bool]) -> None:
        """Take the folder for this process, once a killed predecessor is gone. ``pause`` waits for seconds and answers
        whether to give up. Raises `StoreUnavailable`: another process holds it after ``wait_s`` seconds.
        """
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        until = time.monotonic() + wait_s
        while not _try_lock(lock):
            gave_up = pause(0.05)
            if gave_up or time.monotonic() >= until:
                holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
                os.close(lock)
                raise StoreUnavailable(
                    f"The store in {self.path} is in use by process {holder}. Stop that process, or use another "
                    "`store.path`; with a server running, commands go through its API."
                )
        self._lock = lock
        with contextlib.suppress(OSError):  # a full disk; it is held all the same, others are told of nobody
            os.ftruncate(lock, 0)
            os.pwrite(lock, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def remember(self) -> None:
        """Note which files were opened, for `check`."""
        self._inode = self.shard.stat().st_ino
        self._looked_at = None

    def check(self) -> None:
        """See that the files opened are still in the folder: mapped memory goes on answering without them. Every call
        asks; a folder that was not changed since holds what it held. Raises `StoreUnavailable`.
        """
        try:
            folder = os.stat(self._path_text)  # noqa: PTH116 - half of what a `Path` takes
            entries = (folder.st_dev, folder.st_ino, folder.st_mtime_ns)
            if entries == self._looked_at:
                return
            (self.path / MARKER).stat()
            inode = self.shard.stat().st_ino
        except OSError as error:
            raise StoreUnavailable(
                f"The store's files in {self.path} are gone ({error.strerror}). Restore a backup and start again, or, "
                "if the memories are meant to be gone, remove the state file too."
            ) from error
        if inode != self._inode:
            raise StoreUnavailable(f"The store's files in {self.path} were replaced while in use. Start again.")
        # a later change could have the time of one that was just made
        self._looked_at = entries if folder.st_mtime_ns < time.time_ns() - _SETTLED_NS else None


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def missing_store(path: Path, expected_id: str, found_id: str | None) -> StoreUnavailable:
    """The error for a folder without the store that the state belongs to."""
    state = "holds no store" if found_id is None else f"holds another store ({found_id})"
    return StoreUnavailable(
        f"The folder {path} {state}, but the state belongs to the store {expected_id}. Restore a backup of the folder, "
        "or, if the memories are meant to be gone, remove the state file too."
    )


def check_built_with(path: object, *, built: tuple[int, str | None], configured: tuple[int, str | None]) -> None:
    """Compare a store's (dimension, embedder) with the configured; an unknown one fits. Raises `ConfigError`."""
    same_name = built[1] is None or configured[1] is None or built[1] == configured[1]
    if built[0] == configured[0] and same_name:
        return
    raise ConfigError(
        f"embedding.model: the store in {path} was built with {built[1] or 'no embedder'} ({built[0]} dimensions), "
        f"the configuration asks for {configured[1] or 'no embedder'} ({configured[0]} dimensions). "
        "Configure the former, or run `memproxy reindex`."
    )


LEAST_ROOM = 64 * 1024 * 1024
"""Bytes that stay free on the disk: more than one call of the engine writes, and an import's piece in the journal."""

MARKS = 8
"""Changed fields are written with this part of it free: no vector comes with them, one call's payloads are under a
mebibyte, and a deletion has turns to hide and facts to end, which must not wait until somebody frees space."""

SPARE = 8 * 1024 * 1024  # what is left beside an opening: for the lock, the marker and the index of a field that is new
IN_MEMORY_NEW = 112 * 1024 * 1024  # what a new store took of a tmpfs until it was open (measured: 106 MiB)

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
    """Says when the disk of a store has too little room: with fewer than ``least`` bytes free no points are written.

    The engine writes through mapped memory: a page for which the disk has no place ends the whole process (SIGBUS)
    instead of failing, so the engine must not get that far. Its files are sparse: a new store takes 0.3 MB of a disk.
    Where the disk is memory itself (tmpfs), reading a hole takes its place, too, and an opening reads most of them.
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
        """There is room to open the store in this folder; on a disk it takes none. Raises as `check_points`."""
        if self._disk.in_memory() and (hole_bytes := _read_holes(shard)):
            self._check_opening(hole_bytes, "this store")

    def _check_opening(self, needed: int, purpose: str) -> None:
        least = needed + SPARE
        self._check(least, f"opening {purpose} takes {_mib(least)} here")

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
    total = 0
    for folder, below, files in os.walk(shard):
        below[:] = [name for name in below if name not in _NOT_READ]
        for name in files:
            status = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - of every file of the store
            total += max(0, status.st_size - status.st_blocks * 512)
    return total
