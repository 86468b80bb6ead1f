"""Export and import: what comes out goes in again, all of it, and nobody takes along or plants what is not theirs."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from memproxy.api.transfer import ROW
from memproxy.core.protocol import Identity
from memproxy.core.transfer_lines import MEDIA_TYPE
from memproxy.settings import LimitsSettings, UserLimits
from tests.support.engine import Api, make_engine, serve_engine, test_settings


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Api]:
    """An empty instance beside ``own_api``."""
    (tmp_path / "other").mkdir()
    async with serve_engine(make_engine(tmp_path / "other")) as served:
        yield served


async def export(api: Api, identity: Identity | None = None, **query: Any) -> bytes:
    answer = await api.call("GET", "/v1/memory/export", identity=identity, params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    return answer.content


async def take(api: Api, lines: bytes, identity: Identity | None = None, **query: Any) -> dict[str, Any]:
    answer = await api.call(
        "POST",
        "/v1/memory/import",
        identity=identity,
        params=query,
        content=lines,
        headers={"content-type": MEDIA_TYPE},
    )
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def lines(*values: Any) -> bytes:
    return b"".join(msgspec.json.encode(value) + b"\n" for value in values)


def read(exported: bytes, what: str) -> list[dict[str, Any]]:
    return [value[what] for raw in exported.splitlines() if what in (value := msgspec.json.decode(raw))]


def memory(name: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"memory": {"id": name, "content": content, "created_at": "2024-03-01T10:00:00Z", **fields}}


async def lived_in(api: Api) -> None:
    """A user with facts, a history, a deleted fact, a conversation and a palace with gaps."""
    home: dict[str, Any] = {"subject": "user", "predicate": "lives_in", "aspect": None}
    await api.store("User lives in Berlin", **home, object="Berlin", valid_from="2020-01-01T00:00:00Z")
    await api.store("User lives in Porto", **home, object="Porto", valid_from="2023-05-01T00:00:00Z")
    gone = await api.store("Rex is a cat", subject="Rex", predicate="is_a", object="cat")
    await api.call("DELETE", f"/v1/memory/{gone['id']}")
    await api.store("Biscuit is a beagle", subject="Biscuit", predicate="breed", object="beagle", tags=["pets"])
    talk = [
        {"role": "user", "content": "Biscuit ate my shoes", "timestamp": "2023-06-01T10:00:00Z"},
        {"role": "assistant", "content": "Oh dear, which ones?", "timestamp": "2023-06-01T10:00:05Z"},
        {"role": "user", "content": "The suede ones ☔", "timestamp": "2023-06-01T10:01:00Z"},
    ]
    answer = await api.call("POST", "/v1/memory/turns", json={"session_id": "s1", "messages": talk})
    assert answer.status_code == 201


async def test_an_export_imported_into_an_empty_instance_exports_the_same_bytes(own_api: Api, other: Api) -> None:
    await lived_in(own_api)
    exported = await export(own_api, vectors=True)
    told = await take(other, exported)
    assert (told["imported"], told["rejected"], told["notes"]) == (6, 0, [])
    assert await export(other, vectors=True) == exported
    assert (await other.search("suede shoes ate"))[0]["kind"] == "turn"
    assert [one["active"] for one in read(exported, "memory") if one["predicate"] == "lives_in"] == [True, False]


async def test_the_same_file_twice_changes_nothing(own_api: Api, other: Api) -> None:
    await lived_in(own_api)
    exported = await export(own_api)
    await take(other, exported)
    told = await take(other, exported)
    assert (told["imported"], told["replaced"], told["unchanged"]) == (0, 0, 6)
    assert await export(other) == exported


async def test_of_the_same_lines_twice_at_once_one_imports_and_the_other_finds_all_of_it_there(own_api: Api) -> None:
    count = ROW + 1
    told = lines(*(memory(f"m{number}", f"Note number {number}", kind="turn") for number in range(count)))
    both = await asyncio.gather(take(own_api, told), take(own_api, told))
    assert sorted((one["imported"], one["unchanged"], one["replaced"]) for one in both) == [
        (0, count, 0),
        (count, 0, 0),
    ]


async def test_a_file_may_be_cut_between_any_two_lines(own_api: Api, other: Api) -> None:
    await lived_in(own_api)
    exported = await export(own_api)
    for one in exported.splitlines(keepends=True):
        await take(other, one)
    assert read(await export(other), "memory") == read(exported, "memory")


async def test_what_is_there_in_an_older_form_is_replaced_and_a_newer_form_stays(own_api: Api) -> None:
    await take(own_api, lines(memory("m1", "User likes tea", updated_at="2024-03-02T00:00:00Z")))
    older = await take(own_api, lines(memory("m1", "User likes tee", updated_at="2024-03-01T00:00:00Z")))
    assert older["unchanged"] == 1
    newer = await take(own_api, lines(memory("m1", "User likes green tea", updated_at="2024-03-03T00:00:00Z")))
    assert newer["replaced"] == 1
    assert [one["content"] for one in await own_api.page()] == ["User likes green tea"]


async def test_an_active_statement_of_a_file_and_one_that_is_there_leave_one_active(own_api: Api) -> None:
    home: dict[str, Any] = {"subject": "user", "predicate": "lives_in"}
    await own_api.store("User lives in Porto", **home, object="Porto", valid_from="2023-05-01T00:00:00Z")
    old = memory("m1", "User lives in Bonn", **home, object="Bonn", valid_from="2019-01-01T00:00:00Z")
    await take(own_api, lines(old))
    active = [one["content"] for one in await own_api.page(active=True)]
    assert len(active) == 1
    assert len(await own_api.page()) == 2


@pytest.mark.parametrize("newer", [{"predicate": "born_in"}, {"project_id": "atlas"}])
async def test_a_newer_form_that_answers_another_question_leaves_the_former_one_free(
    own_api: Api, newer: dict[str, Any]
) -> None:
    fields: dict[str, Any] = {"subject": "user", "predicate": "lives_in", "object": "Porto"}
    await take(own_api, lines(memory("m1", "Porto", **fields)))
    await take(own_api, lines(memory("m1", "Porto", **fields | newer, updated_at="2024-03-03T00:00:00Z")))
    assert (await own_api.store("Oslo", **fields | {"object": "Oslo"}))["supersedes"] is None
    assert {one["content"] for one in await own_api.page(active=True)} == {"Porto", "Oslo"}


async def test_nothing_is_written_by_a_dry_run(own_api: Api) -> None:
    told = await take(own_api, lines(memory("m1", "User likes tea"), {"memory": {"id": "m2"}}), dry_run=True)
    assert (told["dry_run"], told["imported"], told["rejected"]) == (True, 1, 1)
    assert await own_api.page() == []


@pytest.mark.parametrize("name", ["stats", ".."])
async def test_no_memory_of_a_file_has_an_id_that_no_path_leads_to(own_api: Api, name: str) -> None:
    told = await take(own_api, lines(memory(name, "User likes tea")))
    assert (told["imported"], told["errors"][0]["message"].partition(":")[0]) == (0, "id")


async def test_wrong_lines_are_told_by_number_and_field_and_the_others_are_taken(own_api: Api) -> None:
    body = lines(
        memory("m1", "User likes tea"),
        memory("m2", "x", confidence=3),
        memory("m3", "x", tenant="acme"),
        {"memory": {"content": "no id", "created_at": 5}},
        [1],
        {"other": 1},
        {"memory": memory("m4", "y")["memory"], "vectors": {"dense": ["%%"]}},
        {"memory": memory("m5", "y")["memory"], "vectors": {"indices": [1], "values": []}},
    )
    told = await take(own_api, body + b"{half\n\n \n" + lines(memory("m6", "User likes cake")))
    assert (told["imported"], told["rejected"]) == (2, 8)
    assert [(one["line"], one["message"].split(":")[0]) for one in told["errors"]][:3] == [
        (2, "confidence"),
        (3, "tenant"),
        (4, "id"),
    ]
    assert told["errors"][-1]["line"] == 9
    assert sorted(one["id"] for one in await own_api.page()) == ["m1", "m6"]


@pytest.mark.parametrize(
    "header",
    [{"format": "mem0", "version": 1}, {"format": "memproxy", "version": 99}, {"format": "memproxy", "version": "x"}],
)
async def test_a_header_of_another_format_or_a_newer_version_is_refused(own_api: Api, header: dict[str, Any]) -> None:
    told = await take(own_api, lines(header))
    assert told["rejected"] == 1


async def test_vectors_of_another_embedder_are_left_out_and_told(own_api: Api) -> None:
    header = {"format": "memproxy", "version": 1, "embedder": "fastembed:other", "lexical": 1}
    given = {"dense": ["AACAPw=="], "indices": [7], "values": [1.0]}
    told = await take(own_api, lines(header, memory("m1", "User likes tea") | {"vectors": given}))
    assert told["imported"] == 1
    assert len(told["notes"]) == 1
    del header["embedder"]
    (note,) = (await take(own_api, lines(header, memory("m2", "User likes tea") | {"vectors": given})))["notes"]
    assert "None" not in note


async def test_a_conversation_of_a_file_becomes_turns_with_their_times(own_api: Api) -> None:
    talk = {
        "session_id": "old",
        "messages": [{"role": "user", "content": "I moved to Oslo", "timestamp": 1_500_000_000}],
    }
    assert (await take(own_api, lines({"turns": talk})))["turns"] == 1
    found = (await own_api.page())[0]
    assert (found["kind"], found["session_id"], found["source"]) == ("turn", "old", "import")
    assert found["created_at"] == "2017-07-14T02:40:00Z"


async def test_one_users_memories_become_anothers_when_that_is_asked_for(own_api: Api) -> None:
    ann, bob = own_api.identity("ann"), own_api.identity("bob")
    await own_api.store("User likes tea", identity=ann)
    await take(own_api, await export(own_api, ann), user_id="bob")
    assert [one["content"] for one in await own_api.page(identity=bob)] == ["User likes tea"]


async def test_nobody_exports_or_imports_for_another_without_the_permission(own_api: Api) -> None:
    await own_api.store("User likes tea", identity=own_api.identity("ann"))
    plain = frozenset({"memory:read", "memory:write"})
    bob = Identity(tenant=own_api.tenant, default_user="bob", permissions=plain)
    assert (await own_api.call("GET", "/v1/memory/export?user_id=ann", identity=bob)).status_code == 403
    told = await take(own_api, lines(memory("m1", "planted", user_id="ann")), bob)
    assert (told["imported"], told["rejected"]) == (0, 1)
    stranger = Identity(tenant="other", named_user="ann")
    assert read(await export(own_api, stranger), "memory") == []


async def test_a_key_for_one_project_takes_only_that_projects_memories_along(own_api: Api) -> None:
    await own_api.store("Alpha is late", project_id="alpha")
    await own_api.store("Beta is done", project_id="beta")
    await own_api.store("User likes tea")
    bound = Identity(tenant=own_api.tenant, default_user="default", project="alpha", bound_project=True)
    contents = {one["content"] for one in read(await export(own_api, bound), "memory")}
    assert contents == {"Alpha is late", "User likes tea"}
    told = await take(own_api, lines(memory("m1", "planted", project_id="beta")), bound)
    assert told["rejected"] == 1


async def test_a_key_for_one_project_takes_over_no_places(own_api: Api) -> None:
    """They are the user's in all projects: names that hold in another one would come along."""
    await own_api.store("Nightjar is late", project_id="alpha", subject="Nightjar")
    places = read(await export(own_api), "place")
    assert places
    bound = Identity(tenant=own_api.tenant, default_user="other", project="alpha", bound_project=True)
    told = await take(own_api, lines(*({"place": {**place, "user_id": "other"}} for place in places)), bound)
    assert any("for one project" in note for note in told["notes"])


