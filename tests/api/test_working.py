"""Working memory: kept for a while under a key, found by prefix and words, bounded, and each user's own."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memproxy.api.http import answer
from memproxy.api.working import READ_AT_ONCE
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.core.working_memory import WorkingEntry
from memproxy.settings import Settings, WorkingSettings
from tests.support.engine import Api, make_engine, serve_engine
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def put(api: Api, key: str, data: Any, status: int = 201, **sent: Any) -> dict[str, Any]:
    body = {"data": data, **sent}
    told: dict[str, Any] = await api.ok("PUT", f"working/{key}", status=status, json=body)
    return told


def entry_at(key: str, at: datetime, **fields: Any) -> WorkingEntry:
    ends = at + timedelta(hours=1)
    return WorkingEntry(key=key, created_at=at, updated_at=at, expires_at=ends, size=1, data=b"1", **fields)


async def keys(api: Api, **query: Any) -> list[str]:
    return [one["key"] for one in await api.data("working", **query)]


async def search(api: Api, query: str, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await api.post("working/search", query=query, **fields))["data"]
    return found


async def test_what_is_put_under_a_key_is_read_replaced_and_deleted(api: Api) -> None:
    data = {"found": ["ä", 1.5, None, {"deep": True}], "big": 2**53}
    told = await put(api, "session/abc/notes", data, category="findings", tags=["eu", "draft"], ttl_s=600)
    assert (told["namespace"], told["category"], told["tags"]) == ("session/abc", "findings", ["eu", "draft"])
    assert "data" not in told
    item = await api.get("working/session/abc/notes")
    assert item["data"] == data
    again = await put(api, "session/abc/notes", "short", 200)
    assert (again["category"], again["size"]) == (None, len('"short"'))
    kept = await api.get("working/session/abc/notes")
    assert (kept["data"], kept["created_at"]) == ("short", item["created_at"])
    assert await api.status("DELETE", "working/session/abc/notes") == 204
    for method in ("GET", "DELETE"):
        assert await api.status(method, "working/session/abc/notes") == 404


async def test_an_entry_is_gone_when_its_time_is_over(api: Api) -> None:
    await put(api, "run/one/a", 1, ttl_s=0.2)
    await put(api, "run/one/b", 2)

    async def gone() -> bool:
        return await api.status("GET", "working/run/one/a") == 404

    await eventually(gone, what="the entry has expired")
    assert await keys(api, prefix="run/") == ["run/one/b"]


async def test_entries_are_listed_by_prefix_category_and_tag_page_by_page(api: Api) -> None:
    for number in range(5):
        labels: dict[str, Any] = {"tags": [f"t{number}"], "category": "odd" if number % 2 else "even"}
        await put(api, f"session/s{number % 2}/n{number}", number, **labels)
    assert await keys(api, prefix="session/s1/") == ["session/s1/n1", "session/s1/n3"]
    assert await keys(api, prefix="session/s0/n2") == ["session/s0/n2"]
    assert await keys(api, category="even") == ["session/s0/n0", "session/s0/n2", "session/s0/n4"]
    assert await keys(api, tag="t3") == ["session/s1/n3"]
    seen = await api.walk("working", limit=2)
    assert all("data" not in one for one in seen)
    assert [one["key"] for one in seen] == sorted(one["key"] for one in seen)
    assert len(seen) == 5


async def test_a_label_that_few_entries_have_is_found_behind_very_many_others(tmp_path: Path) -> None:
    settings = Settings(working=WorkingSettings(max_entries_per_namespace=5_000))
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:
        now, owner, entries = api.engine.parts.clock.now(), Scope(tenant=api.tenant, user="default"), []
        for number in range(2 * READ_AT_ONCE + 7):
            rare = number in {3, READ_AT_ONCE + 1, 2 * READ_AT_ONCE + 6}
            key, at = f"run/{number // 5_000}/k{number:05}", now + timedelta(microseconds=number)
            entries.append(entry_at(key, at, tags=["rare"] if rare else [], words="needle" * rare))
        put_working = api.engine.parts.state.put_working
        await asyncio.gather(*(put_working(owner, one, most=5_000) for one in entries))
        wanted = ["run/0/k00003", f"run/0/k{READ_AT_ONCE + 1:05}", f"run/0/k{2 * READ_AT_ONCE + 6:05}"]
        assert await keys(api, tag="rare") == wanted
        assert [one["key"] for one in await api.walk("working", limit=2, tag="rare")] == wanted
        assert await keys(api, limit=2, tag="rare") == wanted[:2]
        assert len(await search(api, "needle", tag="rare")) == 3
        newest = await search(api, "needle")
        assert len(newest) == 2, "those changed last are looked at, and the first is none of them"
        assert await keys(api, limit=200) == [f"run/0/k{number:05}" for number in range(200)]


@pytest.mark.parametrize("cursor", ["run/0/k1", "!", "WyJhdWRpdCIsMV0", "WyJ3b3JraW5nIiwxXQ", "x" * 3_000])
async def test_a_cursor_of_another_list_is_refused(api: Api, cursor: str) -> None:
    assert "cursor" in str(await api.ok("GET", "working", status=400, params={"cursor": cursor}))


@pytest.mark.parametrize(
    "prefix", ["../", "%", "_", "session/../", "*", "[session", "(session", "sess%", "\u0455ession/", "~"]
)
async def test_a_prefix_is_taken_word_for_word(api: Api, prefix: str) -> None:
    await put(api, "session/abc/notes", 1)
    assert await keys(api, prefix=prefix) == []
    assert await search(api, "notes", prefix=prefix) == []


async def test_a_search_ranks_by_words_of_key_tags_and_data(api: Api) -> None:
    await put(api, "research/a/pricing", {"summary": "The competitor charges 12 euros a seat"})
    await put(api, "research/a/team", {"summary": "Twelve people"}, tags=["competitor"])
    await put(api, "research/b/weather", "sunny")
    found = await search(api, "competitor euros")
    assert [one["entry"]["key"] for one in found] == ["research/a/pricing", "research/a/team"]
    assert found[0]["score"] > found[1]["score"] > 0
    assert "12 euros" in found[0]["snippet"]
    assert await search(api, "competitor", prefix="research/b/") == []


async def test_a_namespace_holds_so_many_entries_and_says_so(api: Api) -> None:
    for number in range(50):
        await put(api, f"session/full/n{number}", number, ttl_s=0.2 if number == 7 else 60)
    refused = await api.ask("PUT", "working/session/full/more", json={"data": 1})
    if refused.status_code == 409:  # else entry 7 has expired by now
        assert "working.max_entries_per_namespace" in refused.text
    await put(api, "session/full/n3", "replaced", 200)
    await put(api, "session/other/n0", 1)

    async def fits() -> bool:
        return await api.status("PUT", "working/session/full/more", json={"data": 1}) in {200, 201}

    await eventually(fits, what="an expired entry makes room")
    full = await put(api, "session/full/evenmore", 1, 409)
    assert full["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("key", "status", "said"),
    [
        ("a", 400, "must be a path such as session/abc/notes"),
        *(
            (key, 400, "must be a path")
            for key in (
                "session/../x",
                "session//x",
                "session/a%00b/x",
                "sess%D1%96on/a/x",
                "session%2F..%2F../x",
                "session/%2e%2e/x",
                "session/a/x%00",
                "session/a%EF%BC%8Fb/x",
                "session/%E2%80%AEa/x",
                "session/a%E2%80%8B/x",
                "session/%C3%A4/x",
                "session/a%5C..%5Cb/x",
            )
        ),
        ("session/a/" + "x" * 600, 400, "512 characters"),
        ("session/.../x", 400, "not only dots"),
        ("session/a%0Ab/x", 404, "Nothing is served at"),
        ("session/%FF/x", 400, ""),
    ],
)
async def test_what_is_no_key_is_refused(api: Api, key: str, status: int, said: str) -> None:
    assert said in str(await put(api, key, 1, status))
    assert await keys(api) == []


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "data"),
        ({"data": 1, "ttl_s": 0}, 400, "ttl_s"),
        ({"data": 1, "ttl_s": 365 * 86400}, 400, "ttl_s: Input should be less than or equal to 2678400"),
        ({"data": 1, "ttl_s": -1}, 400, "ttl_s: Input should be greater than 0"),
        ({"data": 1, "ttl_s": "soon"}, 400, "ttl_s"),
        ({"data": "x" * 10_000_000}, 413, "bytes"),
        ({"data": "x" * 1_048_576}, 413, "working.max_value_bytes"),
        ({"data": 1, "colour": "red"}, 400, "colour"),
    ],
)
async def test_what_cannot_be_kept_is_refused_with_its_limit(
    api: Api, body: dict[str, Any], status: int, said: str
) -> None:
    assert said in str(await api.ok("PUT", "working/session/a/x", status=status, json=body))
    assert await keys(api) == []


async def test_users_projects_and_tenants_do_not_see_each_others_entries(api: Api) -> None:
    ann, ben = api.by(api.identity("ann")), api.by(api.identity("ben"))
    await put(ann, "session/s/x", "ann's")
    for other in (ben, api.by(Identity(tenant="another", named_user="ann", default_user="default"))):
        for method in ("GET", "DELETE"):
            assert await other.status(method, "working/session/s/x") == 404
        assert await keys(other) == []
        assert await search(other, "ann's") == []
    await put(ben, "session/s/x", "ben's")
    one, two = (api.by(api.identity("ann", project=name)) for name in ("one", "two"))
    await put(one, "plan/p/x", "one's")
    assert await two.status("GET", "working/plan/p/x") == 404
    await put(two, "plan/p/x", "two's")
    for project, data in ((one, "one's"), (two, "two's")):
        assert (await project.get("working/plan/p/x"))["data"] == data
    assert (await one.get("working/session/s/x"))["data"] == "ann's"


async def test_a_caller_writes_its_own_session_and_agent_and_reads_all(api: Api) -> None:
    mine = api.by(Identity(tenant=api.tenant, default_user="default", session="two", agent="reader"))
    for key in ("session/one/x", "agent/writer/x"):
        await put(api, key, 1)
        assert "namespace" in str(await put(mine, key, 2, 403))
        assert await mine.status("DELETE", f"working/{key}") == 403
        assert (await mine.get(f"working/{key}"))["data"] == 1
    await put(mine, "session/two/x", 2)
    await put(mine, "shared/board/x", 2)


async def test_erasing_a_session_or_a_user_erases_their_entries(api: Api) -> None:
    ann = api.by(api.identity("ann"))
    for key in ("session/s1/x", "session/s2/x", "notes/x"):
        await put(ann, key, "secret")
    await ann.say("s1", "hello there, I am Ann")
    await ann.delete("sessions/s1")
    assert await keys(ann) == ["notes/x", "session/s2/x"]
    await ann.delete("users/ann")
    assert await keys(ann) == []


async def test_entries_outlive_a_restart(tmp_path: Path) -> None:
    settings = Settings(working=WorkingSettings(max_entries_per_namespace=2))
    async with serve_engine(make_engine(tmp_path, settings=settings, own_store=True)) as api:
        await put(api, "session/s/a", {"text": "theremin"}, tags=["music"], ttl_s=3600)
        await put(api, "session/s/b", 1, ttl_s=3600)
        await put(api, "session/s/c", 1, 409)
    async with serve_engine(make_engine(tmp_path, settings=settings, own_store=True)) as api:
        item = await api.get("working/session/s/a")
        assert (item["data"], item["tags"]) == ({"text": "theremin"}, ["music"])


async def test_a_secret_that_is_recognised_is_not_kept(api: Api) -> None:
    await put(api, "run/x/env", {"key": "AKIAIOSFODNN7EXAMPLE"})
    assert (await api.get("working/run/x/env"))["data"] == {"key": "[redacted:aws-key]"}


async def test_an_answer_without_content_has_no_body() -> None:
    """A server refuses to send one, after the status has gone out."""
    assert answer(None, 204).body == b""
