"""What a mediocre extraction model makes of a conversation: names that vary, echoes, things that are over as facts."""

import json
from pathlib import Path
from typing import Any

from memproxy.core.facts import SAID
from memproxy.core.memory import Kind
from memproxy.core.slots import OFFERED_MANY, OFFERED_ONE, OTHER, has_many, predicate_name, slot_name
from memproxy.core.turn import Message
from memproxy.learn.candidates import ANSWER_SCHEMA
from memproxy.learn.extract import load_prompt
from memproxy.learn.outdated import PREDICATE, TAG
from memproxy.ports import SlotChange
from tests.learn.rig import ANN, NOON, PATIENCE_S, Rig, fact, rig
from tests.learn.test_forget_all import ORDER
from tests.learn.test_reconcile_undo import saved
from tests.support.waiting import eventually

SALARY = "My salary is 72000"


def one(content: str, predicate: str, value: str | None, evidence: str | None = None, **more: Any) -> dict[str, Any]:
    quoted = {"evidence": evidence} if evidence else {}
    return {"content": content, "subject": "user", "predicate": predicate, "object": value} | quoted | more


async def active(r: Rig) -> set[str]:
    """What is active; in no slot are two."""
    facts = await r.facts(active=True)
    assert len({memory.slot for memory in facts}) == len(facts)
    return {memory.content for memory in facts}


async def test_a_correction_that_says_that_something_is_over_is_kept_in_its_words(r: Rig) -> None:
    await r.teach("I smoke ten a day", one("User smokes ten cigarettes a day", "smokes", "ten a day"))
    await r.teach("I quit smoking", one("User quit smoking", "smokes", "no", intent="correct"))
    assert await active(r) == {"User quit smoking"}


async def test_an_echo_of_what_was_shown_undoes_no_change_and_what_was_over_stays_over(r: Rig) -> None:
    green = one("User's favorite color is green", "favorite_color", "green")
    await r.teach("My favorite color is green", green)
    blue = one("User's favorite color is blue", "favorite_color", "blue")
    await r.teach("My favorite color is blue these days", blue, green | {"evidence": "my favorite color is"})
    assert await active(r) == {blue["content"]}
    await r.teach("Tell me more about my favorite color", green | {"evidence": "my favorite color"})
    assert await active(r) == {blue["content"]}


async def test_the_last_word_of_a_message_counts_in_whatever_order_a_model_puts_it(r: Rig) -> None:
    nine, eleven = (one(f"User's flight is at {hour}", "flight_time", hour) for hour in ("9", "11"))
    await r.teach("My flight is at 9, no wait, at 11.", eleven, nine)
    oslo, bergen = (one(f"User lives in {city}", "city", city) for city in ("Oslo", "Bergen"))
    await r.teach("I moved to Bergen from Oslo.", bergen, oslo)
    assert await active(r) == {eleven["content"], bergen["content"]}


async def test_going_back_need_not_name_to_what(r: Rig) -> None:
    graz, vienna = (one(f"User lives in {city}", "lives_in", city) for city in ("Graz", "Vienna"))
    back = one("User lives in Graz again", "lives_in", "Graz", "I moved back to my old city")
    for said, told in (("I live in Graz", graz), ("I moved to Vienna", vienna)):
        await r.teach(said, told | {"evidence": said})
    await r.teach("Guess what, I moved back to my old city", back)
    assert await active(r) == {back["content"]}


async def test_a_correction_that_names_a_known_sentence_need_not_share_a_word_with_what_was_said(r: Rig) -> None:
    old, new = {"content": "User is vegetarian."}, {"content": "User is pescatarian.", "intent": "correct"}
    await r.teach("I'm vegetarian", old)
    await r.teach("I eat fish again", new | {"replaces": "User is vegan.", "evidence": "I eat fish again"})
    assert await active(r) == {old["content"]}
    await r.teach("I eat fish again, you know", new | {"replaces": old["content"], "evidence": "I eat fish again"})
    assert await active(r) == {new["content"]}


