"""What runs in relay, engine and the state's process: `supervisor` starts this module with the name of one of them."""

import asyncio
import contextlib
import gc
import logging
import signal
import socket
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import uvloop

from memproxy import __version__, logs
from memproxy.errors import ConfigError
from memproxy.metrics import count_as, metrics
from memproxy.serve.launch import ENGINE, RELAY, STATE, Launch, Lifeline, LongWork, receive
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner
from memproxy.wiring.files import open_traces
from memproxy.wiring.state_stores import RELAY_CHECKPOINT_PAGES, make_state, make_writing

log = logging.getLogger("memproxy.serve.processes")  # it is run as `__main__`

SWITCH_INTERVAL_S = 0.0005
"""How long a computing thread keeps Python's lock from one that returns from SQLite or the embedded store. With
Python's own 5 ms a transaction of ten statements could stay open for 50 ms, and the other writers wait.
"""

OBJECTS = 2_000
"""New objects after which Python collects garbage; with its own 700 every eighth recall pauses for it."""


async def run_relay(launch: Launch, settings: Settings, reloads: "Reloads") -> None:
    """Serve until told to stop."""
    from memproxy.serve.server import Patience, Server, allow_many_files, server_config  # noqa: PLC0415 - not the state
    from memproxy.wiring.relay_parts import make_relay  # noqa: PLC0415 - the engine does not need it

    def patience(settings: Settings) -> Patience:
        return Patience(settings.server.headers_timeout_s, settings.server.body_timeout_s)

    allow_many_files()
    state = make_state(settings, Path(launch.home), checkpoint_pages=RELAY_CHECKPOINT_PAGES, spares=True)
    sockets = [Path(launch.engine_socket), *map(Path, launch.other_engines)]
    traces = open_traces(settings.telemetry, "relay")
    relay = make_relay(settings, state, launch.secret_bytes, sockets, Path(launch.home), traces=traces)
    await relay.start()
    gc.freeze()  # what was made so far stays; looking it through for garbage again and again costs requests
    gc.enable()
    server = Server(server_config(relay), patience(settings))

    tasks = TaskOwner("relay process")

    async def leave() -> None:
        await relay.drain(reloads.settings.server.shutdown_grace_s)
        server.leave()

    def take(settings: Settings) -> None:
        relay.take(settings)
        server.patience = patience(settings)

    reloads.begin(take)
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, lambda: tasks.start(leave(), "leave"))
    listening = socket.socket(fileno=launch.listen_fd)
    try:
        await server.serve(sockets=[listening])
    finally:
        await tasks.cancel()
        await relay.stop()
        if traces is not None:
            await traces.close()


async def run_engine(launch: Launch, settings: Settings, reloads: "Reloads") -> None:
    """Serve on the private socket until told to stop."""
    from memproxy.engine.app import build_app  # noqa: PLC0415 - two seconds that the relay does not need
    from memproxy.serve.server import Server, server_config  # noqa: PLC0415 - the state's process serves no HTTP
    from memproxy.wiring.engine_parts import make_engine  # noqa: PLC0415 - the same

    traces = open_traces(settings.telemetry, "engine")
    engine = make_engine(settings, Path(launch.home), launch.secret_bytes, launch.state_socket, traces)
    gc.freeze()  # as in `_settle`, for the time until all is open
    gc.enable()
    engine.announce_long_work(LongWork(launch.engine_socket))
    server = Server(server_config(build_app(engine), uds=launch.engine_socket))

    tasks = TaskOwner("engine process")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, server.leave)
    reloads.begin(engine.take)
    await engine.start()
    tasks.start(_settle(engine.wait_open()), "settle")
    try:
        await server.serve()
    finally:
        await tasks.cancel()
        await engine.close(reloads.settings.server.shutdown_grace_s)
        if traces is not None:
            await traces.close()


async def run_state(launch: Launch, settings: Settings, reloads: "Reloads") -> None:
    """Write the engine's state until told to stop."""
    writing, stop = make_writing(settings, Path(launch.home)), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    reloads.begin(lambda _: None)
    launch.state_socket.unlink(missing_ok=True)  # of one that was killed
    server = await asyncio.start_unix_server(writing.serve, launch.state_socket)
    gc.freeze()  # as in `run_relay`
    gc.enable()
    await stop.wait()
    server.close()
    await writing.close()


class Reloads:
    """The settings of this process, which the supervisor may send anew."""

    def __init__(self, settings: Settings, lifeline: Lifeline, process: str) -> None:
        self.settings = settings
        self._lifeline = lifeline
        self._process = process

    def begin(self, take: Callable[[Settings], None]) -> None:
        """Call ``take`` with new settings from now on, in this loop."""
        loop = asyncio.get_running_loop()

        def put_into_use(settings: Settings) -> None:
            try:
                take(settings)
            except ConfigError as error:  # a file that the supervisor read just before was changed meanwhile
                log.error("the reloaded configuration cannot be used, the one before goes on: %s", error.message)
                return
            self.settings = settings
            logs.setup(settings.telemetry.log_level, settings.telemetry.log_format, self._process)
            log.info("goes on with the reloaded configuration")

        def soon(settings: Settings) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(put_into_use, settings)

        self._lifeline.on_settings(soon)


async def _settle(opened: Coroutine[Any, Any, None]) -> None:
    """Once all is open, take imports out of garbage collection: a full one takes longer than a recall may."""
    await opened
    gc.collect()
    gc.freeze()


def main() -> None:
    """Run the process that the last argument names."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(OBJECTS)
    gc.disable()  # hardly anything that a start makes is garbage: to look it all through takes a tenth of its time
    launch, lifeline = receive()
    settings = launch.read_settings()
    name = sys.argv[-1]
    process = name.removeprefix("_")
    called = f"{process} {launch.place + 1}" if name == ENGINE and settings.engine.workers > 1 else process
    logs.setup(settings.telemetry.log_level, settings.telemetry.log_format, called)
    logging.captureWarnings(True)  # else they would stand between the lines of JSON
    count_as(f"{process}-{launch.place}")
    metrics().build_info.labels(version=__version__).set(1)
    metrics().begin_at_zero(process)
    if launch.restarts:
        metrics().process_restarts.labels(process=process).inc()
    run = {RELAY: run_relay, ENGINE: run_engine, STATE: run_state}[name]
    uvloop.run(run(launch, settings, Reloads(settings, lifeline, called)))
    gc.freeze()  # the process ends: nothing is left to look through for garbage, which would take a third of a second


if __name__ == "__main__":
    main()
