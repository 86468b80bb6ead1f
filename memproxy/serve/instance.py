"""One ``serve`` per store: the locks that say who has it, and the private folder for its processes' sockets."""

import contextlib
import fcntl
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.home import state_path, store_path

ENGINE_SOCKET = "engine.sock"
"""The engine's socket within the runtime folder."""

RUNTIME_PREFIX = "memproxy-"
"""How the name of a runtime folder begins."""

MOST_SAID = 4096
"""Bytes of a lock file that are read."""

LONGEST_BASE = 55
"""Bytes of the folder that runtime folders are made in, so that a socket's path stays below the system's 104 to 108."""


_HOLDER = re.compile(r"pid ([0-9]{1,10}) at (?:http://\S+:([0-9]{1,5}))?")


class AlreadyServed(ConfigError):
    """Another ``serve`` has this store; the message names it. ``folder`` is its runtime folder, ``pid`` its
    supervisor's, ``port`` where it listens.
    """

    folder: Path | None = None
    pid: int | None = None
    port: int | None = None


class InstanceLock:
    """One ``serve`` per store: a file lock. The file holds the pid, the address and the runtime folder of its holder.

    Taking it removes the runtime folder of a holder that was killed.
    """

    def __init__(self, guarded: Path) -> None:
        self._path = guarded.with_name(guarded.name + ".lock")
        self._guarded = guarded
        self._file: int | None = None
        self._address = "an address it is about to take"
        self.folder: Path | None = None

    def acquire(self) -> None:
        """Take the lock.

        Raises:
            AlreadyServed: another process has it.
            ConfigError: the folder cannot be written.
        """
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise self._unwritable(error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder, folder = self._read()
            os.close(self._file)
            served = AlreadyServed(
                f"{self._guarded} is already served by {holder}. Stop that one first, or give this one its own "
                "MEMPROXY_HOME."
            )
            served.folder = folder
            if folder is not None and (named := _HOLDER.match(holder)):
                served.pid = int(named[1])
                served.port = int(named[2]) if named[2] else None
            raise served from None
        if (old_folder := self._read()[1]) is not None:
            shutil.rmtree(old_folder, ignore_errors=True)
        self._write()

    def announce(self, address: str) -> None:
        """Write the holder's address into the lock file, for the message to a second ``serve``."""
        self._address = address
        self._write()

    def lead_to(self, folder: Path | None) -> None:
        """Write the holder's runtime folder into the lock file: its name cannot be guessed."""
        self.folder = folder
        self._write()

    def _write(self) -> None:
        if self._file is not None:
            holder = f"pid {os.getpid()} at {self._address}\n{self.folder or ''}\n"
            try:
                os.ftruncate(self._file, 0)
                os.pwrite(self._file, os.fsencode(holder), 0)
            except OSError as error:  # a full disk
                raise self._unwritable(error) from error

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"{self._path.parent} cannot be written ({error.strerror}). Choose another place with MEMPROXY_HOME, "
            "store.path or state.path."
        )

    def _read(self) -> tuple[str, Path | None]:
        """Who holds or held it, and the runtime folder; None where file or folder are not this user's own."""
        assert self._file is not None, "opened by `acquire`"  # noqa: S101 - a programming error, not an input
        holder, _, rest = os.pread(self._file, MOST_SAID, 0).partition(b"\n")
        folder = Path(os.fsdecode(rest.partition(b"\n")[0]))
        named = folder.name.startswith(RUNTIME_PREFIX) and os.fstat(self._file).st_uid == os.geteuid()
        who = holder.decode("utf-8", "replace").strip() or "another process"
        return who, folder if named and _is_private(folder) else None

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


@contextlib.contextmanager
def locked(settings: Settings, home: Path) -> Iterator[list[InstanceLock]]:
    """The locks of the state and, where it is embedded, of the store. Raises as `InstanceLock.acquire`."""
    guarded = [state_path(settings.state, home)]
    if settings.store.backend == "edge":
        guarded.append(store_path(settings.store, home))
    with contextlib.ExitStack() as held:
        locks = [InstanceLock(path) for path in guarded]
        for lock in locks:
            lock.acquire()
            held.callback(lock.release)
        yield locks


def _short_base() -> Path:
    """The first folder for temporary files under which a socket's path is not too long, whatever TMPDIR says."""
    named = [os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir(), str(Path(os.sep, "tmp"))]
    usable = [Path(name) for name in named if name and os.access(name, os.W_OK)]
    if not usable:
        raise ConfigError("No folder for sockets can be written: set XDG_RUNTIME_DIR or TMPDIR to one.")
    return next((base for base in usable if len(os.fsencode(base)) <= LONGEST_BASE), usable[0])


def _is_private(folder: Path) -> bool:
    """Whether it is a folder (and no link to one) that this user alone can use."""
    try:
        status = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077


@contextlib.contextmanager
def runtime_folder(lock: InstanceLock) -> Iterator[Path]:
    """A private folder for the sockets and the metrics of all processes, which the lock leads to. Its path is short, as
    sockets need, and its name is chosen at random: nobody else can be there first.
    """
    folder = Path(tempfile.mkdtemp(prefix=RUNTIME_PREFIX, dir=_short_base()))  # 0700
    try:
        lock.lead_to(folder)
        (folder / "metrics").mkdir()
        yield folder
    finally:
        lock.lead_to(None)
        shutil.rmtree(folder, ignore_errors=True)