async def test_what_happened_does_not_end_with_its_day(r: Rig) -> None:
    days = {"valid_from": "2024-02-14", "valid_to": "2024-02-14"}
    await r.teach(
        "I made risotto on Valentine's Day, I'm at my parents' until Easter",
        {"content": "User made risotto on 2024-02-14.", "kind": "episodic"} | days,
        {"content": "User is staying at the parents' place.", "valid_to": "2024-03-31"},
    )
    assert {memory.kind: memory.valid_to is None for memory in await r.facts()} == {
        Kind.EPISODIC: True,
        Kind.SEMANTIC: False,
    }


async def test_what_is_so_at_times_or_said_of_another_thing_ends_nothing(r: Rig) -> None:
    told = [
        one("User works at SAP", "works_at", "SAP"),
        one("User works at Roxy, a bar, on weekends", "side_job", "Roxy"),
        one("User's flight number is 4711", "flight_number", "4711"),
        one("User's flight leaves at 9:10", "flight_time", "9:10"),
        one("User lives in Graz", "lives_in", "Graz"),
        one("User lives on Elm Street", "lives_on", "Elm Street"),
        one("User no longer eats at SAP", "eats_at", "SAP"),
    ]
    for candidate in told:
        await r.teach(candidate["content"].replace("User's", "My").replace("User", "I"), candidate)
    assert await active(r) == {candidate["content"] for candidate in told}


async def test_what_is_true_of_somebody_else_too_is_true_of_the_user(r: Rig) -> None:
    oslo, name = one("User lives in Oslo", "lives_in", "Oslo"), one("User's name is Tom", "name", "Tom")
    await r.teach("My sister lives in Oslo and so do I", oslo)
    await r.teach("My brother's name is Jan and my name is Tom", name)
    assert await active(r) == {oslo["content"], name["content"]}


async def test_a_correction_of_nothing_known_that_stands_by_itself_is_a_statement(r: Rig) -> None:
    await r.teach("It's 15 now", one("It is 15 now", "amount", "15", intent="correct"))
    await r.teach("I get up at 7 these days", one("User gets up at 7", "wake_time", "7", intent="correct"))
    assert await active(r) == {"User gets up at 7"}


async def test_a_correction_that_names_words_of_a_known_sentence_replaces_it_also_where_the_value_stays(r: Rig) -> None:
    trip = ("plans_to", "travel to Galicia in August 2026")
    with_mum = one("User plans to travel to Galicia in August 2026 with mum.", *trip)
    with_petra = one("User plans to travel to Galicia in August 2026 with Petra.", *trip, replaces="with mum")
    await r.teach("mum is coming to Galicia with us in August", with_mum)
    await r.teach("mum isn't coming to Galicia in August, Petra has her cabin", with_petra | {"intent": "correct"})
    assert await active(r) == {with_petra["content"]}


def test_the_offered_predicates_have_one_answer_or_many_as_they_are_listed_and_the_prompt_names_them() -> None:
    assert [one for one in OFFERED_ONE if has_many(predicate_name(one)[0])] == []
    assert [one for one in OFFERED_MANY if not has_many(predicate_name(one)[0])] == []
    prompt = load_prompt(None).text
    assert [one for one in (*OFFERED_ONE, *OFFERED_MANY, OTHER) if one not in prompt] == []


def test_a_model_is_sent_the_same_schema_by_every_process_as_providers_cache_it() -> None:
    predicate = ANSWER_SCHEMA["properties"]["candidates"]["items"]["properties"]["predicate"]
    assert predicate["enum"] == [*OFFERED_ONE, *OFFERED_MANY, OTHER, None]


async def test_a_predicate_that_is_not_offered_is_named_beside_other(r: Rig) -> None:
    for value in ("$3000", "$3500"):
        told = one(f"User's garden budget is {value}", "other", value, other_predicate="garden_budget")
        await r.teach(f"The garden budget is {value}", told)
    roof = one("User's roof budget is $9000", "other", "$9000", other_predicate="roof_budget")
    await r.teach("The roof budget is $9000", roof)
    assert await active(r) == {"User's garden budget is $3500", "User's roof budget is $9000"}
    shown = [json.loads(line) for line in r.server.prompts[-1].splitlines() if line.startswith('{"content"')]
    assert {(line["predicate"], line["other_predicate"]) for line in shown} == {("other", "garden_budget")}


