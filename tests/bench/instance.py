"""One `memproxy serve` with a home of its own, as the suite uses it: started, filled, asked, stopped."""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import aiohttp
import msgspec
import yaml

from memproxy.demo.story import free_port
from memproxy.errors import RequestError
from memproxy.serve.launch import ENGINE, RELAY
from tests.bench import payloads
from tests.bench.children import Child, Nursery, ProcessInfo, family
from tests.bench.machine import Pinning, cpu_seconds

START_LIMIT_S = 60.0
"""How long a start may take until everything is ready, the embedding model included."""

INGEST_BATCH = 100
"""Messages of one call when memories are put in."""

RECOVERY_LIMIT_S = 5.0
_POLL_S = 0.02
_API_TIMEOUT_S = 120.0


class Starting(msgspec.Struct, frozen=True, kw_only=True):
    """How long one start took, in seconds from the command to the first relayed answer, and until memory was ready."""

    first_answer_s: float
    memory_s: float


class Residence(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory of each process, in megabytes."""

    relay_mb: float
    engine_mb: float
    supervisor_mb: float


class Instance:
    """A running proxy. Everything but its upstream, its embedder and learning (off) has its default."""

    def __init__(self, name: str, child: Child, port: int, key: str) -> None:
        self.name = name
        self.port = port
        self.key = key
        self._child = child
        self._http = _session(port, key)
        self._seen = "no answer"
        self.relay_pids: list[int] = []
        self.engine_pids: list[int] = []
        self.starting = Starting(first_answer_s=0.0, memory_s=0.0)

    @classmethod
    async def start(
        cls,
        nursery: Nursery,
        folder: Path,
        name: str,
        *,
        upstream_port: int,
        model_path: Path | None = None,
        extractor: str | None = None,
        learn: Mapping[str, object] | None = None,
        server: Mapping[str, object] | None = None,
        environment: Mapping[str, str] | None = None,
        keys: bool = False,
    ) -> Self:
        """Start one in a new folder below ``folder`` and wait until all of it is ready. With the address of an
        ``extractor`` it learns, too; ``learn`` and ``server`` are more settings of those sections,
        ``environment`` is more of its environment. With ``keys`` it asks for a proxy key (``auth.mode: keys``), which
        is made before it starts.

        Raises:
            ConfigError: it ended by itself or was not ready in time.
        """
        home = folder / name
        home.mkdir()
        config_file, port = home / "config.yaml", free_port()
        config = _config(upstream_port, model_path, extractor, learn or {}) | {"server": dict(server or {})}
        if keys:
            config["auth"] = {"mode": "keys"}
            config["upstream"] = {**config["upstream"], "api_key": payloads.KEY}
        config_file.write_text(yaml.safe_dump(config), encoding="utf-8")
        own = {"MEMPROXY_HOME": str(home), **(environment or {})}
        program = [sys.executable, "-m", "memproxy"]
        key = await _new_key(nursery, name, [*program, "keys", "new"], config_file, own) if keys else payloads.KEY
        began = time.perf_counter()
        child = await nursery.start(name, [*program, "serve", "--config", str(config_file), "--port", str(port)], own)
        instance = cls(name, child, port, key)
        try:
            await instance._ready(began)
        except BaseException:
            await instance.stop()
            raise
        return instance

    @property
    def pid(self) -> int:
        return self._child.pid

    async def _ready(self, began: float) -> None:
        first = await self._until(self._relays, began)
        self.starting = Starting(first_answer_s=first, memory_s=await self._until(self._remembers, began))
        table = self._family()
        self.relay_pids = [each.pid for each in table if each.command.endswith(RELAY)]
        self.engine_pids = [each.pid for each in table if each.command.endswith(ENGINE)]

    async def _until(self, condition: Any, began: float) -> float:
        while time.perf_counter() - began < START_LIMIT_S:
            try:
                if await condition():
                    return time.perf_counter() - began
            except aiohttp.ClientConnectionError:
                pass  # it does not listen yet
            if not self._child.running:
                raise self._child.trouble("ended by itself")
            await asyncio.sleep(_POLL_S)
        raise self._child.trouble(f"was not ready in {START_LIMIT_S:.0f} s ({self._seen})")

    async def _relays(self) -> bool:
        prefix, suffix = payloads.chat_template(2_000, stream=False)
        body = f"{prefix}ready?{suffix}"
        headers = {"content-type": "application/json", "x-memproxy-memory": "off"}
        async with self._http.post("/v1/chat/completions", data=body, headers=headers) as response:
            self._seen = f"chat answered {response.status}: {(await response.text())[:300]}"
            return response.status == 200

    async def _remembers(self) -> bool:
        async with self._http.get("/readyz") as response:
            self._seen = f"/readyz answered {response.status}: {(await response.text())[:500]}"
            return bool((await response.json())["status"] == "ready")

    def pin(self, pinning: Pinning) -> None:
        """Give the relay its processor, the engine and the supervisor the others."""
        pinning.pin_relay(self.relay_pids)
        pinning.pin_rest([self._child.pid, *self.engine_pids])

    async def ingest(self, user: str, first: int, count: int) -> float:
        """Put the facts ``first`` and on into a user's memory, `INGEST_BATCH` messages a call; the seconds it took."""
        began = time.perf_counter()
        for start in range(first, first + count, INGEST_BATCH):
            facts = [payloads.fact(number) for number in range(start, min(start + INGEST_BATCH, first + count))]
            await self._add_turns(user, f"{user}-{start}", facts)
        return time.perf_counter() - began

    async def settle(self, user: str) -> float:
        """Wait until everything captured for a user is indexed; the seconds it took.

        A user's writes are indexed in order, and the call returns when its own one is.
        """
        began = time.perf_counter()
        await self._add_turns(user, "settle", [f"Settled at {began:.6f}."])
        return time.perf_counter() - began

    async def recovered(self, user: str) -> bool:
        """Wait until a request is recalled for again; False if none was within `RECOVERY_LIMIT_S`.

        After a turn that was too much for the engine the relay leaves it alone for a second; that is the last turn's
        result, not the next one's.
        """
        prefix, suffix = payloads.chat_template(2_000, stream=False)
        headers = {"content-type": "application/json", "x-memproxy-memory": "read", "x-memproxy-user": user}
        body = f"{prefix}{payloads.question(0)}{suffix}"
        until = time.perf_counter() + RECOVERY_LIMIT_S
        while time.perf_counter() < until:
            async with self._http.post("/v1/chat/completions", data=body, headers=headers) as response:
                if not response.headers.get("x-memproxy-recall", "").startswith("degraded"):
                    return True
            await asyncio.sleep(_POLL_S)
        return False

    async def _add_turns(self, user: str, session: str, texts: Sequence[str]) -> None:
        body = {
            "user_id": user,
            "session_id": session,
            "messages": [{"role": "user", "content": text} for text in texts],
        }
        async with self._http.post("/v1/memory/turns", json=body) as response:
            # 202: they are kept, but indexing them takes longer than the call waits.
            if response.status not in (201, 202):
                raise RequestError(f"{self.name}: ingest answered {response.status}: {(await response.text())[:300]}")
            if response.status == 202:
                await self._add_turns(user, session, texts)

    def residence(self) -> Residence:
        table = self._family()
        sizes = {each.pid: each.resident_mb for each in table}
        return Residence(
            relay_mb=round(sum(sizes.get(pid, 0.0) for pid in self.relay_pids), 1),
            engine_mb=round(sum(sizes.get(pid, 0.0) for pid in self.engine_pids), 1),
            supervisor_mb=round(sum(each.resident_mb for each in table if each.pid == self._child.pid), 1),
        )

    def spent(self) -> tuple[float, float]:
        """Seconds of processor time of the relay and of the engine so far; 0 where the system does not tell."""
        return cpu_seconds(self.relay_pids) or 0.0, cpu_seconds(self.engine_pids) or 0.0

    def _family(self) -> list[ProcessInfo]:
        return family(self._child.pid)

    async def stop(self) -> None:
        """End it in an orderly way."""
        await self._http.close()
        await self._child.stop()


async def _new_key(
    nursery: Nursery, name: str, command: Sequence[str], config_file: Path, environment: Mapping[str, str]
) -> str:
    asked = [*command, "--tenant", "benchmark", "--config", str(config_file)]
    child = await nursery.start(f"{name}-key", asked, environment, talks=True)
    return (await child.read_line(START_LIMIT_S)).decode().strip()


def _session(port: int, key: str) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        f"http://127.0.0.1:{port}",
        headers={"authorization": f"Bearer {key}"},
        timeout=aiohttp.ClientTimeout(total=_API_TIMEOUT_S),
    )


def _config(
    upstream_port: int, model_path: Path | None, extractor: str | None, learn: Mapping[str, object]
) -> dict[str, Any]:
    embedding: dict[str, object] = {"provider": "none"}
    if model_path is not None:
        embedding = {"provider": "fastembed", "model_path": str(model_path)}
    return {
        "upstream": {"base_url": f"http://127.0.0.1:{upstream_port}/v1"},
        "embedding": embedding,
        "learn": {"enabled": extractor is not None, **learn},
        "models": {"extract": {"base_url": extractor, "model": "stub", "api_key": payloads.KEY}} if extractor else {},
    }
