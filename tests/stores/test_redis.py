"""What is in Redis: limits across replicas, notices, hot memories; and what becomes of them when Redis is away."""

import asyncio
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import uvloop

from memproxy.core.changes import Change, ChangeNotices, What
from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.errors import CacheUnavailable, ConfigError
from memproxy.ports import Charge
from memproxy.stores.redis_server import RedisServer, check_address, name_of
from memproxy.stores.redis_uses import RedisHot, RedisNotices, RedisUses
from memproxy.stores.redis_working import RedisWorking
from memproxy.stores.state_sealed import SealedState
from memproxy.wiring.cache import OwnersColumns
from tests.docs_check import ROOT
from tests.stores.making import ANN, BEN, NOON, memory
from tests.stores.states import state_in
from tests.stores.test_state_working import entries, entry
from tests.support.redis import RedisProcess, connected, redis_process
from tests.support.tcp_proxy import tcp_proxy
from tests.support.waiting import LONGEST_S, eventually

pytestmark = pytest.mark.services

NOW = datetime.now(UTC)


@pytest.fixture
def own() -> Iterator[RedisProcess]:
    """A server that this test may stop."""
    with redis_process() as server:
        yield server


def redis_at(port: int) -> str:
    return f"redis://127.0.0.1:{port}/0"


def charges(*, limit: int = 3, user: str = "ann") -> list[Charge]:
    tenant = Charge(tenant="acme", what="chat_per_minute", seconds=60, limit=100)
    return [tenant, Charge(tenant="acme", user=user, what="chat_per_minute", seconds=60, limit=limit)]


async def test_replicas_count_together_and_none_over_a_limit(redis: RedisProcess, tmp_path: Path) -> None:
    async with (
        state_in(tmp_path) as state,
        connected(redis.url, name := uuid4().hex) as one,
        connected(redis.url, name) as two,
        connected(redis.url, uuid4().hex) as another,
    ):
        replicas = [RedisUses(one, state), RedisUses(two, state)]
        spent = await asyncio.gather(*(replicas[n % 2].spend(charges(limit=20), NOW) for n in range(50)))
        refused = [each for each in spent if each is not None]
        assert len(refused) == 30
        assert all(each.charge.user == "ann" and each.used == 20 and 0 < each.wait_s <= 60 for each in refused)
        counted = await replicas[0].spent(charges()[0], NOW)
        assert counted.used == 20  # what was refused is not counted for the tenant either
        assert (await RedisUses(another, state).spent(charges()[0], NOW)).used == 0
        assert (await replicas[0].spend(charges(user="ben"), NOW)) is None


