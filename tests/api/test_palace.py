"""The palace: where memories stand, as a caller walks through it."""

import re
from typing import Any

import pytest

from memproxy.core.scope import Scope
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

TALK = ["My budget for the Hawaii trip is $10,000", "A budget of $10,000 is plenty for Hawaii", "What about hotels?"]


async def test_one_walks_from_wings_to_the_verbatim_turns(api: Api) -> None:
    ids = await api.say("s1", *TALK)
    (wing,) = await api.data("palace")
    assert (wing["level"], wing["name"], wing["pointer"]) == ("wing", "user", "W-001")
    assert (wing["memories"], wing["turns"], wing["facts"]) == (3, 3, 0)
    (room,) = await api.data("palace", wing="user")
    assert (room["level"], room["name"], room["pointer"], room["turns"]) == ("room", "s1", "W-001/R-01", 3)
    (closet,) = await api.data("palace", wing="user", room="s1")
    assert (closet["level"], closet["turns"], closet["pointer"]) == ("closet", 3, "W-001/R-01")
    drawers = await api.data("palace", wing="user", room="s1", closet=closet["name"])
    assert {drawer["memory"]["content"] for drawer in drawers} == set(TALK)
    assert {drawer["name"] for drawer in drawers} == set(ids)
    assert {drawer["pointer"] for drawer in drawers} == {f"W-001/R-01/D-00{n}" for n in (1, 2, 3)}


async def test_beside_its_wing_a_room_goes_by_the_last_part_of_its_pointer_too(api: Api) -> None:
    for session, text in (("s1", "Biscuit is a beagle"), ("R-01", "Biscuit likes carrots"), ("s3", "Biscuit barks")):
        await api.store(text, subject="Biscuit", session_id=session)
    rooms = {room["name"]: room["pointer"] for room in await api.data("palace", wing="Biscuit")}
    assert rooms == {"s1": "W-001/R-01", "R-01": "W-001/R-02", "s3": "W-001/R-03"}
    for wing in ("W-001", "biscuit"):
        asked = {said: await api.data("palace", wing=wing, room=said) for said in ("R-03", "r-3", "s3", "W-001/R-03")}
        assert len({str(closets) for closets in asked.values()}) == 1
        assert [closet["pointer"] for closet in asked["R-03"]] == ["W-001/R-03"]
        assert [one["content"] for one in await api.page(wing=wing, room="R-03")] == ["Biscuit barks"]
        assert [one["content"] for one in await api.page(wing=wing, room="R-01")] == ["Biscuit likes carrots"]
        assert await api.data("palace", wing=wing, room="R-04") == []
    assert await api.refused("GET", "palace?room=R-03") == (400, "wing")


async def test_all_names_of_a_subject_are_one_wing(api: Api) -> None:
    first = await api.store("Biscuit is a beagle", subject="My dog Biscuit", session_id="s1")
    others = [
        await api.store("Biscuit likes carrots", subject="biscuit", session_id="s2"),
        await api.store("The dog sleeps a lot", subject="the user's dog", session_id="s2"),
    ]
    assert {memory["wing"] for memory in (first, *others)} == {"biscuit"}
    (wing,) = await api.data("palace")
    assert (wing["name"], wing["aliases"], wing["facts"]) == ("biscuit", ["dog"], 3)
    for said in ("My dog Biscuit", "dog", "Biscuit", wing["pointer"]):
        assert [room["name"] for room in await api.data("palace", wing=said)] == ["s1", "s2"]
        assert len(await api.page(wing=said)) == 3
    assert len(await api.search("carrots", wing=["my dog"], room="s2")) == 1
    assert [memory["content"] for memory in await api.page(room=first["pointer"])] == ["Biscuit is a beagle"]
    assert await api.page(wing="Rex") == []


async def test_the_users_own_name_names_the_users_wing(api: Api) -> None:
    await api.store("User's name is Ana", subject="user", predicate="name", object="Ana")
    memory = await api.store("User likes tea", subject="user", predicate="likes", object="tea", category="drinks/hot")
    stands = [memory[level] for level in ("wing", "room", "closet", "pointer")]
    assert stands == ["ana", "direct", "drinks", "W-001/R-01"]
    assert len(await api.page(wing="user")) == len(await api.page(wing="Ana")) == 2
    assert [memory["content"] for memory in await api.page(closet="Drinks")] == ["User likes tea"]


