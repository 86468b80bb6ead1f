"""Measures a dream: `python -m tests.bench.dream [--entries N] [--users N] [--model] [--model-path PATH] [--kills N]`.

Plants memories of which it is known what is a duplicate, outdated or noise (`dream_data`), lets every user dream on a
real engine, and prints of each kind how much of it was found and how much of what was done was right. With ``--model``
a scripted model answers too: one that knows the duplicates of its window, and every tenth time wants all of it deleted.
With ``--kills`` the process that dreams is killed (SIGKILL) so many times, at as many points of the way. At the end
every dream is taken back, and the export is compared with the one before.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.protocol import UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Embedder, Passage, Point
from memproxy.recall.documents import bm25_text, dense_text
from memproxy.settings import DreamSettings, EmbeddingSettings, LearnSettings, Settings, UpstreamSettings
from tests.bench.dream_data import Planted, planted
from tests.learn.rig import ModelServer
from tests.support.engine import DIMENSION, Api, make_engine, serve_engine
from tests.support.model import until_ready

TENANT = "acme"
MINILM = 384
"""Numbers of a vector of the model that ``--model-path`` names."""

NO_VECTORS = Passage(parts=[])


class KnowingModel:
    """Merges what it was told is the same; every tenth answer wants everything deleted."""

    def __init__(self, entries: list[Planted]) -> None:
        self._groups = {one.memory.content: one.same_as or one.memory.id for one in entries}
        self._asked = 0

    def answer(self, system: str, user: str) -> dict[str, Any]:
        """What it says of a window."""
        if not system.startswith("You tidy"):
            return {}
        self._asked += 1
        shown = [json.loads(line) for line in user.splitlines() if line.startswith("{")]
        if self._asked % 10 == 0:
            return {"delete": [line["number"] for line in shown]}
        groups: dict[str, list[dict[str, Any]]] = {}
        for line in shown:
            groups.setdefault(self._groups.get(line["text"], line["text"]), []).append(line)
        same = [some for some in groups.values() if len(some) > 1]
        return {"merge": [{"numbers": [one["number"] for one in some], "text": some[0]["text"]} for some in same]}


async def exported(api: Api, user: str) -> bytes:
    return (await api.call("GET", "/v1/memory/export", identity=api.identity(user))).content


async def bring(api: Api, user: str, entries: list[Planted], embedder: Embedder | None) -> None:
    """Write a user's entries as they are, past everything that would reconcile them on the way."""
    words, store = Bm25Encoder(), api.engine.parts.store
    memories = [msgspec.structs.replace(one.memory, tenant=TENANT, user_id=user) for one in entries]
    for start in range(0, len(memories), 100):
        some = memories[start : start + 100]
        read = (
            await embedder.embed_passages([dense_text(one) for one in some]) if embedder else [NO_VECTORS] * len(some)
        )
        points = [
            Point(memory=one, dense=passage.parts, bm25=words.encode_document(bm25_text(one, None, None)))
            for one, passage in zip(some, read, strict=True)
        ]
        await store.upsert(Scope(tenant=TENANT, user=user), points)
    await store.flush()


async def dream(api: Api, user: str) -> dict[str, Any]:
    """A user's dream, to its end: the one that was begun, or a new one."""
    identity = api.identity(user)
    begun = await api.data("dreams", identity=identity)
    if not begun:
        told = (await api.call("POST", "/v1/memory/dream", identity=identity, json={}, timeout=300)).json()
    while begun or told["state"] in {"waiting", "running"}:
        name = begun.pop()["id"] if begun else told["id"]
        told = (await api.call("GET", f"/v1/memory/dreams/{name}", identity=identity, timeout=300)).json()
        await asyncio.sleep(0.2)
    assert told["state"] == "done", told["error"]
    found: dict[str, Any] = told
    return found


def judged(entries: list[Planted], told: dict[str, Any]) -> Counter[tuple[str, str, bool]]:
    """What was done to each entry, by what it is: action (or kind), how it was planted, and whether that was right."""
    by_id = {one.memory.id: one for one in entries}
    group = {one.memory.id: one.same_as or one.memory.id for one in entries}
    done: dict[str, tuple[str, str]] = {}
    for change in told["diff"]:
        for source in change["sources"] or [{"memory_id": change["memory_id"]}]:
            done[source["memory_id"]] = (change["action"], change["memory_id"])
    counts: Counter[tuple[str, str, bool]] = Counter()
    merged = Counter(group[name] for name, (action, _) in done.items() if action == "merge" and name in group)
    for name, (action, into) in done.items():
        one = by_id[name]
        if action == "merge":  # either of two that are the same may stay
            right = into not in group or group[into] == group[name]
        else:
            right = one.action == action and (action != "supersede" or one.replaced_by == into)
        counts["done", action, right] += 1
    for one in entries:
        if one.action == "merge":
            counts["wanted", f"merge {one.how}", merged[group[one.memory.id]] > 0] += 1
        elif one.action:
            counts["wanted", f"{one.action} {one.how}", done.get(one.memory.id, ("", ""))[0] == one.action] += 1
    return counts


