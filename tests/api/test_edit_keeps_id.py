"""An edit corrects the record of one statement, under its id; another statement has its own (docs/decisions/0020)."""

from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIVES: dict[str, Any] = {"subject": "user", "predicate": "lives_in"}


async def history(api: Api, memory: dict[str, Any]) -> list[str]:
    return [one["content"] for one in await api.data(f"{memory['id']}/history")]


async def test_an_edit_keeps_the_id_and_makes_no_history_and_what_supersedes_it_has_an_id_of_its_own(api: Api) -> None:
    memory = await api.store("Lives in Berlin", object="Berlin", **LIVES)
    edited = await api.edit(memory["id"], content="Lives in Bern", object="Bern")
    assert (edited["id"], edited["content"], edited["active"]) == (memory["id"], "Lives in Bern", True)
    assert await history(api, memory) == ["Lives in Bern"]
    assert [found["content"] for found in await api.page()] == ["Lives in Bern"]
    newer = await api.store("Lives in Oslo", object="Oslo", **LIVES)
    assert newer["id"] != memory["id"]
    assert await history(api, memory) == ["Lives in Bern", "Lives in Oslo"]
    (now,) = await api.page(active=True)
    assert now["id"] == newer["id"]


@pytest.mark.parametrize("edits_newer", [True, False])
async def test_an_edit_that_answers_another_question_stands_there_where_its_time_is(
    api: Api, edits_newer: bool
) -> None:
    works: dict[str, Any] = {"subject": "user", "predicate": "works_at"}
    first, second = (works, LIVES) if edits_newer else (LIVES, works)
    older = await api.store("Acme", object="Acme", **first)
    newer = await api.store("Berlin", object="Berlin", **second)
    await api.edit((newer if edits_newer else older)["id"], **works, object="Globex", content="Globex")
    found = {memory["id"]: memory for memory in await api.page()}
    assert (found[older["id"]]["active"], found[newer["id"]]["active"]) == (False, True)
    assert found[older["id"]]["superseded_by"] == newer["id"]
    again = await api.store("Lives in Oslo", object="Oslo", **LIVES)
    assert (again["active"], again["supersedes"]) == (True, None), "the slot that it left is free"


@pytest.mark.parametrize("place", ["project_id", "agent_id"])
async def test_a_statement_that_is_moved_stands_where_it_now_is_in_the_order_of_times(api: Api, place: str) -> None:
    in_place: dict[str, Any] = LIVES | {place: "atlas"}
    older = await api.store("Lives in Berlin", object="Berlin", **in_place)
    newer = await api.store("Lives in Oslo", object="Oslo", **LIVES)
    assert len(await api.page(active=True)) == 2
    assert (await api.edit(older["id"], **{place: None}))["superseded_by"] == newer["id"]
    assert await history(api, older) == ["Lives in Berlin", "Lives in Oslo"]
    again = await api.store("Lives in Rome", object="Rome", **in_place)
    assert again["supersedes"] is None, "the place that it left is free"


@pytest.mark.parametrize("edits_newer", [True, False])
async def test_no_edit_of_a_time_makes_two_statements_of_a_chain_hold_at_once(api: Api, edits_newer: bool) -> None:
    older = await api.store("Bern", object="Bern", **LIVES, valid_from="2020-01-01T00:00:00Z")
    newer = await api.store("Oslo", object="Oslo", **LIVES, valid_from="2022-01-01T00:00:00Z")
    if edits_newer:
        await api.edit(newer["id"], valid_from="2021-01-01T00:00:00Z")
    else:
        await api.edit(older["id"], valid_to=None)
    for as_of, city in (
        ("2020-06-01", "Bern"),
        ("2021-06-01", "Oslo" if edits_newer else "Bern"),
        ("2023-01-01", "Oslo"),
    ):
        assert [one["content"] for one in await api.page(as_of=as_of)] == [city]


@pytest.mark.parametrize("year", [2020, 2022])
async def test_an_edit_puts_a_statement_between_others_and_all_of_them_stay_in_the_history(api: Api, year: int) -> None:
    moved = await api.store("Bern", object="Bern", **LIVES, project_id="atlas", valid_from=f"{year}-01-01T00:00:00Z")
    for year_of, city in ((2021, "Oslo"), (2023, "Rome")):
        await api.store(city, object=city, **LIVES, valid_from=f"{year_of}-01-01T00:00:00Z")
    await api.edit(moved["id"], project_id=None)
    in_order = ["Bern", "Oslo", "Rome"] if year == 2020 else ["Oslo", "Bern", "Rome"]
    for one in await api.page():
        assert await history(api, one) == in_order
    then = await api.page(as_of=f"{year}-06-01T00:00:00Z")
    assert [one["content"] for one in then] == ["Bern"]
