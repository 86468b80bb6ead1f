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

WORKING = "/v1/memory/working"


async def put(api: Api, key: str, data: Any, status: int = 201, **sent: Any) -> dict[str, Any]:
    identity, headers = sent.pop("identity", None), sent.pop("headers", {})
    body = {"data": data, **sent}
    answer = await api.call("PUT", f"{WORKING}/{key}", json=body, identity=identity, headers=headers)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


def entry_at(key: str, at: datetime, **fields: Any) -> WorkingEntry:
    ends = at + timedelta(hours=1)
    return WorkingEntry(key=key, created_at=at, updated_at=at, expires_at=ends, size=1, data=b"1", **fields)


async def keys(api: Api, **query: Any) -> list[str]:
    answer = await api.call("GET", WORKING, params=query)
    assert answer.status_code == 200, answer.text
    return [one["key"] for one in answer.json()["data"]]


async def test_what_is_put_under_a_key_is_read_replaced_and_deleted(api: Api) -> None:
    data = {"found": ["ä", 1.5, None, {"deep": True}], "big": 2**53}
    told = await put(api, "session/abc/notes", data, category="findings", tags=["eu", "draft"], ttl_s=600)
    assert (told["namespace"], told["category"], told["tags"]) == ("session/abc", "findings", ["eu", "draft"])
    assert "data" not in told
    item = (await api.call("GET", f"{WORKING}/session/abc/notes")).json()
    assert item["data"] == data
    again = await put(api, "session/abc/notes", "short", 200)
    assert (again["category"], again["size"]) == (None, len('"short"'))
    kept = (await api.call("GET", f"{WORKING}/session/abc/notes")).json()
    assert (kept["data"], kept["created_at"]) == ("short", item["created_at"])
    assert (await api.call("DELETE", f"{WORKING}/session/abc/notes")).status_code == 204
    for method in ("GET", "DELETE"):
        assert (await api.call(method, f"{WORKING}/session/abc/notes")).status_code == 404


async def test_an_entry_is_gone_when_its_time_is_over(api: Api) -> None:
    await put(api, "run/one/a", 1, ttl_s=0.2)
    await put(api, "run/one/b", 2)

    async def gone() -> bool:
        return (await api.call("GET", f"{WORKING}/run/one/a")).status_code == 404

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
    seen: list[str] = []
    cursor = None
    while True:
        page = (await api.call("GET", WORKING, params={"limit": 2} | ({"cursor": cursor} if cursor else {}))).json()
        seen += [one["key"] for one in page["data"]]
        assert all("data" not in one for one in page["data"])
        if (cursor := page["next_cursor"]) is None:
            break
    assert seen == sorted(seen)
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
        first = (await api.call("GET", WORKING, params={"tag": "rare", "limit": 2})).json()
        assert [one["key"] for one in first["data"]] == wanted[:2]
        rest = await api.call("GET", WORKING, params={"tag": "rare", "limit": 2, "cursor": first["next_cursor"]})
        assert ([one["key"] for one in rest.json()["data"]], rest.json()["next_cursor"]) == (wanted[2:], None)
        found = await api.call("POST", f"{WORKING}/search", json={"query": "needle", "tag": "rare"})
        assert len(found.json()["data"]) == 3
        newest = await api.call("POST", f"{WORKING}/search", json={"query": "needle"})
        assert len(newest.json()["data"]) == 2, "those changed last are looked at, and the first is none of them"
        assert await keys(api, limit=200) == [f"run/0/k{number:05}" for number in range(200)]


@pytest.mark.parametrize("cursor", ["run/0/k1", "!", "WyJhdWRpdCIsMV0", "WyJ3b3JraW5nIiwxXQ", "x" * 3_000])
async def test_a_cursor_of_another_list_is_refused(api: Api, cursor: str) -> None:
    answer = await api.call("GET", WORKING, params={"cursor": cursor})
    assert (answer.status_code, "cursor" in answer.text) == (400, True)


@pytest.mark.parametrize(
    "prefix", ["../", "%", "_", "session/../", "*", "[session", "(session", "sess%", "\u0455ession/", "~"]
)
async def test_a_prefix_is_taken_word_for_word(api: Api, prefix: str) -> None:
    await put(api, "session/abc/notes", 1)
    assert await keys(api, prefix=prefix) == []
    none = await api.call("POST", f"{WORKING}/search", json={"query": "notes", "prefix": prefix})
    assert none.json() == {"data": []}


