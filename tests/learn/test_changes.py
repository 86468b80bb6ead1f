"""Statements that contradict what is known without a word of correction, and names that are one."""

from typing import Any

from tests.learn.rig import ANN, Rig

Told = tuple[str, dict[str, Any]]


def triple(content: str, predicate: str, value: str, subject: str = "user", **fields: Any) -> dict[str, Any]:
    return {"content": content, "subject": subject, "predicate": predicate, "object": value, **fields}


async def active(r: Rig) -> set[str]:
    return {fact.content for fact in await r.facts(active=True)}


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (triple("User works at Acme", "works_at", "Acme"), triple("User works for Globex", "employer", "Globex")),
    (triple("User lives in Berlin", "lives_in", "Berlin"), triple("User moved to Lyon", "moved_to", "Lyon")),
    (triple("User's phone is a Pixel 7", "has_phone", "Pixel 7"), triple("User has an iPhone", "phone", "iPhone")),
    (triple("User leases a Golf", "car_lease", "Golf"), triple("User leases a Tesla", "car_lease", "Tesla")),
    (triple("User's girlfriend is Sam", "girlfriend", "Sam"), triple("User broke up with Sam", "broke_up_with", "Sam")),
    (triple("User is single", "marital_status", "single"), triple("User is married", "relationship_status", "married")),
]
TOGETHER: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (triple("User works on Atlas", "works_on", "Atlas"), triple("User works on Hermes", "works_on_project", "Hermes")),
    (triple("User plays the violin", "plays", "violin"), triple("User plays chess", "plays", "chess")),
    (triple("User takes metformin", "takes_medication", "metformin"), triple("User takes iron", "takes", "iron")),
    (triple("User is a nurse", "is", "a nurse"), triple("User is vegetarian", "is", "vegetarian")),
    (triple("User has a dog named Rex", "has_dog", "Rex"), triple("User has a dog named Max", "has_dog", "Max")),
    (
        triple("User worked at Initech", "worked_at", "Initech"),
        triple("User worked at Umbrella", "worked_at", "Umbrella"),
    ),
]


async def test_another_answer_to_a_question_with_one_answer_ends_the_former(r: Rig) -> None:
    for before, after in CHANGES:
        await r.teach(before["content"], before)
        await r.teach(after["content"], after)
    assert await active(r) == {after["content"] for _, after in CHANGES}
    ended = {fact.content: fact for fact in await r.facts(active=False)}
    assert set(ended) == {before["content"] for before, _ in CHANGES}
    assert all(fact.superseded_by and fact.valid_to for fact in ended.values())


async def test_items_of_a_list_live_side_by_side(r: Rig) -> None:
    for one, other in TOGETHER:
        await r.teach(one["content"], one)
        await r.teach(other["content"], other)
    assert await active(r) == {fact["content"] for pair in TOGETHER for fact in pair}


async def test_the_end_of_something_else_ends_nothing(r: Rig) -> None:
    berlin = triple("User lives in Berlin", "lives_in", "Berlin")
    await r.teach("I live in Berlin", berlin)
    await r.teach("I no longer live in Paris", triple("User no longer lives in Paris", "no longer lives in", "Paris"))
    assert await active(r) == {berlin["content"]}


async def test_what_is_short_for_a_name_is_that_name_once_it_was_told(r: Rig) -> None:
    await r.teach("I love TS", triple("User loves TS", "loves", "TS"))
    short = triple("TS is short for TypeScript", "short_for", "TypeScript", subject="TS")
    await r.teach("TS is short for TypeScript", short)
    hate = triple("User hates TypeScript", "hates", "TypeScript")
    await r.teach("I hate TypeScript by now", hate)
    assert await active(r) == {short["content"], hate["content"]}
    again = triple("User loves TS", "loves", "TS")
    await r.teach("I love TS again", again)
    assert await active(r) == {short["content"], again["content"]}


async def test_somebody_has_one_place_and_one_answer_under_all_names_that_were_told(r: Rig) -> None:
    wife = triple("User's wife is Clara", "wife", "Clara")
    bob = triple("Bob is also called Robert", "also_called", "Robert", subject="Bob")
    await r.teach("My wife Clara says hi, and Bob, that is Robert, too", wife, bob)
    await r.teach("My wife works at Acme", triple("User's wife works at Acme", "works_at", "Acme", "my wife"))
    await r.teach("Clara works at Globex", triple("Clara works at Globex", "works_at", "Globex", "Clara"))
    await r.teach("Bob is 40", triple("Bob is 40", "age", "40", "Bob"))
    await r.teach("Robert is 41", triple("Robert is 41", "age", "41", "Robert"))
    assert await active(r) == {wife["content"], bob["content"], "Clara works at Globex", "Robert is 41"}
    names = await r.state.palace_names(ANN)
    assert names["wife"] == names["clara"]
    assert names["bob"] == names["robert"]
    assert {fact.wing for fact in await r.facts() if "Globex" in fact.content or "Acme" in fact.content} == {"clara"}


async def test_whoever_takes_over_a_role_is_somebody_else(r: Rig) -> None:
    await r.teach("My boss is Tom", triple("User's boss is Tom", "boss", "Tom"))
    await r.teach("Tom is 50", triple("Tom is 50", "age", "50", "Tom"))
    await r.teach("My boss is Kim", triple("User's boss is Kim", "boss", "Kim"))
    await r.teach("Kim is 30", triple("Kim is 30", "age", "30", "Kim"))
    await r.teach("My boss is from Oslo", triple("User's boss is from Oslo", "from", "Oslo", "my boss"))
    assert await active(r) == {"Tom is 50", "Kim is 30", "User's boss is Kim", "User's boss is from Oslo"}
    wings = {fact.content: fact.wing for fact in await r.facts()}
    assert (wings["Tom is 50"], wings["Kim is 30"], wings["User's boss is from Oslo"]) == ("tom", "kim", "kim")


async def test_names_are_one_owners_alone(r: Rig) -> None:
    await r.teach("TS is short for TypeScript", triple("TS is TypeScript", "short_for", "TypeScript", subject="TS"))
    other = type(ANN)(tenant="acme", user="ben", session="s1")
    await r.teach("TS is 30", triple("TS is 30 years old", "age", "30", "TS"), scope=other)
    await r.teach("TypeScript is 12", triple("TypeScript is 12 years old", "age", "12", "TypeScript"), scope=other)
    assert len(await r.facts(other, active=True)) == 2
