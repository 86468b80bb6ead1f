"""``memproxy serve``: takes the port and the store, starts relays and engines, restarts what dies.

SIGHUP reloads the configuration: it is read and checked as a whole, and what a running server can take (`RELOADED`)
goes to the processes over their pipes. No process is started or ended for it. One that cannot be used changes nothing.

The order of shutdown (SIGTERM, Ctrl-C or a closed terminal; a second of the first two ends everything at once):

1. The relays stop accepting. Open requests get ``server.shutdown_grace_s`` seconds to finish and commit their turns.
2. The engines stop taking new work, let what runs finish within the same time, flush and close the store. What is
   left waits in the journal for the next start.
3. The state's process (there is one where the state is embedded) closes it; the engine was the last to write by it.
4. The socket, the locks and the runtime folder are given back.
"""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from tenacity import Retrying, retry_if_exception_type, retry_if_not_exception_type, stop_after_delay, wait_fixed

from memproxy import __version__, logs
from memproxy.core.protocol import READY_PATH, STATE_PROBE
from memproxy.errors import ConfigError
from memproxy.serve.instance import ENGINE_SOCKET, locked, runtime_folder
from memproxy.serve.launch import (
    ENDING_SIGNALS,
    ENGINE,
    RELAY,
    STATE,
    Launch,
    LongWork,
    has_terminal,
    hears_hangups,
    reveal,
)
from memproxy.settings import Settings
from memproxy.settings.home import home_dir, secret, state_path, store_path
from memproxy.settings.loading import conflicts
from memproxy.settings.reference import settings_of, value_at
from memproxy.wiring.files import check_files, check_not_moved, memory_for

RELOADED = (
    "auth.allow_remote",
    "auth.jwt",
    "auth.keys",
    "auth.open_relay",
    "auth.tenants",
    "auth.unnamed_user",
    "limits.tenant",
    "limits.user.chat_per_minute",
    "limits.user.memories",
    "limits.user.turns_per_minute",
    "server.allowed_hosts",
    "server.body_timeout_s",
    "server.cors_origins",
    "server.headers_timeout_s",
    "server.max_concurrent_requests",
    "server.max_held_bytes",
    "server.shutdown_grace_s",
    "telemetry.log_format",
    "telemetry.log_level",
    "telemetry.metrics",
    "telemetry.metrics_token",
    "upstream.shared_calls",
)
"""Settings, and sections, that a running server takes. docs/configuration.md lists them."""


class Reload(NamedTuple):
    """``settings`` are what a running server goes on with; ``applied`` are the paths of what it takes, ``waiting``
    those that were changed in the file, too, and need a restart.
    """

    settings: Settings
    applied: list[str]
    waiting: list[str]


def reload(now: Settings, new: Settings) -> Reload:
    """What becomes of a server that runs with ``now`` when its file says ``new``. Raises `ConfigError` where what can
    be taken does not go together with what cannot.
    """
    applied: list[str] = []
    waiting: list[str] = []
    values = reveal(now)
    for path in [setting.path for setting in settings_of()]:
        if value_at(now, path) == value_at(new, path):
            continue
        # keys, tokens and tenants belong to the mode that reads them
        waits = now.auth.mode != new.auth.mode and path.startswith("auth.")
        if waits or not is_reloaded(path):
            waiting.append(path)
            continue
        applied.append(path)
        section, (*above, name) = values, path.split(".")
        for parent in above:
            section = section[parent]
        section[name] = reveal(value_at(new, path))
    settings = Settings.model_validate(values)
    for path, problem in conflicts(settings):
        names = ", ".join(waiting)
        raise ConfigError(f"{path}: {problem}. {names} changed, too, and cannot be reloaded: restart memproxy.")
    return Reload(settings, applied, waiting)


def is_reloaded(path: str) -> bool:
    """Whether a running server takes a change of this setting."""
    return any(f"{path}.".startswith(f"{reloaded}.") for reloaded in RELOADED)


PROBE_EVERY_S = 5.0
PROBE_TIMEOUT_S = 4.0
HUNG_AFTER_S = 30.0
"""A process that is silent for this long is ended: nothing that it does while it serves takes longer."""

LONGEST_WORK_S = 1800.0
"""How long an engine that announced long work may be silent. Removing deleted text from a store of millions of memories
takes minutes; ending the engine there would only begin the same work again.
"""

LONGEST_START_S = 180.0
"""How long a new engine may be silent: importing its libraries took over 20 s beside twenty other busy processes."""


ENGINE_PROBE = f"GET {READY_PATH} HTTP/1.1\r\nHost: engine\r\nConnection: close\r\n\r\n".encode(), b"HTTP/1.1 200"
STATE_WRITER_PROBE = STATE_PROBE, STATE_PROBE
"""A probe's request to a process of ours, and how its answer begins."""