async def test_a_search_ranks_by_words_of_key_tags_and_data(api: Api) -> None:
    await put(api, "research/a/pricing", {"summary": "The competitor charges 12 euros a seat"})
    await put(api, "research/a/team", {"summary": "Twelve people"}, tags=["competitor"])
    await put(api, "research/b/weather", "sunny")
    found = (await api.call("POST", f"{WORKING}/search", json={"query": "competitor euros"})).json()["data"]
    assert [one["entry"]["key"] for one in found] == ["research/a/pricing", "research/a/team"]
    assert found[0]["score"] > found[1]["score"] > 0
    assert "12 euros" in found[0]["snippet"]
    none = await api.call("POST", f"{WORKING}/search", json={"query": "competitor", "prefix": "research/b/"})
    assert none.json() == {"data": []}


async def test_a_namespace_holds_so_many_entries_and_says_so(api: Api) -> None:
    for number in range(50):
        await put(api, f"session/full/n{number}", number, ttl_s=0.2 if number == 7 else 60)
    refused = await api.call("PUT", f"{WORKING}/session/full/more", json={"data": 1})
    if refused.status_code == 409:  # else entry 7 has expired by now
        assert "working.max_entries_per_namespace" in refused.text
    await put(api, "session/full/n3", "replaced", 200)
    await put(api, "session/other/n0", 1)

    async def fits() -> bool:
        return (await api.call("PUT", f"{WORKING}/session/full/more", json={"data": 1})).status_code in {200, 201}

    await eventually(fits, what="an expired entry makes room")
    full = await api.call("PUT", f"{WORKING}/session/full/evenmore", json={"data": 1})
    assert (full.status_code, full.json()["error"]["type"]) == (409, "invalid_request_error")


@pytest.mark.parametrize(
    ("key", "body", "status", "said"),
    [
        ("a", {"data": 1}, 400, "must be a path such as session/abc/notes"),
        ("session/../x", {"data": 1}, 400, "must be a path"),
        ("session//x", {"data": 1}, 400, "must be a path"),
        ("session/a%00b/x", {"data": 1}, 400, "must be a path"),
        ("sess%D1%96on/a/x", {"data": 1}, 400, "must be a path"),
        ("session/a/" + "x" * 600, {"data": 1}, 400, "512 characters"),
        ("session%2F..%2F../x", {"data": 1}, 400, "must be a path"),
        ("session/%2e%2e/x", {"data": 1}, 400, "must be a path"),
        ("session/.../x", {"data": 1}, 400, "not only dots"),
        ("session/a/x%00", {"data": 1}, 400, "must be a path"),
        ("session/a%EF%BC%8Fb/x", {"data": 1}, 400, "must be a path"),
        ("session/%E2%80%AEa/x", {"data": 1}, 400, "must be a path"),
        ("session/a%E2%80%8B/x", {"data": 1}, 400, "must be a path"),
        ("session/%C3%A4/x", {"data": 1}, 400, "must be a path"),
        ("session/a%5C..%5Cb/x", {"data": 1}, 400, "must be a path"),
        ("session/a%0Ab/x", {"data": 1}, 404, "Nothing is served at"),
        ("session/%FF/x", {"data": 1}, 400, ""),
        ("session/a/x", {}, 400, "data"),
        ("session/a/x", {"data": 1, "ttl_s": 0}, 400, "ttl_s"),
        ("session/a/x", {"data": 1, "ttl_s": 365 * 86400}, 400, "ttl_s: Input should be less than or equal to 2678400"),
        ("session/a/x", {"data": 1, "ttl_s": -1}, 400, "ttl_s: Input should be greater than 0"),
        ("session/a/x", {"data": 1, "ttl_s": "soon"}, 400, "ttl_s"),
        ("session/a/x", {"data": "x" * 10_000_000}, 413, "bytes"),
        ("session/a/x", {"data": "x" * 1_048_576}, 413, "working.max_value_bytes"),
        ("session/a/x", {"data": 1, "colour": "red"}, 400, "colour"),
    ],
)
async def test_what_cannot_be_kept_is_refused_with_its_limit(
    api: Api, key: str, body: dict[str, Any], status: int, said: str
) -> None:
    answer = await api.call("PUT", f"{WORKING}/{key}", json=body)
    assert answer.status_code == status, answer.text
    assert said in answer.text
    assert await keys(api) == []


