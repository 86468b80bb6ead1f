"""Several replicas on one database: whose turn it is, who is gone, and what they hear of each other."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import psycopg
import pytest

from memproxy.core.changes import Change, What
from memproxy.core.choices import NOTHING_CHOSEN, Choices
from memproxy.core.protocol import TurnsBody
from memproxy.core.proxykey import KeyRecord
from memproxy.core.scope import Scope
from memproxy.errors import NotFound, StateUnavailable
from memproxy.ports import Charge, Ending, JournalEntry, JournalKind, JournalRow, KnownSession, Recovered, SlotChange
from memproxy.stores.carried_notices import MOST_TOLD
from memproxy.stores.postgres_state import PostgresState
from tests.relay.rig import running_relay
from tests.stores.making import ANN, BEN, entry
from tests.stores.replicas import USERS, soak
from tests.support.postgres import Databases, postgres_server
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.services

LEASE = timedelta(seconds=4)

OpenState = Callable[..., Awaitable[PostgresState]]


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def database(postgres: Databases) -> str:
    """The address of an empty database."""
    return postgres.new()


@pytest.fixture
async def opened(database: str, tmp_path: Path) -> AsyncIterator[OpenState]:
    """Opens one replica after the other on the same database; all are closed at the end."""
    async with AsyncExitStack() as all_of_them:

        async def open_one(**options: object) -> PostgresState:
            name = f"replica-{random.getrandbits(32)}.db"
            state = PostgresState(database, tmp_path / name, sync="normal", lease=LEASE, **options)  # type: ignore[arg-type]
            await state.open()
            all_of_them.push_async_callback(state.close)
            return state

        yield open_one


async def die(state: PostgresState) -> None:
    """End as a process that is killed: nothing is given back, and the server sees its connections close."""
    await state._tasks.cancel()
    await state._database.close()


async def test_each_users_order_holds_over_two_replicas_and_nothing_is_claimed_twice(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    users = [Scope(tenant="acme", user=f"u{number}") for number in range(200)]
    sent = [(user, place) for place in range(3) for user in users]
    random.Random(7).shuffle(sent)
    sent.sort(key=lambda item: item[1])
    for start in range(0, len(sent), 50):
        some = sent[start : start + 50]
        await asyncio.gather(*(
            (one, two)[number % 2].append(entry(user, body=str(place).encode()))
            for number, (user, place) in enumerate(some)
        ))  # fmt: skip
    handled: dict[str, list[int]] = defaultdict(list)
    running: set[str] = set()

    async def handle(state: PostgresState, row: JournalRow) -> None:
        handled[row.entry.scope.user].append(int(row.entry.body))
        await asyncio.sleep(0)
        running.remove(row.entry.scope.user)
        await state.finish(row.number)

    async def work(state: PostgresState) -> int:
        count = 0
        while (await state.queue_sizes())["index"]["waiting"]:
            rows = await state.claim("index", limit=8, now=now())
            for row in rows:
                assert row.entry.scope.user not in running, "two rows of one user run at once"
                running.add(row.entry.scope.user)
            await asyncio.gather(*(handle(state, row) for row in rows))
            count += len(rows)
        return count

    shares = await asyncio.gather(work(one), work(two))
    assert handled == {user.user: [0, 1, 2] for user in users}
    assert sum(shares) == 600
    assert min(shares) > 100


async def test_what_a_killed_replica_had_claimed_is_taken_over_after_its_lease(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    first, second = await one.append(entry()), await one.append(entry())
    other = await one.append(entry(BEN))
    began = now()
    rows = await one.claim("index", limit=1, now=began, run=2)
    assert [row.number for row in rows] == [first, second]
    (row,) = await two.claim("index", limit=9, now=now())
    assert row.number == other
    await die(one)
    taken: list[JournalRow] = []

    async def took_over() -> bool:
        taken.extend(await two.claim("index", limit=9, now=now(), run=2))
        return bool(taken)

    await eventually(took_over, what="the rows of the killed replica are claimed")
    assert now() - began >= LEASE
    assert [(row.number, row.attempts) for row in taken] == [(first, 1)]
    await two.finish(first)
    (row,) = await two.claim("index", limit=9, now=now())
    assert (row.number, row.attempts) == (second, 1)


async def test_a_replica_that_lives_keeps_what_it_claimed(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    number = await one.append(entry())
    await one.claim("index", limit=1, now=now())
    await two.append(entry(BEN))
    await two.claim("index", limit=1, now=now())
    await asyncio.sleep(1.5 * LEASE.total_seconds())
    await two.recover(max_attempts=5, now=now())
    assert number not in {row.number for row in await two.claim("index", limit=9, now=now())}
    assert (await one.backlog(ANN))["index"]["running"] == 1
    await one.finish(number)
    assert not any((await one.backlog(ANN))["index"].values())


async def test_an_engine_that_starts_again_goes_on_at_once_with_what_its_predecessor_had_claimed(
    opened: OpenState, database: str, tmp_path: Path
) -> None:
    number = await (one := await opened()).append(entry(kind=JournalKind.LEARN))
    await one.claim("learn", limit=1, now=now())
    assert await one.save_plan(number, b"plan", [SlotChange(slot="s", expected=None, new="m1")])
    await die(one)
    successor = PostgresState(database, tmp_path / "again.db", sync="normal", lease=timedelta(hours=1))
    await successor.open()
    recovered = Recovered()

    async def recover() -> bool:
        nonlocal recovered
        recovered = await successor.recover(max_attempts=5, now=now())
        return recovered.again > 0

    await eventually(recover, what="the server sees that the predecessor is gone")
    assert recovered == Recovered(again=1)
    (row,) = await successor.claim("learn", limit=5, now=now())
    assert (row.number, row.plan, row.attempts) == (number, b"plan", 1)
    await successor.close()


async def test_a_replica_that_was_taken_over_changes_nothing_any_more(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    number = await one.append(entry(kind=JournalKind.LEARN))
    await one.claim("learn", limit=1, now=now())
    one._replicas._listening.cancel()  # type: ignore[union-attr]  # it hangs: it does not say that it lives
    rows: list[JournalRow] = []

    async def took_over() -> bool:
        await two.recover(max_attempts=9, now=now())
        rows.extend(await two.claim("learn", limit=1, now=now()))
        return bool(rows)

    await eventually(took_over, what="another one has the row")
    with pytest.raises(NotFound):
        await one.save_plan(number, b"late", [])
    await one.finish(number)
    await one.retry(number, error="late", due=now(), counted=True)
    await one.park(number, error="late")
    assert (await two.queue_sizes())["learn"] == {"waiting": 0, "running": 1, "parked": 0}
    assert await two.save_plan(number, b"plan", [])
    await two.finish(number)
    assert (await two.queue_sizes())["learn"] == {"waiting": 0, "running": 0, "parked": 0}


async def test_a_replica_gives_back_what_it_claimed_unheard_and_nothing_of_others(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    numbers = [await one.append(entry(scope)) for scope in (ANN, BEN)]
    for state in (one, two):
        assert len(await state.claim("index", limit=1, now=now())) == 1
    assert await one.give_back("index", []) == 1
    assert await one.give_back("index", []) == 0
    (row,) = await one.claim("index", limit=2, now=now())
    assert row.number in numbers


async def test_a_row_that_kills_every_replica_is_parked(opened: OpenState) -> None:
    number = await (await opened()).append(entry())
    last = await opened()
    for _ in range(2):
        victim = await opened()
        await victim.recover(max_attempts=2, now=now())

        async def claimed(state: PostgresState = victim) -> bool:
            return bool(await state.claim("index", limit=1, now=now()))

        await eventually(claimed, what="the row is due again")
        await die(victim)

    async def parked() -> bool:
        await last.recover(max_attempts=2, now=now())
        return bool(await last.parked(None, limit=5))

    await eventually(parked, what="the row is parked")
    (row,) = await last.parked(None, limit=5)
    assert (row.number, row.attempts) == (number, 2)
    assert "engine ended" in row.error
    assert await last.unpark_killed(now()) == 0
    assert await last.unpark_killed(now() + timedelta(hours=1)) == 1
    (again,) = await last.claim("index", limit=1, now=now())
    assert again.attempts == 2


async def test_replicas_hear_of_choices_keys_and_rows(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    assert await two.choices(ANN) == NOTHING_CHOSEN
    chosen = Choices(mode="off")
    before = two.news()
    await one.choose(Scope(tenant=ANN.tenant, user=ANN.user), chosen, now())
    await eventually(lambda: two.news() != before, what="the other replica hears of the choice")
    assert await two.choices(ANN) == chosen
    await one.add_proxy_key(KeyRecord(id="k", hash="h", tenant="acme", created_at=now()))
    before = two.news()
    assert await one.revoke_proxy_key("k", now())
    await eventually(lambda: two.news() != before, what="the other replica hears of the revoked key")
    woken: list[bool] = []
    two.on_rows(lambda: woken.append(True))
    await one.append(entry())
    await eventually(lambda: woken, what="the other replica hears of the row")


async def test_one_of_many_writers_on_two_replicas_gets_a_slot(opened: OpenState) -> None:
    states = [await opened(), await opened()]
    won: list[int] = []

    async def take(state: PostgresState) -> None:
        while (held := int((await state.slots(ANN, ["slot"])).get("slot", 0))) < 10:
            change = SlotChange(slot="slot", expected=str(held) if held else None, new=str(held + 1))
            if await state.change_slots(ANN, [change]):
                won.append(held + 1)

    await asyncio.gather(*(take(states[number % 2]) for number in range(20)))
    assert sorted(won) == list(range(1, 11))


async def test_a_clock_that_is_five_minutes_off_changes_no_order_no_erasure_and_no_wait(opened: OpenState) -> None:
    """Times that replicas compare are the database's."""
    for off in (timedelta(minutes=5), timedelta(minutes=-5)):

        def wrong(off: timedelta = off) -> datetime:
            return now() + off

        right, skewed = await opened(), await opened(now=wrong)
        user = Scope(tenant="acme", user=f"u{off.total_seconds():.0f}", session="s")
        number = await skewed.append(entry(user))
        (row,) = await skewed.claim("index", limit=1, now=wrong())
        await skewed.retry(row.number, error="outage", due=wrong() + timedelta(seconds=0.2), counted=False)

        async def due(state: PostgresState = right) -> bool:
            return bool(await state.claim("index", limit=1, now=now()))

        await eventually(due, what="the row is due for the replica whose clock is right")
        await right.finish(number)

        said = wrong()  # before the erasure, whatever that clock says
        await right.forget(user, session=None)
        late = JournalEntry(kind=JournalKind.TURNS, scope=user, body=b"{}", captured_at=said)
        assert await skewed.append(late) == 0
        known = KnownSession(session="s", said_at=said)
        await skewed.remember_session(user, ["key"], known, asked_at=said)
        assert await right.find_session(user, ["key"]) == {}
        after = JournalEntry(kind=JournalKind.TURNS, scope=user, body=b"{}", captured_at=wrong())
        assert await skewed.append(after) > number

        await skewed.note_turns(user, count=1, at=wrong())
        assert await right.due_sessions(every=9, idle_before=now() - timedelta(minutes=1), limit=9) == []
        found = await skewed.progress(user)
        assert found is not None
        assert abs(found.last_turn_at - wrong()) < timedelta(minutes=1)
        charge = Charge(tenant="acme", user=user.user, what="turns", seconds=60, limit=1)
        assert await skewed.spend([charge], wrong()) is None
        over = await right.spend([charge], now())
        assert over is not None
        assert 0 < over.wait_s <= 60
        await right.forget(user, session=None)


