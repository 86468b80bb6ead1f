"""Entities, timelines, categories and histories."""

import itertools
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memproxy.core.scope import Scope
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def superseding(api: Api, *contents: str, **fields: Any) -> list[str]:
    """A chain of memories, each in the place of the one before."""
    ids = [(await api.store(content, **fields))["id"] for content in contents]
    changes: dict[str, dict[str, Any]] = {name: {} for name in ids}
    for one, following in itertools.pairwise(ids):
        changes[one] |= {"superseded_by": following, "active": False, "valid_to": "2026-02-01T00:00:00Z"}
        changes[following] |= {"supersedes": one}
    store = api.engine.backends().store
    await store.set_fields(Scope(tenant=api.tenant, user="default"), changes)
    return ids


async def test_a_history_is_the_whole_chain_from_any_of_its_ids_and_ends_where_one_was_forgotten(api: Api) -> None:
    ids = await superseding(api, "Budget is 1", "Budget is 2", "Budget is 3")
    for name in ids:
        found = await api.data(f"{name}/history")
        assert [memory["id"] for memory in found] == ids
        assert [memory["active"] for memory in found] == [False, False, True]
    await api.delete(ids[0])
    assert await api.history(ids[2]) == ids[1:]


async def test_what_held_before_is_recalled_where_it_is_asked_for_and_marked_as_past(api: Api) -> None:
    budgets = [f"User's budget for Hawaii is ${amount},000" for amount in (10, 12, 15)]
    ids = await superseding(api, *budgets)
    context = await api.context("What was my budget for Hawaii before?")
    lines = [line for line in context.splitlines() if line.startswith("- ")]
    assert [budget for line in lines for budget in budgets if budget in line] == budgets[::-1], "the present one first"
    assert ["held until 2026-02-01" in line for line in lines] == [False, True, True]
    now = await api.context("What is my budget for Hawaii?")
    assert "$15,000" in now
    assert "$10,000" not in now
    await api.delete(ids[0])
    assert "$10,000" not in await api.context("What was my budget for Hawaii before?")


async def test_until_a_new_value_begins_the_one_before_stands_behind_it(api: Api) -> None:
    old, new = "User's rent for the flat is 1,890", "User's rent for the flat is 1,940"
    begins = f"{datetime.now(UTC) + timedelta(days=30):%Y-%m-%d}T00:00:00Z"
    ids = await superseding(api, old, new)
    store, owner = api.engine.backends().store, Scope(tenant=api.tenant, user="default")
    await store.set_fields(owner, {ids[0]: {"valid_to": begins}, ids[1]: {"valid_from": begins}})
    lines = [line for line in (await api.context("What is my rent for the flat?")).splitlines() if line[:2] == "- "]
    assert [text in line for text, line in zip((new, old), lines, strict=True)] == [True, True]
    assert f"(fact, holds until {begins[:10]})" in lines[1]
    begun = {ids[0]: {"valid_to": "2026-02-01T00:00:00Z"}, ids[1]: {"valid_from": "2026-02-01T00:00:00Z"}}
    await store.set_fields(owner, begun)
    assert old not in await api.context("What is my rent for the flat?")


async def test_what_was_taken_back_or_belongs_to_another_user_never_held_before(api: Api) -> None:
    ids = await superseding(api, "User's dentist is Dr. Rahn", "User's dentist is Dr. Oduya")
    store, owner = api.engine.backends().store, Scope(tenant=api.tenant, user="default")
    await store.set_fields(owner, {ids[0]: {"metadata": {"retracted_by": "turn"}}})
    asking = "Who was my dentist before?"
    assert "Rahn" not in await api.context(asking)
    others = await api.store("User's dentist is Dr. Kimura", identity=api.identity("ben"))
    await store.set_fields(owner, {ids[1]: {"supersedes": others["id"]}})
    context = await api.context(asking)
    assert "Oduya" in context
    assert "Kimura" not in context


