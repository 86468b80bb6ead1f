"""Entries that the journal could not take, in a file beside the state's: they survive their process until it can.

The file has a header, then records: length and checksum of the entry as JSON, whether it still waits, and the entry.
What the journal has taken is overwritten with zeros. Some room is taken when the file is made, for a disk that fills up
later.

Each process that writes has its own file, locked while it lives. Whoever opens the state next takes up what dead ones
left. An entry may come twice that way; its turns' ids follow from what they say, so the second changes nothing.
"""

import asyncio
import fcntl
import itertools
import logging
import os
import stat
import struct
import uuid
import zlib
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from memproxy.errors import RequestError, StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry
from memproxy.stores.thread import OwnThread
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

HEADER = b"memproxy aside 1\n"
"""The form and its version."""

ROOM = 1 << 20  # bytes of a disk that are taken before anything waits, about 500 turns
TAKE_UP_AGAIN_S = 10.0  # pause before another try to append what was set aside
MOST_BYTES = 64 << 20  # most bytes of the file: beyond it nothing more is set aside

_RECORD = struct.Struct(">II?")


class Spill:
    """This process's own file beside the ``state``'s. Calls run in a thread of their own: the state's may be waiting
    for a lock. ``durable``: each entry is on the disk, not only with the system, when `put` returns.
    """

    def __init__(self, state: Path, *, durable: bool) -> None:
        self._state = state
        self._durable = durable
        self._thread = OwnThread("memproxy-aside")
        self._file: int | None = None
        self._path: Path | None = None
        self._end = len(HEADER)
        self._numbers = itertools.count()
        self._records: dict[int, tuple[int, int]] = {}
        """Where the record of a number begins, and the size of its entry. A number is not used again: what a file held
        that was deleted under us is dropped later, too."""

    async def make(self) -> None:
        """Make the file and take its room, if that is possible now; else it is tried again when it is needed."""
        await self._thread.run(self._ensure_file)

    async def put(self, entry: JournalEntry) -> int | None:
        """Keep the entry; answers its number for `drop`. None: it cannot be kept (no room, no folder)."""
        return await self._thread.run(lambda: self._put(entry))

    async def read(self, number: int) -> JournalEntry | None:
        """The entry of this number; None: it cannot be read."""
        return await self._thread.run(lambda: self._read(number))

    async def drop(self, number: int) -> None:
        """The journal has this entry."""
        await self._thread.run(lambda: self._drop(number))

    async def close(self) -> None:
        """Close the file; entries that still wait stay in it."""
        await self._thread.run(self._close)
        self._thread.close()

    def _ensure_file(self) -> int | None:
        if self._file is not None and os.fstat(self._file).st_nlink:
            return self._file
        if self._file is not None:  # deleted under us
            os.close(self._file)
            self._file = None
        path = self._state.with_name(f"{self._state.name}-aside-{uuid.uuid4().hex}")
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(self._file, HEADER.ljust(ROOM, b"\0"), 0)
        except OSError as error:
            log.warning("%s cannot be made (%s): turns that the journal does not take wait in memory", path, error)
            if self._file is not None:
                os.close(self._file)
                self._file = None
                with suppress(OSError):
                    path.unlink()
        else:
            self._path, self._end, self._records = path, len(HEADER), {}
        return self._file

    def _put(self, entry: JournalEntry) -> int | None:
        file = self._ensure_file()
        offset = self._end
        body = msgspec.json.encode(entry)
        record = _RECORD.pack(len(body), zlib.crc32(body), True) + body
        if file is None or offset + len(record) > MOST_BYTES:
            return None
        try:
            _write(file, record, offset)
            if self._durable:
                os.fdatasync(file)
        except OSError as error:
            log.warning("nothing more can be set aside in %s: %s", self._path, error)
            with suppress(OSError):
                _write(file, bytes(_RECORD.size), offset)
            return None
        self._end += len(record)
        number = next(self._numbers)
        self._records[number] = offset, len(body)
        return number

    def _read(self, number: int) -> JournalEntry | None:
        if self._file is None or number not in self._records:
            return None
        offset, size = self._records[number]
        try:
            return msgspec.json.decode(os.pread(self._file, size, offset + _RECORD.size), type=JournalEntry)
        except (OSError, msgspec.DecodeError) as error:
            log.warning("an entry in %s cannot be read: %s", self._path, error)
            return None

    def _drop(self, number: int) -> None:
        if self._file is None or number not in self._records:
            return
        offset, size = self._records.pop(number)
        try:
            if self._records:
                _overwrite(self._file, offset, size)
            else:
                _write(self._file, bytes(self._end - len(HEADER)), len(HEADER))
                os.ftruncate(self._file, max(ROOM, len(HEADER)))
                self._end = len(HEADER)
        except OSError as error:
            log.warning("what the journal has taken stays in %s for now: %s", self._path, error)

    def _close(self) -> None:
        if self._file is None or self._path is None:
            return
        if self._records:
            log.warning("%d entries wait in %s; the next start takes them up", len(self._records), self._path)
        else:
            with suppress(OSError):
                self._path.unlink()
        os.close(self._file)
        self._file = None


