"""A Redis server for tests, which they may stop and start."""

import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import pytest
from redis import Redis, exceptions

from memproxy.stores.redis_server import RedisServer
from tests.support.proxy import free_port
from tests.support.waiting import LONGEST_S


@dataclass
class RedisProcess:
    """A server of one's own that keeps nothing on a disk."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def client(self) -> Redis:
        """A client for looking into it."""
        return Redis.from_url(self.url)

    def start(self, *options: str) -> None:
        """Start it, and wait until it answers."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([*command, *options], cwd=self.folder, stdout=log, stderr=log)
        until = time.monotonic() + LONGEST_S
        while True:
            try:
                with self.client() as client:
                    client.ping()
            except exceptions.AuthenticationError:
                return
            except exceptions.ConnectionError:
                pass
            else:
                return
            if time.monotonic() > until or self.process.poll() is not None:
                raise RuntimeError(f"redis-server does not start: {(self.folder / 'log').read_text()[-2000:]}")
            Event().wait(0.01)

    def pause(self) -> None:
        """The server hangs: connections are there and nothing is answered."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """After `pause`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """End it at once; nothing of what it held is left."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@contextmanager
def redis_process() -> Iterator[RedisProcess]:
    """A server, gone afterwards; skips where the program is not installed."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed (Debian: apt-get install redis-server)")
    folder = Path(tempfile.mkdtemp(prefix="memproxy-redis-"))
    server = RedisProcess(folder, free_port())
    try:
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@asynccontextmanager
async def connected(
    url: str, name: str, before: Callable[[RedisServer], None] | None = None, *, patience_s: float = 1.5
) -> AsyncIterator[RedisServer]:
    """A connection of an installation of this name; ``before`` is called before it is made. A busy machine takes more
    than requests wait for.
    """

    async def installation() -> str:
        return name

    server = RedisServer(url, installation, patience_s=patience_s)
    if before is not None:
        before(server)
    await server.start(LONGEST_S)
    yield server
    await server.close()
