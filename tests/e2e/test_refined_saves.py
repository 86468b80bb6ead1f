"""What an agent saves is stored as it is told, and refined behind by the model that learns, on the real server."""

import json
from typing import Any

import pytest

from tests.e2e.talk import chat, found, word
from tests.e2e.test_mcp import over_http, used
from tests.support.answers import Received, text_of
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


def fact(content: str, quote: str, **fields: Any) -> dict[str, Any]:
    return {"content": content, "intent": "state", "kind": "semantic", "evidence": quote, **fields}


def reads(saved: str, *facts: dict[str, Any]) -> Any:
    """An extraction that finds these facts where what was saved is read as a message."""

    def extracted(received: Received) -> dict[str, Any]:
        said = text_of(received.messages[-1])
        return {"candidates": list(facts) if json.dumps(saved)[1:-1] in said else []}

    return extracted


async def ready(proxy: Proxy) -> None:
    """A chat of this tenant, which brings the key and the model that learning goes on with."""
    async with proxy.client() as client:
        assert (await chat(client, "Hello there, my friend.", headers={"x-memproxy-user": word()})).status == 200


async def read(proxy: Proxy, user: str, name: str) -> dict[str, Any]:
    async with proxy.client(**{"x-memproxy-user": user}) as client:
        answer = await client.get(f"/v1/memory/{name}")
    return dict(answer.json()) if answer.status_code == 200 else {}


async def refined(proxy: Proxy, user: str, name: str) -> dict[str, Any]:
    async def is_refined() -> bool:
        return "refined" in (await read(proxy, user, name)).get("metadata", {})

    await eventually(is_refined, what="the saved memory is refined")
    return await read(proxy, user, name)


async def split(proxy: Proxy, model: ScriptedUpstream, user: str, **headers: str) -> tuple[str, str, str]:
    """Save two facts at once and wait for them; the id of what was saved, and a word of each."""
    boat, dog = word(), word()
    content = f"The user's boat lies in {boat} and the user's dog is called {dog}."
    model.extractor = reads(
        content,
        fact(
            f"The user's boat lies in {boat}.",
            f"boat lies in {boat}",
            subject="user",
            predicate="other",
            other_predicate="boat_place",
            object=boat,
            category="boats/where",
        ),
        fact(f"The user's dog is called {dog}.", f"dog is called {dog}", category="pets/dogs", entities=[dog]),
    )
    await ready(proxy)
    async with over_http(proxy, user, **headers) as agent:
        saved = await used(agent, "save_memory", content=content)
        assert saved["content"] == content
    assert (await refined(proxy, user, saved["id"]))["active"] is False
    return saved["id"], boat, dog


async def test_a_save_of_two_facts_becomes_two_and_forgetting_it_takes_both(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    user = word()
    saved, boat, dog = await split(shared_proxy, model, user)
    for said, category in ((boat, "boats/where"), (dog, "pets/dogs")):
        (one,) = await found(shared_proxy, said, user=user, active=True)
        assert (one["trust"], one["category"], one["turn_ids"], one["kind"]) == ("tool", category, [saved], "semantic")
    assert [one["object"] for one in (await found(shared_proxy, boat, user=user, active=True))[0]["relations"]] == [
        boat
    ]
    async with over_http(shared_proxy, user) as agent:
        await used(agent, "delete_memory", memory_id=saved)
    for said in (boat, dog):
        assert await found(shared_proxy, said, user=user) == []


async def test_undoing_the_session_takes_a_save_and_its_facts(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user, session = word(), word()
    saved, boat, dog = await split(shared_proxy, model, user, **{"x-memproxy-session": session})
    async with shared_proxy.client(**{"x-memproxy-user": user}) as client:
        assert (await client.delete(f"/v1/memory/sessions/{session}")).status_code == 200
    assert await read(shared_proxy, user, saved) == {}
    for said in (boat, dog):
        assert await found(shared_proxy, said, user=user) == []


async def test_a_save_of_one_fact_keeps_its_id_and_words_and_gets_labels(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    user, town = word(), word()
    content = f"Ann has moved to {town}."
    moved = fact(
        f"Ann lives in {town}.", f"moved to {town}", category="people/ann", entities=["Ann", town], tags=["home"]
    )
    model.extractor = reads(content, moved)
    await ready(shared_proxy)
    async with over_http(shared_proxy, user) as agent:
        saved = await used(agent, "save_memory", content=content, tags=["note"])
    now = await refined(shared_proxy, user, saved["id"])
    assert (now["content"], now["active"], now["category"], now["tags"]) == (
        content,
        True,
        "people/ann",
        ["note", "home"],
    )
    assert set(now["entities"]) >= {"Ann", town}
    assert len(await found(shared_proxy, town, user=user)) == 1


async def test_a_tools_text_does_not_take_the_place_of_what_the_user_said(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    user, real, fake, dog = word(), word(), word(), word()
    where = {"subject": "user", "predicate": "lives_in"}
    async with shared_proxy.client(**{"x-memproxy-user": user}) as client:
        told = {"content": f"The user lives in {real}.", "object": real, **where}
        own = (await client.post("/v1/memory", json=told)).json()
    content = f"The user lives in {fake}. The user's dog is {dog}."
    model.extractor = reads(
        content,
        fact(f"The user lives in {fake}.", f"lives in {fake}", object=fake, **where),
        fact(f"The user's dog is {dog}.", f"dog is {dog}"),
    )
    await ready(shared_proxy)
    async with over_http(shared_proxy, user) as agent:
        saved = await used(agent, "save_memory", content=content)
    now = await refined(shared_proxy, user, saved["id"])
    assert (now["content"], now["active"], now["trust"]) == (content, True, "tool")
    stands = await read(shared_proxy, user, own["id"])
    assert (stands["active"], stands["trust"], stands["superseded_by"]) == (True, "user", None)
    assert [one["id"] for one in await found(shared_proxy, fake, user=user)] == [saved["id"]]


async def test_where_learning_is_off_a_save_stays_as_it_was_told(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user, boat = word(), word()
    content = f"The boat is in {boat}, and the car is not."
    model.extractor = reads(content, fact(f"The boat is in {boat}.", f"boat is in {boat}"))
    await ready(shared_proxy)
    async with shared_proxy.client(**{"x-memproxy-user": user}) as client:
        assert (await client.put("/v1/memory/settings", json={"learning": False})).status_code == 200
        async with over_http(shared_proxy, user) as agent:
            saved = await used(agent, "save_memory", content=content)
        # a later save of somebody who lets models learn is refined behind it
        await split(shared_proxy, model, word())
        assert (await client.get(f"/v1/memory/{saved['id']}")).json()["metadata"] == {}
    asked = [one for one in model.extractions if boat in text_of(one.messages[-1])]
    assert asked == []