async def test_turns_about_a_known_subject_stand_in_its_wing(api: Api) -> None:
    await api.store("Biscuit is a beagle", subject="Biscuit")
    await api.say("walk", "I walked Biscuit this morning", "Biscuit's leash broke", "Where can I buy one?")
    await api.say("walk", "Thanks, and what about the weather?")
    turns = await api.page(kind="turn")
    assert {turn["wing"] for turn in turns} == {"biscuit"}
    assert sorted(turn["pointer"] for turn in turns) == [f"W-001/R-02/D-00{n}" for n in (1, 2, 3, 4)]


async def test_a_pointer_is_as_the_contract_writes_it_stays_and_never_gets_another_meaning(api: Api) -> None:
    await api.say("s1", *TALK)
    before = await api.page()
    assert all(re.fullmatch(r"W-\d{3}/R-\d{2}/D-\d{3}", turn["pointer"]) for turn in before)
    await api.say("s1", *TALK)
    assert await api.page() == before, "the same turns again change none"
    kept = await api.store("User likes tea", subject="user", session_id="s2")
    await api.delete("sessions/s1")
    await api.say("s1", "Something else entirely")
    (turn,) = await api.page(kind="turn")
    assert turn["pointer"] == "W-001/R-03/D-001"
    assert (await api.page(session_id="s2"))[0]["pointer"] == kept["pointer"] == "W-001/R-02"
    assert [room["pointer"] for room in await api.data("palace", wing="user")] == ["W-001/R-02", "W-001/R-03"]


async def test_what_is_forgotten_leaves_no_name_behind(api: Api) -> None:
    memory = await api.store("Biscuit is a beagle", subject="Biscuit", session_id="s1")
    state, scope = api.engine.backends().state, Scope(tenant=api.tenant, user="default")
    assert "biscuit" in await state.palace_names(scope)
    await api.delete(memory["id"])
    assert await state.palace_names(scope) == {}
    again = await api.store("Biscuit is a beagle", subject="Biscuit")
    assert again["pointer"] == "W-002/R-01"
    await api.delete("users/default")
    assert await state.palace_names(scope) == {}
    assert await state.palace(scope, "", after=0, limit=10) == []


async def test_another_user_or_project_sees_no_place_of_it(api: Api) -> None:
    await api.store("Atlas ships in May", subject="project Atlas", project_id="p", session_id="s1")
    assert await api.data("palace", user_id="other") == []
    assert await api.data("palace", project_id="q") == []
    assert await api.data("palace", project_id="q", wing="atlas") == []
    assert [wing["name"] for wing in await api.data("palace", project_id="p")] == ["atlas"]


async def test_a_name_told_in_one_project_names_nothing_in_another(api: Api) -> None:
    told: dict[str, Any] = {"subject": "Nightjar", "predicate": "is called", "object": "Lloyds"}
    await api.store("Nightjar stands for Lloyds", **told, project_id="atlas")
    await api.store("Rex is a dog", subject="My dog Rex")

    async def aliases(**query: Any) -> dict[str, list[str]]:
        return {one["name"]: one["aliases"] for one in await api.data("palace", **query)}

    assert await aliases() == {"lloyds": ["nightjar"], "rex": ["dog"]}
    other = await api.store("Nightjar sings at dusk", subject="Nightjar", project_id="apollo")
    own = await api.store("Nightjar wants a report", subject="Nightjar", project_id="atlas")
    assert (other["wing"], own["wing"]) == ("nightjar", "lloyds")
    assert await aliases(project_id="apollo") == {"nightjar": [], "rex": ["dog"]}
    assert await aliases(project_id="atlas") == {"lloyds": ["nightjar"], "rex": ["dog"]}
    assert await api.data("palace", project_id="apollo", wing="Lloyds") == []
    assert (await api.edit(own["id"], project_id="apollo"))["wing"] == "nightjar"
    back = await api.edit(own["id"], project_id="atlas")
    assert (back["wing"], back["pointer"]) == ("lloyds", own["pointer"])
    assert [one["content"] for one in await api.page(project_id="apollo", wing="Nightjar")] == [other["content"]]
    found = await api.data("entities", project_id="apollo")
    assert {one["name"] for one in found} == {"Nightjar", "My dog Rex"}
    for name in ("Nightjar", "Lloyds"):
        for project, facts in (("atlas", 1), ("apollo", 0)):
            assert len(await api.data(f"entities/{name}/timeline", project_id=project)) == facts, (name, project)


