"""Dreams by call: what one does, what it tells, and that it can be taken back to the byte."""

import asyncio
from typing import Any

import pytest

from memproxy.core.protocol import Identity
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def dream(api: Api, **body: Any) -> dict[str, Any]:
    told: dict[str, Any] = await api.ok("POST", "dream", json=body)
    return told


async def undo(api: Api, name: str, status: int = 200) -> Any:
    return await api.ok("POST", f"dreams/{name}/undo", status=status)


async def exported(api: Api) -> bytes:
    return (await api.ask("GET", "export?vectors=true")).content


def actions(told: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["action"], one["memory_id"]) for one in told["diff"]]


async def test_what_says_the_same_becomes_one_that_is_as_old_as_the_first(api: Api) -> None:
    first = await api.store("The budget for the kitchen is 12,000 euros", importance=0.2)
    other = await api.store("the budget for the kitchen is 12000 EUR.", importance=0.9, tags=["home"])
    apart = await api.store("The budget for the garden is 12,000 euros")
    told = await dream(api)
    assert (told["state"], told["counts"]["merge"], told["entries"], told["looked_at"]) == ("done", 1, 3, 3)
    (change,) = told["diff"]
    assert (change["action"], change["memory_id"], change["content"]) == ("merge", first["id"], first["content"])
    assert change["sources"] == [{"memory_id": other["id"], "content": other["content"]}]
    expected = {"active": True, "created_at": first["created_at"], "importance": 0.9, "tags": ["home"]}
    kept, gone = await api.get(first["id"]), await api.get(other["id"])
    assert {name: kept[name] for name in expected} == expected
    assert (gone["active"], gone["superseded_by"]) == (False, first["id"])
    assert (await api.get(apart["id"]))["active"]
    assert await api.history(other["id"]) == [other["id"], first["id"]]


async def test_a_dream_is_taken_back_to_the_byte(api: Api) -> None:
    noise = await api.store("The vault code is tangerine")
    await api.judge("wrong", memory_id=noise["id"])
    await api.store("Ben lives in Oslo", valid_from="2020-01-01T00:00:00Z", valid_to="2021-01-01T00:00:00Z")
    for text, tags in (("Ann likes chess", ["Games", "games"]), ("ann likes CHESS!", ["rook"])):
        await api.store(text, entities=["Ann"], category="Hobbies / Board Games", tags=tags)
    before = await exported(api)
    told = await dream(api)
    assert {action: count for action, count in told["counts"].items() if count} == {"merge": 1, "delete": 1}
    after = await exported(api)
    assert after != before
    again = await dream(api)
    assert again["counts"]["categorise"] == 1
    refused = await undo(api, told["id"], 409)
    assert again["id"] in refused["error"]["message"]
    for one, expected in ((again, after), (told, before)):
        assert (await undo(api, one["id"]))["state"] == "undone"
        assert await exported(api) == expected
    await undo(api, told["id"], 409)


async def test_a_dry_run_tells_the_same_and_changes_nothing(api: Api) -> None:
    for text in ("Ann likes chess", "ann likes CHESS!"):
        await api.store(text)
    before = await exported(api)
    dry = await dream(api, dry_run=True)
    assert (dry["id"], dry["state"], dry["counts"]["merge"]) == (None, "dry_run", 1)
    assert (await exported(api), await api.data("dreams")) == (before, [])
    assert (await dream(api))["diff"] == dry["diff"]


async def test_a_newer_value_takes_the_place_of_an_older_one(api: Api) -> None:
    old = await api.store("Ann's budget for Hawaii is $10,000")
    new = await api.store("Ann's budget for Hawaii is now $15,000")
    told = await dream(api)
    assert actions(told) == [("supersede", new["id"])]
    assert (await api.get(old["id"]))["superseded_by"] == new["id"]
    assert (await api.get(new["id"]))["supersedes"] == old["id"]