async def test_a_web_page_cannot_plant_by_a_form_or_plain_text(own_api: Api) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        headers = {"content-type": media} if media else {}
        answer = await own_api.call("POST", "/v1/memory/import", content=b"{}", headers=headers)
        assert answer.status_code == 415


async def test_secrets_of_a_file_are_redacted_as_everywhere(own_api: Api) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    fields = {"subject": key, "wing": key.lower(), "metadata": {key: [key]}}
    relation = {"subject": "user", "predicate": "has", "object": key}
    place = {"place": {"kind": "wing", "parent": "", "name": key, "number": 1}}
    await take(own_api, lines(place, memory("m1", f"My key is {key}", relations=[relation], **fields)))
    kept = (await own_api.page())[0]
    assert kept["content"] == "My key is [redacted:aws-key]"
    assert key.lower() not in (str(kept) + (await export(own_api)).decode()).lower()


async def test_export_and_import_are_in_the_audit_log(own_api: Api) -> None:
    await own_api.store("User likes tea", identity=own_api.identity("ann"))
    await take(own_api, await export(own_api, own_api.identity("ann")), user_id="bob")
    admin = Identity(tenant=own_api.tenant, permissions=frozenset({"admin"}))
    entries = (await own_api.call("GET", "/v1/memory/audit", identity=admin)).json()["data"]
    told = [(one["action"], one["scope"], one["counts"]) for one in entries]
    assert ("user.export", {"user_id": "ann"}, {"memories": 1}) in told
    assert ("user.import", {"user_id": "bob"}, {"imported": 1, "replaced": 0, "turns": 0}) in told