def report(counts: Counter[tuple[str, str, bool]]) -> None:
    """Print what was found of each kind, and how much of what was done was right."""
    for table, title in (("wanted", "recall"), ("done", "precision")):
        names = sorted({name for what, name, _ in counts if what == table})
        for name in names:
            right, wrong = counts[table, name, True], counts[table, name, False]
            print(f"{title:9} {name:22} {right / (right + wrong):6.3f}  {right} of {right + wrong}")
    for action in ("merge", "supersede", "end", "delete"):
        right = sum(counts[key] for key in counts if key[0] == "wanted" and key[1].startswith(action) and key[2])
        every = sum(counts[key] for key in counts if key[0] == "wanted" and key[1].startswith(action))
        print(f"{'recall':9} {'all of ' + action:22} {right / max(1, every):6.3f}  {right} of {every}")


@asynccontextmanager
async def opened(folder: Path, options: argparse.Namespace) -> AsyncIterator[tuple[Api, Embedder | None]]:
    """An engine on this folder, with a scripted model that knows what is planted."""
    people, server, embedder = planted(options.entries, options.users), ModelServer(), None
    server.dreams = KnowingModel([one for some in people.values() for one in some]).answer
    if options.model_path is not None:
        embedder = FastembedEmbedder(EmbeddingSettings(model_path=str(options.model_path)), folder / "model")
    async with server.serving():
        settings = Settings(
            upstream=UpstreamSettings(base_url=server.base_url, api_key="sk-test"),
            learn=LearnSettings(mode="model" if options.model else "verbatim", every_turns=200, idle_s=3600),
            dream=DreamSettings(max_entries=options.entries, max_model_tokens=10_000_000),
        )
        dimension = DIMENSION if embedder is None else MINILM
        engine = make_engine(folder, settings=settings, embedder=embedder, dimension=dimension, own_store=True)
        access = UpstreamAccess(base_url=server.base_url, model="scripted", api_key="sk-test")
        engine.parts.access.remember(TENANT, access)
        async with serve_engine(engine) as api:
            if embedder is not None:
                await until_ready(embedder)
            yield api, embedder


async def dream_to_be_killed(options: argparse.Namespace) -> None:
    """Everybody dreams; prints how many entries were looked at, for who started this and kills it."""
    async with opened(options.within, options) as (api, _), asyncio.TaskGroup() as tasks:
        dreaming = tasks.create_task(everybody(api, options.users))
        while not dreaming.done():
            begun = [await api.data("dreams", identity=api.identity(f"user-{one}")) for one in range(options.users)]
            print(sum(some[0]["looked_at"] for some in begun if some), flush=True)
            await asyncio.sleep(0.02)


async def everybody(api: Api, users: int) -> dict[str, dict[str, Any]]:
    """The dreams of all of them, one after the other."""
    return {f"user-{one}": await dream(api, f"user-{one}") for one in range(users)}


async def kill(folder: Path, options: argparse.Namespace) -> list[int]:
    """Start dreams and kill the process, at each next part of the way; how many entries had been looked at."""
    at = []
    for number in range(options.kills):
        given = [*sys.argv[1:], "--within", str(folder)]
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.dream", *given, stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        until = options.entries * (number + 0.5) / options.kills
        while (line := await child.stdout.readline()) and int(line) < until:
            pass
        child.kill()
        await child.wait()
        at.append(int(line or b"-1"))
    return at


async def measure(options: argparse.Namespace) -> None:
    people = planted(options.entries, options.users)
    counts: Counter[tuple[str, str, bool]] = Counter()
    killed: list[int] = []
    with tempfile.TemporaryDirectory(prefix="dream-") as name:
        folder = Path(name)
        async with opened(folder, options) as (api, embedder):
            for user, some in people.items():
                await bring(api, user, some, embedder)
            before = {user: await exported(api, user) for user in people}
        began = time.monotonic()
        killed = await kill(folder, options)
        async with opened(folder, options) as (api, _):
            began = began if killed else time.monotonic()
            told = await everybody(api, options.users)
            seconds = time.monotonic() - began
            for user, some in people.items():
                counts += judged(some, told[user])
            same = 0
            for user in people:
                path = f"/v1/memory/dreams/{told[user]['id']}/undo"
                await api.call("POST", path, identity=api.identity(user), timeout=300)
                same += await exported(api, user) == before[user]
    how = "a scripted model" if options.model else "rules only"
    print(f"{options.entries} entries of {options.users} users, {how}, {'vectors' if options.model_path else 'words'}")
    report(counts)
    refused = sum(one["counts"]["refused"] for one in told.values())
    print(f"{seconds:.1f} s; {refused} answers or parts of them refused")
    if killed:
        print(f"killed {len(killed)} times, after {', '.join(map(str, killed))} entries")
    print(f"taken back: {same} of {options.users} exports byte for byte as before")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--model", action="store_true")
    parser.add_argument("--model-path", type=Path)
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--within", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    asyncio.run(measure(options) if options.within is None else dream_to_be_killed(options))
