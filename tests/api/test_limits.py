"""Limits at the memory API: 429 with `retry-after`, an error that names the limit, and counting that is right."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from memproxy.core.protocol import FULL_PATH
from memproxy.learn.budget import token_charge
from memproxy.settings import Settings
from tests.support.engine import Api, make_engine, serve_engine, test_settings


def limited(**limits: Any) -> Settings:
    return Settings.model_validate({**test_settings().model_dump(include={"learn", "recall"}), "limits": limits})


def refused(answer: httpx.Response, limit: str) -> None:
    assert answer.status_code == 429, answer.text
    error = answer.json()["error"]
    assert error["type"] == "rate_limit_error"
    assert limit in error["message"]
    assert int(answer.headers["retry-after"]) >= 1


def said(count: int, start: int = 0) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"line {start + n}"} for n in range(count)]}


async def ingest(api: Api, count: int, user: str = "ann", start: int = 0) -> httpx.Response:
    return await api.call("POST", "/v1/memory/turns", json={**said(count, start), "user_id": user})


async def test_turns_over_the_limit_of_a_minute_are_refused_whole(tmp_path: Path) -> None:
    settings = limited(user={"turns_per_minute": 5}, tenant={"turns_per_minute": 8})
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:
        assert (await ingest(api, 4)).status_code == 201
        refused(await ingest(api, 2, start=4), "limits.user.turns_per_minute is 5")
        assert (await ingest(api, 1, start=6)).status_code == 201
        assert (await ingest(api, 3, "ben")).status_code == 201
        refused(await ingest(api, 1, "cid"), "limits.tenant.turns_per_minute is 8")
        assert len(await api.page(user_id="ann")) == 5


async def test_a_full_quota_refuses_until_something_is_forgotten(tmp_path: Path) -> None:
    settings = limited(user={"memories": 3})
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:
        stored = [await api.store(f"fact {n}", user_id="ann") for n in range(3)]
        full = await api.call("POST", "/v1/memory", json={"content": "one more", "user_id": "ann"})
        refused(full, "limits.user.memories is 3")
        assert full.json()["error"]["code"] == "quota_exceeded"
        refused(await ingest(api, 1), "limits.user.memories")
        whose = await api.client.post(FULL_PATH, json={"tenant": api.tenant, "user": "ann"})
        assert whose.json() == {"whose": "user"}
        assert (await api.store("ben's", user_id="ben"))["user_id"] == "ben"
        await api.call("DELETE", f"/v1/memory/{stored[0]['id']}", params={"user_id": "ann"})
        assert (await api.store("one more", user_id="ann"))["content"] == "one more"


async def test_a_tenants_quota_counts_all_its_users_and_no_others(tmp_path: Path) -> None:
    settings = limited(tenant={"memories": 2})
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:
        await api.store("ann's", user_id="ann")
        await api.store("ben's", user_id="ben")
        refused(await api.call("POST", "/v1/memory", json={"content": "x", "user_id": "cid"}), "limits.tenant.memories")
        other = Api(api.client, api.engine, tenant="rival")
        assert (await other.store("x", user_id="ann"))["content"] == "x"


async def test_writers_at_once_do_not_pass_a_quota_together(tmp_path: Path) -> None:
    settings = limited(user={"memories": 4})
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:
        calls = (api.call("POST", "/v1/memory", json={"content": f"fact {n}"}) for n in range(12))
        answers = await asyncio.gather(*calls)
        assert sorted(answer.status_code for answer in answers) == [201] * 4 + [429] * 8
        assert len(await api.page()) == 4


async def test_learning_on_demand_is_refused_when_the_hours_tokens_are_spent(tmp_path: Path) -> None:
    settings = limited(user={"model_tokens_per_hour": 100})
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:
        backends = api.engine.backends()
        now = backends.parts.clock.now()
        charge = token_charge(api.tenant, "default", amount=100)
        await backends.state.spend([charge], now)
        for call in ("end", "mine"):
            answer = await api.call("POST", f"/v1/memory/sessions/s1/{call}")
            refused(answer, "limits.user.model_tokens_per_hour is 100")
            assert 3500 <= int(answer.headers["retry-after"]) <= 3600
        ben = await api.call("POST", "/v1/memory/sessions/s1/end", json={"user_id": "ben"})
        assert ben.status_code == 200
