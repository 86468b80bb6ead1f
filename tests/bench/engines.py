"""Recalls that one engine and two answer, on memories and state in PostgreSQL, by the processor time of the engines.

    python -m tests.bench.engines [--recalls 2000] [--users 20] [--turns 200] [--model-path FOLDER]

A machine's engines are as fast as the busiest of them has processor time for: the rate is the recalls through the
processor time of that one. So it says what a machine with a processor for each would answer, whatever else runs here.
"""

import argparse
import asyncio
import itertools
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from memproxy.core.protocol import RecallRequest
from memproxy.core.scope import Scope
from memproxy.relay.engines import Engines
from tests.support.cluster import running_cluster
from tests.support.postgres import postgres_server
from tests.support.proxy import Proxy
from tests.support.upstream import scripted_upstream

AT_ONCE = 8
DEADLINE_S = 5.0
WARM_UP = 200
_CITIES = ["Lisbon", "Kyoto", "Oslo", "Quito", "Cairo", "Perth", "Turin", "Lima", "Accra", "Hanoi"]
_THINGS = ["bike", "garden", "piano", "boat", "camera", "tent", "kettle", "lamp", "drone", "violin"]


async def measure(engines: int, asked: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start so many engines, tell them everything, and ask."""
    embedding = {"provider": "none"}
    if asked.model_path:
        embedding = {"provider": "fastembed", "model_path": asked.model_path}
    changes = {"embedding": embedding, "learn": {"enabled": False}, "recall": {"deadline_ms": 1000 * DEADLINE_S}}
    own: list[dict[str, Any]] = [{"engine": {"workers": engines}}]
    with postgres_server() as server:
        async with (
            scripted_upstream() as upstream,
            running_cluster(server, upstream.base_url, folder, changes, own) as cluster,
        ):
            proxy = cluster.replicas[0]
            for user in range(asked.users):
                await _tell(proxy, cluster.key, f"u{user}", asked.turns)
            runtime = Path((proxy.home / "state.db.lock").read_text().splitlines()[1])
            sockets = [runtime / "engine.sock", *(runtime / f"engine-{place}.sock" for place in range(2, engines + 1))]
            client = Engines(sockets, deadline_s=DEADLINE_S)
            await client.open()
            await _ask(client, WARM_UP, asked.users)
            before, began = _spent(proxy), time.perf_counter()
            results = await _ask(client, asked.recalls, asked.users)
            took_s = time.perf_counter() - began
            spent = [after - former for after, former in zip(_spent(proxy), before, strict=True)]
            await client.close()
    assert set(results) == {"injected"}, results
    return {
        "engines": engines,
        "recalls a second, by processor time": round(asked.recalls / max(spent), 1),
        "processor ms a recall": round(1000 * sum(spent) / asked.recalls, 2),
        "processor s of each engine": [round(one, 2) for one in spent],
        "recalls a second here": round(asked.recalls / took_s, 1),
    }


def _spent(proxy: Proxy) -> list[float]:
    times = [engine.cpu_times() for engine in sorted(proxy.family("_engine"), key=lambda engine: engine.pid)]
    return [one.user + one.system for one in times]


async def _tell(proxy: Proxy, key: str, user: str, turns: int) -> None:
    async with proxy.client(key, **{"x-memproxy-user": user}) as client:
        for start in range(0, turns, 50):
            messages = [{"role": "user", "content": _said(number)} for number in range(start, min(turns, start + 50))]
            told = await client.post("/v1/memory/turns", json={"session_id": f"s{start}", "messages": messages})
            told.raise_for_status()


def _said(number: int) -> str:
    city, thing = _CITIES[number % len(_CITIES)], _THINGS[number // len(_CITIES) % len(_THINGS)]
    return f"I bought my {thing} number {number} in {city}, for {100 + number} euros."


async def _ask(client: Engines, recalls: int, users: int) -> list[str]:
    numbers = itertools.count()

    async def ask_on() -> list[str]:
        results = []
        while (number := next(numbers)) < recalls:
            city, thing = _CITIES[number % len(_CITIES)], _THINGS[number // 7 % len(_THINGS)]
            request = RecallRequest(
                request_id=f"r{number}",
                scope=Scope(tenant="acme", user=f"u{number % users}"),
                queries=[f"Where did I buy my {thing}, was it {city}?"],
                nonce="0" * 12,
            )
            results.append((await client.recall(request)).result)
        return results

    return list(itertools.chain(*await asyncio.gather(*(ask_on() for _ in range(AT_ONCE)))))


def show(rows: Sequence[dict[str, Any]]) -> None:
    """Print the figures and their ratio."""
    for row in rows:
        print(json.dumps(row))
    one, two = (row["recalls a second, by processor time"] for row in rows)
    print(f"two engines to one: {two / one:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recalls", type=int, default=2000)
    parser.add_argument("--users", type=int, default=20)
    parser.add_argument("--turns", type=int, default=200, help="of each user")
    parser.add_argument("--model-path", help="folder of an embedding model; without one by words")
    asked = parser.parse_args()
    rows = []
    for engines in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(asyncio.run(measure(engines, asked, Path(folder))))
    show(rows)


if __name__ == "__main__":
    main()
