"""Processes that a run starts: each in a group of its own, none outlives the run, however that ends."""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from memproxy.errors import ConfigError

GRACE_S = 8.0
"""How long a process may take to end after SIGTERM, until it is killed."""

_LINE_LIMIT = 2**26
_ROOT = Path(__file__).parents[2]


class Child:
    """One running process; its standard input and output are pipes, what it logs goes to a file."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log_file: Path) -> None:
        self.name = name
        self._process = process
        self._log_file = log_file

    @property
    def pid(self) -> int:
        """Its process id, which is also its group's."""
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    async def read_line(self, timeout_s: float) -> bytes:
        """The next line of its output.

        Raises:
            ConfigError: it ended or said nothing in time; the message holds the end of its log.
        """
        assert self._process.stdout is not None, "a pipe"
        try:
            line = await asyncio.wait_for(self._process.stdout.readline(), timeout_s)
        except TimeoutError as error:
            raise self.trouble(f"said nothing for {timeout_s:.0f} s") from error
        if not line:
            raise self.trouble("ended by itself")
        return line

    async def write_line(self, line: bytes) -> None:
        """Put a line into its standard input."""
        assert self._process.stdin is not None, "a pipe"
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    def trouble(self, what: str) -> ConfigError:
        """An error that says what happened to it, with the last lines of its log."""
        text = self._log_file.read_text("utf-8", "replace") if self._log_file.exists() else ""
        end = "\n".join(text.splitlines()[-15:])
        return ConfigError(f"The benchmark's process `{self.name}` {what}. Its log ends with:\n{end or '(nothing)'}")

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL to its whole group after `GRACE_S`."""
        if not self.running:
            return
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_S)
        except TimeoutError:
            self.kill()
            await self._process.wait()

    def kill(self) -> None:
        """SIGKILL to its group, at once."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)


class Nursery:
    """Starts processes and ends those that are left when its ``with`` block ends, in whatever way it ends."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def __enter__(self) -> "Nursery":
        return self

    def __exit__(self, *_: object) -> None:
        for child in self._children:
            if child.running:
                child.kill()

    async def stop(self) -> None:
        """End those that run in an orderly way, the last one first."""
        for child in reversed(self._children):
            await child.stop()

    async def start(
        self, name: str, command: Sequence[str], environment: Mapping[str, str] | None = None, *, talks: bool = False
    ) -> Child:
        """Start a process. One that ``talks`` is read from; what others say goes to their log.

        Raises:
            ConfigError: the program is not there or cannot be run.
        """
        log_file = self._folder / f"{name}.log"
        with log_file.open("ab") as log:
            try:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE if talks else log,
                    stderr=log,
                    env=clean_environment(environment or {}),
                    start_new_session=True,
                    limit=_LINE_LIMIT,
                )
            except OSError as error:
                raise ConfigError(f"{command[0]} cannot be started ({error.strerror}).") from error
        child = Child(name, process, log_file)
        self._children.append(child)
        return child

    async def start_module(self, module: str, *arguments: str) -> Child:
        """Start a module of this package with this Python."""
        command = [sys.executable, "-m", f"{__package__}.{module}", *arguments]
        path = os.pathsep.join(filter(None, (str(_ROOT), os.environ.get("PYTHONPATH"))))
        return await self.start(module, command, {"PYTHONPATH": path}, talks=True)

    async def start_server(self, module: str, *arguments: str) -> tuple[Child, int]:
        """Start a server of this package; also the port that it prints first."""
        child = await self.start_module(module, *arguments)
        return child, int(await child.read_line(30.0))


def clean_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Our environment without what would change a measured process: settings of memproxy, proxies, metric folders."""
    unwanted = ("MEMPROXY", "OPENAI_", "PROMETHEUS_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "XDG_RUNTIME_DIR")
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith(unwanted)}
    return {**kept, **more}


class ProcessInfo(msgspec.Struct, frozen=True):
    """One line of the process table."""

    pid: int
    parent: int
    resident_mb: float
    command: str


def family(pid: int) -> list[ProcessInfo]:
    command = ["ps", "-A", "-o", "pid=,ppid=,rss=,args="]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    table = [_process_info(line) for line in done.stdout.splitlines() if line.strip()]
    return [*(each for each in table if each.pid == pid), *_descendants(pid, table)]


def _process_info(line: str) -> ProcessInfo:
    pid, parent, kilobytes, *command = line.split(maxsplit=3)
    return ProcessInfo(int(pid), int(parent), int(kilobytes) / 1024, "".join(command))


def _descendants(pid: int, table: list[ProcessInfo]) -> Iterator[ProcessInfo]:
    for each in table:
        if each.parent == pid and each.pid != pid:
            yield each
            yield from _descendants(each.pid, table)