async def test_a_plan_that_is_told_to_be_over_is_no_plan_any_more(r: Rig) -> None:
    plan = one("User plans a trip to Japan", "plans_to", "trip to Japan")
    over = one("User cancelled the trip to Japan", "plans_to", "trip to Japan")
    await r.teach("I plan a trip to Japan", plan)
    await r.teach("The trip to Japan is cancelled", over)
    assert await active(r) == {over["content"]}


async def test_a_stay_does_not_end_where_somebody_lives(r: Rig) -> None:
    await r.teach("I live in Hamburg", one("User lives in Hamburg", "lives_in", "Hamburg"))
    stay = one("User is in Zurich", "staying_in", "Zurich", valid_to="next Friday")
    await r.teach("I am in Zurich until Friday", stay)
    await r.teach("I moved to Rome", one("User lives in Rome", "lives_in", "Rome"))
    assert await active(r) == {"User lives in Rome", "User is in Zurich"}


async def test_a_request_to_forget_means_what_it_tells_word_for_word_by_any_name(r: Rig) -> None:
    await r.teach("My dog is Rex", one("User has a dog named Rex", "has_pet", "Rex"))
    await r.teach("My cat is Tom", one("User has a cat named Tom", "has_pet", "Tom"))
    await r.teach("Rex died", one("Has a dog named Rex", "dog", None, intent="forget"))
    assert await active(r) == {"User has a cat named Tom"}


async def test_a_model_is_shown_the_names_of_what_is_known_and_what_was_learned_last(r: Rig) -> None:
    await r.teach("I live in Graz", one("User lives in Graz", "lives_in", "Graz"))
    await r.teach("The town is small", one("User likes tea", "likes", "tea"))
    known = [json.loads(line) for line in r.server.prompts[-1].splitlines() if line.startswith('{"content"')]
    assert known == [{"content": "User lives in Graz", "subject": "user", "predicate": "lives_in", "object": "Graz"}]


async def parked(r: Rig) -> None:
    """A learn row that was parked with its plan: the salary is to be written, and holds its slot."""
    metadata = {SAID: NOON.isoformat(), "extractor": "extract/3"}
    salary = fact(
        "f1", content="User's salary is 72000", subject="user", predicate="salary", object="72000",
        session_id="s1", turn_ids=["t1"], metadata=metadata, valid_from=NOON,
    )  # fmt: skip
    salary.slot = slot_name(salary)
    assert salary.slot is not None
    number = await saved(r, salary, slots=[SlotChange(slot=salary.slot, expected=None, new="f1")])
    await r.state.claim("learn", limit=1, now=NOON)
    await r.state.park(number, error="parked")
    await r.worker.start()
    await r.say(Message(role="user", content=SALARY, id="t1"))
    assert await r.worker.learned(ANN, PATIENCE_S)
    r.clock.advance(60)


async def unparked(r: Rig) -> None:
    assert await r.state.unpark(ANN) == 1

    async def written() -> list[bool]:
        return [memory.active for memory in await r.facts() if memory.id == "f1"]

    assert await eventually(written) == [False]
    assert await r.state.slots(ANN, ["user|salary|"]) == {}


async def test_a_parked_plan_brings_nothing_back_that_an_order_to_forget_everything_meant(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False) as r:
        await parked(r)
        await r.say(ORDER)
        assert await r.worker.learned(ANN, PATIENCE_S)
        await unparked(r)


async def test_a_parked_plan_brings_nothing_back_that_a_request_to_forget_meant(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False) as r:
        await parked(r)
        request = one("User's salary", "salary", None, "Forget my salary", intent="forget")
        await r.teach("Forget my salary", request)
        await unparked(r)


async def test_a_summary_ends_with_what_it_tells_however_many_came_after_it(r: Rig) -> None:
    await r.teach(SALARY, one("User's salary is 72000", "salary", "72000"))
    told = [fact(f"s{n}", content=f"The user talked about topic {n}.") for n in range(210)]
    told[0].content = "The user said that the salary is 72000."
    for n, summary in enumerate(told):
        summary.kind, summary.tags, summary.predicate = Kind.EPISODIC, [TAG], PREDICATE
        summary.created_at = NOON.replace(year=2020 + n // 50)
    await r.plan(upserts=told)
    await r.teach("My salary is 75000 now", one("User's salary is 75000", "salary", "75000"))
    assert {memory.id for memory in await r.facts(active=False)} >= {"s0"}