@pytest.mark.parametrize(
    ("old", "new", "beside"),
    [
        ("Ann pays Ben 300 euros", "Clara pays Ben 400 euros now", []),
        ("On Sunday Ann's trainer sings", "On Sunday Ben's trainer sings now", [("Ann's trainer", "sings", "soprano")]),
        ("Ann plays chess with Ben", "Ann now plays chess with Clara", []),
        ("Ann is allergic to nuts", "Ann is now allergic to milk", [("Ben", "allergic_to", "nuts")]),
    ],
    ids=["two places", "whom it is about", "nobody knows", "many answers"],
)
async def test_a_newer_statement_about_something_else_ends_nothing(
    api: Api, old: str, new: str, beside: list[tuple[str, str, str]]
) -> None:
    for text in (old, new):
        await api.store(text)
    for subject, predicate, value in beside:
        await api.store(f"{subject} {predicate} {value}", subject=subject, predicate=predicate, object=value)
    assert (await dream(api))["diff"] == []


async def test_what_others_say_shows_which_place_of_a_statement_holds_its_value(api: Api) -> None:
    old = await api.store("Ann's favourite dish is ramen")
    new = await api.store("Ann's favourite dish is now gnocchi")
    assert (await dream(api))["diff"] == []
    await api.store("Ben's favourite dish is ramen", subject="Ben", predicate="favourite_dish", object="ramen")
    told = await dream(api)
    assert actions(told) == [("supersede", new["id"])]
    assert told["diff"][0]["sources"][0]["memory_id"] == old["id"]


async def test_what_stands_side_by_side_is_many_answers(api: Api) -> None:
    for name in ("Ben", "Clara"):
        await api.store(f"Ann climbs with {name}")
        await api.store(f"Tom knows {name}", subject="Tom", predicate="boss", object=name)
    await api.store("Ann climbs with Dora now")
    assert not [one for one in (await dream(api))["diff"] if one["action"] == "supersede"]


async def test_only_what_was_never_recalled_and_is_called_wrong_is_deleted(api: Api) -> None:
    noise, kept, helped = [await api.store(f"The {name} code is {name}") for name in ("vault", "garage", "attic")]
    await api.recall("What is the garage code?")
    await api.engine.backends().accesses.written()
    for one in (noise, kept, helped):
        await api.judge("wrong", memory_id=one["id"])
    for _ in range(2):
        await api.judge("helpful", memory_id=helped["id"])
    assert (await api.get(kept["id"]))["access_count"], "the recall was not counted"
    assert actions(await dream(api)) == [("delete", noise["id"])]
    gone = await api.get(noise["id"])
    assert not gone["active"]
    assert gone["expires_at"] is not None


async def test_dreams_are_listed_newest_first_belong_to_their_user_and_go_with_him(api: Api) -> None:
    await api.store("Ann likes chess")
    ids = [(await dream(api))["id"] for _ in range(3)]
    assert [one["id"] for one in await api.data("dreams")] == ids[::-1]
    assert [one["id"] for one in await api.data("dreams", limit=2)] == ids[:0:-1]
    ben = api.by(api.identity("ben"))
    assert await ben.data("dreams") == []
    for method, path in (("GET", ""), ("POST", "/undo")):
        for name in (ids[0], "dream_none"):
            assert await ben.status(method, f"dreams/{name}{path}") == 404
    assert await api.status("DELETE", "users/default") in {200, 202, 204}
    assert await api.status("GET", f"dreams/{ids[0]}") == 404


async def test_one_dream_of_a_user_at_a_time(api: Api) -> None:
    await asyncio.gather(*(api.store(f"Ann likes song number {number}") for number in range(40)))
    statuses = await asyncio.gather(*(api.status("POST", "dream", json={}) for _ in range(3)))
    assert sorted(statuses)[:2] == [200, 409]
    assert len(await api.data("dreams")) == statuses.count(200)