async def test_no_turn_is_lost_and_every_users_order_is_kept_while_replicas_are_killed() -> None:
    """The short form of ``python -m tests.stores.replicas``."""
    found = await soak(turns=8)
    assert found["kills"] >= 1
    assert found["acknowledged"] == 8 * USERS
    assert (found["lost"], found["out of order"]) == (0, 0), found


async def test_a_change_is_told_to_every_replica_within_a_second(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    odd = Scope(tenant='back\\slash "and" \x00', user="ünïcode 'n/1")
    heard: list[Change | None] = []
    two.changes.subscribe(heard.append)
    own: list[Change | None] = []
    one.changes.subscribe(own.append)
    for scope in (odd, ANN):
        one.changes.publish(Change.of(scope))
    assert own == [Change.of(odd), Change.of(ANN)], "who does it knows it at once"
    await eventually(lambda: heard == [Change.of(odd), Change.of(ANN)], what="the other one is told")


async def test_more_changes_than_are_told_one_by_one_are_told_as_anything(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    heard: list[Change | None] = []
    two.changes.subscribe(heard.append)
    for number in range(MOST_TOLD + 10):
        one.changes.publish(Change("acme", f"u{number}", What.CHANGED))
    await eventually(lambda: None in heard, what="the other one forgets everything")
    one.changes.publish(Change("acme", "x" * 9_000, What.CHANGED))
    await eventually(lambda: heard.count(None) > 1, what="so it does for a name that no message holds")


async def test_after_a_lost_connection_nothing_kept_counts(opened: OpenState, database: str) -> None:
    one = await opened()
    heard: list[Change | None] = []
    one.changes.subscribe(heard.append)
    with psycopg.connect(database, autocommit=True) as db:
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND "
            "pid != pg_backend_pid()"
        )
    await eventually(lambda: heard.count(None) >= 2, what="it is told at the loss, and when it listens again")


async def test_one_replica_at_a_time_handles_rows_of_a_user_of_both_lanes(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    await one.append(entry(kind=JournalKind.LEARN))
    (learning,) = await one.claim("learn", limit=9, now=now())
    said, other = await two.append(entry()), await two.append(entry(BEN))
    assert [row.number for row in await two.claim("index", limit=9, now=now())] == [other]
    (row,) = await one.claim("index", limit=9, now=now())
    assert row.number == said, "who handles one of a user's rows takes the others, too"
    await one.finish(said)
    later = await two.append(entry())
    assert not await two.claim("index", limit=9, now=now())
    await one.finish(learning.number)
    assert [row.number for row in await two.claim("index", limit=9, now=now())] == [later]


async def test_many_replicas_claim_different_users_at_once(opened: OpenState) -> None:
    replicas = [await opened() for _ in range(4)]
    for user in range(32):
        for kind in (JournalKind.TURNS, JournalKind.PLAN, JournalKind.TURNS):
            await replicas[0].append(entry(Scope(tenant="acme", user=f"u{user}"), kind=kind))
    claimed = await asyncio.gather(*(one.claim("index", limit=8, now=now(), run=3) for one in replicas))
    assert [len(rows) for rows in claimed] == [24] * 4
    users = [{row.entry.scope.user for row in rows} for rows in claimed]
    assert len(set.union(*users)) == 32


async def test_what_is_done_beside_the_rows_of_a_user_is_done_by_one_replica(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    number = await one.append(entry())
    async with one.alone(ANN) as is_alone, one.alone(ANN) as again:
        assert (is_alone, again) == (True, True)
        assert not await two.claim("index", limit=9, now=now())
        async with two.alone(ANN) as other:
            assert not other
        (row,) = await one.claim("index", limit=9, now=now())
    async with two.alone(ANN) as other:
        assert not other, "the first one still handles a row"
    await one.finish(row.number)
    async with two.alone(ANN) as other:
        assert other
        await die(two)
    number = await one.append(entry())

    async def claimed() -> bool:
        return [row.number for row in await one.claim("index", limit=9, now=now())] == [number]

    await eventually(claimed, what="what a replica held that is gone is free after its lease")


async def test_how_a_row_ended_is_known_at_the_replica_that_waits_for_it(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    done, refused, parked = [await one.append(entry(user)) for user in (ANN, BEN, Scope(tenant="t", user="u"))]
    assert [await one.ending(number) for number in (done, refused, parked)] == [None] * 3
    await two.claim("index", limit=9, now=now())
    assert await one.ending(done) is None
    await two.finish(done)
    await two.finish(refused, error="changed meanwhile", kind="PreconditionFailed")
    await two.park(parked, error="given up")
    assert await one.ending(done) == Ending()
    assert await one.ending(refused) == Ending(error="changed meanwhile", kind="PreconditionFailed")
    assert await one.ending(parked) == Ending(error="given up")
    await one.forget(BEN, session=None)
    assert await one.ending(refused) == Ending(), "nothing of an erased user is left"


async def test_rows_of_tenants_that_a_replica_has_no_key_for_are_left_to_others(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    number = await one.append(entry(kind=JournalKind.LEARN))
    assert not await one.claim("learn", limit=9, now=now(), leaving=[ANN.tenant])
    assert [row.number for row in await two.claim("learn", limit=9, now=now(), leaving=["other"])] == [number]


async def test_a_fact_of_the_installation_is_changed_by_whom_it_is_as_expected(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    assert await one.swap_meta("fact", None, "a")
    assert not await two.swap_meta("fact", None, "b")
    assert await two.swap_meta("fact", "a", "b")
    assert not await one.swap_meta("fact", "a", "c")
    assert await one.get_meta("fact") == "b"


async def test_a_replica_knows_how_many_others_live(opened: OpenState) -> None:
    one, two = await opened(), await opened()
    assert await one.other_engines() == 0
    for state in (one, two):
        await state.recover(max_attempts=5, now=now())
    assert await one.other_engines() == await two.other_engines() == 1
    await die(two)
    await eventually(lambda: _alone(one), what="it is alone after the other one's lease")


async def _alone(state: PostgresState) -> bool:
    return not await state.other_engines()


async def test_whoever_goes_by_the_databases_clock_has_its_time(opened: OpenState) -> None:
    ahead = await opened(now=lambda: now() + timedelta(minutes=5))
    assert abs(ahead.shared(now() + timedelta(minutes=5)) - now()) < timedelta(seconds=1)
    clock = ahead.clock()
    assert abs(clock() - now()) < timedelta(seconds=1)
    assert ahead.shared(clock()) - clock() < timedelta(seconds=1)
    number = await ahead.append(entry())
    assert [row.number for row in await ahead.claim("index", limit=9, now=clock())] == [number]


async def test_what_is_said_before_the_database_was_ever_reached_has_its_time_too(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """By the state this machine's clock is five minutes ahead of the database's: so much earlier was it said there."""
    ahead_by = timedelta(minutes=5)
    with postgres_server() as server:
        url = server.database()
        server.stop("fast")
        state = PostgresState(url, tmp_path / "s.db", sync="normal", lease=LEASE, now=lambda: now() + ahead_by)
        async with running_relay(upstream.base_url, state, tmp_path) as relay:
            assert not state.knows_time
            assert (await relay.chat("My locker code is 4471.")).status_code == 200
            said = now()
            server.start()
            [row] = await eventually(lambda: _claimed(state), what="the turn is written")
            body = msgspec.json.decode(row.entry.body, type=TurnsBody)
            assert abs(body.said_at - (said - ahead_by)) < ahead_by / 2
            assert not body.is_machine_time
            assert state.knows_time


async def _claimed(state: PostgresState) -> list[JournalRow]:
    with suppress(StateUnavailable):
        return await state.claim("index", limit=1, now=now())
    return []
