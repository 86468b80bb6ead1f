"""A real `memproxy serve` as a child process: started on a home of its own, asked, broken on purpose, started again."""

import asyncio
import fcntl
import os
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
import yaml
from openai import AsyncOpenAI, DefaultAsyncHttpxClient

from tests.support.http_client import NO_TLS, plain_client
from tests.support.waiting import LONGEST_S, eventually

READY_DEADLINE_S = 100.0
KEY = "sk-test-one"
_PORTS = range(10_000, 32_000)
_TRACEBACK = "Traceback (most recent call last)"

Config = dict[str, Any]


def base_config(upstream_url: str, port: int) -> Config:
    """Loopback, the given upstream, recall by words with time to spare: a busy machine is no reason to be degraded."""
    return {
        "server": {"host": "127.0.0.1", "port": port, "shutdown_grace_s": 3.0},
        "upstream": {"base_url": upstream_url},
        "embedding": {"provider": "none"},
        "recall": {"deadline_ms": 5000},
        "learn": {"every_turns": 2, "idle_s": 0.5},
    }


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Config:
    """``base`` with ``changes`` laid over it, section by section."""
    result = dict(base)
    for name, value in changes.items():
        old = result.get(name)
        result[name] = merged(old, value) if isinstance(old, dict) and isinstance(value, Mapping) else value
    return result


def free_port() -> int:
    """A TCP port of the loopback address that is this process's until it ends, whether anybody listens there or not.

    It is none of those that outgoing connections are given, which would take it while its server is started again.
    """
    folder = Path(tempfile.gettempdir()) / f"memproxy-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    while True:
        port = _PORTS.start + secrets.randbelow(len(_PORTS))
        lock = os.open(folder / str(port), os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", port))
        except OSError:
            os.close(lock)
        else:
            return port


def environment(home: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Our environment without memproxy's or OpenAI's settings, and with this home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("MEMPROXY", "OPENAI_"))}
    kept.pop("PROMETHEUS_MULTIPROC_DIR", None)
    kept.pop("PYTHONDONTWRITEBYTECODE", None)  # else each start compiles all modules anew, a third of its work
    return {**kept, "MEMPROXY_HOME": str(home), "PYTHONUNBUFFERED": "1", **(extra or {})}