async def test_a_users_name_told_in_a_project_is_another_name_of_the_wing_there(api: Api) -> None:
    named: dict[str, Any] = {"subject": "user", "predicate": "name", "object": "Ana"}
    await api.store("User's name is Ana", **named, project_id="atlas")
    fact = await api.store("User likes tea", subject="user")
    assert fact["wing"] == "user"
    assert len(await api.page(project_id="atlas", wing="Ana")) == 2
    assert await api.page(project_id="apollo", wing="Ana") == []


async def test_levels_are_paged(api: Api) -> None:
    for n in range(5):
        await api.store(f"Thing {n}", subject=f"Thing {n}")
    assert [wing["name"] for wing in await api.walk("palace", limit=2)] == [f"thing-{n}" for n in range(5)]


async def test_a_fact_moves_with_its_subject_and_its_conversation(api: Api) -> None:
    memory = await api.store("Likes carrots", subject="Rex", session_id="s1")
    assert (memory["wing"], memory["pointer"]) == ("rex", "W-001/R-01")
    name = memory["id"]
    moved = await api.edit(name, subject="Biscuit")
    assert (moved["wing"], moved["room"], moved["pointer"]) == ("biscuit", "s1", "W-002/R-01")
    moved = await api.edit(name, session_id="s2", category="food")
    assert (moved["wing"], moved["room"], moved["closet"], moved["pointer"]) == ("biscuit", "s2", "food", "W-002/R-02")
    assert [room["name"] for room in await api.data("palace", wing="biscuit")] == ["s2"]
    assert await api.data("palace", wing="rex") == []
    assert (await api.edit(name, importance=0.9))["pointer"] == "W-002/R-02"


async def closets(api: Api) -> set[str]:
    """The topics that are in the state's file, whether anything is left in them or not."""
    rows = await api.engine.backends().state.palace_rows(Scope(tenant=api.tenant, user="default"))
    return {row.name for row in rows if row.kind == "closet"}


async def test_a_topic_that_a_memory_left_is_forgotten_when_nothing_else_is_in_it(api: Api) -> None:
    memory = await api.store("Tea is nice", category="drinks", subject="user")
    for category, left in (("hobbies", {"hobbies"}), ("hobbies/knitting", {"hobbies"})):
        await api.edit(memory["id"], category=category)
        assert await closets(api) == left
    await api.store("Coffee", category="hobbies", subject="user")
    await api.edit(memory["id"], category="drinks")
    assert await closets(api) == {"hobbies", "drinks"}


async def test_topics_of_a_project_that_was_deleted_are_left_nowhere(api: Api) -> None:
    kept = await api.store("The allotment needs water", category="gardening", session_id="s1")
    await api.store("The launch slipped", category="zebulon-launch", session_id="s1", project_id="atlas")
    await api.store("Tomatoes of the project", category="gardening", session_id="s1", project_id="atlas")
    await api.store("Another launch", category="launches", session_id="s1", project_id="apollo")
    for name, project, agent in (("nightjar", "atlas", "coder"), ("dusk", "atlas2", None)):
        told: dict[str, Any] = {"predicate": "is called", "object": "Lloyds", "category": "launches"}
        told |= {"subject": name, "project_id": project, "agent_id": agent}
        await api.store(f"{name} is called Lloyds", **told)
    await api.store("Lloyds is a bank", subject="Lloyds", category="launches")
    assert await closets(api) == {"gardening", "zebulon-launch", "launches"}
    assert await api.delete(user_id="default", project_id="atlas") == 3
    assert await closets(api) == {"gardening", "launches"}
    rows = await api.engine.backends().state.palace_rows(Scope(tenant=api.tenant, user="default"))
    assert {row.name for row in rows if row.kind == "alias"} == {"dusk"}
    again = await api.store("Beans", category="gardening", session_id="s1")
    assert again["pointer"] == kept["pointer"]
