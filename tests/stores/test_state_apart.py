"""The journal has one writer at a time: nothing of ours keeps the relays' commits waiting for longer than it writes."""

import asyncio
import inspect
import os
import signal
import sqlite3
import sys
import tempfile
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import msgspec
import pytest

from memproxy.errors import NotFound, RequestError, StateUnavailable
from memproxy.ports import KnownSession, StateStore
from memproxy.serve.launch import STATE, Launch, reveal
from memproxy.serve.supervisor import STATE_WRITER_PROBE, answers
from memproxy.settings import Settings
from memproxy.stores.apart_state import WRITES, ApartState
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner
from memproxy.wiring.state_stores import RELAY_CHECKPOINT_PAGES
from tests.stores.making import ANN, BEN, NOON, entry
from tests.stores.states import opened_state
from tests.support.opening import opening
from tests.support.waiting import eventually

COMPUTES = """
import asyncio, ctypes, os, sys, threading
from pathlib import Path
from memproxy.settings import Settings
from memproxy.wiring.state_stores import make_apart_state
from tests.stores.making import BEN, entry

def hold():
    while os.read(0, 1):
        print("holding", flush=True)
        ctypes.PyDLL(None).read(int(sys.argv[3]), bytes(1), 1)  # keeps Python's lock until there is something to read
        print("let go", flush=True)

async def main():
    state = make_apart_state(Settings(), Path(sys.argv[1]), Path(sys.argv[2]))
    await state.open()
    threading.Thread(target=hold, daemon=True).start()
    print("writing", flush=True)
    while True:
        await asyncio.gather(*(state.append(entry(BEN)) for _ in range(200)))

sys.setswitchinterval(0.0005)
asyncio.run(main())
"""
"""A process that writes the state without end, and in which something keeps Python's lock when it is told to."""


async def rows_of(state: SqliteState, least: int) -> bool:
    """Whether at least so many of that process's rows are in the journal."""
    return (await state.backlog(BEN))["index"]["waiting"] >= least


@asynccontextmanager
async def state_process(home: Path) -> AsyncIterator[tuple[Path, int]]:
    """The process that writes an engine's state, as `serve` starts it; its socket, and its id."""
    with tempfile.TemporaryDirectory(prefix="apart-") as folder:  # a socket's path is short
        launch = Launch(settings=reveal(Settings()), home=str(home), secret="", engine_socket=f"{folder}/engine.sock")
        command = (sys.executable, "-m", "memproxy.serve.processes", STATE)
        process = await asyncio.create_subprocess_exec(*command, stdin=PIPE)
        assert process.stdin is not None
        process.stdin.write(msgspec.json.encode(launch) + b"\n")
        try:
            yield launch.state_socket, process.pid
        finally:
            process.terminate()
            assert await process.wait() == 0


async def test_a_relays_commits_wait_for_nothing_that_computes_in_the_engine(tmp_path: Path) -> None:
    """Whatever the engine was writing when something there took Python's lock, and until it gives it back."""
    readable, writable = os.pipe()
    async with opened_state(tmp_path / "state.db") as relay, state_process(tmp_path) as (socket, _):
        command = (sys.executable, "-c", COMPUTES, str(tmp_path), str(socket), str(readable))
        engine = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, pass_fds=[readable])
        assert engine.stdin is not None
        assert engine.stdout is not None
        assert await engine.stdout.readline() == b"writing\n"
        for number in range(1, 6):
            await eventually(lambda number=number: rows_of(relay, 200 * number), what="it writes")  # type: ignore[misc]
            engine.stdin.write(b"h")
            assert await engine.stdout.readline() == b"holding\n"
            for _ in range(5):
                await relay.append(entry())  # raises where another process holds the state for seconds
            os.write(writable, b"g")
            assert await engine.stdout.readline() == b"let go\n"
        engine.kill()
        await engine.wait()
    os.close(readable)
    os.close(writable)


async def test_what_an_engine_that_was_killed_had_claimed_is_the_next_ones_to_recover(tmp_path: Path) -> None:
    async with state_process(tmp_path) as (socket, _):
        for expected in ([], [1]):
            engine = ApartState(tmp_path / "state.db", sync="normal", reads_only=True)
            engine.writes_by(socket)
            await engine.open()
            assert (await engine.recover(max_attempts=9, now=NOON)).again == len(expected)
            if not expected:
                await engine.append(entry())
                claiming = TaskOwner("test").start(engine.claim("index", limit=5, now=NOON), "claim")
                await asyncio.sleep(0)  # it is asked for, and nobody waits for what is answered
                claiming.cancel()
            await engine.close()