async def test_an_import_over_the_quota_is_refused_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    settings = test_settings()
    limits = LimitsSettings(user=UserLimits(memories=2))
    engine = make_engine(tmp_path, settings=settings.model_copy(update={"limits": limits}))
    file = lines(*(memory(f"m{number}", f"fact {number}") for number in range(3)))
    async with serve_engine(engine) as api:
        headers = {"content-type": MEDIA_TYPE}
        refused = await api.call("POST", "/v1/memory/import", content=file, headers=headers)
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
        assert (await take(api, file, dry_run=True))["imported"] == 3
        assert await api.page() == []


async def test_of_an_import_over_the_quota_the_rows_before_it_stay(tmp_path: Path) -> None:
    settings = test_settings()
    limits = LimitsSettings(user=UserLimits(memories=ROW + 1))
    engine = make_engine(tmp_path, settings=settings.model_copy(update={"limits": limits}))
    file = lines(*(memory(f"m{number}", f"fact {number}") for number in range(ROW + 2)))
    async with serve_engine(engine) as api:
        refused = await api.call("POST", "/v1/memory/import", content=file, headers={"content-type": MEDIA_TYPE})
        assert refused.status_code == 429
        # a row of the same user's is answered when those before it are applied
        assert (await api.call("DELETE", "/v1/memory", params={"session_id": "none"})).status_code == 200
        assert len(read(await export(api), "memory")) == ROW


