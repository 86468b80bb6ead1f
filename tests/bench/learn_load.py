"""The traffic of `bench.learn`: exchanges at a fixed rate whatever the answers take, and a slow model to learn with."""

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import msgspec
from aiohttp import web

from memproxy.demo.model_server import extract
from memproxy.demo.story import free_port
from memproxy.tasks import TaskOwner
from tests.bench import payloads
from tests.bench.jobs import RECALL_HEADER, TIMING_HEADER

USERS = 100
MESSAGES_OF_A_SESSION = 20
_LAST_ANSWERS_S = 30.0
_RECALL = re.compile(r"\brecall;dur=([\d.]+)")


class Traffic(msgspec.Struct, kw_only=True):
    """What so many seconds of traffic came to. ``alone_ms`` are the latencies without the wait for recall, which is
    bounded by its own deadline: what is left is the relay's. ``sent_s`` says when each was sent.
    """

    sent_s: list[float] = []
    latencies_ms: list[float] = []
    alone_ms: list[float] = []
    errors: int = 0
    degraded: int = 0
    elapsed_s: float = 0.0

    def slowest(self) -> list[tuple[float, float]]:
        """When the slowest percent was sent and how long each took without the wait for recall, in that order."""
        pairs = zip(self.sent_s, self.alone_ms, strict=True)
        worst = sorted(pairs, key=lambda pair: -pair[1])[: math.ceil(len(self.alone_ms) / 100)]
        return sorted((round(sent, 2), round(took, 1)) for sent, took in worst)


class Extractor:
    """A model that extracts by rules and takes so long for it, however many ask at once."""

    def __init__(self, latency_s: float) -> None:
        self._latency_s = latency_s
        self.base_url = ""
        self.calls = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Extractor"]:
        """Serve on a free port within the block."""
        app, port = web.Application(client_max_size=2**26), free_port()
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        self.base_url = f"http://127.0.0.1:{port}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _complete(self, request: web.Request) -> web.Response:
        asked = await request.json()
        await asyncio.sleep(self._latency_s)
        self.calls += 1
        found = extract(str(asked["messages"][-1]["content"]))
        message = {"role": "assistant", "content": msgspec.json.encode({"candidates": found}).decode()}
        return web.json_response({"choices": [{"index": 0, "finish_reason": "stop", "message": message}]})


async def send(port: int, *, first: int, per_second: float, seconds: float) -> Traffic:
    """Send exchanges at a fixed rate from the ``first`` on, each of the next user; two turns each."""
    result, owner = Traffic(), TaskOwner("traffic")
    limit = aiohttp.TCPConnector(limit=0)
    headers = {"authorization": f"Bearer {payloads.KEY}"}
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers, connector=limit) as http:
        began = time.perf_counter()
        for number in range(round(per_second * seconds)):
            await asyncio.sleep(max(0.0, began + number / per_second - time.perf_counter()))
            owner.start(_exchange(http, first + number, result, began), "exchange")
        result.elapsed_s = time.perf_counter() - began
        await owner.drain(_LAST_ANSWERS_S)
    return result


async def _exchange(http: aiohttp.ClientSession, number: int, result: Traffic, start: float) -> None:
    user, turn = f"user{number % USERS}", number // USERS
    text = f"My room{number} budget is ${1_000 + number}."
    body = {"model": "stub", "messages": [{"role": "user", "content": text}]}
    headers = {"x-memproxy-user": user, "x-memproxy-session": f"{user}-{2 * turn // MESSAGES_OF_A_SESSION}"}
    began = time.perf_counter()
    try:
        async with http.post("/v1/chat/completions", json=body, headers=headers) as response:
            await response.read()
            result.errors += response.status != 200
    except aiohttp.ClientError:
        result.errors += 1
        return
    took = (time.perf_counter() - began) * 1_000
    found = _RECALL.search(response.headers.get(TIMING_HEADER.decode(), ""))
    result.sent_s.append(began - start)
    result.latencies_ms.append(took)
    result.alone_ms.append(took - (float(found[1]) if found else 0.0))
    result.degraded += response.headers.get(RECALL_HEADER.decode(), "").startswith("degraded")