async def test_an_engine_that_writes_the_file_itself_is_refused(tmp_path: Path) -> None:
    async with opened_state(tmp_path / "state.db", "apart") as state:
        with pytest.raises(RuntimeError, match="opened for reading"):
            await state._file.write(lambda db: db.execute("DELETE FROM meta"))


async def test_errors_of_the_process_that_writes_are_those_of_the_state(tmp_path: Path) -> None:
    async with opened_state(tmp_path / "state.db", "apart") as state:
        with pytest.raises(NotFound, match="is gone"):
            await state.save_plan(99, b"{}", [])
        with pytest.raises(RequestError):
            await state.set_meta("key", "\ud800")
        (tmp_path / "state.db").rename(tmp_path / "away")
        with pytest.raises(StateUnavailable):
            await state.set_meta("key", "value")
        (tmp_path / "away").rename(tmp_path / "state.db")
        await state.set_meta("key", "value")
        assert await state.get_meta("key") == "value"


async def test_nobody_who_writes_waits_for_the_log_to_be_emptied_beside_a_slow_reader(tmp_path: Path) -> None:
    state, relay = (SqliteState(tmp_path / "state.db", sync="normal") for _ in range(2))
    await state.open()
    await relay.open()
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM journal").fetchall()
        await relay.append(entry())
        wiping = TaskOwner("test").start(state.wipe(), "wipe")
        for _ in range(100):
            await relay.append(entry())
        assert not wiping.done()
        reader.execute("COMMIT")
    await wiping
    await relay.close()
    await state.close()


async def test_a_write_waits_for_another_process_and_goes_on(tmp_path: Path) -> None:
    async with opened_state(tmp_path / "state.db") as state:
        with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            appending = TaskOwner("test").start(state.append(entry()), "test")
            assert await state.queue_sizes()
            other.execute("COMMIT")
        assert await appending == 1


async def test_sessions_that_are_remembered_at_once_share_a_commit(tmp_path: Path) -> None:
    async with opened_state(tmp_path / "state.db") as state:
        known = KnownSession(session="s1", said_at=NOON)
        log = tmp_path / "state.db-wal"
        before = log.stat().st_size
        await asyncio.gather(*(state.remember_session(ANN, [f"c:{number}"], known) for number in range(50)))
        assert log.stat().st_size - before < 50 * 4096, "a commit of each would write a page of each"
        found = await state.find_session(ANN, [f"c:{number}" for number in range(50)])
        assert {session.session for sessions in found.values() for session in sessions} == {"s1"}
        assert len(found) == 50


async def test_a_relay_leaves_the_log_to_the_engine(tmp_path: Path) -> None:
    log = tmp_path / "state.db-wal"
    async with opening(
        SqliteState(tmp_path / "state.db", sync="normal", checkpoint_pages=RELAY_CHECKPOINT_PAGES)
    ) as relay:
        while log.stat().st_size < 6_000_000:
            await relay.append(entry(body=b"x" * 100_000))
        async with opened_state(tmp_path / "state.db") as engine:
            await engine.append(entry())
            size = log.stat().st_size
            await relay.append(entry())
            assert log.stat().st_size == size, "it was brought into the file and begins anew"


async def test_a_probe_is_answered_while_an_engine_is_served_and_not_by_a_process_that_hangs(tmp_path: Path) -> None:
    async with state_process(tmp_path) as (socket, pid):
        state = ApartState(tmp_path / "state.db", sync="normal", reads_only=True)
        state.writes_by(socket)
        await state.open()
        assert await answers(socket, STATE_WRITER_PROBE)
        await state.set_meta("still", "served")
        os.kill(pid, signal.SIGSTOP)
        assert not await answers(socket, STATE_WRITER_PROBE)
        os.kill(pid, signal.SIGCONT)
        assert await answers(socket, STATE_WRITER_PROBE)
        await state.close()
    assert not await answers(socket, STATE_WRITER_PROBE)


def test_whatever_writes_goes_to_the_process_that_writes() -> None:
    """A method that is not among `WRITES` is run in a process that opened the file for reading."""
    reads = [name for name in dir(StateStore) if not name.startswith("_") and name not in {*WRITES, "open", "close"}]
    methods = {name: method for name in reads if inspect.isfunction(method := getattr(SqliteState, name, None))}
    writing = [name for name, method in methods.items() if ".write(" in inspect.getsource(method)]
    assert not writing
