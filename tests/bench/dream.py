"""Measures a dream: `python -m tests.bench.dream [--entries N] [--users N] [--model]`.

Plants memories of which it is known what is a duplicate, outdated or noise (`dream_data`), lets every user dream on a
real engine, and prints of each kind how much of it was found and how much of what was done was right. With ``--model``
a scripted model answers too: one that knows the duplicates of its window, and every tenth time wants all of it deleted.
At the end every dream is taken back, and the export is compared with the one before.
"""

import argparse
import asyncio
import json
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.protocol import UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Point
from memproxy.recall.documents import bm25_text
from memproxy.settings import DreamSettings, LearnSettings, Settings, UpstreamSettings
from tests.bench.dream_data import Planted, planted
from tests.learn.rig import ModelServer
from tests.support.engine import Api, make_engine, serve_engine

TENANT = "acme"


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
    """All of a user's."""
    return (await api.call("GET", "/v1/memory/export", identity=api.identity(user))).content


async def bring(api: Api, user: str, entries: list[Planted]) -> None:
    """Write a user's entries as they are, past everything that would reconcile them on the way."""
    words = Bm25Encoder()
    memories = [msgspec.structs.replace(one.memory, tenant=TENANT, user_id=user) for one in entries]
    points = [Point(memory=one, bm25=words.encode_document(bm25_text(one, None, None))) for one in memories]
    for start in range(0, len(points), 500):
        await api.engine.parts.store.upsert(Scope(tenant=TENANT, user=user), points[start : start + 500])


async def dream(api: Api, user: str) -> dict[str, Any]:
    """A user's dream, to its end."""
    identity = api.identity(user)
    told = (await api.call("POST", "/v1/memory/dream", identity=identity, json={}, timeout=300)).json()
    while told["state"] in {"waiting", "running"}:
        await asyncio.sleep(0.5)
        told = (await api.call("GET", f"/v1/memory/dreams/{told['id']}", identity=identity, timeout=300)).json()
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


async def measure(entries: int, users: int, *, by_model: bool) -> None:
    """Plant, dream, judge, take back."""
    people = planted(entries, users)
    server = ModelServer()
    model = KnowingModel([one for some in people.values() for one in some])
    server.dreams = model.answer
    counts: Counter[tuple[str, str, bool]] = Counter()
    async with AsyncExitStack() as opened:
        await opened.enter_async_context(server.serving())
        settings = Settings(
            upstream=UpstreamSettings(base_url=server.base_url, api_key="sk-test"),
            learn=LearnSettings(mode="model" if by_model else "verbatim", every_turns=200, idle_s=3600),
            dream=DreamSettings(max_entries=entries, max_model_tokens=10_000_000),
        )
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="dream-")))
        engine = make_engine(folder, settings=settings)
        access = UpstreamAccess(base_url=server.base_url, model="scripted", api_key="sk-test")
        engine.parts.access.remember(TENANT, access)
        api = await opened.enter_async_context(serve_engine(engine))
        for user, some in people.items():
            await bring(api, user, some)
        before = {user: await exported(api, user) for user in people}
        began, told = time.monotonic(), {}
        for user in people:
            told[user] = await dream(api, user)
        seconds = time.monotonic() - began
        for user, some in people.items():
            counts += judged(some, told[user])
        refused = sum(one["counts"]["refused"] for one in told.values())
        same = 0
        for user in people:
            await api.call(
                "POST", f"/v1/memory/dreams/{told[user]['id']}/undo", identity=api.identity(user), timeout=300
            )
            same += await exported(api, user) == before[user]
    print(f"{entries} entries of {users} users, {'a scripted model' if by_model else 'rules only'}")
    report(counts)
    print(f"{seconds:.1f} s; {refused} answers or parts of them refused")
    print(f"taken back: {same} of {users} exports byte for byte as before")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=10)
    parser.add_argument("--model", action="store_true")
    arguments = parser.parse_args()
    asyncio.run(measure(arguments.entries, arguments.users, by_model=arguments.model))