def turn(session: str, content: str, name: str = "1", **fields: Any) -> dict[str, Any]:
    return memory(name, content, kind="turn", session_id=session, **fields)


async def test_turns_of_one_id_in_several_conversations_come_in_and_go_out_again(own_api: Api, other: Api) -> None:
    told = await take(own_api, lines(turn("a", "hello"), turn("b", "good evening"), memory("1", "User likes tea")))
    assert (told["imported"], told["unchanged"]) == (3, 0)
    exported = await export(own_api)
    assert sorted(one["content"] for one in read(exported, "memory")) == ["User likes tea", "good evening", "hello"]
    assert (await take(other, exported))["imported"] == 3
    assert await export(other) == exported
    again = await take(other, exported)
    assert (again["imported"], again["replaced"], again["unchanged"]) == (0, 0, 3)


async def test_of_two_forms_of_a_memory_in_one_file_the_newer_stays_whichever_comes_first(own_api: Api) -> None:
    newer = memory("m1", "User likes coffee", updated_at="2025-01-01T00:00:00Z")
    told = await take(own_api, lines(newer, memory("m1", "User likes tea"), memory("m2", "x"), memory("m2", "x")))
    assert (told["imported"], told["replaced"], told["unchanged"]) == (2, 0, 2)
    assert {one["id"]: one["content"] for one in await own_api.page()} == {"m1": "User likes coffee", "m2": "x"}


async def test_a_conversation_in_which_one_id_names_two_messages_is_refused_and_the_others_are_taken(
    own_api: Api,
) -> None:
    def talk(session: str, *texts: str) -> dict[str, Any]:
        said = [{"role": "user", "content": text, "id": "1"} for text in texts]
        return {"turns": {"session_id": session, "messages": said}}

    told = await take(own_api, lines(talk("a", "hello", "goodbye"), talk("b", "hello", "hello")))
    assert (told["turns"], told["rejected"]) == (2, 1)
    assert told["errors"][0]["line"] == 1
    assert told["errors"][0]["message"].startswith("messages.1.id: ")
    assert [one["session_id"] for one in await own_api.page()] == ["b"]
    again = await take(own_api, lines(talk("b", "something else")))
    assert [note for note in again["notes"] if "b" in note and "1" in note] == again["notes"] != []
    assert [one["content"] for one in await own_api.page()] == ["hello"]


async def test_a_memory_that_is_expired_by_now_comes_in_and_is_not_there(own_api: Api) -> None:
    told = await take(own_api, lines(memory("m1", "x", expires_at="2020-01-01T00:00:00Z")))
    assert (told["imported"], told["rejected"]) == (1, 0)
    assert await own_api.page() == []


@pytest.mark.parametrize("path", ["/v1/memory", "/v1/memory/turns", "/v1/memory/import"])
async def test_a_compressed_body_is_refused_with_what_to_do(own_api: Api, path: str) -> None:
    media = MEDIA_TYPE if path.endswith("import") else "application/json"
    headers = {"content-type": media, "content-encoding": "gzip"}
    answer = await own_api.call("POST", path, content=gzip.compress(b"{}"), headers=headers)
    assert answer.status_code == 415
    assert "uncompressed" in answer.json()["error"]["message"]
