"""Contradictions that neither a slot nor a date settles: a person says what holds."""

from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def contradict(api: Api, **fields: Any) -> tuple[str, str]:
    """Two statements that answer one question, stored side by side; their ids."""
    about: dict[str, Any] = {"subject": "Ann", "predicate": "budget", **fields}
    old = await api.store("Ann's budget for Hawaii is $10,000", object="$10,000", **about)
    new = await api.store("Ann's trip has a budget of $15,000", object="$15,000", aspect="trip", **about)
    return old["id"], new["id"]


async def resolve(api: Api, name: str, keep: str) -> Any:
    return await api.post(f"conflicts/{name}", keep=keep)


async def unresolved(api: Api, name: str, keep: str) -> int:
    return await api.status("POST", f"conflicts/{name}", json={"keep": keep})


async def test_two_answers_to_one_question_are_listed_and_what_a_person_keeps_holds(api: Api) -> None:
    old, new = await contradict(api)
    await api.store("Ann lives in Oslo", subject="Ann", predicate="lives_in", object="Oslo")
    (conflict,) = await api.data("conflicts")
    assert conflict["reason"] == "same_question"
    assert {one["id"] for one in conflict["memories"]} == {old, new}
    now = {one["id"]: one for one in (await resolve(api, conflict["id"], new))["data"]}
    assert (now[new]["active"], now[new]["supersedes"]) == (True, old)
    assert (now[old]["active"], now[old]["superseded_by"]) == (False, new)
    assert await api.history(new) == [old, new]
    assert await api.data("conflicts") == []
    assert await unresolved(api, conflict["id"], new) == 404, "it is resolved"


@pytest.mark.parametrize(("keep", "active"), [("both", 2), ("neither", 0)])
async def test_both_or_neither_may_hold(api: Api, keep: str, active: int) -> None:
    await contradict(api)
    (conflict,) = await api.data("conflicts")
    assert (await resolve(api, conflict["id"], keep))["keep"] == keep
    assert await api.data("conflicts") == []
    assert len(await api.page(active="true")) == active


async def test_what_is_kept_must_be_one_of_the_two(api: Api) -> None:
    await contradict(api)
    other = await api.store("Ann likes chess")
    (conflict,) = await api.data("conflicts")
    refused = await api.refused("POST", f"conflicts/{conflict['id']}", json={"keep": other["id"]})
    assert refused == (400, "keep")
    assert await unresolved(api, "conflict_none", "both") == 404
    assert len(await api.data("conflicts")) == 1


async def test_a_conflict_of_another_user_is_neither_listed_nor_resolved(api: Api) -> None:
    old, _ = await contradict(api)
    (conflict,) = await api.data("conflicts")
    ben = api.by(api.identity("ben"))
    assert await ben.data("conflicts") == []
    for keep in ("both", old):
        assert await unresolved(ben, conflict["id"], keep) == 404
    assert len(await api.data("conflicts")) == 1


async def test_conflicts_are_paged(api: Api) -> None:
    for project in ("a", "b", "c"):
        await contradict(api, project_id=project)
    assert len({one["id"] for one in await api.walk("conflicts", limit=2)}) == 3


async def test_what_needs_permission_is_given_to_nobody_before_its_user_allows_it(api: Api) -> None:
    metadata = {"inferred": True, "requires_user_permission": True}
    name = (await api.store("The user prefers a low-sodium diet", metadata=metadata))["id"]
    assert (await api.recall("Which diet do I prefer?"))["citations"] == []
    allowed: dict[str, Any] = {"metadata": {"requires_user_permission": False}}
    assert await api.status("PATCH", name, identity=api.identity("ben"), json=allowed) == 404
    await api.edit(name, **allowed)
    assert [one["memory_id"] for one in (await api.recall("Which diet do I prefer?"))["citations"]] == [name]
