"""How soon an erased user is gone at every replica: ``python -m tests.bench.erasure [--replicas 4] [--users 20]``.

Whole installations on one PostgreSQL, and on Redis where it is installed. Each user says something at one replica;
when all of them show it, each in a conversation that repeats its block, the user is erased at another one.
Printed is how long after the answer the last of them still showed anything, in a list or in what it asked upstream.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.bench.figures import Times
from tests.e2e.talk import chat, word
from tests.support.cluster import Cluster, running_cluster
from tests.support.postgres import postgres_server
from tests.support.proxy import Proxy
from tests.support.redis import redis_process
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

QUESTION = "What is my locker code?"
WITHIN_S = 1.0


class Watched:
    """What the replicas show of a user."""

    def __init__(self, cluster: Cluster, upstream: ScriptedUpstream, user: str, secret: str) -> None:
        self._cluster, self._upstream, self._user, self._secret = cluster, upstream, user, secret

    async def says(self, at: Proxy, *texts: str, session: str) -> bool:
        """A chat request; whether the secret came with it."""
        headers = {"x-memproxy-user": self._user, "x-memproxy-session": session, "x-memproxy-memory": "read"}
        if self._secret in texts[-1]:
            headers["x-memproxy-memory"] = "on"
        async with at.client(self._cluster.key) as client:
            assert (await chat(client, *texts, headers=headers)).status == 200
        return self._secret in self._upstream.received[-1].body.decode()

    async def is_shown(self, at: Proxy) -> bool:
        """Whether that replica gives anything of it: in a new conversation, in one that has begun, or in the list."""
        begun = await self.says(at, QUESTION, "I see.", "And in words?", session=f"{self._user}-{at.port}")
        if begun or await self.says(at, QUESTION, session=word()):
            return True
        return bool(
            (await at.call("GET", "/v1/memory", self._cluster.key, headers={"x-memproxy-user": self._user})).json()[
                "data"
            ]
        )

    async def begins(self, at: Proxy) -> bool:
        """Whether a conversation begins there with the secret in its block."""
        return await self.says(at, QUESTION, session=f"{self._user}-{at.port}")


async def measure(replicas: int, users: int) -> dict[str, Any]:
    """Erase each of the users; seconds until each was gone everywhere."""
    gone_ms, asked_ms = list[float](), list[float]()
    with ExitStack() as held:
        server = held.enter_context(postgres_server())
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        changes: dict[str, Any] = {"learn": {"enabled": False}, "recall": {"deadline_ms": 5_000}}
        if shutil.which("redis-server"):
            changes["cache"] = {"backend": "redis", "url": held.enter_context(redis_process()).url}
        async with scripted_upstream() as upstream:
            own: list[dict[str, Any]] = [{} for _ in range(replicas)]
            async with running_cluster(server, upstream.base_url, folder, changes, own) as cluster:
                for number in range(users):
                    watched = Watched(cluster, upstream, f"user-{number}", secret := word())
                    first, second = (cluster.replicas[(number + more) % replicas] for more in (0, 1))
                    await watched.says(first, f"My locker code is {secret}.", session="told")
                    for replica in cluster.replicas:
                        await eventually(partial(watched.begins, replica), 60, what="it is shown")
                    began = time.perf_counter()
                    (
                        await second.call(
                            "DELETE",
                            f"/v1/memory/users/user-{number}",
                            cluster.key,
                            headers={"x-memproxy-user": f"user-{number}"},
                        )
                    ).raise_for_status()
                    answered = time.perf_counter()
                    last = answered
                    for replica in cluster.replicas:
                        while await watched.is_shown(replica):
                            last = time.perf_counter()
                    asked_ms.append((answered - began) * 1000)
                    gone_ms.append((last - answered) * 1000)
    return {
        "replicas": replicas,
        "users": users,
        "redis": "cache" in changes,
        "erasure answered": _told(asked_ms),
        "shown last after the answer": _told(gone_ms),
        "users shown after the answer": sum(one > 0 for one in gone_ms),
        "shown after a second": sum(one > 1000 * WITHIN_S for one in gone_ms),
    }


def _told(took_ms: list[float]) -> str:
    times = Times.of(took_ms)
    return f"{times.p50_ms:.0f} / {times.p95_ms:.0f} / {max(took_ms):.0f} ms (p50, p95, most)"


def main() -> None:
    """As the command line asks; exits with 1 where anybody was shown after a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--users", type=int, default=20)
    asked = parser.parse_args()
    figures = asyncio.run(measure(max(2, asked.replicas), asked.users))
    print(json.dumps(figures))
    sys.exit(bool(figures["shown after a second"]))


if __name__ == "__main__":
    main()
