"""Replicas on one PostgreSQL, whole installations, killed and cut off while many people talk to them; then counted.

    python -m tests.e2e.cluster_soak [--minutes 2] [--replicas 2] [--users 60] [--turns N] [--seed N]

Everybody tells one thing after the other, each at whichever replica; every new amount takes the place of the one
before. Meanwhile replicas, or one of their engines, are killed with -9 and started again, the state's server is stopped
and crashed, the memories' server is away for thirty seconds, Redis (where it is installed) dies and hangs, and one
replica's clock is five minutes ahead (where a compiler of C is there to make it so). In the end the journal must drain.
Printed is what was lost, kept twice, out of order, not the last one told, told to others, and not answered; it exits
with 1 unless all of that is nothing.
"""

import argparse
import asyncio
import itertools
import random
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from memproxy.tasks import TaskOwner
from tests.e2e.talk import extract_by_rules, say
from tests.support.answers import Answer, Received, completion
from tests.support.clock import clock_off
from tests.support.cluster import Cluster, running_cluster
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.proxy import Proxy
from tests.support.redis import RedisProcess, redis_process
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

KILLED_EVERY_S, STATE_STOPPED_EVERY_S, REDIS_STOPPED_EVERY_S, CUT_OFF_S = 12.0, 40.0, 15.0, 30.0
RESTARTED_AFTER_S, STATE_AWAY_S = 1.0, 2.0
PAUSE_S = 1.5
"""Between two turns of one person, where it is not said how many turns there are to be."""

DRAINED_S = 600.0
AHEAD_S = 300
EACH = 1_000_000
"""Amounts of one person lie below the next one's."""

_AMOUNT = re.compile(r"\$(\d+)")
_QUESTION = "What is my budget for the Hawaii vacation?"


@dataclass
class Person:
    """What one person said: what was answered in whole, and what may or may not have come in."""

    number: int
    acknowledged: list[int] = field(default_factory=list)
    unsure: list[int] = field(default_factory=list)
    told: int = 0

    @property
    def name(self) -> str:
        return f"user-{self.number}"

    def amount(self, told: int) -> int:
        return (self.number + 1) * EACH + told


