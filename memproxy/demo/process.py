"""The real `memproxy serve` as a child process with a home of its own: started, asked whether it is ready, killed."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import yaml

from memproxy.errors import MemproxyError

_POLL_S = 0.1


class DemoFailed(MemproxyError):
    """The demonstration cannot go on; the message says what happened and where to look."""


class ProxyProcess:
    """One proxy: its home, its configuration file and its running process, if there is one.

    It runs in a process group of its own, so that a kill reaches the supervisor and everything it started at once.
    """

    def __init__(self, home: Path, config: Mapping[str, Any]) -> None:
        self._home = home
        self._config = {**config, "server": {**config.get("server", {}), "host": "127.0.0.1", "port": free_port()}}
        self._process: asyncio.subprocess.Process | None = None
        self.config_file = home / "config.yaml"
        self.log_file = home / "serve.log"

    @property
    def base_url(self) -> str:
        """What a client sets as its ``base_url``."""
        return f"http://127.0.0.1:{self._config['server']['port']}/v1"

    @property
    def root_url(self) -> str:
        """The address without `/v1`."""
        return self.base_url.removesuffix("/v1")

    @property
    def pid(self) -> int | None:
        """The supervisor's process id while it runs."""
        return self._process.pid if self._process else None

    async def start(self, *, deadline_s: float = 60.0) -> None:
        """Start and wait until requests are served and memory answers, too.

        Raises:
            DemoFailed: it ended by itself or was not ready in time; the message holds the end of its log.
        """
        self.config_file.write_text(yaml.safe_dump(self._config), encoding="utf-8")
        with self.log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "memproxy", "serve", "--config", str(self.config_file)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child_environment(self._home),
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(deadline_s):
                await self._ready()
        except TimeoutError as error:
            raise DemoFailed(f"`memproxy serve` was not ready in {deadline_s:.0f} s.\n{self.log_end()}") from error

    async def _ready(self) -> None:
        async with local_client(self.root_url) as client:
            while not (await _answers(client, "/readyz") and await _answers(client, "/v1/memory?limit=1")):
                if self._process is None or self._process.returncode is not None:
                    raise DemoFailed(f"`memproxy serve` ended before it was ready.\n{self.log_end()}")
                await asyncio.sleep(_POLL_S)

    def log_end(self, lines: int = 20) -> str:
        """The last lines of its log, for a message that says what went wrong."""
        text = self.log_file.read_text(encoding="utf-8", errors="replace") if self.log_file.exists() else ""
        return "Its log ends with:\n" + "\n".join(text.splitlines()[-lines:])

    async def kill(self) -> None:
        """SIGKILL to the supervisor and all its children, and wait until it is gone."""
        if (process := self._running()) is not None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def stop(self, *, grace_s: float = 10.0) -> None:
        """Ask the supervisor to stop, wait ``grace_s`` seconds, then kill what is left of it."""
        if (process := self._running()) is None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(grace_s):
                await process.wait()
        except TimeoutError:
            await self.kill()

    def _running(self) -> asyncio.subprocess.Process | None:
        return self._process if self._process is not None and self._process.returncode is None else None


async def _answers(client: httpx.AsyncClient, path: str) -> bool:
    try:
        return (await client.get(path)).status_code == 200
    except httpx.TransportError:
        return False


def local_client(root_url: str, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A client for the proxy itself; a proxy named in the environment is not for this machine's own addresses."""
    return httpx.AsyncClient(base_url=root_url, headers=dict(headers or {}), timeout=30.0, trust_env=False)


def child_environment(home: Path) -> dict[str, str]:
    """Our environment without settings that would lead the child to another home, store or upstream.

    Settings of the embedding model stay: a local model may be named there.
    """
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MEMPROXY") or name.startswith("MEMPROXY__EMBEDDING__")
    }
    local = "127.0.0.1,localhost"
    return {**kept, "MEMPROXY_HOME": str(home), "NO_PROXY": local, "no_proxy": local}


def free_port() -> int:
    """A TCP port that was free on the loopback address just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