async def test_users_projects_and_tenants_do_not_see_each_others_entries(api: Api) -> None:
    ann, ben = api.identity("ann"), api.identity("ben")
    await put(api, "session/s/x", "ann's", identity=ann)
    stranger = Identity(tenant="another", named_user="ann", default_user="default")
    for identity in (ben, stranger):
        assert (await api.call("GET", f"{WORKING}/session/s/x", identity=identity)).status_code == 404
        assert (await api.call("DELETE", f"{WORKING}/session/s/x", identity=identity)).status_code == 404
        assert (await api.call("GET", WORKING, identity=identity)).json()["data"] == []
        found = await api.call("POST", f"{WORKING}/search", json={"query": "ann's"}, identity=identity)
        assert found.json()["data"] == []
    await put(api, "session/s/x", "ben's", identity=ben)
    one, two = api.identity("ann", project="one"), api.identity("ann", project="two")
    await put(api, "plan/p/x", "one's", identity=one)
    assert (await api.call("GET", f"{WORKING}/plan/p/x", identity=two)).status_code == 404
    await put(api, "plan/p/x", "two's", identity=two)
    for identity, data in ((one, "one's"), (two, "two's")):
        assert (await api.call("GET", f"{WORKING}/plan/p/x", identity=identity)).json()["data"] == data
    assert (await api.call("GET", f"{WORKING}/session/s/x", identity=one)).json()["data"] == "ann's"


async def test_a_caller_writes_its_own_session_and_agent_and_reads_all(api: Api) -> None:
    await put(api, "session/one/x", 1)
    await put(api, "agent/writer/x", 1)
    for refused in ("session/one/x", "agent/writer/x"):
        key = f"{WORKING}/{refused}"
        mine = Identity(tenant=api.tenant, default_user="default", session="two", agent="reader")
        answer = await api.call("PUT", key, json={"data": 2}, identity=mine)
        assert (answer.status_code, "namespace" in answer.text) == (403, True)
        assert (await api.call("DELETE", f"{WORKING}/{refused}", identity=mine)).status_code == 403
        assert (await api.call("GET", f"{WORKING}/{refused}", identity=mine)).json()["data"] == 1
    await put(api, "session/two/x", 2, identity=mine)
    await put(api, "shared/board/x", 2, identity=mine)


async def test_erasing_a_session_or_a_user_erases_their_entries(api: Api) -> None:
    ann = api.identity("ann")
    for key in ("session/s1/x", "session/s2/x", "notes/x"):
        await put(api, key, "secret", identity=ann)
    said = {"session_id": "s1", "messages": [{"role": "user", "content": "hello there, I am Ann"}]}
    assert (await api.call("POST", "/v1/memory/turns", json=said, identity=ann)).status_code == 201
    assert (await api.call("DELETE", "/v1/memory/sessions/s1", identity=ann)).status_code == 200
    left = (await api.call("GET", WORKING, identity=ann)).json()["data"]
    assert [one["key"] for one in left] == ["notes/x", "session/s2/x"]
    assert (await api.call("DELETE", "/v1/memory/users/ann", identity=ann)).status_code == 200
    assert (await api.call("GET", WORKING, identity=ann)).json()["data"] == []


async def test_entries_outlive_a_restart(tmp_path: Path) -> None:
    settings = Settings(working=WorkingSettings(max_entries_per_namespace=2))
    async with serve_engine(make_engine(tmp_path, settings=settings, own_store=True)) as api:
        await put(api, "session/s/a", {"text": "theremin"}, tags=["music"], ttl_s=3600)
        await put(api, "session/s/b", 1, ttl_s=3600)
        assert (await api.call("PUT", f"{WORKING}/session/s/c", json={"data": 1})).status_code == 409
    async with serve_engine(make_engine(tmp_path, settings=settings, own_store=True)) as api:
        item = (await api.call("GET", f"{WORKING}/session/s/a")).json()
        assert (item["data"], item["tags"]) == ({"text": "theremin"}, ["music"])


async def test_a_secret_that_is_recognised_is_not_kept(api: Api) -> None:
    await put(api, "run/x/env", {"key": "AKIAIOSFODNN7EXAMPLE"})
    assert (await api.call("GET", f"{WORKING}/run/x/env")).json()["data"] == {"key": "[redacted:aws-key]"}


async def test_an_answer_without_content_has_no_body() -> None:
    """A server refuses to send one, after the status has gone out."""
    assert answer(None, 204).body == b""
