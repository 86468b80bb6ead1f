"""What the server can do to the state: be away, refuse, be too old or half migrated; each with one line that helps."""

import asyncio
import os
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from pathlib import Path

import psutil
import psycopg
import pytest
from hypothesis import given, settings

from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, MemproxyError, StateUnavailable
from memproxy.ports import KnownSession, SlotChange
from memproxy.serve.server import allow_many_files
from memproxy.stores.postgres import PostgresStore
from memproxy.stores.postgres_state import PostgresState
from memproxy.stores.postgres_state_database import CONNECTIONS, SCHEMA, PostgresDatabase
from memproxy.stores.postgres_state_schema import FIRST_VERSION, MIGRATIONS, migrate
from memproxy.stores.state_working import AT_ONCE
from tests.bench.working import multiply_postgres
from tests.stores.making import ANN, BEN, NOON, entry
from tests.stores.test_state_journal_order import Model, _step, steps
from tests.stores.test_state_working import entry as working_entry
from tests.support.opening import opening
from tests.support.postgres import ADMIN, USER, PostgresServer, postgres_server
from tests.support.waiting import LONGEST_S, eventually

pytestmark = pytest.mark.services

PASSWORD = "correct horse"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server that the tests of this module break."""
    with postgres_server() as started:
        access = started.folder / "data" / "pg_hba.conf"
        access.write_text(f"host all locked all scram-sha-256\n{access.read_text()}")
        with psycopg.connect(started.url("postgres", ADMIN), autocommit=True) as db:
            db.execute(f"CREATE ROLE locked LOGIN PASSWORD '{PASSWORD}'")
            db.execute("CREATE ROLE guest LOGIN")
            db.execute("SELECT pg_reload_conf()")
        yield started


@pytest.fixture
def address(server: PostgresServer) -> str:
    """The address of an empty database on it."""
    return server.database()


def opened(address: str, folder: Path) -> AbstractAsyncContextManager[PostgresState]:
    return opening(PostgresState(address, folder / "state.db", sync="normal"))


async def refusal(address: str, folder: Path, part: str = "state") -> str:
    """Why a state, or a store, there does not open."""
    state = PostgresState(address, folder / "state.db", sync="full")
    store = PostgresStore(url=address, collection="memproxy", dimension=2, embedder_name=None)
    with pytest.raises(MemproxyError) as told:
        await (state.open() if part == "state" else store.open(None))
    await state.close()
    await store.close()
    assert "\n" not in told.value.message
    assert PASSWORD not in told.value.message
    return told.value.message


@pytest.mark.parametrize("part", ["state", "store"])
@pytest.mark.parametrize(
    ("changes", "cause", "remedy"),
    [
        ({"port": 1}, "refused", "Check that PostgreSQL runs, and {part}.url."),
        ({"host": "no-such-host.invalid"}, "host", "Check the host in {part}.url."),
        ({"user": "locked", "password": "wrong"}, "password authentication failed", "Check user and password"),
        ({"user": "locked"}, "no password supplied", "Add the password to {part}.url."),
        ({"user": "nobody-here"}, "does not exist", "CREATE ROLE"),
        ({"dbname": "nothing-here"}, "does not exist", "CREATE DATABASE"),
        ({"user": "guest"}, "permission denied", "GRANT CREATE ON "),
        ({"options": "-c default_transaction_read_only=on"}, "read-only", "target_session_attrs=read-write"),
    ],
)
async def test_a_server_that_refuses_is_told_in_one_line_with_a_remedy(
    changes: dict[str, str | int], cause: str, remedy: str, part: str, address: str, tmp_path: Path
) -> None:
    message = await refusal(psycopg.conninfo.make_conninfo(address, **changes), tmp_path, part)
    assert cause in message
    assert remedy.format(part=part) in message


@pytest.mark.parametrize("part", ["state", "store"])
async def test_too_many_connections_are_told(server: PostgresServer, part: str, address: str, tmp_path: Path) -> None:
    with psycopg.connect(server.url("postgres", ADMIN), autocommit=True) as db:
        db.execute("ALTER ROLE guest CONNECTION LIMIT 0")
        message = await refusal(psycopg.conninfo.make_conninfo(address, user="guest"), tmp_path, part)
        db.execute("ALTER ROLE guest CONNECTION LIMIT -1")
    assert "too many connections" in message
    assert "max_connections" in message


@pytest.mark.parametrize("part", ["state", "store"])
async def test_a_database_that_cannot_hold_every_text_is_refused(
    server: PostgresServer, part: str, tmp_path: Path
) -> None:
    with psycopg.connect(server.url("postgres", ADMIN), autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS latin")
        db.execute("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    assert "ENCODING 'UTF8'" in await refusal(server.url("latin"), tmp_path, part)


async def test_an_old_pgvector_is_refused(server: PostgresServer, address: str, tmp_path: Path) -> None:
    with psycopg.connect(server.url(address.rsplit("/", 1)[1], ADMIN)) as db:
        db.execute("UPDATE pg_extension SET extversion = '0.4.4' WHERE extname = 'vector'")
    message = await refusal(address, tmp_path, "store")
    assert "0.4.4; 0.5 or newer" in message
    assert "ALTER EXTENSION vector UPDATE;" in message


async def test_a_user_whom_row_level_security_does_not_bind_is_told(
    server: PostgresServer, address: str, caplog: pytest.LogCaptureFixture
) -> None:
    for user, told in ((USER, 0), (ADMIN, 1)):
        url = server.url(address.rsplit("/", 1)[1], user)
        store = PostgresStore(url=url, collection=user, dimension=2, embedder_name=None)
        await store.open(None)
        await store.close()
        assert caplog.text.count("passes row-level security") == told


async def test_a_connection_works_beside_a_thousand_others(address: str) -> None:
    allow_many_files()
    others = [os.open(os.devnull, os.O_RDONLY) for _ in range(1024)]
    database = PostgresDatabase(address, sync="normal")
    try:
        await database.open()
        assert await database.run("SELECT") == 1
    finally:
        await database.close()
        for other in others:
            os.close(other)


async def test_a_server_that_is_not_up_yet_is_not_told_to_lack_the_database(tmp_path: Path) -> None:
    """It recovers without an end, as a standby does that nobody may read from."""
    with postgres_server() as recovering:
        address = recovering.database()
        recovering.stop("fast")
        data = recovering.folder / "data"
        (data / "standby.signal").touch()
        with (data / "postgresql.auto.conf").open("a") as settings_file:
            settings_file.write("hot_standby = off\n")
        recovering.start()
        message = await refusal(address, tmp_path)
    assert "the database system is" in message
    assert message.endswith("It is tried again.")


def test_what_is_no_connection_string_is_refused_without_showing_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as told:
        PostgresState("postgresql://user:geheim@host:port/name?wrong=1", tmp_path / "state.db", sync="normal")
    assert "geheim" not in told.value.message
    assert "postgresql://user:password@host" in told.value.message


async def test_a_database_of_a_newer_version_is_left_alone(address: str, tmp_path: Path) -> None:
    async with opened(address, tmp_path):
        pass
    with psycopg.connect(address) as db:
        db.execute(f"UPDATE {SCHEMA}.version SET number = 99")
    assert "version 99" in await refusal(address, tmp_path)


async def test_a_migration_that_ends_in_the_middle_leaves_nothing_half(address: str) -> None:
    database = PostgresDatabase(address, sync="normal")
    broken = [*MIGRATIONS, ["CREATE TABLE half (number integer)", "SELECT pg_terminate_backend(pg_backend_pid())"]]
    with pytest.raises(StateUnavailable):
        async with database.alone() as db:
            await migrate(db, broken)
    with psycopg.connect(address) as there:
        assert there.execute("SELECT count(*) FROM pg_namespace WHERE nspname = %s", [SCHEMA]).fetchone() == (0,)
    async with database.alone() as db:
        await migrate(db)
    with pytest.raises(StateUnavailable):
        async with database.alone() as db:
            await migrate(db, broken)
    with psycopg.connect(address) as there:
        assert there.execute(f"SELECT number FROM {SCHEMA}.version").fetchone() == (FIRST_VERSION,)
        assert there.execute(f"SELECT to_regclass('{SCHEMA}.half')").fetchone() == (None,)


async def test_more_working_memory_than_one_transaction_erases_goes_with_its_user(address: str, tmp_path: Path) -> None:
    async with opened(address, tmp_path) as state:
        await state.put_working(ANN, working_entry("run/r0/k0"), most=9)
        await asyncio.to_thread(multiply_postgres, address, 1, 2 * AT_ONCE + 7)
        assert len(await state.newest_working(ANN, NOON, most=9 * AT_ONCE)) == 2 * AT_ONCE + 7
        await state.forget(ANN, session=None)
        assert await state.newest_working(ANN, NOON, most=1) == []


async def test_who_is_cancelled_when_a_connection_comes_is_cancelled(address: str) -> None:
    """Python 3.11 forgets a cancellation that comes in the moment in which what is waited for does."""
    database = PostgresDatabase(address, sync="normal")
    await database.open()

    async def wait_for_ever() -> None:
        async with database.connected():
            await asyncio.Event().wait()

    try:
        for moment in range(8):
            async with AsyncExitStack() as held:
                for _ in range(CONNECTIONS - 1):
                    await held.enter_async_context(database.connected())
                async with database.connected():
                    waiting = asyncio.get_running_loop().create_task(wait_for_ever())
                    await asyncio.sleep(0.01)
                for _ in range(moment):
                    await asyncio.sleep(0)
                waiting.cancel()
                await asyncio.wait([waiting], timeout=LONGEST_S)
                assert waiting.cancelled(), moment
    finally:
        await database.close()


async def test_replicas_that_start_at_once_migrate_once(address: str, tmp_path: Path) -> None:
    states = [PostgresState(address, tmp_path / f"{number}.db", sync="normal") for number in range(4)]
    await asyncio.gather(*(state.open() for state in states))
    numbers = await asyncio.gather(*(state.append(entry()) for state in states))
    assert len(set(numbers)) == 4
    for state in states:
        await state.close()


async def test_a_restart_of_the_server_is_gone_through_and_nothing_is_lost(
    server: PostgresServer, address: str, tmp_path: Path
) -> None:
    async with opened(address, tmp_path) as state:
        first = await state.append(entry())
        await state.claim("index", limit=1, now=NOON)
        server.stop("fast")
        with pytest.raises(StateUnavailable, match="Check that PostgreSQL runs"):
            await state.append(entry(BEN))
        began = asyncio.get_running_loop().time()
        with pytest.raises(StateUnavailable):
            await state.progress(ANN)
        assert asyncio.get_running_loop().time() - began < 2.0  # known to be away: not waited for as long again
        before = state.news()
        server.start()

        async def appended() -> int:
            try:
                return await state.append(entry(BEN))
            except StateUnavailable:
                return 0

        second = await eventually(appended, what="the state works again")
        await eventually(lambda: state.news() != before, what="what was told meanwhile counts as missed")
        assert second > first
        await state.finish(first)
        (row,) = await state.claim("index", limit=5, now=NOON)
        assert row.number == second


async def test_what_was_acknowledged_survives_a_crash_of_the_server(
    server: PostgresServer, address: str, tmp_path: Path
) -> None:
    async with opened(address, tmp_path) as state:
        numbers = [await state.append(entry()) for _ in range(20)]
        server.stop("immediate")
        server.start(fsync="on")

        async def there() -> bool:
            try:
                return (await state.queue_sizes())["index"]["waiting"] == len(numbers)
            except StateUnavailable:
                return False

        await eventually(there, what="all rows are there")


async def test_a_connection_that_breaks_is_replaced_before_it_is_used(address: str, tmp_path: Path) -> None:
    async with opened(address, tmp_path) as state:
        await state.append(entry())
        with psycopg.connect(address, autocommit=True) as db:
            ended = db.execute(
                "SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'memproxy' AND datname = current_database()"
            ).fetchall()
        await eventually(lambda: not any(psutil.pid_exists(pid) for pid, _ in ended), what="they are closed")
        assert await state.append(entry()) > 0


async def test_a_commit_is_on_the_servers_disk_where_that_is_asked_for(address: str, tmp_path: Path) -> None:
    asynchronous = psycopg.conninfo.make_conninfo(address, options="-c synchronous_commit=off")
    for sync, wanted in (("normal", "off"), ("full", "on")):
        state = PostgresState(asynchronous, tmp_path / "state.db", sync=sync)  # type: ignore[arg-type]
        await state.open()
        async with state._database.connected() as db:
            found = await (await db.execute("SHOW synchronous_commit")).fetchone()
        assert found == (wanted,)
        await state.close()


@pytest.mark.parametrize("name", ["with \0 in it", "\\", "\\0", "\\\\0\0", "ünïcödé 🙂"])
async def test_names_that_postgres_has_no_text_for_are_kept(name: str, address: str, tmp_path: Path) -> None:
    user = Scope(tenant="t", user=name, session=name)
    async with opened(address, tmp_path) as state:
        await state.append(entry(user))
        await state.change_slots(user, [SlotChange(slot=name, expected=None, new="m")])
        await state.remember_session(user, [name], KnownSession(session=name, said_at=NOON, answer=name))
        (row,) = await state.claim("index", limit=1, now=NOON)
        assert row.entry.scope == user
        assert await state.slots(user, [name]) == {name: "m"}
        assert (await state.find_session(user, [name]))[name][0].answer == name
        assert await state.owners(after=None, limit=9) == [("t", name)]
        await state.drop_slots(user, name[:1])
        assert await state.slots(user, [name]) == {}


async def test_the_journals_order_holds_whatever_is_done(address: str, tmp_path: Path) -> None:
    async with opened(address, tmp_path) as state:
        loop = asyncio.get_running_loop()

        async def example(done: list[tuple[str, object, object]]) -> None:
            async with state._database.connected() as db:
                await db.execute("TRUNCATE journal, owners, erased")
            model = Model()
            for action, first, second in done:
                await _step(state, model, action, first, second)  # type: ignore[arg-type]

        @settings(max_examples=25, deadline=None)
        @given(steps)
        def check(done: list[tuple[str, object, object]]) -> None:
            asyncio.run_coroutine_threadsafe(example(done), loop).result()

        await asyncio.to_thread(check)


async def test_a_server_that_hangs_costs_two_seconds_once_and_is_gone_on_with(
    server: PostgresServer, address: str, tmp_path: Path
) -> None:
    async with opened(address, tmp_path) as state:
        await state.append(entry())
        server.pause()
        try:
            began = asyncio.get_running_loop().time()
            for _ in range(3):
                with pytest.raises(StateUnavailable):
                    await state.find_blocks(ANN, ["m"])
            assert asyncio.get_running_loop().time() - began < 10
            with pytest.raises((StateUnavailable, TimeoutError)):
                async with asyncio.timeout(0.1):  # whoever waits no longer is let go soon
                    await state.find_blocks(ANN, ["m"])
        finally:
            server.go_on()

        async def appended() -> int:
            try:
                return await state.append(entry(BEN))
            except StateUnavailable:
                return 0

        assert await eventually(appended, what="the state works again")