class Soak:
    """Talk, trouble, and the count."""

    def __init__(self, upstream: ScriptedUpstream, users: int, seed: int, pause_s: float = PAUSE_S) -> None:
        self._random = random.Random(seed)
        self._pause_s = pause_s
        self._upstream = upstream
        self._people = [Person(number) for number in range(users)]
        self._down: set[int] = set()
        self._done = asyncio.Event()
        self.faults: Counter[str] = Counter()
        self.figures: Counter[str] = Counter()
        upstream.default = self._answer
        upstream.extractor = self._extract

    def _answer(self, received: Received) -> Answer:
        self._look(received)
        return completion("Noted.")

    def _extract(self, received: Received) -> dict[str, Any]:
        self._look(received)
        return extract_by_rules(received)

    def _look(self, received: Received) -> None:
        """Whatever one request holds is one person's."""
        owners = {int(amount) // EACH for amount in _AMOUNT.findall(received.body.decode())}
        if len(owners - {0}) > 1:  # amounts below are the prompt's own
            self.faults["told to others"] += 1
        if len(self._upstream.received) > 1_000:
            self._upstream.received.clear()
            self._upstream.extractions.clear()

    async def run(self, cluster: Cluster, memories: PostgresServer, redis: RedisProcess | None, minutes: float) -> None:
        """Talk for so long in all this trouble."""
        tasks = TaskOwner("soak")
        began = time.monotonic()
        troubles = [
            tasks.start(self._kill(cluster), "kill"),
            tasks.start(self._stop_state(cluster), "state"),
            tasks.start(self._cut_off(memories, 60 * minutes / 3), "memories"),
            *([tasks.start(self._stop_redis(redis), "redis")] if redis is not None else []),
        ]
        talks = [tasks.start(self._talk(cluster, person), person.name) for person in self._people]
        while time.monotonic() - began < 60 * minutes:
            await asyncio.sleep(1)
            for task in (*troubles, *talks):
                if task.done():
                    task.result()
        self._done.set()
        await asyncio.gather(*talks, *troubles)
        self.figures["turns acknowledged"] = sum(len(person.acknowledged) for person in self._people)
        self.figures["turns cut off"] = sum(len(person.unsure) for person in self._people)

    async def _talk(self, cluster: Cluster, person: Person) -> None:
        chance = random.Random(person.number)
        await self._over(self._pause_s * chance.random())  # not everybody begins at once
        while not self._done.is_set():
            place = chance.randrange(len(cluster.replicas))
            if place in self._down:
                await asyncio.sleep(0.05)
                continue
            if chance.random() < 0.2:
                await self._say(cluster, place, person, _QUESTION)
            told = person.told = person.told + 1
            amount = person.amount(told)
            heard = await self._say(cluster, place, person, f"My budget for the Hawaii vacation is ${amount}.")
            (person.acknowledged if heard else person.unsure).append(told)
            await self._over(self._pause_s * (0.5 + chance.random()))

    async def _say(self, cluster: Cluster, place: int, person: Person, text: str) -> bool:
        """Whether it was answered to the end. It must be, where the replica was not killed meanwhile."""
        headers = {"x-memproxy-user": person.name, "x-memproxy-session": f"{person.name}-{person.told // 30}"}
        kills = self.figures["kills of a replica"]
        try:
            answer = await say(cluster.replicas[place], text, headers=headers, key=cluster.key)
        except httpx.TransportError as error:
            if place not in self._down and kills == self.figures["kills of a replica"]:
                self.faults[f"not answered ({type(error).__name__})"] += 1
            return False
        if answer.status != 200:
            self.faults[f"answered with {answer.status}"] += 1
            return False
        self.figures[f"recall {answer.recall}"] += 1
        return True

    async def _over(self, wait_s: float) -> bool:
        """Whether the talk is over by then."""
        try:
            async with asyncio.timeout(wait_s):
                await self._done.wait()
        except TimeoutError:
            return False
        return True

    async def _kill(self, cluster: Cluster) -> None:
        while not await self._over(KILLED_EVERY_S):
            place = self._random.randrange(len(cluster.replicas))
            replica = cluster.replicas[place]
            if self._random.random() < 0.4:
                for engine in replica.family("_engine")[:1]:
                    engine.kill()
                    self.figures["kills of an engine"] += 1
                continue
            self._down.add(place)
            self.figures["kills of a replica"] += 1
            await asyncio.to_thread(replica.kill)
            await asyncio.sleep(RESTARTED_AFTER_S)
            replica.launch()
            while not await self._serves(replica):
                self.faults["not serving in time after a kill"] += 1
            self._down.discard(place)

    async def _serves(self, replica: Proxy) -> bool:
        """Whether it does within the time that a start may take."""
        try:
            await replica.answers()
        except AssertionError as error:
            print(error)
            return False
        return True

    async def _stop_state(self, cluster: Cluster) -> None:
        while not await self._over(STATE_STOPPED_EVERY_S):
            crash = self.figures["stops of the state"] % 2
            self.figures["stops of the state"] += 1
            await asyncio.to_thread(cluster.server.stop, "immediate" if crash else "fast")
            await asyncio.sleep(STATE_AWAY_S)
            await asyncio.to_thread(cluster.server.start)

    async def _stop_redis(self, redis: RedisProcess) -> None:
        while not await self._over(REDIS_STOPPED_EVERY_S):
            hangs = self.figures["stops of Redis"] % 2
            self.figures["stops of Redis"] += 1
            (redis.pause if hangs else redis.stop)()
            await asyncio.sleep(STATE_AWAY_S)
            await asyncio.to_thread(redis.go_on if hangs else redis.start)

    async def _cut_off(self, memories: PostgresServer, after_s: float) -> None:
        if await self._over(after_s):
            return
        self.figures["seconds without memories"] = int(CUT_OFF_S)
        await asyncio.to_thread(memories.stop, "fast")
        await asyncio.sleep(CUT_OFF_S)
        await asyncio.to_thread(memories.start)

    async def drain(self, cluster: Cluster) -> None:
        """Returns when every replica is ready and all is indexed and learned from; what is not in time is a fault."""

        def left() -> tuple[int, int, int]:
            with psycopg.connect(cluster.url, autocommit=True) as db:
                row = db.execute(
                    "SELECT (SELECT count(*) FROM memproxy.journal WHERE state != 'parked'), "
                    "(SELECT count(*) FROM memproxy.journal WHERE state = 'parked'), "
                    "(SELECT coalesce(sum(unlearned), 0) FROM memproxy.progress)"
                ).fetchone()
            assert row is not None
            return int(row[0]), int(row[1]), int(row[2])

        async def drained() -> bool:
            ready = [(await replica.readiness())[1].get("status") == "ready" for replica in cluster.replicas]
            waiting, self.faults["parked"], unlearned = await asyncio.to_thread(left)
            aside = [path for one in cluster.replicas for path in one.home.glob("state.db-aside-*") if _holds(path)]
            self.figures["waits at last"] = waiting + unlearned + len(aside)
            return all(ready) and not self.figures["waits at last"]

        began = time.monotonic()
        try:
            await eventually(drained, DRAINED_S, what="all is indexed and learned from")
        except AssertionError as error:
            print(error)
            self.faults["not all learned in time"] += 1
        self.figures["seconds until all was learned"] = int(time.monotonic() - began)

    async def count(self, cluster: Cluster) -> None:
        """Compare what is kept with what was said."""
        for place, person in enumerate(self._people):
            memories = await _memories(cluster, cluster.replicas[place % len(cluster.replicas)], person)
            turns = sorted(
                (memory["created_at"], _told(person, memory))
                for memory in memories
                if memory["kind"] == "turn" and memory["metadata"].get("role") == "user" and "$" in memory["content"]
            )
            kept = Counter(told for _, told in turns)
            self.figures["turns kept"] += len(kept)
            self.faults["lost"] += len(set(person.acknowledged) - kept.keys())
            self.faults["never said"] += len(kept.keys() - set(person.acknowledged) - set(person.unsure))
            self.faults["kept twice"] += sum(count - 1 for count in kept.values())
            order = [told for _, told in turns]
            self.faults["out of order"] += sum(one > other for one, other in itertools.pairwise(order))
            active = [one for one in memories if one["kind"] == "semantic" and one["active"]]
            facts = [_told(person, one) for one in active]
            self.faults["several statements at once"] += max(0, len(facts) - 1)
            if len(facts) > 1:
                print(person.name, "has", *(f"{one['kind']} {one['content'][:200]!r}" for one in active), sep="\n  ")
            last = max(person.acknowledged, default=0)
            if last and (not facts or max(facts) < last):
                self.faults["not the last one told"] += 1


def _holds(path: Path) -> bool:
    """Whether a turn waits in a relay's own file: one of room alone is empty of words."""
    return path.exists() and b"Hawaii" in path.read_bytes()


_LINE = re.compile(r"^(?=\d{4}-)", re.MULTILINE)
"""Where a line of the log begins; a trace has none."""


def unhandled(log: str) -> list[str]:
    """What is told, with the trace, of errors that nobody handled and of rows that were given up."""
    signs = ("failed unexpectedly", "background task", "is parked")
    return [told.strip() for told in _LINE.split(log) if any(sign in told for sign in signs)]


def _told(person: Person, memory: Mapping[str, Any]) -> int:
    found = _AMOUNT.search(memory["content"])
    return int(found[1]) - (person.number + 1) * EACH if found else -1


async def _memories(cluster: Cluster, at: Proxy, person: Person) -> list[dict[str, Any]]:
    memories: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    async with at.client(cluster.key, **{"x-memproxy-user": person.name}) as client:
        while True:
            answer = await client.get("/v1/memory", params={"limit": 200, **cursor})
            answer.raise_for_status()
            page = answer.json()
            memories += page["data"]
            if not page["next_cursor"]:
                return memories
            cursor = {"cursor": page["next_cursor"]}


async def soak(
    minutes: float, replicas: int, users: int, seed: int, turns: int | None = None
) -> tuple[dict[str, int], dict[str, int]]:
    """Run it; the figures, and the faults. ``turns``: so many are told in all, as near as pauses make it."""
    pause_s = PAUSE_S if turns is None else 60 * minutes * users / turns
    with ExitStack() as held:
        state, memories = (held.enter_context(postgres_server()) for _ in range(2))
        redis = held.enter_context(redis_process()) if shutil.which("redis-server") else None
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        async with scripted_upstream() as upstream:
            one = Soak(upstream, users, seed, pause_s)
            changes: dict[str, Any] = {"store": {"url": memories.database()}, "recall": {"deadline_ms": 500}}
            if redis is not None:
                changes["cache"] = {"backend": "redis", "url": redis.url}
            own: list[dict[str, Any]] = [{"engine": {"workers": 2}}, *({} for _ in range(replicas - 1))]
            ahead = clock_off(folder, AHEAD_S)
            one.figures["replicas whose clock is off"] = int(bool(ahead))
            environments = [{}, ahead, *({} for _ in range(replicas - 2))]
            # a query that is cancelled while its server dies has the client's library leave a trace of its own
            async with running_cluster(
                state, upstream.base_url, folder, changes, own, environments=environments, clean=False
            ) as cluster:
                await one.run(cluster, memories, redis, minutes)
                await one.drain(cluster)
                await one.count(cluster)
                traces = [line for replica in cluster.replicas for line in unhandled(replica.log)]
                one.figures["unhandled errors in the logs"] = sum("is parked" not in trace for trace in traces)
                print(*traces[:20], sep="\n\n")
    return dict(sorted(one.figures.items())), {name: count for name, count in one.faults.items() if count}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="of talk")
    parser.add_argument("--replicas", type=int, default=2, help="at least two")
    parser.add_argument("--users", type=int, default=60)
    parser.add_argument("--turns", type=int, help="told in all, evenly over the time")
    parser.add_argument("--seed", type=int, default=5)
    asked = parser.parse_args()
    replicas = max(2, asked.replicas)
    figures, faults = asyncio.run(soak(asked.minutes, replicas, asked.users, asked.seed, asked.turns))
    for name, count in figures.items():
        print(f"{name}: {count}")
    print("faults:", faults or "none")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
