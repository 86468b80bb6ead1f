"""Idempotency keys: what is sent again is answered again, and done once."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import httpx
import pytest

from memproxy.auth.identity import encode_identity
from memproxy.core.protocol import IDENTITY_HEADER, Identity
from tests.support.engine import Api, make_engine, serve_engine

pytestmark = pytest.mark.asyncio(loop_scope="module")

KEY = {"idempotency-key": "0b7e-1"}
REUSED = (422, "idempotency_key_reused")


async def sent(api: Api, content: str = "likes tea", **arguments: Any) -> httpx.Response:
    """Store this under the key."""
    return await api.ask("POST", json={"content": content}, headers=KEY, **arguments)


async def test_the_same_call_is_answered_again_and_done_once_whatever_happened_since(api: Api) -> None:
    calls = [await sent(api) for _ in range(3)]
    await api.edit(calls[0].json()["id"], content="likes coffee")
    calls.append(await sent(api))
    assert [call.status_code for call in calls] == [201] * 4
    assert len({(call.content, call.headers["location"], call.headers["etag"]) for call in calls}) == 1
    assert [call.headers.get("idempotency-replayed") for call in calls] == [None, "true", "true", "true"]
    assert len(await api.page()) == 1


async def test_another_call_with_the_same_key_is_refused(api: Api) -> None:
    await sent(api)
    for method, path, body in (
        ("POST", "", {"content": "likes coffee"}),
        ("POST", "feedback", {"memory_id": "x", "signal": "wrong"}),
        ("PUT", "settings", {"mode": "off"}),
    ):
        assert await api.code(method, path, json=body, headers=KEY) == REUSED
    assert [one["content"] for one in await api.page()] == ["likes tea"]


async def test_calls_at_once_with_one_key_are_one_call(api: Api) -> None:
    answers = await asyncio.gather(*(sent(api) for _ in range(12)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.content for answer in answers}) == 1
    assert len(await api.page()) == 1


async def test_one_users_key_is_nothing_to_another_or_to_another_tenant(api: Api) -> None:
    ann, ben = api.identity("ann"), api.identity("ben")
    elsewhere = Identity(tenant=f"{api.tenant}-2", named_user="ann")
    ids = set()
    for identity in (ann, ben, elsewhere):
        answer = await sent(api, identity=identity)
        assert "idempotency-replayed" not in answer.headers
        ids.add(answer.json()["id"])
    by_field = await api.ask("POST", json={"content": "likes tea", "user_id": "cid"}, headers=KEY)
    assert "idempotency-replayed" not in by_field.headers
    assert len(ids | {by_field.json()["id"]}) == 4


async def test_a_reader_is_not_told_what_a_writer_was(api: Api) -> None:
    await sent(api)
    reader = Identity(tenant=api.tenant, default_user="default", permissions=frozenset({"memory:read"}))
    assert (await sent(api, identity=reader)).status_code == 403


async def test_a_call_that_failed_may_be_made_again_otherwise(api: Api) -> None:
    assert (await sent(api, "")).status_code == 400
    assert (await sent(api, "x")).status_code == 201


@pytest.mark.parametrize("key", ["", "x" * 257, "a\tb"])
async def test_an_unusable_key_is_refused(api: Api, key: str) -> None:
    refused = await api.refused("POST", json={"content": "x"}, headers={"idempotency-key": key})
    assert refused == (400, "idempotency-key")
    assert await api.page() == []


async def test_two_different_keys_are_refused(api: Api) -> None:
    keys = [("idempotency-key", "a"), ("idempotency-key", "b"), ("content-type", "application/json")]
    headers = [(IDENTITY_HEADER, encode_identity(api.identity())), *keys]
    refused = await api.client.post("/v1/memory", content=b'{"content":"x"}', headers=headers)
    assert refused.status_code == 400


async def test_turns_edits_and_deletions_take_keys_too(api: Api) -> None:
    memory = await api.store("likes tea")
    said = {"messages": [{"role": "user", "content": "hello there"}]}
    calls: list[tuple[str, str, dict[str, Any], int]] = [
        ("POST", "turns", {"json": said}, 201),  # with the session that was made for it
        ("POST", "prune", {}, 200),
        ("PATCH", memory["id"], {"json": {"tags": ["a"]}}, 200),
        ("DELETE", memory["id"], {}, 200),
    ]
    for number, (method, path, body, status) in enumerate(calls):
        done, again = [await api.ask(method, path, headers={"idempotency-key": f"k{number}"}, **body) for _ in range(2)]
        assert (again.status_code, again.content) == (done.status_code, done.content) == (status, again.content)
        assert again.headers["idempotency-replayed"] == "true"
    assert again.json() == {"deleted": 1}


async def test_what_was_deleted_is_not_told_again(api: Api) -> None:
    await api.delete((await sent(api)).json()["id"])
    again = await sent(api)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "idempotency_answer_erased")
    assert await api.page() == []


async def test_a_crash_between_a_write_and_its_answer_makes_no_second_memory(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        first = await sent(api)
        with sqlite3.connect(tmp_path / "state.db") as db:  # as a kill before the answer was kept leaves it
            assert db.execute("UPDATE answers SET answer = NULL").rowcount == 1
        db.close()
        again = await sent(api)
        assert (again.status_code, again.json()["id"]) == (201, first.json()["id"])
        assert len(await api.page()) == 1


async def test_no_words_of_an_answer_stand_in_the_states_files(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        await sent(api, "likes QUINCEMARMALADE")
        kept = [path for path in tmp_path.iterdir() if path.name.startswith("state.db")]
        await api.delete("users/default")
        left = b"".join(path.read_bytes() for path in kept if path.exists())
        assert b"QUINCEMARMALADE" not in left
