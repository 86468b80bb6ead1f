"""Export and import: what comes out goes in again, all of it, and nobody takes along or plants what is not theirs."""

import asyncio
import base64
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from memproxy.api.transfer import ROW
from memproxy.core.protocol import Identity
from memproxy.core.transfer_lines import MEDIA_TYPE, MOST_TOKEN_BYTES
from memproxy.core.vectors import pack, packed
from memproxy.models.embedding import NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.settings import LimitsSettings, UserLimits
from tests.support.engine import DIMENSION, Api, make_engine, serve_engine, test_settings

HOME: dict[str, Any] = {"subject": "user", "predicate": "lives_in"}


@pytest.fixture
async def other(tmp_path: Path) -> AsyncIterator[Api]:
    """An empty instance beside ``own_api``."""
    (tmp_path / "other").mkdir()
    async with serve_engine(make_engine(tmp_path / "other")) as served:
        yield served


async def export(api: Api, **query: Any) -> bytes:
    answer = await api.ask("GET", "export", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == MEDIA_TYPE
    return answer.content


def read(exported: bytes, what: str) -> list[dict[str, Any]]:
    return [value[what] for raw in exported.splitlines() if what in (value := msgspec.json.decode(raw))]


def counts(told: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(told[name] for name in names or ("imported", "replaced", "unchanged"))


def memory(name: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"memory": {"id": name, "content": content, "created_at": "2024-03-01T10:00:00Z", **fields}}


def turn(session: str, content: str, name: str = "1", **fields: Any) -> dict[str, Any]:
    return memory(name, content, kind="turn", session_id=session, **fields)


async def contents(api: Api, **query: Any) -> list[str]:
    return sorted(one["content"] for one in await api.page(**query))


async def lived_in(api: Api) -> bytes:
    """What is exported of a user with facts, a history, a deleted fact, a conversation and a palace with gaps."""
    await api.store("User lives in Berlin", **HOME, object="Berlin", valid_from="2020-01-01T00:00:00Z")
    await api.store("User lives in Porto", **HOME, object="Porto", valid_from="2023-05-01T00:00:00Z")
    gone = await api.store("Rex is a cat", subject="Rex", predicate="is_a", object="cat")
    await api.delete(gone["id"])
    await api.store("Biscuit is a beagle", subject="Biscuit", predicate="breed", object="beagle", tags=["pets"])
    await api.say(
        "s1",
        {"role": "user", "content": "Biscuit ate my shoes", "timestamp": "2023-06-01T10:00:00Z"},
        {"role": "assistant", "content": "Oh dear, which ones?", "timestamp": "2023-06-01T10:00:05Z"},
        {"role": "user", "content": "The suede ones ☔", "timestamp": "2023-06-01T10:01:00Z"},
    )
    return await export(api, vectors=True)


async def test_an_export_imported_into_an_empty_instance_exports_the_same_bytes(own_api: Api, other: Api) -> None:
    exported = await lived_in(own_api)
    told = await other.bring(exported)
    assert counts(told, "imported", "rejected", "notes") == (6, 0, [])
    assert await export(other, vectors=True) == exported
    assert (await other.search("suede shoes ate"))[0]["kind"] == "turn"
    assert [one["active"] for one in read(exported, "memory") if one["predicate"] == "lives_in"] == [True, False]
    plain = await export(own_api)
    assert await export(other) == plain
    assert counts(await other.bring(plain)) == (0, 0, 6), "the same again changes nothing"
    assert await export(other) == plain


async def test_of_the_same_lines_twice_at_once_one_imports_and_the_other_finds_all_of_it_there(own_api: Api) -> None:
    count = ROW + 1
    lines = [memory(f"m{number}", f"Note number {number}", kind="turn") for number in range(count)]
    both = await asyncio.gather(own_api.bring(*lines), own_api.bring(*lines))
    assert sorted(counts(one, "imported", "unchanged", "replaced") for one in both) == [(0, count, 0), (count, 0, 0)]


async def test_a_file_may_be_cut_between_any_two_lines(own_api: Api, other: Api) -> None:
    await lived_in(own_api)
    exported = await export(own_api)
    for one in exported.splitlines(keepends=True):
        await other.bring(one)
    assert read(await export(other), "memory") == read(exported, "memory")


async def test_what_is_there_in_an_older_form_is_replaced_and_a_newer_form_stays(own_api: Api) -> None:
    await own_api.bring(memory("m1", "User likes tea", updated_at="2024-03-02T00:00:00Z"))
    older = await own_api.bring(memory("m1", "User likes tee", updated_at="2024-03-01T00:00:00Z"))
    assert older["unchanged"] == 1
    newer = await own_api.bring(memory("m1", "User likes green tea", updated_at="2024-03-03T00:00:00Z"))
    assert newer["replaced"] == 1
    assert await contents(own_api) == ["User likes green tea"]


async def test_an_active_statement_of_a_file_and_one_that_is_there_leave_one_active(own_api: Api) -> None:
    await own_api.store("User lives in Porto", **HOME, object="Porto", valid_from="2023-05-01T00:00:00Z")
    await own_api.bring(memory("m1", "User lives in Bonn", **HOME, object="Bonn", valid_from="2019-01-01T00:00:00Z"))
    assert (len(await own_api.page(active=True)), len(await own_api.page())) == (1, 2)


@pytest.mark.parametrize("newer", [{"predicate": "born_in"}, {"project_id": "atlas"}])
async def test_a_newer_form_that_answers_another_question_leaves_the_former_one_free(
    own_api: Api, newer: dict[str, Any]
) -> None:
    fields = HOME | {"object": "Porto"}
    await own_api.bring(memory("m1", "Porto", **fields))
    await own_api.bring(memory("m1", "Porto", **fields | newer, updated_at="2024-03-03T00:00:00Z"))
    assert (await own_api.store("Oslo", **fields | {"object": "Oslo"}))["supersedes"] is None
    assert await contents(own_api, active=True) == ["Oslo", "Porto"]


async def test_nothing_is_written_by_a_dry_run(own_api: Api) -> None:
    told = await own_api.bring(memory("m1", "User likes tea"), {"memory": {"id": "m2"}}, dry_run=True)
    assert counts(told, "dry_run", "imported", "rejected") == (True, 1, 1)
    assert await own_api.page() == []


@pytest.mark.parametrize("name", ["stats", ".."])
async def test_no_memory_of_a_file_has_an_id_that_no_path_leads_to(own_api: Api, name: str) -> None:
    told = await own_api.bring(memory(name, "User likes tea"))
    assert (told["imported"], told["errors"][0]["message"].partition(":")[0]) == (0, "id")


async def test_wrong_lines_are_told_by_number_and_field_and_the_others_are_taken(own_api: Api) -> None:
    wrong: list[Any] = [
        memory("m2", "x", confidence=3),
        memory("m3", "x", tenant="acme"),
        {"memory": {"content": "no id", "created_at": 5}},
        [1],
        {"other": 1},
        memory("m4", "y") | {"vectors": {"dense": ["%%"]}},
        memory("m5", "y") | {"vectors": {"indices": [1], "values": []}},
    ]
    told = await own_api.bring(memory("m1", "User likes tea"), *wrong, b"{half\n\n \n", memory("m6", "User likes cake"))
    assert counts(told, "imported", "rejected") == (2, 8)
    found = [(one["line"], one["message"].split(":")[0]) for one in told["errors"]]
    assert found[:3] == [(2, "confidence"), (3, "tenant"), (4, "id")]
    assert found[-1][0] == 9
    assert sorted(one["id"] for one in await own_api.page()) == ["m1", "m6"]


@pytest.mark.parametrize(
    "header",
    [{"format": "mem0", "version": 1}, {"format": "memproxy", "version": 99}, {"format": "memproxy", "version": "x"}],
)
async def test_a_header_of_another_format_or_a_newer_version_is_refused(own_api: Api, header: dict[str, Any]) -> None:
    assert (await own_api.bring(header))["rejected"] == 1


async def test_vectors_of_another_embedder_are_left_out_and_told(own_api: Api) -> None:
    header = {"format": "memproxy", "version": 1, "embedder": "fastembed:other", "lexical": 1}
    given = {"vectors": {"dense": ["AACAPw=="], "indices": [7], "values": [1.0]}}
    told = await own_api.bring(header, memory("m1", "User likes tea") | given)
    assert (told["imported"], len(told["notes"])) == (1, 1)
    del header["embedder"]
    (note,) = (await own_api.bring(header, memory("m2", "User likes tea") | given))["notes"]
    assert "None" not in note


async def test_a_conversation_of_a_file_becomes_turns_with_their_times(own_api: Api) -> None:
    said = {"role": "user", "content": "I moved to Oslo", "timestamp": 1_500_000_000}
    assert (await own_api.bring({"turns": {"session_id": "old", "messages": [said]}}))["turns"] == 1
    found = (await own_api.page())[0]
    assert counts(found, "kind", "session_id", "source") == ("turn", "old", "import")
    assert found["created_at"] == "2017-07-14T02:40:00Z"


async def test_one_users_memories_become_anothers_when_that_is_asked_for_and_the_audit_log_tells_it(
    own_api: Api,
) -> None:
    ann = own_api.by(own_api.identity("ann"))
    await ann.store("User likes tea")
    await own_api.bring(await export(ann), user_id="bob")
    assert await contents(own_api, identity=own_api.identity("bob")) == ["User likes tea"]
    admin = Identity(tenant=own_api.tenant, permissions=frozenset({"admin"}))
    told = [(one["action"], one["scope"], one["counts"]) for one in await own_api.data("audit", identity=admin)]
    assert ("user.export", {"user_id": "ann"}, {"memories": 1}) in told
    assert ("user.import", {"user_id": "bob"}, {"imported": 1, "replaced": 0, "turns": 0}) in told


async def test_nobody_exports_or_imports_for_another_without_the_permission(own_api: Api) -> None:
    await own_api.store("User likes tea", identity=own_api.identity("ann"))
    plain = frozenset({"memory:read", "memory:write"})
    bob = own_api.by(Identity(tenant=own_api.tenant, default_user="bob", permissions=plain))
    assert await bob.status("GET", "export?user_id=ann") == 403
    assert counts(await bob.bring(memory("m1", "planted", user_id="ann")), "imported", "rejected") == (0, 1)
    assert read(await export(own_api.by(Identity(tenant="other", named_user="ann"))), "memory") == []


def bound(api: Api, user: str) -> Api:
    """A key for the project alpha."""
    return api.by(Identity(tenant=api.tenant, default_user=user, project="alpha", bound_project=True))


async def test_a_key_for_one_project_takes_only_that_projects_memories_along(own_api: Api) -> None:
    await own_api.store("Alpha is late", project_id="alpha")
    await own_api.store("Beta is done", project_id="beta")
    await own_api.store("User likes tea")
    key = bound(own_api, "default")
    assert {one["content"] for one in read(await export(key), "memory")} == {"Alpha is late", "User likes tea"}
    assert (await key.bring(memory("m1", "planted", project_id="beta")))["rejected"] == 1


async def test_a_key_for_one_project_takes_over_no_places(own_api: Api) -> None:
    """They are the user's in all projects: names that hold in another one would come along."""
    await own_api.store("Nightjar is late", project_id="alpha", subject="Nightjar")
    places = read(await export(own_api), "place")
    assert places
    told = await bound(own_api, "other").bring(*({"place": {**place, "user_id": "other"}} for place in places))
    assert any("for one project" in note for note in told["notes"])


async def test_a_web_page_cannot_plant_by_a_form_or_plain_text(own_api: Api) -> None:
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""):
        headers = {"content-type": media} if media else {}
        assert await own_api.status("POST", "import", content=b"{}", headers=headers) == 415


async def test_secrets_of_a_file_are_redacted_as_everywhere(own_api: Api) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    fields = {"subject": key, "wing": key.lower(), "metadata": {key: [key]}}
    relation = {"subject": "user", "predicate": "has", "object": key}
    place = {"place": {"kind": "wing", "parent": "", "name": key, "number": 1}}
    await own_api.bring(place, memory("m1", f"My key is {key}", relations=[relation], **fields))
    kept = (await own_api.page())[0]
    assert kept["content"] == "My key is [redacted:aws-key]"
    assert key.lower() not in (str(kept) + (await export(own_api)).decode()).lower()


@asynccontextmanager
async def room_for(most: int, folder: Path) -> AsyncIterator[tuple[Api, list[dict[str, Any]]]]:
    """An instance that keeps so many memories of a user, and the lines of one more, which it has refused."""
    limits = LimitsSettings(user=UserLimits(memories=most))
    settings = test_settings().model_copy(update={"limits": limits})
    file = [memory(f"m{number}", f"fact {number}") for number in range(most + 1)]
    async with serve_engine(make_engine(folder, settings=settings)) as api:
        content, headers = b"".join(msgspec.json.encode(one) + b"\n" for one in file), {"content-type": MEDIA_TYPE}
        refused = await api.ask("POST", "import", content=content, headers=headers)
        assert refused.status_code == 429
        assert refused.headers["retry-after"]
        yield api, file


async def test_an_import_over_the_quota_is_refused_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    async with room_for(2, tmp_path) as (api, file):
        assert (await api.bring(*file, dry_run=True))["imported"] == 3
        assert await api.page() == []


async def test_of_an_import_over_the_quota_the_rows_before_it_stay(tmp_path: Path) -> None:
    async with room_for(ROW + 1, tmp_path) as (api, _):
        # a row of the same user's is answered when those before it are applied
        await api.delete(session_id="none")
        assert len(read(await export(api), "memory")) == ROW


async def test_turns_of_one_id_in_several_conversations_come_in_and_go_out_again(own_api: Api, other: Api) -> None:
    told = await own_api.bring(turn("a", "hello"), turn("b", "good evening"), memory("1", "User likes tea"))
    assert counts(told, "imported", "unchanged") == (3, 0)
    exported = await export(own_api)
    assert sorted(one["content"] for one in read(exported, "memory")) == ["User likes tea", "good evening", "hello"]
    assert (await other.bring(exported))["imported"] == 3
    assert await export(other) == exported
    assert counts(await other.bring(exported)) == (0, 0, 3)


async def test_of_two_forms_of_a_memory_in_one_file_the_newer_stays_whichever_comes_first(own_api: Api) -> None:
    newer = memory("m1", "User likes coffee", updated_at="2025-01-01T00:00:00Z")
    told = await own_api.bring(newer, memory("m1", "User likes tea"), memory("m2", "x"), memory("m2", "x"))
    assert counts(told) == (2, 0, 2)
    assert {one["id"]: one["content"] for one in await own_api.page()} == {"m1": "User likes coffee", "m2": "x"}


async def test_a_conversation_in_which_one_id_names_two_messages_is_refused_and_the_others_are_taken(
    own_api: Api,
) -> None:
    def talk(session: str, *texts: str) -> dict[str, Any]:
        said = [{"role": "user", "content": text, "id": "1"} for text in texts]
        return {"turns": {"session_id": session, "messages": said}}

    told = await own_api.bring(talk("a", "hello", "goodbye"), talk("b", "hello", "hello"))
    assert counts(told, "turns", "rejected") == (2, 1)
    assert told["errors"][0]["line"] == 1
    assert told["errors"][0]["message"].startswith("messages.1.id: ")
    assert [one["session_id"] for one in await own_api.page()] == ["b"]
    again = await own_api.bring(talk("b", "something else"))
    assert [note for note in again["notes"] if "b" in note and "1" in note] == again["notes"] != []
    assert await contents(own_api) == ["hello"]


async def test_a_memory_that_is_expired_by_now_comes_in_and_is_not_there(own_api: Api) -> None:
    told = await own_api.bring(memory("m1", "x", expires_at="2020-01-01T00:00:00Z"))
    assert counts(told, "imported", "rejected") == (1, 0)
    assert await own_api.page() == []


@pytest.mark.parametrize("path", ["", "turns", "import"])
async def test_a_compressed_body_is_refused_with_what_to_do(own_api: Api, path: str) -> None:
    media = MEDIA_TYPE if path == "import" else "application/json"
    headers = {"content-type": media, "content-encoding": "gzip"}
    told = await own_api.ok("POST", path, status=415, content=gzip.compress(b"{}"), headers=headers)
    assert "uncompressed" in told["error"]["message"]


TOKENS = base64.b64encode(pack(np.random.default_rng(3).normal(size=(12, 384)).astype(np.float32))).decode()
EAST = base64.b64encode(packed([1.0] + [0.0] * (DIMENSION - 1))).decode()


def header(**other: Any) -> dict[str, Any]:
    return {"format": "memproxy", "version": 1, "embedder": NoEmbedder.name, "lexical": 0} | other


def line(name: str, tokens: str = TOKENS) -> dict[str, Any]:
    words = Bm25Encoder().encode_document(text := f"User likes tea {name}")
    vectors = {"dense": [EAST], "indices": words.indices, "values": words.values, "tokens": tokens}
    return memory(name, text) | {"vectors": vectors}


async def test_what_an_export_with_vectors_holds_comes_in_and_goes_out_again(own_api: Api) -> None:
    told = await own_api.bring(header(), line("m1"), line("m2", ""))
    assert counts(told, "imported", "rejected", "notes") == (2, 0, [])
    exported = read(await export(own_api, vectors=True), "vectors")
    assert sorted(vectors.get("tokens", "") for vectors in exported) == ["", TOKENS]
    assert [vectors["dense"] for vectors in exported] == [[EAST], [EAST]]


async def test_without_vectors_and_in_every_other_answer_there_are_none(own_api: Api) -> None:
    await own_api.bring(header(), line("m1"))
    calls: list[tuple[str, str, Any]] = [("GET", path, None) for path in ("export", "", "m1")]
    calls.append(("POST", "search", {"query": "tea"}))
    answers = [(await own_api.ask(method, path, json=body)).content for method, path, body in calls]
    assert all(b"User likes tea m1" in answer for answer in answers)
    assert not any(TOKENS.encode() in answer or b"token_vectors" in answer for answer in answers)


async def test_tokens_of_another_embedder_are_left_out_with_its_vectors(own_api: Api) -> None:
    told = await own_api.bring(header(embedder="another"), line("m1"))
    assert (told["imported"], len(told["notes"])) == (1, 1)
    (vectors,) = read(await export(own_api, vectors=True), "vectors")
    assert not {"tokens", "dense"} & vectors.keys()


async def test_tokens_that_are_none_are_refused(own_api: Api) -> None:
    huge = base64.b64encode(b"x" * (MOST_TOKEN_BYTES + 1)).decode()
    told = await own_api.bring(header(), line("m1", "%%"), line("m2", huge), line("m3"))
    assert counts(told, "imported", "rejected") == (1, 2)
    assert [one["message"] for one in told["errors"]] == [
        "vectors: must be base64",
        f"vectors: tokens must be at most {MOST_TOKEN_BYTES} bytes",
    ]
