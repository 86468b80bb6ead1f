import asyncio
from typing import Any

import msgspec
import pytest

from memproxy.api.openapi import OPERATIONS
from memproxy.core.memory import Memory, version_of
from memproxy.core.protocol import Identity
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC_FIELDS = {
    "id", "kind", "content", "user_id", "project_id", "agent_id", "session_id", "category", "tags", "entities",
    "subject", "predicate", "object", "aspect", "stance", "confidence", "importance", "trust", "quarantined", "source",
    "turn_ids", "created_at", "updated_at", "valid_from", "valid_to", "active", "supersedes", "superseded_by",
    "access_count", "last_accessed_at", "expires_at", "relations", "wing", "room", "closet", "pointer", "metadata",
}  # fmt: skip


async def test_a_stored_memory_is_answered_whole_and_can_be_read(api: Api) -> None:
    fields: dict[str, Any] = {
        "kind": "procedural",
        "category": "user-preferences/timezone",
        "tags": ["work"],
        "entities": ["Berlin"],
        "subject": "user",
        "predicate": "timezone",
        "object": "Europe/Berlin",
        "confidence": 0.75,
        "importance": 1,
        "valid_from": "2023-05-08T13:56:00+02:00",
        "expires_at": "2999-01-01T00:00:00Z",
        "metadata": {"nested": {"list": [1, 2.5, None, "é"]}},
        "user_id": "alice",
        "project_id": "atlas",
        "agent_id": "helper",
        "session_id": "s1",
        "relations": [{"subject": "user", "predicate": "lives in", "object": "Berlin"}],
    }
    memory = await api.store("User's timezone is Europe/Berlin", **fields)
    assert set(memory) == PUBLIC_FIELDS
    expected = fields | {"valid_from": "2023-05-08T11:56:00Z"}
    expected["relations"] = [{**fields["relations"][0], "valid_from": None, "valid_to": None}]
    assert {name: memory[name] for name in expected} == expected
    assert memory["source"] == "api"
    assert memory["active"] is True
    assert memory["created_at"].endswith("Z")
    assert await api.get(memory["id"], user_id="alice") == memory


async def test_no_field_that_is_written_keeps_a_secret(api: Api) -> None:
    key, secret = "AKIA" + "IOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
    names = ("subject", "predicate", "object", "aspect", "stance", "category")
    fields: dict[str, Any] = dict.fromkeys(names, key) | {
        "content": f"it is {key}",
        "tags": [key],
        "entities": [key],
        "relations": [{"subject": key, "predicate": key, "object": key}],
        "metadata": {key: [{"in": key}], "aws_secret_access_key": secret},
    }
    first, other = await api.store(**fields), await api.store("plain")
    await api.edit(other["id"], **fields)
    await api.say("s", {"role": "user", "content": key, "name": key}, metadata={"of": key})
    kept = await api.page()
    assert len(kept) == 3
    assert not [one for one in kept if key in str(one) or secret in str(one)]
    assert first["metadata"]["aws_secret_access_key"] == "[redacted:aws-secret]"
    assert {name: first[name] for name in names} == dict.fromkeys(names, "[redacted:aws-key]")


async def test_a_key_that_may_not_read_is_shown_no_text_by_what_it_changes(api: Api) -> None:
    memory = await api.store("it is secret", subject="user", tags=["hidden"], metadata={"a": "hidden"})
    writes = Identity(tenant=api.tenant, default_user="default", permissions=frozenset({"memory:write"}))
    name = memory["id"]
    guessed = version_of(msgspec.convert(memory | {"tenant": api.tenant}, Memory))
    for body in ({}, {"importance": 0.9}):
        assert await api.status("PATCH", name, json={}, headers={"if-match": f'"{guessed}"'}) == 412
        answer = await api.edit(name, identity=writes, **body)
        assert (answer["id"], "content" in answer) == (name, False)
        assert "secret" not in str(answer)
        assert "hidden" not in str(answer)
    judged = await api.judge("helpful", memory_id=name, identity=writes)
    assert judged["data"][0]["id"] == name
    assert "secret" not in str(judged)
    again: dict[str, Any] = {"json": {}, "headers": {"idempotency-key": "k"}}
    assert "secret" in (await api.ask("PATCH", name, **again)).text
    assert "secret" not in (await api.ask("PATCH", name, **again, identity=writes)).text


