"""The journal has one writer at a time: nothing of ours keeps the relays' commits waiting for longer than it writes."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

from memproxy.ports import KnownSession
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner
from memproxy.wiring.state import RELAY_CHECKPOINT_PAGES
from tests.stores.making import ANN, NOON
from tests.stores.test_sqlite_state import entry


async def test_no_transaction_is_open_while_the_store_is_flushed(tmp_path: Path) -> None:
    """A flush holds Python's lock: a transaction that it interrupted would hold SQLite's meanwhile."""
    apart = threading.Lock()
    state = SqliteState(tmp_path / "state.db", sync="normal", apart=apart)
    await state.open()
    with apart:
        appending = TaskOwner("test").start(state.append(entry()), "test")
        relay = SqliteState(tmp_path / "state.db", sync="normal")
        await relay.open()
        for _ in range(20):
            await relay.append(entry())
        assert not appending.done()
    assert await appending == 21
    await relay.close()
    await state.close()


async def test_a_flush_waits_for_a_transaction_that_is_open(tmp_path: Path) -> None:
    apart = threading.Lock()
    store = EdgeStore(tmp_path / "store", dimension=4, embedder_name=None, lull_s=0, apart=apart)
    await store.open(None)
    with apart:
        flushing = TaskOwner("test").start(store.flush(), "test")
        for _ in range(20):
            await store.points()
        assert not flushing.done()
    await flushing
    await store.close()


async def test_a_write_waits_for_another_process_and_goes_on(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await state.open()
    with closing(sqlite3.connect(tmp_path / "state.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        appending = TaskOwner("test").start(state.append(entry()), "test")
        assert await state.queue_sizes()
        other.execute("COMMIT")
    assert await appending == 1
    await state.close()


async def test_sessions_that_are_remembered_at_once_share_a_commit(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await state.open()
    known = KnownSession(session="s1", said_at=NOON)
    log = tmp_path / "state.db-wal"
    before = log.stat().st_size
    await asyncio.gather(*(state.remember_session(ANN, [f"c:{number}"], known) for number in range(50)))
    assert log.stat().st_size - before < 50 * 4096, "a commit of each would write a page of each"
    found = await state.find_session(ANN, [f"c:{number}" for number in range(50)])
    assert {session.session for sessions in found.values() for session in sessions} == {"s1"}
    assert len(found) == 50
    await state.close()


async def test_a_relay_leaves_the_log_to_the_engine(tmp_path: Path) -> None:
    log = tmp_path / "state.db-wal"
    relay = SqliteState(tmp_path / "state.db", sync="normal", checkpoint_pages=RELAY_CHECKPOINT_PAGES)
    await relay.open()
    while log.stat().st_size < 6_000_000:
        await relay.append(entry(body=b"x" * 100_000))
    engine = SqliteState(tmp_path / "state.db", sync="normal")
    await engine.open()
    await engine.append(entry())
    size = log.stat().st_size
    await relay.append(entry())
    assert log.stat().st_size == size, "it was brought into the file and begins anew"
    await engine.close()
    await relay.close()