def memproxy(
    home: Path, *arguments: str, timeout_s: float = READY_DEADLINE_S, extra: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a `memproxy` command to its end, with ``extra`` in its environment."""
    command = [sys.executable, "-m", "memproxy", *arguments]
    return subprocess.run(
        command, env=environment(home, extra), capture_output=True, text=True, timeout=timeout_s, check=False
    )


@dataclass
class Proxy:
    """One proxy: its home, its configuration, and its running processes."""

    home: Path
    config: Config
    extra_environment: Mapping[str, str] = field(default_factory=dict)
    preexec: Callable[[], None] | None = None
    key: str = KEY
    """Whose tenant its clients are, unless they name another key."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return int(self.config["server"]["port"])

    @property
    def root_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def base_url(self) -> str:
        """What a client sets as its ``base_url``."""
        return f"{self.root_url}/v1"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the proxy was not started"
        return self._process

    @property
    def config_file(self) -> Path:
        """The configuration file it was started with."""
        return self.home / "test-config.yaml"

    @property
    def log(self) -> str:
        """Everything it wrote so far, of all its runs."""
        path = self.home / "test-serve.log"
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def launch(self) -> None:
        """Start the supervisor without waiting for anything."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.config_file.write_text(yaml.safe_dump(self.config), encoding="utf-8")
        with (self.home / "test-serve.log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "memproxy", "serve", "--config", str(self.config_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(self.home, self.extra_environment),
                preexec_fn=self.preexec,  # noqa: PLW1509 - limits of the child only, set before any thread exists there
            )

    async def start(self, *, memory: bool = True) -> None:
        """Start and wait until requests are served (and, with ``memory``, until every part is ready)."""
        self.launch()
        await self.answers()
        if memory:
            await self.memory_ready()

    async def answers(self) -> None:
        await eventually(self._served, READY_DEADLINE_S, what=lambda: f"it serves\n{self.log[-5000:]}")

    async def served(self) -> None:
        """Wait until it serves and every part of it is ready."""
        await self.answers()
        await eventually(self._is_ready, READY_DEADLINE_S, what=lambda: f"it is ready\n{self.log[-5000:]}")

    async def _is_ready(self) -> bool:
        return (await self.readiness())[1].get("status") == "ready"

    async def _served(self) -> bool:
        assert self.process.poll() is None, f"`memproxy serve` ended with {self.process.returncode}:\n{self.log}"
        return (await self.readiness())[0] == 200

    async def readiness(self) -> tuple[int, dict[str, Any]]:
        """Status and body of ``/readyz``; status 0 while nobody answers."""
        try:
            response = await self.call("GET", "/readyz")
        except httpx.TransportError:
            return 0, {}
        return response.status_code, response.json()

    async def memory_ready(self, deadline_s: float = READY_DEADLINE_S) -> None:
        """Wait until memory works: the memory API answers a search."""
        await eventually(self._searches, deadline_s, what=lambda: f"memory answers\n{self.log[-5000:]}")

    async def _searches(self) -> bool:
        try:
            response = await self.call("POST", "/v1/memory/search", json={"query": "anything"})
        except httpx.TransportError:
            return False
        return response.status_code == 200

    def client(self, key: str | None = "", **headers: str) -> httpx.AsyncClient:
        """A plain HTTP client for it; ``None`` is one without a key."""
        key = self.key if key == "" else key
        authorization = {"authorization": f"Bearer {key}"} if key else {}
        return plain_client(base_url=self.root_url, headers={**authorization, **headers}, timeout=60.0)

    async def call(self, method: str, path: str, key: str | None = "", **sent: Any) -> httpx.Response:
        """One call by a `client` of its own."""
        async with self.client(key) as client:
            return await client.request(method, path, **sent)

    def openai(self, key: str = "", **headers: str) -> AsyncOpenAI:
        """The real `openai` client with nothing changed but its ``base_url`` (and no retries of its own)."""
        http = DefaultAsyncHttpxClient(trust_env=False, verify=NO_TLS)
        return AsyncOpenAI(
            base_url=self.base_url,
            api_key=key or self.key,
            max_retries=0,
            timeout=60,
            http_client=http,
            default_headers=headers or None,
        )

    def family(self, name: str | None = None) -> list[psutil.Process]:
        """The supervisor's descendants; with ``name`` (``_engine``, ``_relay``) only those started under that name."""
        try:
            children = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in children if name is None or _named(child, name)]

    async def engine(self) -> psutil.Process:
        """The engine process; waits until there is one."""
        return (await eventually(lambda: self.family("_engine"), what="an engine process"))[0]

    def kill(self) -> None:
        """SIGKILL to the supervisor and everything it started, at once."""
        everything = [*self.family(), psutil.Process(self.process.pid)]
        for process in everything:
            _send(process, signal.SIGKILL)
        self.process.wait(LONGEST_S)
        psutil.wait_procs(everything, timeout=LONGEST_S)

    async def restart(self, *, memory: bool = True) -> None:
        """Start again on the same home and port."""
        assert self.process.poll() is not None, "stop or kill it first"
        await self.start(memory=memory)

    async def stop(self) -> int:
        """SIGTERM, and wait for its end; kills what does not end in 15 s and fails then."""
        process, family = self.process, self.family()
        if process.poll() is None:
            process.terminate()
        try:
            await eventually(lambda: process.poll() is not None, what="an orderly end after SIGTERM")
        finally:
            _end(process, family)
        return int(process.returncode)

    def assert_clean(self) -> None:
        """Fail when its log shows an unhandled error."""
        at = self.log.find(_TRACEBACK)
        assert at < 0, f"a traceback in the log of the proxy:\n{self.log[max(0, at - 1000) : at + 5000]}"


def _named(process: psutil.Process, name: str) -> bool:
    try:
        return name in process.cmdline()
    except psutil.NoSuchProcess:
        return False


def _send(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


def _end(process: subprocess.Popen[bytes], family: list[psutil.Process]) -> None:
    """Nothing that a test started outlives it."""
    for child in family:
        _send(child, signal.SIGCONT)
        _send(child, signal.SIGKILL)
    if process.poll() is None:
        process.kill()
    process.wait(LONGEST_S)


@asynccontextmanager
async def running_proxy(
    upstream_url: str,
    home: Path,
    changes: Mapping[str, Any] | None = None,
    *,
    memory: bool = True,
    clean: bool = True,
    environment: Mapping[str, str] | None = None,
    preexec: Callable[[], None] | None = None,
) -> AsyncIterator[Proxy]:
    """A started proxy for the length of a block.

    ``changes`` are laid over `base_config`. ``memory`` waits until memory is ready too; ``clean`` fails the test when
    the log shows a traceback.
    """
    config = merged(base_config(upstream_url, free_port()), changes or {})
    proxy = Proxy(home, config, environment or {}, preexec)
    try:
        await proxy.start(memory=memory)
        yield proxy
    finally:
        await asyncio.shield(proxy.stop())
    if clean:
        proxy.assert_clean()