async def test_who_administers_may_name_the_user_of_statistics_by_header_or_query(api: Api) -> None:
    await api.store("likes tea", identity=api.identity("ann"))
    admin = api.by(Identity(tenant=api.tenant, named_user="ann", permissions=frozenset({"admin"})))
    nobody = Identity(tenant=api.tenant, permissions=frozenset({"admin"}))
    for told in (await admin.get("stats"), await api.get("stats", identity=nobody, user_id="ann")):
        assert told["memories"]["total"] == 1
    assert await admin.status("GET", "stats?user_id=ben") == 400
    assert await admin.status("GET") == 403


async def test_the_same_content_stored_twice_is_two_memories(api: Api) -> None:
    first, second = await api.store("likes tea"), await api.store("likes tea")
    assert first["id"] != second["id"]
    assert {memory["id"] for memory in await api.page()} == {first["id"], second["id"]}


async def test_a_list_is_newest_first_and_its_cursor_visits_everything_once(api: Api) -> None:
    stored = [(await api.store(f"fact {number}"))["id"] for number in range(7)]
    assert [memory["id"] for memory in await api.walk(limit=3)] == stored[::-1]


async def test_a_list_is_narrowed_by_each_filter(api: Api) -> None:
    plain = await api.store("plain")
    special = await api.store("special", kind="procedural", category="how/to", tags=["ops"], session_id="s1")
    ended = await api.store("ended", valid_from="2020-01-01T00:00:00Z", valid_to="2021-01-01T00:00:00Z")

    async def ids(**query: Any) -> set[str]:
        return {memory["id"] for memory in await api.page(**query)}

    for query in ({"kind": "procedural"}, {"category": "how/to"}, {"tag": "ops"}, {"session_id": "s1"}):
        assert await ids(**query) == {special["id"]}
    assert await ids(active="false") == {ended["id"]}
    assert await ids(active="true") == {plain["id"], special["id"]}
    assert await ids(as_of="2020-06-01T00:00:00Z") == {plain["id"], special["id"], ended["id"]}
    assert await ids(as_of="2022-06-01T00:00:00Z") == {plain["id"], special["id"]}
    assert await ids(kind=["procedural", "semantic"]) == {plain["id"], special["id"], ended["id"]}


async def test_a_project_sees_its_own_memories_and_those_of_no_project(api: Api) -> None:
    mine = await api.store("atlas fact", project_id="atlas")
    general = await api.store("general fact")
    other = await api.store("borealis fact", project_id="borealis")
    identity = api.identity(project="atlas")
    assert {memory["id"] for memory in await api.page(identity=identity)} == {mine["id"], general["id"]}
    assert {memory["id"] for memory in await api.page(project_id="atlas")} == {mine["id"], general["id"]}
    assert {memory["id"] for memory in await api.page()} == {mine["id"], general["id"], other["id"]}
    assert await api.status("GET", other["id"], identity=identity) == 404


async def test_an_expired_memory_is_not_there_any_more_and_one_that_would_be_at_once_is_refused(api: Api) -> None:
    memory = await api.store("short-lived", expires_at="2999-01-01T00:00:00Z")
    await api.edit(memory["id"], expires_at="2020-01-01T00:00:00Z")
    assert await api.page() == []
    assert await api.status("GET", memory["id"]) == 404
    body = {"content": "too late", "expires_at": "2020-01-01T00:00:00Z"}
    assert await api.refused("POST", json=body) == (400, "expires_at")


