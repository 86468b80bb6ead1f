"""A real Prometheus scrapes a real server: every query of rules and boards is answered, every metric that one names is
there, and alerts fire when the part that they watch is broken.
"""

import asyncio
import json
import re
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import httpx
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.talk import chat
from tests.house.test_deploy import DEPLOY, expressions
from tests.support.http_client import plain_client
from tests.support.proxy import Proxy, free_port, running_proxy
from tests.support.upstream import ScriptedUpstream, no_facts
from tests.support.waiting import LONGEST_S, eventually

PROMETHEUS = shutil.which("prometheus")
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(
        PROMETHEUS is None, reason="no prometheus (Debian: apt-get install --no-install-recommends prometheus)"
    ),
]

SETTINGS: dict[str, Any] = {
    "learn": {"mode": "model", "max_attempts": 1, "every_turns": 2, "idle_s": 0.2},
    "experiment": {"holdout": 0.5},
    "control": {"in_chat": True},
}


class Server:
    """A Prometheus that looks every second."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def asked(self, path: str, **params: str) -> Any:
        answer = await self._client.get(f"/api/v1/{path}", params=params)
        told = answer.json()
        assert told["status"] == "success", f"{params}: {told}"
        return told["data"]

    async def query(self, expression: str) -> list[Any]:
        found: list[Any] = (await self.asked("query", query=expression))["result"]
        return found

    async def firing(self) -> set[str]:
        return {
            one["labels"]["alertname"] for one in (await self.asked("alerts"))["alerts"] if one["state"] == "firing"
        }


def hasty(folder: Path) -> list[str]:
    """The rules with no patience: alerts fire at once, and a queue is old after three seconds."""
    names = []
    for rules in (DEPLOY / "alerts.yml", DEPLOY / "recording.yml"):
        text = re.sub(r"^( +)for: \w+$", r"\1for: 0s", rules.read_text(encoding="utf-8"), flags=re.MULTILINE)
        (folder / rules.name).write_text(re.sub(r"> (300|7200)\b", "> 3", text), encoding="utf-8")
        names.append(rules.name)
    return names


@asynccontextmanager
async def prometheus(proxy: Proxy, folder: Path) -> AsyncIterator[Server]:
    port = free_port()
    job = {"job_name": "memproxy", "static_configs": [{"targets": [f"127.0.0.1:{proxy.port}"]}]}
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": hasty(folder),
        "scrape_configs": [job],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    command = [PROMETHEUS or "", "--config.file=prometheus.yml", f"--web.listen-address=127.0.0.1:{port}"]
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen([*command, "--storage.tsdb.path=data"], cwd=folder, stdout=log, stderr=log)
    try:
        async with plain_client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST_S) as client:
            server = Server(client)

            async def scrapes() -> bool:
                try:
                    is_ready = (await client.get("/-/ready")).status_code == 200
                    return is_ready and bool(await server.query("up == 1"))
                except httpx.HTTPError:
                    assert process.poll() is None, (folder / "prometheus.log").read_text()
                    return False

            await eventually(scrapes, what="it scrapes the server")
            yield server
    finally:
        process.terminate()
        await asyncio.to_thread(process.wait, LONGEST_S)


async def talked(proxy: Proxy, users: int = 6) -> None:
    """Traffic of several people: recalled for, held out, learned from, answered by memory itself."""
    for number in range(users):
        async with proxy.client(**{"x-memproxy-user": f"user-{number}"}) as client:
            for said in ("I live in Bern.", "Where do I live?", "Hello!", "What do you know about me?"):
                assert (await chat(client, said)).status == 200


async def test_every_query_of_rules_and_boards_is_answered_and_every_metric_is_there(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    async with running_proxy(upstream.base_url, tmp_path / "home", SETTINGS) as proxy:
        await talked(proxy)
        async with prometheus(proxy, tmp_path) as server:
            await talked(proxy)
            scrapes = 'count_over_time(up{job="memproxy"}[1m]) >= 3'
            await eventually(lambda: server.query(scrapes), what="some scrapes")
            families = {one.name for one in text_string_to_metric_families((await proxy.call("GET", "/metrics")).text)}
            empty = []
            for expression in sorted(set(expressions())):
                asked = expression.replace("$__rate_interval", "1m")
                for name in set(re.findall(r"\b(memproxy_\w+)", asked)):
                    plain = re.sub(r"_(bucket|sum|count|total)$", "", name)
                    assert {name, plain} & families, f"{name} of {expression}"
                if not await server.query(asked):
                    empty.append(expression)
            told = set(expressions()) - set(empty)
            experiment = ("memproxy_experiment_seconds", 'memory="injected"')
            for wanted in (*experiment, "memproxy_control", "recall_stage", "up{"):
                assert any(wanted in expression for expression in told), f"{wanted}: {empty}"
            assert len(told) > 40, empty
            recorded = await server.asked("rules", type="record")
            assert {rule["health"] for group in recorded["groups"] for rule in group["rules"]} == {"ok"}
            assert await server.query("memproxy:overhead_seconds:p99_5m")
            assert await server.firing() == set()


async def test_alerts_fire_when_the_part_that_they_watch_is_broken(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    settings = {**SETTINGS, "control": {"in_chat": False}, "experiment": {"holdout": 0.0}}
    async with (
        running_proxy(upstream.base_url, tmp_path / "home", settings, clean=False) as proxy,
        prometheus(proxy, tmp_path) as server,
        proxy.client() as client,
    ):

        async def fires(*names: str) -> bool:
            return set(names) <= await server.firing()

        async def asks() -> bool:
            await chat(client, "Where do I live in these days?")
            return await fires("MemproxyMemoryDegraded", "MemproxyPartNotReady")

        assert (await chat(client, "Where do I live?")).status == 200
        assert await server.firing() == set()
        # what the model answers cannot be read, and one try is all there is
        upstream.extractor = cast("Any", lambda _received: "The user lives somewhere.")
        await chat(client, "I live in Bern.")
        await eventually(lambda: fires("MemproxyJobsParked"), what="a parked row is told of")
        upstream.extractor = no_facts
        # the engine hangs: requests go on without memory
        engine = await proxy.engine()
        engine.send_signal(signal.SIGSTOP)
        await eventually(asks, what="an engine that hangs is told of")
        engine.send_signal(signal.SIGCONT)
        # no upstream: requests fail, and what is to be learned waits
        await proxy.memory_ready()
        await upstream.stop()
        turns = [{"role": "user", "content": "My sister is called Ida."}, {"role": "assistant", "content": "I see."}]
        await client.post("/v1/memory/turns", json={"session_id": "s", "messages": turns})
        for _ in range(3):
            assert (await chat(client, "Where do I live?")).status == 502
        away = ("MemproxyRequestsFail", "MemproxyLearningModelAway", "MemproxyQueueOld")
        await eventually(lambda: fires(*away), what="an upstream that is away, and a queue that is stuck, are told of")
        await proxy.stop()
        await eventually(lambda: fires("MemproxyDown"), what="a server that is gone is told of")


def test_boards_are_json_that_a_grafana_of_their_schema_reads() -> None:
    for path in (DEPLOY / "grafana" / "dashboards").glob("*.json"):
        board = json.loads(path.read_text(encoding="utf-8"))
        assert board["schemaVersion"] >= 39
        assert {panel["type"] for panel in board["panels"]} <= {"row", "timeseries"}