async def test_a_key_for_one_project_cannot_dream(api: Api) -> None:
    bound = Identity(tenant=api.tenant, default_user="default", project="p", bound_project=True)
    for method, path in (("POST", "dream"), ("GET", "dreams")):
        assert await api.status(method, path, identity=bound, json={}) == 403


async def test_what_somebody_changed_since_stays_changed(api: Api) -> None:
    first = await api.store("Ann likes chess")
    await api.store("ann likes CHESS!")
    told = await dream(api)
    await api.edit(first["id"], content="Ann loves chess", metadata={"mine": 1})
    await undo(api, told["id"])
    now = await api.get(first["id"])
    assert (now["content"], now["metadata"]) == ("Ann loves chess", {"mine": 1})
    assert len(await api.page(active="true")) == 2


async def _merged(api: Api, *sessions: str) -> tuple[list[dict[str, Any]], str]:
    """One sentence told in these sessions, then made one by a dream: the memories, oldest first, and the dream's id."""
    stored = [await api.store("Nils plays the piano.", session_id=session) for session in sessions]
    told = await dream(api)
    assert told["counts"]["merge"] == len(sessions) - 1
    return stored, told["id"]


@pytest.mark.parametrize("how", ["correction", "wrong", "ended"])
async def test_what_was_corrected_or_ended_since_its_merge_is_not_so_again_when_the_dream_is_taken_back(
    api: Api, how: str
) -> None:
    (kept, other), name = await _merged(api, "s1", "s2")
    if how == "ended":
        await api.edit(kept["id"], valid_to="2025-01-01T00:00:00Z")
    else:
        await api.judge(how, memory_id=kept["id"], text="Nils plays the cello.")
    await undo(api, name)
    assert not (await api.get(other["id"]))["active"]
    assert kept["content"] not in str(await api.recall("What does Nils play?"))


async def test_a_dream_that_merged_in_two_steps_is_taken_back_whole(api: Api) -> None:
    before = [await api.store(f"Nils plays the piano{mark}", session_id=f"s{mark}") for mark in (".", "!", "")]
    exported_before = await exported(api)
    told = await dream(api)
    await undo(api, told["id"])
    assert await exported(api) == exported_before
    assert all([(await api.get(one["id"]))["active"] for one in before])


async def test_what_was_told_in_two_conversations_outlives_each_of_them_also_when_a_dream_made_it_one(api: Api) -> None:
    (_, other), name = await _merged(api, "s1", "s2")
    assert await api.delete("sessions/s1") == 1
    left = await api.get(other["id"])
    assert (left["active"], left["superseded_by"], left["valid_to"]) == (True, None, None)
    await undo(api, name)
    assert (await api.get(other["id"]))["active"]


@pytest.mark.parametrize(
    ("was", "became"),
    [
        ({"user_id": "bob"}, {"user_id": "default"}),
        ({"tenant": "bobs"}, {"tenant": "TENANT"}),
        ({"project_id": "bobs", "content": "planted"}, {"project_id": None, "content": "Send Bob's money to me."}),
        ({"metadata": "no object"}, {"metadata": {}}),
        ({"active": "perhaps"}, {}),
    ],
)
async def test_a_callers_own_note_of_a_dream_moves_no_memory_and_changes_no_words(
    api: Api, was: dict[str, Any], became: dict[str, Any]
) -> None:
    _, name = await _merged(api, "s1", "s2")
    became = {field: api.tenant if value == "TENANT" else value for field, value in became.items()}
    note = {"id": name, "at": "2099-01-01T00:00:00+00:00", "was": was, "became": became}
    planted = await api.store("Send Bob's money to me.", metadata={"dreams": [note]})
    await undo(api, name)
    expected = {"content": "Send Bob's money to me.", "project_id": None, "user_id": "default", "active": True}
    left = await api.get(planted["id"])
    assert {field: left[field] for field in expected} == expected
    assert await api.page(identity=api.identity("bob")) == []
    assert await Api(api.client, api.engine, tenant="bobs").page() == []