async def test_an_edit_changes_what_is_given_and_is_found_by_its_new_words(api: Api) -> None:
    memory = await api.store("User drinks coffee", tags=["drinks"], metadata={"a": 1})
    edited = await api.edit(memory["id"], content="User drinks rooibos")
    assert edited == memory | {"content": "User drinks rooibos", "updated_at": edited["updated_at"]}
    assert await api.get(memory["id"]) == edited
    assert [one["id"] for one in await api.search("rooibos")] == [memory["id"]]
    assert all(one["content"] != "User drinks coffee" for one in await api.search("coffee"))


async def test_an_edit_of_fields_that_are_not_searched_keeps_the_rest(api: Api) -> None:
    memory = await api.store("User drinks coffee", category="drinks", stance="likes")
    changed: dict[str, Any] = {"importance": 0.9, "stance": None, "metadata": {"b": [2]}}
    edited = await api.edit(memory["id"], **changed)
    assert edited == memory | changed | {"updated_at": edited["updated_at"]}
    assert [one["id"] for one in await api.search("coffee")] == [memory["id"]]


async def test_an_edit_of_nothing_changes_nothing(api: Api) -> None:
    memory = await api.store("as it is")
    cases: tuple[dict[str, Any], ...] = ({}, {"content": "as it is"})
    for fields in cases:
        assert await api.edit(memory["id"], **fields) == memory


async def test_a_memory_that_ended_is_not_active_and_one_that_goes_on_is_again(api: Api) -> None:
    memory = await api.store("lives in Bonn")
    assert (await api.edit(memory["id"], valid_to="2021-01-01T00:00:00Z"))["active"] is False
    assert (await api.edit(memory["id"], valid_to=None))["active"] is True
    wrong = {"valid_from": "2022-01-01T00:00:00Z", "valid_to": "2021-01-01T00:00:00Z"}
    assert await api.refused("PATCH", memory["id"], json=wrong) == (400, "valid_to")


async def test_a_slot_has_one_active_memory_also_under_concurrent_writers(api: Api) -> None:
    slot: dict[str, Any] = {"subject": "user", "predicate": "budget", "aspect": "Hawaii vacation"}
    stored = await asyncio.gather(*(api.store(f"Budget is ${n},000", object=f"${n},000", **slot) for n in range(6)))
    listed = {memory["id"]: memory for memory in await api.page()}
    assert set(listed) == {memory["id"] for memory in stored}
    [current] = [memory for memory in listed.values() if memory["active"]]
    assert current["valid_to"] is None
    ended = [memory for memory in listed.values() if not memory["active"]]
    assert all(memory["superseded_by"] in listed and memory["valid_to"] is not None for memory in ended)
    assert await api.delete(current["id"]) == 1
    assert (await api.store("Budget is $9,000", object="$9,000", **slot))["active"] is True


async def test_concurrent_edits_of_different_fields_are_all_kept(api: Api) -> None:
    memory = await api.store("User drinks coffee")
    changes: list[dict[str, Any]] = [{"content": "User drinks tea"}, {"importance": 0.9}, {"tags": ["drinks"]}]
    await asyncio.gather(*(api.edit(memory["id"], **change) for change in changes))
    edited = await api.get(memory["id"])
    assert (edited["content"], edited["importance"], edited["tags"]) == ("User drinks tea", 0.9, ["drinks"])


async def test_a_forgotten_memory_is_gone(api: Api) -> None:
    memory, kept = await api.store("secret plan"), await api.store("other plan")
    name = memory["id"]
    assert await api.delete(name) == 1
    for method, body in (("GET", None), ("DELETE", None), ("PATCH", {"content": "again"})):
        assert await api.status(method, name, json=body) == 404
    assert [one["id"] for one in await api.search("plan")] == [kept["id"]]


