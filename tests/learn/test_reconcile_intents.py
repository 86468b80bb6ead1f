"""Corrections and requests to forget, from what was said to what is known and recalled."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.memory import Kind, Trust
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import HybridQuery, MemoryFilter
from tests.learn.rig import ANN, PATIENCE_S, Rig, budget, rig
from tests.learn.test_changes import active, triple

DOG = triple("User has a dog named Biscuit", "has_dog", "Biscuit")
SISTER = triple("User's sister Anna is allergic to dogs", "allergic_to", "dogs", "Anna")
BERLIN = triple("User lives in Berlin", "lives_in", "Berlin")
ROME = triple("User lives in Rome", "lives_in", "Rome")
WHERE = {"subject": "user", "predicate": "lives_in"}


def forget(content: str, **fields: Any) -> dict[str, Any]:
    return {"intent": "forget", "content": content, **fields}


def correct(content: str, **fields: Any) -> dict[str, Any]:
    return {"intent": "correct", "content": content, **fields}


async def recalled_turns(r: Rig, words: str) -> set[str]:
    """What a recall by words sees: as the pipeline asks, active ones only."""
    where = MemoryFilter(kinds=(Kind.TURN,), active=True)
    found = await r.store.search(ANN, HybridQuery(bm25=Bm25Encoder().encode_query(words), where=where))
    return {one.memory.content for one in found if not one.memory.superseded_by}


async def test_what_the_user_takes_back_ends_and_its_turns_are_not_recalled(r: Rig) -> None:
    await r.teach("My budget for Hawaii is $10,000", budget("$10,000", "My budget for Hawaii is $10,000"))
    await r.teach("I have a dog named Biscuit", DOG)
    said = "Forget what I told you about the Hawaii budget"
    await r.teach(said, forget("the user's Hawaii budget", evidence=said))
    assert await active(r) == {DOG["content"]}
    (ended,) = await r.facts(active=False)
    asked = next(turn for turn in await r.turns() if turn.content.startswith("Forget"))
    assert ended.superseded_by is None
    assert ended.valid_to == asked.created_at
    assert ended.metadata["retracted_by"] == asked.id
    assert ended.slot is not None
    assert await r.state.slots(ANN, [ended.slot]) == {}
    recalled = await recalled_turns(r, "Hawaii budget Biscuit")
    assert "My budget for Hawaii is $10,000" not in recalled
    assert "I have a dog named Biscuit" in recalled
    outcomes = [noted.outcome for noted in await r.state.outcomes(ANN, session=None, limit=10)]
    assert [one.memory_id for one in outcomes if one.result == "retracted"] == [ended.id]


@pytest.mark.parametrize(
    ("said", "candidate"),
    [
        ("Forget my car insurance please", forget("the user's car insurance")),
        ("Forget that my Hawaii budget was $9,000", forget("User's Hawaii budget was $9,000", object="$9,000")),
        ("Forget what I said about the Norway budget", forget("budget for the Norway vacation")),
        ("Forget everything I told you yesterday", forget("everything the user told")),
        ("Forget my name", forget("the user's name")),
        ("Forget my dog Rex", forget("the user's dog Rex", subject="user", predicate="has_dog", object="Rex")),
        ("Forget my sister's dog", forget("Anna's dog", subject="Anna", predicate="has_dog")),
    ],
)
async def test_a_request_that_fits_nothing_forgets_nothing_and_says_so(
    r: Rig, said: str, candidate: dict[str, Any]
) -> None:
    known = [budget("$10,000"), DOG, SISTER]
    await r.teach("My Hawaii vacation budget is $10,000, my dog is Biscuit, sister Anna is allergic to dogs", *known)
    await r.teach(said, candidate)
    assert await active(r) == {one["content"] for one in known}
    assert await r.latest() == ("rejected", "unknown")


@pytest.mark.parametrize(
    ("candidate", "gone"),
    [
        (forget("the user's dog", subject="user"), DOG),
        (forget("user's dog Biscuit", **{k: DOG[k] for k in ("subject", "predicate", "object")}), DOG),
        (forget("where the user lives", **WHERE), BERLIN),
        (forget("that the user lives in Berlin", subject="user", predicate="lives in", object="Berlin"), BERLIN),
        (forget("the allergy of the user's sister Anna", subject="Anna", predicate="allergic_to"), SISTER),
    ],
)
async def test_a_request_forgets_what_it_means_and_no_more(
    r: Rig, candidate: dict[str, Any], gone: dict[str, Any]
) -> None:
    told = [DOG, SISTER, BERLIN]
    await r.teach("My dog is Biscuit, I live in Berlin, my sister Anna is allergic to dogs", *told)
    await r.teach("Forget that, please", candidate)
    assert await active(r) == {one["content"] for one in told if one is not gone}


@pytest.mark.parametrize(
    ("asked_in", "left"), [(None, set[str]()), ("work", set[str]()), ("home", {BERLIN["content"]})]
)
async def test_a_request_reaches_what_its_project_sees_and_all_of_the_user_s_without_one(
    r: Rig, asked_in: str | None, left: set[str]
) -> None:
    await r.teach("I live in Berlin", BERLIN, scope=Scope(tenant="acme", user="ann", session="s0", project="work"))
    request = forget("where the user lives", **WHERE, object="Berlin")
    later = Scope(tenant="acme", user="ann", session="s9", project=asked_in)
    await r.teach("Forget where I live", request, scope=later)
    assert await active(r) == left


SALARY = forget("the user's salary", evidence="forget what I told you about my salary")


async def test_a_message_that_only_asks_to_forget_is_not_recalled(r: Rig) -> None:
    await r.teach("Please forget what I told you about my salary.", SALARY)
    dog = DOG | {"evidence": "my dog is Biscuit"}
    await r.teach("Forget what I told you about my salary and my dog is Biscuit", SALARY, dog)
    assert [turn.active for turn in await r.turns()] == [True, False], "the newest first"


async def test_what_is_said_again_after_it_was_taken_back_holds_again_but_not_what_was_said_before(r: Rig) -> None:
    early = r.clock.now().replace(hour=8)
    await r.teach("I live in Berlin", BERLIN)
    await r.teach("Forget where I live", forget("where the user lives", **WHERE))
    await r.teach("I live in Rome", ROME, scope=Scope(tenant="acme", user="ann", session="s0"), at=early)
    assert await active(r) == set()
    assert {fact.object for fact in await r.facts()} == {"Berlin", "Rome"}
    await r.teach("I live in Berlin after all", BERLIN)
    assert await active(r) == {BERLIN["content"]}
    assert len(await r.facts()) == 3


async def test_an_assistant_takes_nothing_back(r: Rig) -> None:
    await r.teach("I live in Berlin", BERLIN)
    request = forget("where the user lives", predicate="lives_in", evidence="forget where you live")
    await r.teach(["Hm", Message(role="assistant", content="I will forget where you live.")], request)
    assert await active(r) == {BERLIN["content"]}


@pytest.mark.parametrize(
    "candidate",
    [
        correct("It's 15,000 now", object="15,000"),
        correct("It is $15,000 now", object="$15,000", replaces="10,000"),
        correct("The Hawaii budget is $15,000"),
        correct(
            "User's Hawaii vacation budget is $15,000", subject="user", predicate="hawaii_budget", object="$15,000"
        ),
        budget("$15,000", intent="correct"),
    ],
)
async def test_a_correction_replaces_what_it_is_about_and_stands_in_its_own_words(
    r: Rig, candidate: dict[str, Any]
) -> None:
    await r.teach("I have a dog named Biscuit", DOG)
    await r.teach("My budget for Hawaii is $10,000", budget("$10,000"))
    await r.teach("No, it's $15,000 now for the Hawaii budget", candidate)
    facts = {fact.object or fact.content: fact for fact in await r.facts(active=True) if fact.object != "Biscuit"}
    (now,) = facts.values()
    (old,) = await r.facts(active=False)
    assert now.content == candidate["content"]
    assert (now.supersedes, old.superseded_by) == (old.id, now.id)
    assert now.slot in (old.slot, f"user|{candidate.get('predicate')}|")


@pytest.mark.parametrize("now", ["User does not like coffee", "User hates coffee"])
async def test_a_correction_of_what_the_user_likes_says_so_itself(r: Rig, now: str) -> None:
    await r.teach("I like coffee", triple("User likes coffee", "likes", "coffee"))
    await r.teach("I don't like coffee anymore", correct(now, subject="user", predicate="dislikes", object="coffee"))
    (fact,) = await r.facts(active=True)
    assert (fact.content, fact.predicate) == (now, "dislikes")
    (former,) = await r.facts(active=False)
    assert former.superseded_by == fact.id


async def test_a_correction_names_another_item_of_a_list(r: Rig) -> None:
    await r.teach("I have a dog named Biscuit", DOG)
    buddy = correct("His name is Buddy", object="Buddy", replaces="Biscuit")
    await r.teach("No, his name is Buddy, not Biscuit", buddy)
    (now,) = await r.facts(active=True)
    assert now.content == "His name is Buddy"
    assert now.slot == "user|dog||buddy"


async def test_a_correction_of_nothing_known_is_not_stored_without_its_context(r: Rig) -> None:
    await r.teach("No, it's 15,000 now", correct("It's 15,000 now", object="15,000"))
    assert await r.facts() == []


async def test_reading_the_same_conversation_again_changes_nothing(r: Rig) -> None:
    said = {
        "My budget for Hawaii is $10,000": budget("$10,000", "My budget for Hawaii is $10,000"),
        "It's 15,000 now": correct("It's 15,000 now", object="15,000", evidence="It's 15,000 now"),
        "I live in Berlin": BERLIN | {"evidence": "I live in Berlin"},
        "Forget where I live": forget("where the user lives", predicate="lives_in", evidence="Forget where I live"),
    }
    for text, candidate in said.items():
        await r.teach(text, candidate)
    before, turns = await r.facts(), await r.turns()
    for _ in range(2):
        r.server.answers.append({"candidates": list(said.values())})
        await r.state.note_turns(ANN, count=4, at=r.clock.now())
        assert await r.worker.learned(ANN, PATIENCE_S)
    assert by_id(await r.facts()) == by_id(before)
    assert by_id(await r.turns()) == by_id(turns)


def by_id(memories: list[Any]) -> dict[str, Any]:
    return {memory.id: memory for memory in memories}


async def test_opinions_of_one_thing_live_side_by_side_by_aspect_and_change_within_one(r: Rig) -> None:
    generics, projects = ({"aspect": aspect, "stance": "positive"} for aspect in ("generics", "big projects"))
    love = triple("User loves TypeScript", "loves", "TypeScript")
    annoyed = triple("User is annoyed by TypeScript's generics", "annoyed_by", "TypeScript generics", **generics)
    fine = triple("User finds TypeScript fine for big projects", "finds", "TypeScript", **projects)
    await r.teach("I love TypeScript", love)
    await r.teach("TypeScript generics annoy me", annoyed | {"stance": "negative"})
    await r.teach("TypeScript is fine for big projects", fine)
    assert {fact.stance for fact in await r.facts(active=True)} == {"positive", "negative"}
    assert len(await r.facts(active=True)) == 3
    like = triple("User likes TypeScript's generics", "likes", "TypeScript", **generics)
    await r.teach("I have come to like TypeScript generics", like)
    assert await active(r) == {love["content"], fine["content"], like["content"]}


async def test_a_statement_carries_its_stance_and_its_triple_as_a_relation(r: Rig) -> None:
    await r.teach("I live in Berlin", BERLIN)
    await r.teach("I live in Rome", ROME)
    (now,), (old,) = await r.facts(active=True), await r.facts(active=False)
    assert [(one.subject, one.predicate, one.object, one.valid_to) for one in now.relations] == [
        ("user", "lives_in", "Rome", None)
    ]
    assert [one.valid_to for one in old.relations] == [now.valid_from]


async def test_what_waits_in_quarantine_changes_nothing_until_the_user_confirms_it(tmp_path: Path) -> None:
    async with rig(tmp_path, min_trust="user") as r:
        claim = Message(role="assistant", content="You live in Berlin, I see.")
        await r.teach(["I like it here", claim], BERLIN | {"evidence": "You live in Berlin"})
        (waiting,) = await r.facts()
        assert (waiting.quarantined, waiting.trust) == (True, Trust.ASSISTANT)
        await r.teach("I live in Berlin indeed", BERLIN | {"evidence": "I live in Berlin"})
        (confirmed,) = await r.facts()
        assert (confirmed.id, confirmed.quarantined, confirmed.trust) == (waiting.id, False, Trust.USER)
        claim = Message(role="assistant", content="You live in Rome.")
        await r.teach(["I like it there", claim], ROME | {"evidence": "You live in Rome"})
        assert await active(r) == {BERLIN["content"]}