async def answers(path: str | Path, probe: tuple[bytes, bytes]) -> bool:
    """Whether a process of ours answers on its private socket within `PROBE_TIMEOUT_S`."""
    sent, expected = probe
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(str(path))
            try:
                writer.write(sent)
                return await reader.readexactly(len(expected)) == expected
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        return False


class Silence:
    """How long a process has not answered, counted from its own start, by probes `PROBE_EVERY_S` apart."""

    def __init__(self) -> None:
        self._pid: int | None = None
        self._answered = False
        self.lasts_s = 0.0

    def is_too_long(self, pid: int | None, *, answered: bool, works: bool = False) -> bool:
        """Note a probe of this process; whether it hangs. ``works``: it has said that it works on something long."""
        if pid != self._pid:
            self._pid, self._answered, self.lasts_s = pid, False, 0.0
        self._answered = self._answered or answered
        self.lasts_s = 0.0 if answered else self.lasts_s + PROBE_EVERY_S
        longest = LONGEST_WORK_S if works else HUNG_AFTER_S
        return self.lasts_s >= (longest if self._answered else max(longest, LONGEST_START_S))


class Replaced:
    """Notices that a file or folder was deleted and made anew while a process has the old one open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._pid: int | None = None
        self._inode: int | None = None

    def since(self, pid: int | None) -> bool:
        """Whether it was replaced since the first call for this process. A missing file counts as not replaced."""
        try:
            now = self.path.stat().st_ino
        except OSError:
            now = None
        if pid != self._pid:
            self._pid, self._inode = pid, now
        self._inode = self._inode if self._inode is not None else now
        return now is not None and now != self._inode


log = logging.getLogger(__name__)

BIND_PATIENCE_S = 2.0
"""The port of a process that was just killed may stay taken for a moment."""

FIRST_RESTART_S = 0.1
LAST_RESTART_S = 5.0
LONG_LIFE_S = 30.0
"""A process that lived longer than this starts again at once; one that keeps dying, after up to `LAST_RESTART_S`."""


def bind(host: str, port: int, *, patience_s: float = BIND_PATIENCE_S) -> socket.socket:
    """The listening socket, shared by all relays; binding is tried again for ``patience_s``.

    Raises:
        ConfigError: the address is taken or not ours; the message says what to do.
    """
    patience = Retrying(
        retry=retry_if_exception_type(OSError) & retry_if_not_exception_type(socket.gaierror),
        stop=stop_after_delay(patience_s),
        wait=wait_fixed(0.1),
        reraise=True,
    )
    try:
        return patience(_listen, host.strip("[]"), port)
    except socket.gaierror as error:
        raise ConfigError(f"server.host: {host!r} is no address of this machine ({error.strerror}).") from error
    except OSError as error:
        raise ConfigError(f"Cannot listen on {host}:{port} ({error.strerror}). {_remedy(error)}") from error


def _remedy(error: OSError) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return "Choose an address of this machine with --host or server.host."
    if error.errno == errno.EACCES:
        return "Ports below 1024 need more rights: choose a higher one with --port or server.port."
    return "Stop what uses it, or choose another port with --port or server.port."


def _listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except OSError:
        listening.close()
        raise
    return listening


class Child:
    """One process of ours, started again when it ends on its own; ``rests``, which needs it, is then ended, too."""

    def __init__(self, name: str, launch: Launch, environment: dict[str, str], *, rests: "Child | None" = None) -> None:
        self._rests = rests
        self._name = name
        self.launch = launch
        self._environment = environment
        self._process: asyncio.subprocess.Process | None = None
        self._ended = asyncio.Event()
        self._leaving = False

    async def run(self) -> None:
        """Keep it running until `stop`."""
        delay, restarts = FIRST_RESTART_S, 0
        while not self._ended.is_set():
            began = time.monotonic()
            code = await self._once(restarts)
            if self._ended.is_set() or self._leaving:
                return
            lived = time.monotonic() - began
            delay = FIRST_RESTART_S if lived > LONG_LIFE_S else min(delay * 2, LAST_RESTART_S)
            restarts += 1
            if self._rests is not None:
                self._rests.restart()
            ended = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
            log.error("the %s ended (%s); starting it again", self.called, ended)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ended.wait(), delay)

    async def _once(self, restarts: int) -> int:
        fds = (self.launch.listen_fd,) if self.launch.listen_fd >= 0 else ()
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "memproxy.serve.processes",
            self._name,
            stdin=asyncio.subprocess.PIPE,
            pass_fds=fds,
            env=self._environment,
        )
        self._process = process
        if self._ended.is_set():
            process.kill()
        assert process.stdin is not None, "asked for above"  # noqa: S101 - a programming error, not an input
        with contextlib.suppress(ConnectionError):
            handed = msgspec.structs.replace(self.launch, restarts=restarts)
            process.stdin.write(msgspec.json.encode(handed) + b"\n")
            await process.stdin.drain()
        return await process.wait()

    def hand_over(self, settings: dict[str, Any]) -> None:
        """Give the process and its successors these settings (as `reveal` returns them)."""
        self.launch = msgspec.structs.replace(self.launch, settings=settings)
        process = self._process
        if process is not None and process.returncode is None and process.stdin is not None:
            process.stdin.write(msgspec.json.encode(settings) + b"\n")  # one that just ended is started with them

    @property
    def called(self) -> str:
        """Its name in logs; the number tells those after the first one apart."""
        name, index = self._name.removeprefix("_"), self.launch.place
        return f"{name} {index + 1}" if index else name

    @property
    def pid(self) -> int | None:
        """The process id of the one that runs, or ran last."""
        return self._process.pid if self._process is not None else None

    async def stop(self, grace_s: float) -> None:
        """Ask it to end; make it, after ``grace_s``."""
        self._ended.set()
        process = self._process
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            await asyncio.wait_for(process.wait(), grace_s)
        except TimeoutError:
            log.warning("the %s did not end in %g s; ending it now", self.called, grace_s)
            self.kill()
            await process.wait()

    def leave(self) -> None:
        """Do not start it again when it ends: it will be stopped soon, and may have got the same signal."""
        self._leaving = True

    def restart(self) -> None:
        """End it at once, and let `run` start it again."""
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    def kill(self) -> None:
        """End it at once, for good."""
        self._ended.set()
        self.restart()


def _relay_launch(launch: Launch, sockets: list[str], index: int) -> Launch:
    """The launch of the relay at this place: the engine that it asks first is another one than its neighbour's."""
    first = index % len(sockets)
    other_sockets = (*sockets[first + 1 :], *sockets[:first])
    return msgspec.structs.replace(launch, place=index, engine_socket=sockets[first], other_engines=other_sockets)


