"""A run: a server, its people, and many calls at once."""

import asyncio
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import httpx

from tests.isolation.attacks import ATTACKS
from tests.isolation.calling import Caller, imagined
from tests.isolation.model import listen
from tests.isolation.operations import OPERATIONS, read
from tests.isolation.people import Mode, Person, make_world
from tests.isolation.raw_paths import evil_socket
from tests.isolation.watching import Leak, NotNow, Watch
from tests.support.http_client import plain_client
from tests.support.proxy import running_proxy
from tests.support.upstream import scripted_upstream

AT_ONCE = 8
_ATTACKS = 0.35
"""Share of the operations that are attacks."""

_TIMED = 25
"""For so many operations one pair of calls is timed in the end, when nothing else is asked."""

_SERVER = {"recall": {"deadline_ms": 5000}, "telemetry": {"metrics": True}}

Step = Callable[[], None]


async def fuzz(
    mode: Mode,
    folder: Path,
    *,
    operations: int,
    tenants: int,
    users: int,
    seed: int,
    step: Step = lambda: None,
    seconds: float = math.inf,
) -> Watch:
    """Run so many operations against a server of this mode, fewer when ``seconds`` have passed; what was seen.

    The choices are those of ``seed``; how calls overlap is the machine's. Raises `Leak` at the first sight of one.
    """
    world = make_world(mode, tenants, users)
    watch = Watch(world)
    caught: list[str] = []
    async with scripted_upstream() as upstream, evil_socket(caught) as watch.evil_port:
        listen(upstream, watch)
        changes = {**_SERVER, **world.config}
        async with (
            running_proxy(upstream.base_url, folder, changes, memory=False) as proxy,
            plain_client(base_url=proxy.root_url, timeout=120) as client,
        ):
            await _ready(Caller(client, world, watch, Random(seed)), world.people[0])
            await _all(client, watch, _chances(operations, seconds), seed, step)
            await _intact(Caller(client, world, watch, Random(seed)))
            await _timed(Caller(client, world, watch, Random(seed)), max(10, watch.counts["operations"] // _TIMED))
            metrics = (await client.get("/metrics")).text
        names = {person.user for person in world.people} | {person.tenant for person in world.people}
        watch.nowhere("/metrics", metrics, names)
        watch.nowhere("the log", proxy.log)
    if leaks := [*watch.leaks, *(f"a request reached another host: {one!r}" for one in caught)]:
        raise Leak("; ".join(leaks[:5]))
    return watch


async def _ready(caller: Caller, person: Person) -> None:
    for _ in range(600):
        response = await caller.client.get("/v1/memory", headers=caller.proof(person))
        if response.status_code == 200:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"memory does not answer: {response.status_code} {response.text}")


def _chances(operations: int, seconds: float) -> Iterator[int]:
    until = time.monotonic() + seconds
    for number in range(operations):
        if time.monotonic() > until:
            return
        yield number


async def _all(client: httpx.AsyncClient, watch: Watch, chances: Iterator[int], seed: int, step: Step) -> None:
    leaks: list[Leak] = []

    async def work(number: int) -> None:
        caller = Caller(client, watch.world, watch, Random(f"{seed}-{number}"))
        for _ in chances:
            try:
                await _one(caller)
            except Leak as leak:
                leaks.append(leak)
            except NotNow:
                watch.counts["operations broken off"] += 1
            if leaks:
                return
            watch.counts["operations"] += 1
            step()

    async with asyncio.TaskGroup() as group:
        for number in range(min(AT_ONCE, len(watch.world.people))):
            group.create_task(work(number))
    if leaks:
        raise leaks[0]


async def _intact(caller: Caller) -> None:
    """Everybody reads back a memory that nobody else may have changed: by chance alone a short run reads hardly any."""
    for person in caller.world.people:
        try:
            await read(caller, person)
        except NotNow:
            caller.watch.counts["operations broken off"] += 1


async def _timed(caller: Caller, pairs: int) -> None:
    """Calls about another's and about nothing, one after the other; and about nothing twice, which is the noise."""
    random, people = caller.random, caller.world.people
    victims = [one for one in people if one.memories and one.receipts]
    for _ in range(pairs if victims else 0):
        victim = random.choice(victims)
        person = random.choice([one for one in people if one.tenant != victim.tenant])
        memory, receipt = random.choice(list(victim.memories)), random.choice(victim.receipts)
        if memory in person.taken:
            continue
        await caller.pair("quiet: GET memory", person, memory, "GET", "/v1/memory/ID")
        await caller.pair("quiet: GET nothing", person, imagined(memory, random), "GET", "/v1/memory/ID")
        await caller.pair("quiet: DELETE memory", person, memory, "DELETE", "/v1/memory/ID")
        await caller.pair("quiet: PATCH memory", person, memory, "PATCH", "/v1/memory/ID", json={"content": "mine"})
        await caller.pair("quiet: GET receipt", person, receipt, "GET", "/v1/memory/receipts/ID")


async def _one(caller: Caller) -> None:
    random, people = caller.random, caller.world.people
    # a few are met again and again, or nobody would have anything worth stealing
    some = people if random.random() < 0.3 else people[:: max(1, len(people) // 16)]
    person = random.choice([one for one in some if not one.busy] or [one for one in people if not one.busy])
    person.busy = True
    try:
        if random.random() < _ATTACKS:
            await _attack(caller, person)
        else:
            operation = random.choices([one for one, _ in OPERATIONS], [often for _, often in OPERATIONS])[0]
            await operation(caller, person)
    except NotNow:
        person.memories.clear()  # which of them it reached is not known
        raise
    finally:
        person.busy = False


async def _attack(caller: Caller, person: Person) -> None:
    random, people = caller.random, caller.world.people
    some = [one for one in people[:: max(1, len(people) // 16)] if one is not person] or people
    neighbours = [one for one in people if one.tenant == person.tenant and one is not person]
    victim = random.choice(neighbours if neighbours and random.random() < 0.5 else some)
    if victim is person or (caller.world.mode == "passthrough" and victim.key == person.key and random.random() < 0.5):
        return
    attack = random.choices([one for one, _ in ATTACKS], [often for _, often in ATTACKS])[0]
    await attack(caller, person, victim)