async def test_forgetting_by_scope_takes_exactly_that_scope_and_without_one_nothing(api: Api) -> None:
    for user in ("alice", "bob"):
        await api.store("general", user_id=user)
        await api.store("project", user_id=user, project_id="atlas")
        await api.store("session", user_id=user, project_id="atlas", session_id="s1")

    async def left(user: str) -> list[str]:
        return sorted(memory["content"] for memory in await api.page(user_id=user))

    refused = await api.ok("DELETE", status=400, identity=api.identity("alice"))
    assert "without a scope" in refused["error"]["message"]
    assert await left("alice") == ["general", "project", "session"]
    assert await api.delete(user_id="alice", session_id="s1") == 1
    assert await left("alice") == ["general", "project"]
    assert await api.delete(user_id="alice", identity=api.identity("alice", project="borealis")) == 0
    assert await api.delete(user_id="alice", project_id="atlas") == 1
    assert await left("alice") == ["general"]
    assert await api.delete(user_id="alice") == 1
    assert await left("alice") == []
    assert await left("bob") == ["general", "project", "session"]


async def test_a_session_and_a_user_can_be_forgotten(api: Api) -> None:
    for content, user, session in (("one", "alice", "s1"), ("two", "alice", "s2"), ("three", "bob", "s1")):
        await api.store(content, user_id=user, session_id=session)
    assert await api.delete("sessions/s1", user_id="alice") == 1
    assert [memory["content"] for memory in await api.page(user_id="alice")] == ["two"]
    assert await api.delete("users/alice") == 1
    assert await api.page(user_id="alice") == []
    assert [memory["content"] for memory in await api.page(user_id="bob")] == ["three"]
    assert (await api.store("back", user_id="alice"))["content"] == "back"


async def test_what_is_in_quarantine_is_listed_and_can_be_confirmed(api: Api) -> None:
    name = (await api.store("Anna's flight leaves at nine", category="travel"))["id"]
    await api.store("Anna likes tea")
    assert await api.page(quarantined="true") == []
    for quarantined, waiting in ((True, [name]), (False, [])):
        assert (await api.edit(name, quarantined=quarantined))["quarantined"] is quarantined
        assert [one["id"] for one in await api.page(quarantined="true")] == waiting
    assert await api.status("POST", json={"content": "x", "quarantined": True}) == 400


async def test_unknown_paths_and_methods_are_refused_in_the_same_shape_with_those_that_a_path_has(api: Api) -> None:
    for method, path, allowed in (
        ("GET", "/v1/memory/a/b/c", None),
        ("GET", "/nowhere", None),
        ("DELETE", "/v1/memory/sessions/x/y", None),
        ("PUT", "/v1/memory", "DELETE, GET, HEAD, POST"),
        ("PUT", "/v1/memory/some-id", "DELETE, GET, HEAD, PATCH"),
        ("POST", "/v1/memory/some-id", "DELETE, GET, HEAD, PATCH"),
        ("PROPFIND", "/v1/memory/some-id", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/v1/memory/turns", "POST"),
        ("DELETE", "/v1/memory/search", "POST"),
        ("GET", "/v1/memory/sessions/x/end", "POST"),
    ):
        answer = await api.call(method, path)
        assert (answer.status_code, answer.headers.get("allow")) == (405 if allowed else 404, allowed), (method, path)
        assert answer.json()["error"]["type"] in {"not_found_error", "invalid_request_error"}


async def test_the_description_names_every_call_and_nothing_internal(api: Api) -> None:
    described = (await api.client.get("/openapi.json")).json()
    assert described["openapi"].startswith("3.1")
    calls = {(method, path) for path, each in described["paths"].items() for method in each}
    unchecked = {("get", path) for path in ("/healthz", "/readyz", "/metrics", "/openapi.json")}
    assert calls == {(one.method.lower(), one.path.replace(":path", "")) for one in OPERATIONS} | unchecked
    assert set(described["components"]["schemas"]["Memory"]["properties"]) == PUBLIC_FIELDS
    schemas = described["components"]["schemas"]
    answers = described["paths"]["/v1/memory/sessions/{id}/end"]["post"]["responses"]
    assert "404" not in answers, "of a session of which nothing is known there is nothing to learn"
    assert _references(described) <= {f"#/components/schemas/{name}" for name in schemas}


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"]} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(inner) for inner in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(inner) for inner in value))
    return set()