class Supervisor:
    """Runs relays and engine over one listening socket. ``read`` reads the configuration anew."""

    def __init__(
        self, settings: Settings, launch: Launch, environment: dict[str, str], read: Callable[[], Settings]
    ) -> None:
        self._settings = settings
        self._read = read
        self._had_terminal = has_terminal()
        home, is_embedded = Path(launch.home), settings.state.backend == "sqlite"
        self._opened = [state_path(settings.state, home)] if is_embedded else []
        if settings.store.backend == "edge":
            self._opened.append(store_path(settings.store, home))
        first = Path(launch.engine_socket)
        other_names = [f"{first.stem}-{index}{first.suffix}" for index in range(2, settings.engine.workers + 1)]
        sockets = [str(first), *(str(first.with_name(name)) for name in other_names)]
        self._relays = [
            Child(RELAY, _relay_launch(launch, sockets, index), environment) for index in range(settings.server.workers)
        ]
        alone = msgspec.structs.replace(launch, listen_fd=-1)
        self._engines = [
            Child(ENGINE, msgspec.structs.replace(alone, engine_socket=socket, place=index), environment)
            for index, socket in enumerate(sockets)
        ]
        # what the engine had claimed is taken back when it opens the state anew, not before
        states = [Child(STATE, alone, environment, rests=self._engines[0])]
        self._states = states if is_embedded else []
        self._children = [*self._relays, *self._engines, *self._states]
        self._stop = asyncio.Event()
        self.in_order = True
        """Whether everything is given the time to end in order."""

    async def run(self) -> None:
        """Until SIGTERM, SIGINT or the end of its terminal; then the order of the module's first lines."""
        loop = asyncio.get_running_loop()
        for number in ENDING_SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        if hears_hangups():
            loop.add_signal_handler(signal.SIGHUP, self._hung_up)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})
        async with asyncio.TaskGroup() as group:
            for child in self._children:
                group.create_task(child.run())
            works = [*map(self._watch_engine, self._engines), *map(self._watch_state, self._states)]
            watches = [group.create_task(watch) for watch in (*works, self._watch_terminal())]
            await self._stop.wait()
            grace_s = self._settings.server.shutdown_grace_s
            log.info("stopping: open requests have %g s to finish", grace_s)
            for watch in watches:
                watch.cancel()
            for rank in (self._relays, self._engines, self._states):
                await asyncio.gather(*(child.stop(grace_s + 3) for child in rank))
        for number in (*ENDING_SIGNALS, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)

    async def _watch_terminal(self) -> None:
        """Note a terminal that went away without a SIGHUP (its shell ended and left us running): a later SIGHUP then
        asks for a reload and not for an end.
        """
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            self._had_terminal = has_terminal()

    async def _watch_engine(self, engine: Child) -> None:
        """End an engine that hangs, so that a fresh one takes its place; requests go on without it meanwhile."""
        socket = engine.launch.engine_socket
        silence, work, opened = Silence(), LongWork(socket), [Replaced(path) for path in self._opened]
        while True:
            pid = engine.pid
            if replaced := [file.path for file in opened if file.since(pid)]:
                log.error("%s was replaced while the engine had it open; starting the engine again", replaced[0])
                for child in (*self._states, engine):
                    child.restart()
            await asyncio.sleep(PROBE_EVERY_S)
            pid, answered = engine.pid, await answers(socket, ENGINE_PROBE)
            if silence.is_too_long(pid, answered=answered, works=work.is_of(pid)):
                log.error("the %s has not answered for %g s; ending it", engine.called, silence.lasts_s)
                engine.restart()

    async def _watch_state(self, state: Child) -> None:
        """End a state's process that hangs: whatever the engine writes waits for it."""
        silence = Silence()
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            answered = await answers(state.launch.state_socket, STATE_WRITER_PROBE)
            if silence.is_too_long(state.pid, answered=answered):
                log.error("the state's process has not answered for %g s; ending it", silence.lasts_s)
                state.restart()

    def _on_signal(self, number: int) -> None:
        """Stop in order; at once when asked a second time, except by SIGHUP: a terminal that closes sends it twice."""
        insists = self._stop.is_set() and number != signal.SIGHUP
        self.in_order = self.in_order and not insists
        for child in self._children:
            (child.kill if insists else child.leave)()
        self._stop.set()

    def _hung_up(self) -> None:
        """SIGHUP: the terminal that we were started from was closed, or somebody wants the configuration reloaded."""
        if self._had_terminal and not has_terminal():
            self._on_signal(signal.SIGHUP)
        elif not self._stop.is_set():
            self._reload()

    def _reload(self) -> None:
        try:
            new = self._read()
            check_files(new)
            settings, applied, waiting = reload(self._settings, new)
            check_files(settings)
        except ConfigError as error:
            log.error("the configuration was not reloaded, the one before goes on: %s", error.message)
            return
        old, self._settings = self._settings, settings
        for child in self._children:
            child.hand_over(reveal(settings))
        logs.setup(settings.telemetry.log_level, settings.telemetry.log_format, "serve")
        log.info(
            "the configuration was reloaded: %s", f"changed {', '.join(applied)}" if applied else "nothing changed"
        )
        if (remembered := memory_for(settings)) != memory_for(old):
            log.info("who gets memory: %s", remembered)
        if waiting:
            log.warning("changed in the configuration, and not before a restart in effect: %s", ", ".join(waiting))