async def test_the_history_of_what_is_not_there_or_not_yours_is_missing(api: Api) -> None:
    path = f"{(await api.store('mine'))['id']}/history"
    stranger = Api(api.client, api.engine, tenant="stranger")
    assert await api.status("GET", "none/history") == await api.status("GET", f"{path}?user_id=other") == 404
    assert await stranger.status("GET", path) == 404


async def test_the_history_of_a_turn_is_the_turn(api: Api) -> None:
    for name in ("a/b", "t1"):
        await api.say("s", {"role": "user", "content": "hello", "id": name})
    assert await api.history("t1") == ["t1"]


async def test_entities_are_typed_counted_and_the_most_named_come_first(api: Api) -> None:
    await api.store("Anna lives in Berlin", subject="Anna", predicate="lives in", object="Berlin")
    await api.store("Anna met Tom", subject="Anna", predicate="friend", object="Tom", entities=["the Berlin Marathon"])
    await api.say("s", "I saw Anna in Berlin on Monday.")
    found = await api.data("entities")
    assert [(one["name"], one["count"]) for one in found[:2]] == [("Anna", 3), ("Berlin", 2)]
    types = {"Berlin": "place", "Tom": "person", "Monday": "time", "the Berlin Marathon": "event"}
    assert types.items() <= {one["name"]: one["type"] for one in found}.items()
    assert [one["name"] for one in await api.data("entities", type="place")] == ["Berlin"]
    assert {one["name"] for one in await api.data("entities", prefix="b")} >= {"Berlin"}
    assert await api.data("entities", user_id="other") == []


async def test_names_of_one_subject_are_one_entity(api: Api) -> None:
    await api.store("Biscuit is a beagle", subject="My dog Biscuit", predicate="is", object="a beagle")
    await api.store("The dog eats", subject="dog", predicate="eats", object="carrots")
    (entity,) = await api.data("entities")
    assert entity["count"] == 2
    assert len(await api.data("entities/BISCUIT/timeline")) == 2
    assert len(await api.data("entities/my%20dog/timeline")) == 2


async def test_neither_a_sentences_first_word_nor_a_bare_abbreviation_is_an_entity(api: Api) -> None:
    said = ["Suggest 3 restaurants in St. Louis.", "Compare Ted Drewes with others on Main St. there.", "I like Ted."]
    await api.say("s", *said)
    found = {one["name"] for one in await api.data("entities")}
    assert found == {"St. Louis", "Ted Drewes", "Main St", "Ted"}


async def test_entities_are_paged(api: Api) -> None:
    for name in ("Ada", "Bob", "Cleo"):
        await api.store(f"{name} sings", entities=[name])
    assert [one["name"] for one in await api.walk("entities", limit=1)] == ["Ada", "Bob", "Cleo"]


async def test_a_timeline_shows_what_held_when(api: Api) -> None:
    old, new = await superseding(
        api, "Anna lives in Paris", "Anna lives in Berlin", subject="Anna", predicate="lives in", object="somewhere"
    )
    worked = {"subject": "Anna", "predicate": "worked for", "object": "Acme"}
    times = {"valid_from": "2001-01-01T00:00:00Z", "valid_to": "2002-01-01T00:00:00Z"}
    await api.store("Anna worked for Acme", relations=[worked | times])
    await api.store("Bob lives in Rome", subject="Bob", predicate="lives in", object="Rome")
    found = await api.data("entities/anna/timeline")
    assert [one["predicate"] for one in found] == ["worked for", "lives in", "lives in"]
    assert [one["active"] for one in found] == [False, False, True]
    assert [one["memory_id"] for one in found[1:]] == [old, new]
    assert found[0]["valid_to"] == "2002-01-01T00:00:00Z"
    assert (await api.data("entities/anna/timeline", limit=2)) == found[:2]
    assert await api.walk("entities/anna/timeline", limit=2) == found
    assert await api.data("entities/nobody/timeline") == []


async def test_a_name_without_letters_is_not_the_users(api: Api) -> None:
    await api.store("The user likes 🐕", subject="user", predicate="likes", object="🐕")
    for name, count in {"user": 1, "%20": 0, "%3F": 0, "🐕": 1}.items():
        assert len(await api.data(f"entities/{name}/timeline")) == count, name


