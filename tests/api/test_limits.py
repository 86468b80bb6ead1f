"""Limits at the memory API: 429 with `retry-after`, an error that names the limit, and counting that is right."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from memproxy.core.protocol import FULL_PATH
from memproxy.learn.budget import token_charge
from memproxy.settings import Settings
from tests.support.engine import Api, make_engine, serve_engine, test_settings


@contextlib.asynccontextmanager
async def limited(folder: Path, **limits: Any) -> AsyncIterator[Api]:
    settings = {**test_settings().model_dump(include={"learn", "recall"}), "limits": limits}
    async with serve_engine(make_engine(folder, settings=Settings.model_validate(settings))) as api:
        yield api


def refused(answer: httpx.Response, limit: str) -> None:
    assert answer.status_code == 429, answer.text
    error = answer.json()["error"]
    assert error["type"] == "rate_limit_error"
    assert limit in error["message"]
    assert int(answer.headers["retry-after"]) >= 1


async def store(api: Api, content: str, user: str = "ann") -> httpx.Response:
    return await api.ask("POST", json={"content": content, "user_id": user})


async def ingest(api: Api, count: int, user: str = "ann", start: int = 0) -> httpx.Response:
    messages = [{"role": "user", "content": f"line {start + n}"} for n in range(count)]
    return await api.ask("POST", "turns", json={"messages": messages, "user_id": user})


async def test_turns_over_the_limit_of_a_minute_are_refused_whole(tmp_path: Path) -> None:
    async with limited(tmp_path, user={"turns_per_minute": 5}, tenant={"turns_per_minute": 8}) as api:
        assert (await ingest(api, 4)).status_code == 201
        refused(await ingest(api, 2, start=4), "limits.user.turns_per_minute is 5")
        assert (await ingest(api, 1, start=6)).status_code == 201
        assert (await ingest(api, 3, "ben")).status_code == 201
        refused(await ingest(api, 1, "cid"), "limits.tenant.turns_per_minute is 8")
        assert len(await api.page(user_id="ann")) == 5


async def test_a_full_quota_refuses_until_something_is_forgotten(tmp_path: Path) -> None:
    async with limited(tmp_path, user={"memories": 3}) as api:
        stored = [await api.store(f"fact {n}", user_id="ann") for n in range(3)]
        full = await store(api, "one more")
        refused(full, "limits.user.memories is 3")
        assert full.json()["error"]["code"] == "quota_exceeded"
        refused(await ingest(api, 1), "limits.user.memories")
        whose = await api.client.post(FULL_PATH, json={"tenant": api.tenant, "user": "ann"})
        assert whose.json() == {"whose": "user"}
        assert (await api.store("ben's", user_id="ben"))["user_id"] == "ben"
        await api.delete(stored[0]["id"], user_id="ann")
        assert (await api.store("one more", user_id="ann"))["content"] == "one more"


async def test_a_tenants_quota_counts_all_its_users_and_no_others(tmp_path: Path) -> None:
    async with limited(tmp_path, tenant={"memories": 2}) as api:
        for user in ("ann", "ben"):
            await api.store("x", user_id=user)
        refused(await store(api, "x", "cid"), "limits.tenant.memories")
        other = Api(api.client, api.engine, tenant="rival")
        assert (await other.store("x", user_id="ann"))["content"] == "x"


async def test_writers_at_once_do_not_pass_a_quota_together(tmp_path: Path) -> None:
    async with limited(tmp_path, user={"memories": 4}) as api:
        answers = await asyncio.gather(*(store(api, f"fact {n}") for n in range(12)))
        assert sorted(answer.status_code for answer in answers) == [201] * 4 + [429] * 8
        assert len(await api.page(user_id="ann")) == 4


async def test_learning_on_demand_is_refused_when_the_hours_tokens_are_spent(tmp_path: Path) -> None:
    async with limited(tmp_path, user={"model_tokens_per_hour": 100}) as api:
        backends = api.engine.backends()
        charge = token_charge(api.tenant, "default", amount=100)
        await backends.state.spend([charge], backends.parts.clock.now())
        for call in ("end", "mine"):
            answer = await api.ask("POST", f"sessions/s1/{call}")
            refused(answer, "limits.user.model_tokens_per_hour is 100")
            assert 3500 <= int(answer.headers["retry-after"]) <= 3600
        await api.post("sessions/s1/end", user_id="ben")
