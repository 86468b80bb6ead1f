"""How the supervisor starts a process of ours: what it hands over, and how the process notices that it is alone.

The settings go over a private pipe, never over the command line, where others could read keys; reloaded ones come over
it, too. When it closes, the supervisor is gone, and the process ends at once, so that the next one finds the port and
the store free.
"""

import ctypes
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from pydantic import BaseModel, SecretStr

from memproxy.settings import Settings

log = logging.getLogger(__name__)

RELAY = "_relay"
ENGINE = "_engine"
STATE = "_state"
"""Names of the processes, as their last argument shows."""

_PR_SET_PDEATHSIG = 1


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a process of ours needs to know. ``place`` tells relays, and engines, apart. ``engine_socket`` is
    an engine's own, and of a relay that of the engine which it asks first; ``other_engines`` those that it asks else.
    """

    settings: dict[str, Any]
    home: str
    secret: str
    engine_socket: str
    other_engines: tuple[str, ...] = ()
    listen_fd: int = -1
    restarts: int = 0
    place: int = 0

    def read_settings(self) -> Settings:
        return Settings.model_validate(self.settings)

    @property
    def state_socket(self) -> Path:
        """Where the process that writes the engine's state listens."""
        return Path(self.engine_socket).with_name("state.sock")

    @property
    def secret_bytes(self) -> bytes:
        return bytes.fromhex(self.secret)


class LongWork:
    """While entered, tells the supervisor that this process may not answer for minutes: an embedded store that is
    rewritten holds Python's lock meanwhile. It is a file beside the engine's socket with the process's id, so that one
    left by a killed process counts for nobody.
    """

    def __init__(self, engine_socket: str) -> None:
        self._path = Path(engine_socket).with_suffix(".works")

    def __enter__(self) -> None:
        try:
            self._path.write_text(str(os.getpid()), "ascii")
        except OSError as error:
            # a disk that is full must not keep anything from being erased
            log.warning("%s cannot be written (%s): if this takes long, the supervisor ends it", self._path, error)

    def __exit__(self, *_: object) -> None:
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s cannot be removed (%s): an engine that hangs is noticed late", self._path, error)

    def is_of(self, pid: int | None) -> bool:
        """Whether that process works so just now."""
        try:
            return self._path.read_text("ascii") == str(pid)
        except (OSError, UnicodeDecodeError):
            return False


def reveal(value: object) -> Any:
    """Settings as JSON types, keys in the clear: for the private pipe only."""
    if isinstance(value, BaseModel):
        return {name: reveal(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {name: reveal(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [reveal(item) for item in value]
    return value


ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT)
"""Signals to stop everything in order, from a service manager or Ctrl-C."""


def hears_hangups() -> bool:
    """Whether SIGHUP is handled: not where it was ignored when we were started (`nohup`)."""
    return signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def has_terminal() -> bool:
    """Whether this process has a controlling terminal. A closed one is gone before its SIGHUP arrives, which tells that
    signal from one that was sent on purpose.
    """
    try:
        os.close(os.open(os.ctermid(), os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


class Lifeline:
    """The pipe from the supervisor: lines of JSON, as long as it lives. It is read by ``os.read`` alone: a thread that
    holds the lock of a Python file when the process ends makes that end a crash.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""
        self._lock = threading.Lock()
        self._take: Callable[[Settings], None] | None = None
        self._missed: Settings | None = None

    def line(self) -> bytes:
        """The next line; empty when the supervisor is gone."""
        while b"\n" not in self._rest:
            if not (more := os.read(self._fd, 65536)):
                return b""
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def watch(self) -> None:
        """From now on hand settings over as they come, and end this process with the supervisor."""
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def on_settings(self, take: Callable[[Settings], None]) -> None:
        """Call ``take``, in the lifeline's thread, with every new settings; with those that came before this, too."""
        with self._lock:
            self._take, missed = take, self._missed
        if missed is not None:
            take(missed)

    def _watch(self) -> None:
        while line := self.line():
            settings = Settings.model_validate(msgspec.json.decode(line))
            with self._lock:
                take, self._missed = self._take, settings
            if take is not None:
                take(settings)
        os._exit(1)


def receive() -> tuple[Launch, Lifeline]:
    """Read what the supervisor hands over, and from then on live no longer than it does."""
    if sys.platform == "linux":  # the kernel itself ends us, even while a library holds the interpreter's lock
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    lifeline = Lifeline(sys.stdin.fileno())
    launch = msgspec.json.decode(lifeline.line(), type=Launch)
    lifeline.watch()
    # Ctrl-C and a closed terminal reach the whole group; the supervisor alone answers, in its written order.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    return launch, lifeline
