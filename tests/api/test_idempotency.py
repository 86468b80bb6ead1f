"""Idempotency keys: what is sent again is answered again, and done once."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memproxy.auth.identity import encode_identity
from memproxy.core.protocol import IDENTITY_HEADER, Identity
from tests.support.engine import Api, make_engine, serve_engine

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = {"idempotency-key": "0b7e-1"}


async def test_the_same_call_is_answered_again_and_done_once(api: Api) -> None:
    calls = [await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY) for _ in range(3)]
    assert [call.status_code for call in calls] == [201] * 3
    assert calls[0].content == calls[1].content == calls[2].content
    assert [call.headers.get("idempotency-replayed") for call in calls] == [None, "true", "true"]
    assert calls[1].headers["location"] == calls[0].headers["location"]
    assert calls[1].headers["etag"] == calls[0].headers["etag"]
    assert len(await api.page()) == 1


async def test_the_first_answer_comes_again_whatever_happened_since(api: Api) -> None:
    first = await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
    await api.call("PATCH", f"/v1/memory/{first.json()['id']}", json={"content": "likes coffee"})
    again = await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
    assert again.content == first.content


async def test_another_call_with_the_same_key_is_refused(api: Api) -> None:
    await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
    for method, path, body in (
        ("POST", "/v1/memory", {"content": "likes coffee"}),
        ("POST", "/v1/memory/feedback", {"memory_id": "x", "signal": "wrong"}),
        ("PUT", "/v1/memory/settings", {"mode": "off"}),
    ):
        other = await api.call(method, path, json=body, headers=KEY)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
    assert [one["content"] for one in await api.page()] == ["likes tea"]


async def test_calls_at_once_with_one_key_are_one_call(api: Api) -> None:
    calls = (api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY) for _ in range(12))
    answers = await asyncio.gather(*calls)
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert len(await api.page()) == 1


async def test_one_users_key_is_nothing_to_another_or_to_another_tenant(api: Api) -> None:
    ann, ben = api.identity("ann"), api.identity("ben")
    elsewhere = Identity(tenant=f"{api.tenant}-2", named_user="ann")
    ids = set()
    for identity in (ann, ben, elsewhere):
        answer = await api.call("POST", "/v1/memory", identity=identity, json={"content": "same"}, headers=KEY)
        assert "idempotency-replayed" not in answer.headers
        ids.add(answer.json()["id"])
    by_field = await api.call("POST", "/v1/memory", json={"content": "same", "user_id": "cid"}, headers=KEY)
    assert "idempotency-replayed" not in by_field.headers
    assert len(ids | {by_field.json()["id"]}) == 4


async def test_a_reader_is_not_told_what_a_writer_was(api: Api) -> None:
    await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
    reader = Identity(tenant=api.tenant, default_user="default", permissions=frozenset({"memory:read"}))
    refused = await api.call("POST", "/v1/memory", identity=reader, json={"content": "likes tea"}, headers=KEY)
    assert refused.status_code == 403


async def test_a_call_that_failed_may_be_made_again_otherwise(api: Api) -> None:
    assert (await api.call("POST", "/v1/memory", json={"content": ""}, headers=KEY)).status_code == 400
    assert (await api.call("POST", "/v1/memory", json={"content": "x"}, headers=KEY)).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 257, "a\tb"])
async def test_an_unusable_key_is_refused(api: Api, key: str) -> None:
    refused = await api.call("POST", "/v1/memory", json={"content": "x"}, headers={"idempotency-key": key})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "idempotency-key")
    assert await api.page() == []


async def test_two_different_keys_are_refused(api: Api) -> None:
    identity = (await _headers(api))[0]
    headers = [identity, ("idempotency-key", "a"), ("idempotency-key", "b"), ("content-type", "application/json")]
    refused = await api.client.post("/v1/memory", content=b'{"content":"x"}', headers=headers)
    assert refused.status_code == 400


async def _headers(api: Api) -> list[tuple[str, str]]:
    return [(IDENTITY_HEADER, encode_identity(api.identity()))]


async def test_turns_edits_and_deletions_take_keys_too(api: Api) -> None:
    said = {"messages": [{"role": "user", "content": "hello there"}]}
    first = await api.call("POST", "/v1/memory/turns", json=said, headers={"idempotency-key": "t"})
    again = await api.call("POST", "/v1/memory/turns", json=said, headers={"idempotency-key": "t"})
    assert again.json() == first.json()  # the session that was made for it among them
    memory = await api.store("likes tea")
    pruned = await api.call("POST", "/v1/memory/prune", headers={"idempotency-key": "prune"})
    assert pruned.status_code == 200
    again = await api.call("POST", "/v1/memory/prune", headers={"idempotency-key": "prune"})
    assert (again.content, again.headers["idempotency-replayed"]) == (pruned.content, "true")
    path = f"/v1/memory/{memory['id']}"
    calls: list[tuple[str, str, dict[str, Any]]] = [("p", "PATCH", {"json": {"tags": ["a"]}}), ("d", "DELETE", {})]
    for name, method, body in calls:
        done = await api.call(method, path, headers={"idempotency-key": name}, **body)
        repeated = await api.call(method, path, headers={"idempotency-key": name}, **body)
        if method == "PATCH":
            assert (repeated.status_code, repeated.content) == (200, done.content)
        else:
            assert (repeated.status_code, repeated.json()) == (200, {"deleted": 1})


async def test_what_was_deleted_is_not_told_again(api: Api) -> None:
    first = await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
    await api.call("DELETE", f"/v1/memory/{first.json()['id']}")
    again = await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "idempotency_answer_erased")
    assert await api.page() == []


async def test_a_crash_between_a_write_and_its_answer_makes_no_second_memory(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        first = await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
        with sqlite3.connect(tmp_path / "state.db") as db:  # as a kill before the answer was kept leaves it
            assert db.execute("UPDATE answers SET answer = NULL").rowcount == 1
        db.close()
        again = await api.call("POST", "/v1/memory", json={"content": "likes tea"}, headers=KEY)
        assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
        assert len(await api.page()) == 1


async def test_no_words_of_an_answer_stand_in_the_states_files(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        await api.call("POST", "/v1/memory", json={"content": "likes QUINCEMARMALADE"}, headers=KEY)
        kept = [path for path in tmp_path.iterdir() if path.name.startswith("state.db")]
        await api.call("DELETE", "/v1/memory/users/default")
        left = b"".join(path.read_bytes() for path in kept if path.exists())
        assert b"QUINCEMARMALADE" not in left
