"""A Qdrant server for tests: the one that ``MEMPROXY_TEST_QDRANT_URL`` names (``MEMPROXY_TEST_QDRANT_API_KEY`` is its
key), else one of our own, started from the program that ``MEMPROXY_TEST_QDRANT`` names or that is on the path as
``qdrant``.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest

from tests.support.folders import MEMORY_FOLDER
from tests.support.proxy import free_port

_START_S = 60

NONE_HERE = "no Qdrant: MEMPROXY_TEST_QDRANT_URL names no server, MEMPROXY_TEST_QDRANT no program, none is on PATH"


@dataclass
class QdrantServer:
    """A server that tests may stop, start, pause and fill."""

    program: str
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    """Further variables of its environment (``QDRANT__SERVICE__API_KEY``)."""
    port: int = field(default_factory=free_port)
    grpc_port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        environment = {
            "PATH": os.environ["PATH"],
            "QDRANT__SERVICE__HOST": "127.0.0.1",
            "QDRANT__SERVICE__HTTP_PORT": str(self.port),
            "QDRANT__SERVICE__GRPC_PORT": str(self.grpc_port),
            "QDRANT__STORAGE__STORAGE_PATH": str(self.folder / "storage"),
            "QDRANT__STORAGE__SNAPSHOTS_PATH": str(self.folder / "snapshots"),
            "QDRANT__TELEMETRY_DISABLED": "true",
            "QDRANT__LOG_LEVEL": "WARN",
            **self.settings,
        }
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self.program], env=environment, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
            )
        until = time.monotonic() + _START_S
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"Qdrant did not start: {self.log()[-2000:]}")
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)

    def _answers(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz").is_success
        except httpx.TransportError:
            return False

    def log(self) -> str:
        """What it has written to its log."""
        return (self.folder / "log").read_text(errors="replace")

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it; by default as a crash does."""
        if self.process is not None:
            self.go_on()
            self.process.send_signal(how)
            self.process.wait(_START_S)
            self.process = None

    def pause(self) -> None:
        """The server hangs: connections are there and nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """After `pause`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)


def program() -> str | None:
    """The server's program; None where there is none."""
    return os.environ.get("MEMPROXY_TEST_QDRANT") or shutil.which("qdrant")


@contextmanager
def qdrant_server(folder: Path | None = None, **settings: str) -> Iterator[QdrantServer]:
    """A server of one's own, gone afterwards with all that it holds; skips where there is none."""
    found = program()
    if found is None:
        pytest.skip(NONE_HERE)
    memory = MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None  # each index of a new collection waits for a disk
    with tempfile.TemporaryDirectory(prefix="memproxy-qdrant-", dir=folder or memory) as made:
        server = QdrantServer(found, Path(made), settings)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@dataclass(frozen=True)
class QdrantAt:
    """Where a server is that tests share, each with collections of its own."""

    url: str
    grpc_port: int | None
    api_key: str | None = None


@contextmanager
def shared_qdrant() -> Iterator[QdrantAt]:
    """The server that is named, else one that is started for this process; skips where there is neither."""
    named = os.environ.get("MEMPROXY_TEST_QDRANT_URL")
    if named:
        yield QdrantAt(named, None, os.environ.get("MEMPROXY_TEST_QDRANT_API_KEY"))
        return
    if program() is None:
        pytest.skip(NONE_HERE)
    with qdrant_server() as server:
        yield QdrantAt(server.url, server.grpc_port)