class TakingUp:
    """Appends to the journal what processes that ended had set aside beside this state."""

    def __init__(self, state: Path, append: Callable[[JournalEntry], Awaitable[int]], tasks: TaskOwner) -> None:
        self._state = state
        self._append = append
        self._tasks = tasks
        self._later: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Append it; what cannot be (a disk that is still full) keeps no state from opening, and is when it can."""
        try:
            await self._all()
        except StateUnavailable as error:
            log.error("what had been set aside still waits beside the state: %s", error.message)
            self._later = self._tasks.start(self._take_up_later(), "take up")

    def stop(self) -> None:
        if self._later is not None:
            self._later.cancel()

    async def _take_up_later(self) -> None:
        while True:
            await asyncio.sleep(TAKE_UP_AGAIN_S)
            with suppress(StateUnavailable):  # it was told when it was tried first
                return await self._all()

    async def _all(self) -> None:
        for path, file in _left_beside(self._state):
            await self._take_up(path, file)

    async def _take_up(self, path: Path, file: int) -> None:
        try:
            entries, is_whole = _waiting_entries(path, file)
        except ValueError as error:
            log.error("a file beside the state holds turns that cannot be read (%s); it stays where it is", error)
            return
        for offset, size, entry in entries:
            try:
                await self._append(entry)
            except RequestError as error:
                metrics().turns_lost.labels(reason="refused").inc()
                log.error(
                    "turns of %s that were set aside are lost, they cannot be written: %s",
                    entry.request_id,
                    error.message,
                )
            with suppress(OSError):  # then it may come twice
                _overwrite(file, offset, size)  # if the next one fails, this one is not appended again
        if is_whole:
            _remove(path)
        if entries:
            log.info("%d entries that had been set aside are in the journal now", len(entries))


def _left_beside(state: Path) -> Iterator[tuple[Path, int]]:
    """The files beside this state that belong to no living process, each open and locked until the next one."""
    for path in sorted(state.parent.glob(f"{state.name}-aside-*")):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            continue  # another process took it up just now
        except OSError as error:
            log.error("%s may hold turns and cannot be opened (%s); it stays where it is", path, error.strerror)
            continue
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                log.error("%s is no file of ours; it stays where it is", path)
                continue
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield path, file
        except BlockingIOError:
            continue
        finally:
            os.close(file)


def _waiting_entries(path: Path, file: int) -> tuple[list[tuple[int, int, JournalEntry]], bool]:
    """What waits in a file, in its order, with place and size, and whether all that is whole can be read. A record that
    is not was never told to be kept, or was just being overwritten: those behind it count. Raises `ValueError`.
    """
    data = os.pread(file, MOST_BYTES, 0)
    if not data.startswith(HEADER):
        raise ValueError("its form is not known to this version")
    entries, is_whole, offset = list[tuple[int, int, JournalEntry]](), True, len(HEADER)
    while offset + _RECORD.size <= len(data):
        size, checksum, waits = _RECORD.unpack_from(data, offset)
        if size == 0:
            break
        end = offset + _RECORD.size + size
        body = data[offset + _RECORD.size : end]
        if waits and zlib.crc32(body) == checksum:
            try:
                entries.append((offset, size, msgspec.json.decode(body, type=JournalEntry)))
            except msgspec.DecodeError as error:
                is_whole = False
                log.error("an entry in %s cannot be read (%s); the file stays where it is", path, error)
        offset = end
    return entries, is_whole


def _overwrite(file: int, offset: int, size: int) -> None:
    """The journal has this entry."""
    _write(file, _RECORD.pack(size, 0, False) + bytes(size), offset)


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _write(file: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(file, data, offset)
        data, offset = data[written:], offset + written