async def test_without_redis_each_process_counts_by_itself_and_is_told_once(
    own: RedisProcess, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memproxy")
    async with state_in(tmp_path) as state, connected(own.url, uuid4().hex) as server:
        uses = RedisUses(server, state)
        assert await uses.spend(charges(limit=1), NOW) is None
        own.stop()
        assert [await uses.spend(charges(limit=2), NOW) is None for _ in range(4)] == [True, True, False, False]
        assert server.state.startswith("degraded: ")
        own.start()
        await eventually(lambda: server.state == "ready", what="connected again")
        assert await uses.spend(charges(limit=1), NOW) is None  # Redis has forgotten
        assert await uses.spend(charges(limit=1), NOW) is not None
    lines = [record.message for record in caplog.records if "Redis" in record.message]
    assert len([line for line in lines if "cannot be reached" in line]) == 1
    assert len([line for line in lines if line.endswith("is used")]) == 2


@pytest.mark.parametrize(
    ("options", "url", "why"),
    [
        ((), "redis://127.0.0.1:1/0", "it cannot be reached"),
        (("--requirepass", "right"), "redis://:wrong@127.0.0.1:{port}/0", "does not take the user and password"),
        (("--requirepass", "right"), "redis://127.0.0.1:{port}/0", "does not take the user and password"),
        (("--rename-command", "INFO", ""), "redis://127.0.0.1:{port}/0", "it refuses: unknown command"),
        ((), "redis://127.0.0.1:{port}/99", "it refuses: DB index is out of range"),
    ],
)
async def test_a_server_that_cannot_be_used_says_why(
    own: RedisProcess, options: tuple[str, ...], url: str, why: str, tmp_path: Path
) -> None:
    own.stop()
    own.start(*options)
    async with state_in(tmp_path) as state, connected(url.format(port=own.port), uuid4().hex) as server:
        assert why in server.state
        assert await RedisUses(server, state).spend(charges(), NOW) is None


@pytest.mark.parametrize("end", ["/cache", "/0?no_such_option=1"])
def test_an_address_that_would_mean_something_else_is_refused(end: str) -> None:
    with pytest.raises(ConfigError, match=r"cache\.url cannot be used"):
        check_address(f"redis://:password@127.0.0.1:6379{end}")


async def test_an_old_server_is_not_used(tmp_path: Path) -> None:
    serving = set[asyncio.Task[Any] | None]()

    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        while data := await reader.read(65536):
            info = b"redis_version:5.0.7\r\nrun_id:x\r\n"
            ok = b"+OK\r\n" * data.count(b"*")
            writer.write(b"$%d\r\n%b\r\n" % (len(info), info) if b"INFO" in data else ok)
        writer.close()
        await writer.wait_closed()

    listening = await asyncio.start_server(old, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with connected(f"redis://127.0.0.1:{port}/0", "x") as server:
        assert server.state == "degraded: it is version 5.0.7; 6.0 or newer is needed"
    listening.close()
    await asyncio.gather(*(task for task in serving if task is not None))


async def test_a_slow_server_is_done_without_until_it_is_quick_again(redis: RedisProcess, tmp_path: Path) -> None:
    async with (
        tcp_proxy(redis.port) as between,
        state_in(tmp_path) as state,
        connected(redis_at(between.port), uuid4().hex, patience_s=0.1) as server,
    ):
        uses = RedisUses(server, state)
        between.delay_s = 0.3
        for _ in range(3):
            assert await uses.spend(charges(limit=9), NOW) is None
        await eventually(lambda: server.state.startswith("degraded"), what="it is done without")
        before = asyncio.get_running_loop().time()
        for _ in range(5):
            assert await uses.spend(charges(limit=9), NOW) is None
        assert asyncio.get_running_loop().time() - before < 0.5, "each that waited would take 0.1 s"
        await eventually(lambda: "ms to answer" in server.state, what="it says that it is slow")
        between.delay_s = 0.0
        await eventually(lambda: server.state == "ready", what="it is used again")


async def test_a_server_without_memory_refuses_nobody_and_can_still_be_erased_from(
    own: RedisProcess, tmp_path: Path
) -> None:
    async with state_in(tmp_path) as state, connected(own.url, uuid4().hex) as server:
        uses, working = RedisUses(server, state), RedisWorking(server, state, OwnersColumns(state))
        hot = RedisHot(server, state, OwnersColumns(state), ttl_s=60)
        await working.put_working(ANN, entry("session/a/x"), most=9)
        await hot.write(ANN.owner, (None, None), [(1.0, memory("m1"))], await hot.generation(ANN.owner))
        with own.client() as client:
            client.config_set("maxmemory", "1")
        assert await uses.spend(charges(), NOW) is None
        assert "memory is full" in server.state
        await hot.forget(ANN.owner)
        await working.forget_working(ANN, None)
        assert await hot.read(ANN.owner, (None, None)) is None
        assert await entries(working, ANN, "", NOON) == []
        with own.client() as client:
            client.config_set("maxmemory", "0")
        await eventually(lambda: server.state == "ready", what="it has room again")


async def test_a_change_is_told_to_every_process_and_a_lost_connection_that_anything_may_be(own: RedisProcess) -> None:
    heard: list[list[Change | None]] = [[], []]
    notices = []

    def listening(server: RedisServer) -> None:
        notices.append(RedisNotices(server, ChangeNotices()))
        notices[-1].subscribe(heard[len(notices) - 1].append)

    name = uuid4().hex
    async with connected(own.url, name, listening), connected(own.url, name, listening):
        await eventually(lambda: heard == [[None], [None]], what="both listen")
        change = Change("acme", "ann", What.CHANGED)
        notices[0].publish(change)
        assert heard[0][1] == change  # at once
        await eventually(lambda: change in heard[1], what="the other is told")
        heard[1].clear()
        with own.client() as client:
            client.publish(f"memproxy:{name}:changes", b"\xff of another version")
        await eventually(lambda: heard[1] == [None], what="it may have been anything")
        heard[1].clear()
        own.stop()
        await eventually(lambda: None in heard[1], what="nothing kept counts")
        notices[0].publish(Change("acme", "ben", What.CHANGED))
        own.start()
        await eventually(lambda: Change("acme", "ben", What.CHANGED) in heard[1], what="told when it is back")


class ClosedBeneath:
    """A subscription whose connection uvloop has closed while the client made it anew."""

    async def get_message(self, *, timeout: float) -> None:
        raise RuntimeError("unable to perform operation on <TCPTransport closed=True>; the handler is closed")

    async def aclose(self) -> None:
        """Nothing is left to close."""


async def test_a_connection_that_is_closed_beneath_a_listener_is_lost_and_made_anew(own: RedisProcess) -> None:
    heard: list[Change | None] = []
    notices = []

    def listening(server: RedisServer) -> None:
        notices.append(RedisNotices(server, ChangeNotices()))
        notices[0].subscribe(heard.append)

    async with connected(own.url, uuid4().hex, listening) as server:
        await eventually(lambda: heard == [None], what="it listens")
        await notices[0]._hear(ClosedBeneath())
        assert (heard, server.state.partition(":")[0]) == ([None, None], "degraded"), "nothing kept counts"
        await eventually(lambda: server.state == "ready", what="it listens again")
        assert heard == [None, None, None]


def names(found: list[Memory] | None) -> list[str] | None:
    return None if found is None else [one.id for one in found]


@pytest.mark.parametrize("sealed", [False, True])
async def test_hot_memories_are_read_best_first_by_every_replica_and_sealed_where_texts_are(
    redis: RedisProcess, tmp_path: Path, *, sealed: bool
) -> None:
    name = uuid4().hex
    async with (
        state_in(tmp_path, sealed=sealed) as state,
        connected(redis.url, name) as one,
        connected(redis.url, name) as two,
    ):
        if isinstance(state, SealedState):
            await state.make_key(ANN)
        here, there = (RedisHot(each, state, OwnersColumns(state), ttl_s=60) for each in (one, two))
        kept = [(0.9, memory("m1", content="ouagadougou")), (0.5, memory("m2")), (0.7, memory("m3"))]
        assert await here.write(ANN.owner, ("p", None), kept, await here.generation(ANN.owner))
        assert names(await there.read(ANN.owner, ("p", None))) == ["m1", "m3", "m2"]
        assert await there.read(ANN.owner, (None, None)) is None
        assert await there.read(BEN.owner, ("p", None)) is None
        with redis.client() as client:
            keys = [key for key in client.keys(f"memproxy:{name}:*") if client.type(key) == b"hash"]
            stored = b"".join(b"".join(client.hgetall(key).values()) for key in keys)
            lives = [client.ttl(key) for key in client.keys(f"memproxy:{name}:hot:*")]
        assert (b"ouagadougou" in stored) is not sealed
        assert all(0 < seconds <= 240 for seconds in lives)
        if isinstance(state, SealedState):
            await state.destroy_key(ANN)
            assert await there.read(ANN.owner, ("p", None)) is None


async def test_what_was_read_before_a_change_is_never_kept_after_it(redis: RedisProcess, tmp_path: Path) -> None:
    async with state_in(tmp_path) as state, connected(redis.url, uuid4().hex) as server:
        hot = RedisHot(server, state, OwnersColumns(state), ttl_s=60)
        before = await hot.generation(ANN.owner)
        assert await hot.write(ANN.owner, (None, None), [(1.0, memory("m1"))], before)
        await hot.forget(ANN.owner)
        assert await hot.read(ANN.owner, (None, None)) is None
        assert not await hot.write(ANN.owner, (None, None), [(1.0, memory("m1"))], before)
        assert await hot.read(ANN.owner, (None, None)) is None
        assert await hot.write(ANN.owner, (None, None), [(1.0, memory("m2"))], await hot.generation(ANN.owner))
        assert names(await hot.read(ANN.owner, (None, None))) == ["m2"]


async def test_a_change_that_one_replica_cannot_tell_redis_is_known_to_all(redis: RedisProcess, tmp_path: Path) -> None:
    name = uuid4().hex
    async with (
        state_in(tmp_path) as state,
        tcp_proxy(redis.port) as between,
        connected(redis_at(between.port), name) as cut_off,
        connected(redis.url, name) as well,
    ):
        here, there = (RedisHot(each, state, OwnersColumns(state), ttl_s=60) for each in (cut_off, well))
        generation = await there.generation(ANN.owner)
        assert await there.write(ANN.owner, (None, None), [(1.0, memory("m1"))], generation)
        assert names(await here.read(ANN.owner, (None, None))) == ["m1"]
        between.delay_s = 3.0
        with pytest.raises(CacheUnavailable):
            await here.forget(ANN.owner)
        assert await there.read(ANN.owner, (None, None)) is None


async def test_a_server_that_was_started_again_has_no_hot_memories_of_its_life_before(
    own: RedisProcess, tmp_path: Path
) -> None:
    async with state_in(tmp_path) as state, connected(own.url, uuid4().hex) as server:
        hot = RedisHot(server, state, OwnersColumns(state), ttl_s=60)
        await hot.write(ANN.owner, (None, None), [(1.0, memory("m1"))], await hot.generation(ANN.owner))
        with own.client() as client:
            client.save()  # an earlier copy of its data
        await hot.forget(ANN.owner)
        own.stop()
        own.start("--dbfilename", "dump.rdb")
        with own.client() as client:
            assert client.dbsize() > 1
        with pytest.raises(CacheUnavailable):  # also before it is noticed
            await hot.read(ANN.owner, (None, None))
        await eventually(lambda: server.state == "ready", what="connected again")
        assert await hot.read(ANN.owner, (None, None)) is None


async def test_an_erasure_that_redis_misses_is_done_when_it_answers_also_after_a_restart_of_ours(
    own: RedisProcess, tmp_path: Path
) -> None:
    name = uuid4().hex
    async with state_in(tmp_path) as state, tcp_proxy(own.port) as between:
        async with connected(redis_at(between.port), name) as server:
            working = RedisWorking(server, state, OwnersColumns(state))
            for scope in (ANN, BEN):
                await working.put_working(scope, entry("session/a/x"), most=9)
            between.delay_s = 3.0
            await working.forget_working(Scope(tenant="acme", user="ann"), None)
            async with connected(own.url, name) as well:
                other = RedisWorking(well, state, OwnersColumns(state))
                assert await other.working(ANN, "session/a/x", NOON) is None, "whom Redis answers does it at once"
                assert await other.working(BEN, "session/a/x", NOON) is not None
                await state.set_meta("redis.erased", f'["{name_of(*ANN.owner)}"]')
        between.delay_s = 0.0
        again: list[RedisWorking] = []
        async with connected(
            redis_at(between.port), name, lambda server: again.append(RedisWorking(server, state, OwnersColumns(state)))
        ):
            (working,) = again
            assert await entries(working, ANN, "", NOON) == []
            assert len(await entries(working, BEN, "", NOON)) == 1
        assert not await state.get_meta("redis.erased")
        await state.set_meta("redis.erased", '[""]')  # so many that it is forgotten which
        async with connected(
            redis_at(between.port), name, lambda server: again.append(RedisWorking(server, state, OwnersColumns(state)))
        ):
            assert await entries(again[-1], BEN, "", NOON) == []


async def test_whoever_gives_up_waiting_leaves_no_answer_for_another(redis: RedisProcess) -> None:
    async with tcp_proxy(redis.port) as between, connected(redis_at(between.port), uuid4().hex) as server:

        async def echoed(number: int, within_s: float) -> bool | None:
            with suppress(CacheUnavailable):
                return bool(await server.command("ECHO", number, within_s=within_s) == b"%d" % number)
            return None

        answers = []
        for start in range(0, 300, 30):
            await eventually(lambda: server.state == "ready", what="it is used")
            between.passes.clear()
            async with asyncio.TaskGroup() as tasks:
                patient = [tasks.create_task(echoed(number, LONGEST_S)) for number in range(start, start + 28)]
                gave_up = await asyncio.gather(*(echoed(number, 0.001) for number in range(start + 28, start + 30)))
                assert gave_up == [None, None], "fewer than let go of the server"
                between.passes.set()
            answers += [task.result() for task in patient]
        assert True in answers
        assert False not in answers
        await eventually(lambda: server.state == "ready", what="it is used")
        assert all(await asyncio.gather(*(_is_own(server, number) for number in range(100))))


async def test_one_late_answer_does_not_lose_the_connection(redis: RedisProcess) -> None:
    async with tcp_proxy(redis.port) as between, connected(redis_at(between.port), uuid4().hex) as server:
        between.passes.clear()
        with pytest.raises(CacheUnavailable, match="does not answer in time"):
            await server.command("ECHO", "one", within_s=0.001)
        assert server.state == "ready"
        between.passes.set()
        assert await _is_own(server, 1)


async def test_a_hanging_server_that_goes_on_leaves_no_command_with_a_closed_connection(
    own: RedisProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """Commands wait on new connections, which are not made yet, while the server is connected to again."""
    async with connected(own.url, uuid4().hex, patience_s=0.05) as server:
        for _ in range(3):
            await eventually(lambda: server.state == "ready", what="it is used")
            own.pause()
            with suppress(CacheUnavailable):
                await asyncio.gather(*(server.command("ECHO", number) for number in range(20)), return_exceptions=True)
            assert server.state != "ready"
            own.go_on()
        await eventually(lambda: server.state == "ready", what="it is used")
        assert all(await asyncio.gather(*(_is_own(server, number) for number in range(50))))
    assert "failed" not in caplog.text


def test_a_connection_that_uvloop_closed_is_one_that_is_lost(redis: RedisProcess) -> None:
    """It says so as no other event loop does."""

    async def write_to_a_closed_one(client: Any) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", redis.port)
        writer.transport.abort()
        await asyncio.sleep(0)
        writer.write(b"PING\r\n")

    async def ask() -> None:
        async with connected(redis.url, uuid4().hex) as server:
            with pytest.raises(CacheUnavailable, match="it cannot be reached"):
                await server.ask(write_to_a_closed_one)
            await eventually(lambda: server.state == "ready", what="it is used again")

    uvloop.run(ask())


async def _is_own(server: RedisServer, number: int) -> bool:
    return bool(await server.command("ECHO", number, within_s=LONGEST_S) == b"%d" % number)


async def test_what_cannot_be_read_or_belongs_to_somebody_else_is_not_given(
    redis: RedisProcess, tmp_path: Path
) -> None:
    name = uuid4().hex
    async with state_in(tmp_path) as state, connected(redis.url, name) as server:
        hot = RedisHot(server, state, OwnersColumns(state), ttl_s=60)
        for owner in (ANN.owner, BEN.owner):
            await hot.write(owner, (None, None), [(1.0, memory("m1"))], await hot.generation(owner))
        with redis.client() as client:
            keys = client.keys(f"memproxy:{name}:*")
            assert not [key for key in keys if b"acme" in key or b"ann" in key], "nobody is named in a key"
            for key in keys:
                if client.type(key) == b"hash":
                    for field in client.hgetall(key):
                        if field:
                            client.hset(key, field, b'{"id": 7}')
        assert await hot.read(ANN.owner, (None, None)) is None


async def test_the_rights_that_the_page_names_are_enough(own: RedisProcess, tmp_path: Path) -> None:
    (rights,) = re.findall(r"rights needs: `([^`]+)`", (ROOT / "docs/redis.md").read_text(encoding="utf-8"))
    with own.client() as client:
        client.execute_command("ACL", "SETUSER", "few", "on", ">right", "resetkeys", "resetchannels", *rights.split())
    heard: list[Change | None] = []

    def listening(server: RedisServer) -> None:
        RedisNotices(server, ChangeNotices()).subscribe(heard.append)

    url = own.url.replace("//", "//few:right@")
    async with state_in(tmp_path) as state, connected(url, uuid4().hex, listening) as server:
        assert server.state == "ready"
        assert await RedisUses(server, state).spend(charges(), NOW) is None
        working = RedisWorking(server, state, OwnersColumns(state))
        hot = RedisHot(server, state, OwnersColumns(state), ttl_s=9)
        await working.put_working(ANN, entry("session/a/x"), most=9)
        assert await working.drop_working(ANN, "session/a/x", NOON)
        await working.forget_working(ANN, None)
        assert await hot.write(ANN.owner, (None, None), [(1.0, memory("m1"))], await hot.generation(ANN.owner))
        assert names(await hot.read(ANN.owner, (None, None))) == ["m1"]
        assert await hot.forget(ANN.owner) == [(None, None)]
        assert server.state == "ready", "nothing was refused"
        assert heard == [None]


@pytest.mark.parametrize("sealed", [False, True])
async def test_what_was_written_before_there_were_sets_of_names_is_listed_replaced_and_erased(
    own: RedisProcess, tmp_path: Path, sealed: bool
) -> None:
    async with state_in(tmp_path, sealed=sealed) as state, connected(own.url, uuid4().hex) as server:
        working = RedisWorking(server, state, OwnersColumns(state))
        for name in ("session/a/x", "session/a/y", "session/b/z"):
            await working.put_working(ANN, entry(name), most=9)
        with own.client() as client:  # as it was: entries were called by their hashes alone
            for key in client.scan_iter("*:working:*"):
                if client.type(key) == b"zset":
                    held = client.zrange(key, 0, -1, withscores=True)
                    client.delete(key)
                    if not key.endswith(b":names"):
                        client.zadd(key, {member[-32:]: score for member, score in held})
                        client.pexpire(key, 60_000)
        assert sorted(one.key for one in await working.newest_working(ANN, NOON, most=9)) == [
            "session/a/x",
            "session/a/y",
            "session/b/z",
        ]
        assert sorted(one.key for one in await entries(working, ANN, "session/a/", NOON)) == [
            "session/a/x",
            "session/a/y",
        ]
        assert await working.put_working(ANN, entry("session/a/x", data=b"2"), most=2) is False
        assert await working.put_working(ANN, entry("session/a/new"), most=2) is None
        assert await working.drop_working(ANN, "session/a/y", NOON) is True
        assert len(await entries(working, ANN, "", NOON)) == 2
        await working.forget_working(ANN, "a")
        assert [one.key for one in await entries(working, ANN, "", NOON)] == ["session/b/z"]
        await working.forget_working(ANN, None)
        with own.client() as client:
            assert list(client.scan_iter("*:working:*")) == []


async def test_an_erased_conversation_leaves_no_key_of_entries_that_had_expired(
    own: RedisProcess, tmp_path: Path
) -> None:
    async with state_in(tmp_path) as state, connected(own.url, uuid4().hex) as server:
        working = RedisWorking(server, state, OwnersColumns(state))
        await working.put_working(ANN, entry("session/zebulonia/x", seconds=0.01), most=9)
        await working.put_working(ANN, entry("session/b/x", seconds=60), most=9)
        await eventually(lambda: _is_gone(working), what="gone by itself")
        await working.forget_working(ANN, "zebulonia")
        with own.client() as client:
            sets = [client.zrange(key, 0, -1) for key in client.scan_iter("*:working:*") if client.type(key) == b"zset"]
        assert sets
        assert not [member for members in sets for member in members if b"zebulonia" in member]


async def _is_gone(working: RedisWorking) -> bool:
    return await working.working(ANN, "session/zebulonia/x", NOON) is None