async def test_memories_can_be_listed_by_entity(api: Api) -> None:
    memory = await api.store("Anna sings", entities=["Anna"])
    await api.store("Bob sings", entities=["Bob"])
    for name in ("Anna", "anna"):
        assert [one["id"] for one in await api.page(entity=name)] == [memory["id"]]


async def test_categories_are_counted(api: Api) -> None:
    await api.store("tea", category="drinks")
    await api.store("coffee", category="drinks", valid_to="2021-01-01T00:00:00Z")
    await api.store("bread", category="food")
    await api.store("no category")
    assert await api.data("categories") == [
        {"category": "drinks", "count": 2, "active": 1},
        {"category": "food", "count": 1, "active": 1},
    ]
    assert [one["category"] for one in await api.data("categories", limit=1)] == ["drinks"]


async def test_a_category_with_a_slash_at_its_end_is_all_that_is_below_it(api: Api) -> None:
    for category in ("user-preferences/diet", "user-preferences/home/heating", "user-preferences-old/diet", "notes"):
        await api.store(f"Warm soup is liked, says {category}", category=category)
    below = {"user-preferences/diet", "user-preferences/home/heating"}
    for prefix in ("user-preferences/", "user-preferences/*"):
        assert {one["category"] for one in await api.page(category=prefix)} == below
        assert {one["category"] for one in await api.search("warm soup", category=prefix)} == below
    two = {"user-preferences/home/heating", "notes"}
    assert {one["category"] for one in await api.search("soup", category=["user-preferences/home/", "notes"])} == two
    for query in ("user-preferences", "nothing/"):
        assert await api.page(category=query) == []
        assert await api.search("warm soup", category=query) == []


@pytest.mark.parametrize(
    ("path", "query", "param"),
    [
        ("entities", {"type": "thing"}, "type"),
        ("entities", {"cursor": "e"}, "cursor"),
        ("entities", {"cursor": "WyJlbnRpdGllcyIsInQiXQ"}, "cursor"),
        ("entities", {"cursor": "WyJlbnRpdGllcyIsLTEsImNsZW8iXQ"}, "cursor"),  # ["entities",-1,"cleo"]
        ("entities/x/timeline", {"limit": "201"}, "limit"),
        ("categories", {"kind": "turn"}, "kind"),
        ("categories", {"limit": "0"}, "limit"),
        ("x/history", {"limit": "1"}, "limit"),
        ("palace", {"room": "s1"}, "wing"),
        ("palace", {"closet": "x"}, "room"),
        ("palace", {"wing": "x", "closet": "x"}, "room"),
        ("palace", {"cursor": "nonsense"}, "cursor"),
        ("palace", {"cursor": "WzFd"}, "cursor"),
        ("palace", {"limit": "0"}, "limit"),
        ("palace", {"wings": "x"}, "wings"),
        ("sessions", {"limit": "0"}, "limit"),
        ("sessions", {"limit": "201"}, "limit"),
        ("sessions", {"cursor": "x"}, "cursor"),
        ("sessions", {"colour": "blue"}, "colour"),
    ],
)
async def test_a_wrong_question_names_its_field(api: Api, path: str, query: dict[str, str], param: str) -> None:
    assert await api.refused("GET", path, params=query) == (400, param)


async def test_what_calls_wrote_is_activity(api: Api) -> None:
    memory = await api.store("Anna sings")
    await api.edit(memory["id"], content="Anna dances")
    await api.delete(memory["id"])
    told = await api.data("activity")
    assert [(one["result"], one["reason"], one["memory_id"]) for one in told] == [
        (result, "api", memory["id"]) for result in ("deleted", "edited", "stored")
    ]


async def test_statistics_tell_what_models_cost_the_tenant(api: Api) -> None:
    backends = api.engine.backends()
    now = backends.parts.clock.now()
    await backends.state.note_tokens(api.tenant, "extract", input_tokens=100, output_tokens=20, at=now)
    cost = (await api.get("stats"))["cost"]
    assert cost["today"] == cost["year"] == {"extract": {"input_tokens": 100, "output_tokens": 20}}