def serve(settings: Settings, environ: dict[str, str], read: Callable[[], Settings]) -> None:
    """Run the proxy until it is told to stop. ``read`` reads its configuration anew (SIGHUP).

    Raises:
        ConfigError: the port or the store is taken, a folder cannot be written, or a file that the settings name cannot
            be used.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})  # until `run` can handle it
    home = home_dir(environ)
    key = secret(environ, home)
    if settings.privacy.encrypt:
        from memproxy.wiring.state_stores import check_master_key  # noqa: PLC0415 - the whole of the state's store

        check_master_key(settings, environ)
    check_files(settings)
    with contextlib.ExitStack() as held:
        locks = held.enter_context(locked(settings, home))
        check_not_moved(settings, home)
        listening = held.enter_context(contextlib.closing(bind(settings.server.host, settings.server.port)))
        folder = held.enter_context(runtime_folder(locks[0]))
        address = f"http://{settings.server.url_host}:{listening.getsockname()[1]}"
        for lock in locks:
            lock.announce(address)
        log.info("memproxy %s listens on %s, upstream %s", __version__, address, settings.upstream.shown_url)
        log.info("who gets memory: %s", memory_for(settings))
        launch = Launch(
            settings=reveal(settings),
            home=str(home),
            secret=key.hex(),
            engine_socket=str(folder / ENGINE_SOCKET),
            listen_fd=listening.fileno(),
        )
        environment = {**environ, "PROMETHEUS_MULTIPROC_DIR": str(folder / "metrics")}
        supervisor = Supervisor(settings, launch, environment, read)
        asyncio.run(supervisor.run())
    log.info("stopped" if supervisor.in_order else "ended at once, as asked twice")
