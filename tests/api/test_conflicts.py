"""Contradictions that neither a slot nor a date settles: a person says what holds."""

from typing import Any

import httpx
import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def contradict(api: Api, **fields: Any) -> list[dict[str, Any]]:
    """Two statements that answer one question, stored side by side."""
    told = (
        ("Ann's budget for Hawaii is $10,000", None, "$10,000"),
        ("Ann's trip has a budget of $15,000", "trip", "$15,000"),
    )
    return [
        await api.store(text, subject="Ann", predicate="budget", object=amount, aspect=aspect, **fields)
        for text, aspect, amount in told
    ]


async def resolve(api: Api, name: str, keep: str, **arguments: Any) -> httpx.Response:
    return await api.call("POST", f"/v1/memory/conflicts/{name}", json={"keep": keep}, **arguments)


async def test_two_answers_to_one_question_are_listed_and_what_a_person_keeps_holds(api: Api) -> None:
    old, new = await contradict(api)
    await api.store("Ann lives in Oslo", subject="Ann", predicate="lives_in", object="Oslo")
    (conflict,) = await api.data("conflicts")
    assert conflict["reason"] == "same_question"
    assert {one["id"] for one in conflict["memories"]} == {old["id"], new["id"]}
    answer = await resolve(api, conflict["id"], new["id"])
    assert answer.status_code == 200, answer.text
    now = {one["id"]: one for one in answer.json()["data"]}
    assert (now[new["id"]]["active"], now[new["id"]]["supersedes"]) == (True, old["id"])
    assert (now[old["id"]]["active"], now[old["id"]]["superseded_by"]) == (False, new["id"])
    assert [one["id"] for one in await api.data(f"{new['id']}/history")] == [old["id"], new["id"]]
    assert await api.data("conflicts") == []
    assert (await resolve(api, conflict["id"], new["id"])).status_code == 404, "it is resolved"


@pytest.mark.parametrize(("keep", "active"), [("both", 2), ("neither", 0)])
async def test_both_or_neither_may_hold(api: Api, keep: str, active: int) -> None:
    await contradict(api)
    (conflict,) = await api.data("conflicts")
    assert (await resolve(api, conflict["id"], keep)).json()["keep"] == keep
    assert await api.data("conflicts") == []
    assert len(await api.page(active="true")) == active


async def test_what_is_kept_must_be_one_of_the_two(api: Api) -> None:
    await contradict(api)
    other = await api.store("Ann likes chess")
    (conflict,) = await api.data("conflicts")
    refused = await resolve(api, conflict["id"], other["id"])
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "keep")
    assert (await resolve(api, "conflict_none", "both")).status_code == 404
    assert len(await api.data("conflicts")) == 1


async def test_a_conflict_of_another_user_is_neither_listed_nor_resolved(api: Api) -> None:
    await contradict(api)
    (conflict,) = await api.data("conflicts")
    ben = api.identity("ben")
    assert await api.data("conflicts", identity=ben) == []
    for keep in ("both", conflict["memories"][0]["id"]):
        assert (await resolve(api, conflict["id"], keep, identity=ben)).status_code == 404
    assert len(await api.data("conflicts")) == 1


async def test_conflicts_are_paged(api: Api) -> None:
    for project in ("a", "b", "c"):
        await contradict(api, project_id=project)
    first = (await api.call("GET", "/v1/memory/conflicts", params={"limit": 2})).json()
    rest = await api.data("conflicts", limit=2, cursor=first["next_cursor"])
    assert len({one["id"] for one in [*first["data"], *rest]}) == 3


async def test_what_needs_permission_is_given_to_nobody_before_its_user_allows_it(api: Api) -> None:
    inferred = await api.store(
        "The user prefers a low-sodium diet", metadata={"inferred": True, "requires_user_permission": True}
    )
    asking = {"query": "Which diet do I prefer?"}
    assert (await api.call("POST", "/v1/memory/recall", json=asking)).json()["citations"] == []
    ben = await api.call(
        "PATCH",
        f"/v1/memory/{inferred['id']}",
        identity=api.identity("ben"),
        json={"metadata": {"requires_user_permission": False}},
    )
    assert ben.status_code == 404
    allowed = await api.call(
        "PATCH", f"/v1/memory/{inferred['id']}", json={"metadata": {"requires_user_permission": False}}
    )
    assert allowed.status_code == 200
    cited = (await api.call("POST", "/v1/memory/recall", json=asking)).json()["citations"]
    assert [one["memory_id"] for one in cited] == [inferred["id"]]
