"""Plain corrections and retractions are obeyed when their message comes, whatever learning does, and can be undone."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from tests.learn.rig import ANN, LATER, PATIENCE_S, Rig, fact, opened_rig, rig
from tests.learn.test_changes import triple

r = opened_rig(enabled=False)

LEARNS_LATER: dict[str, Any] = {"every_turns": 1000, "idle_s": 10.0**6}
MODES: list[dict[str, Any]] = [{"enabled": False}, LEARNS_LATER]


def shown(memories: list[Memory]) -> set[str]:
    return {one.content for one in memories if one.active and one.superseded_by is None}


async def say_in_turn(r: Rig, before: str, *then: str | Message) -> None:
    """Something is said, and a minute later something else in another conversation."""
    await r.say(before)
    r.clock.advance(60)
    await r.say(*then, scope=LATER)


async def lines(r: Rig) -> set[str]:
    """What a recall may give: facts and messages that hold."""
    return shown(await r.facts()) | shown(await r.turns())


async def told(r: Rig) -> list[tuple[str, str | None]]:
    noted = await r.state.outcomes(ANN, session=None, limit=20)
    return [(one.outcome.result, one.outcome.reason) for one in noted if one.outcome.result in ("pending", "kept")]


CHANGES = [
    ("My budget is 10k.", "Actually my budget is 15k.", "superseded"),
    ("I live in Berlin.", "I moved to Lyon last month.", "superseded"),
    ("My manager is Kathrin.", "Correction: it's Katarzyna, not Kathrin.", "superseded"),
    ("I work at Siemens.", "I no longer work at Siemens.", "retracted"),
    ("I'm vegan.", "I'm not vegan anymore.", "retracted"),
    ("Ich wohne in Bonn. I live in Bonn.", "I don't live in Bonn anymore.", "retracted"),
]


@pytest.mark.parametrize("mode", MODES, ids=["off", "model"])
@pytest.mark.parametrize(("before", "then", "how"), CHANGES)
async def test_what_a_message_plainly_ends_is_not_given_from_then_on(
    tmp_path: Path, mode: dict[str, Any], before: str, then: str, how: str
) -> None:
    async with rig(tmp_path, **mode) as r:
        await r.say("I have a dog named Biscuit.")
        await say_in_turn(r, before, then)
        assert await lines(r) == {"I have a dog named Biscuit.", then}
        assert await told(r) == [("pending", how)]
        (old,) = [one for one in await r.turns() if not one.active]
        (new,) = [one for one in await r.turns() if one.content == then]
        assert (old.content, old.metadata["pending"], old.metadata["retracted_by"]) == (before, how, new.id)


@pytest.mark.parametrize("mode", MODES, ids=["off", "model"])
async def test_what_is_ordered_to_be_forgotten_goes_at_once_with_the_words_of_the_order(
    tmp_path: Path, mode: dict[str, Any]
) -> None:
    async with rig(tmp_path, **mode) as r:
        await r.say("My locker code is 4471.", "I work at Siemens.", "I have a dog named Biscuit.")
        r.clock.advance(60)
        await r.say("Forget that I work at Siemens.", scope=LATER)
        await r.say("Please forget my locker code.", scope=LATER)
        assert await lines(r) == {"I have a dog named Biscuit."}


UNSURE = [
    ("My budget for the trip is 10k and my sister pays for the flights to Oslo in June.", "My trip budget is 12k now."),
    ("I have a dog named Biscuit.", "My dog needs new food, actually."),
    ("I live in Berlin.", "My sister lives in Lyon now."),
    ("I work at Siemens.", "Should I tell them that I no longer work at Siemens?"),
    ("My budget is 10k.", "Suppose my budget is 15k."),
    ("My budget is 10k.", "What can I get for 15k now?"),
    ("I love hiking.", "Actually I love chess."),
    ("I work at Siemens.", "Forget it."),
    ("I live in Berlin.", "I left Berlin at noon, what a train ride."),
    ("My phone is a Pixel 8.", "I dropped my phone, how do I fix the screen?"),
    ("My budget is 10k.", "Remove the budget from the second slide."),
    ("My budget is 10k.", "Delete my budget."),
    ("I work at Siemens.", "That is wrong."),
    ("I live in Berlin.", "I no longer live in Paris."),
    ("My budget is 10k.", "Forget that my budget was 9k."),
    ("My sister Anna is allergic to dogs.", "Forget what I said about my sister's dog."),
    ("I'm allergic to nuts.", "I'm not sure what to cook anymore."),
]


@pytest.mark.parametrize(("before", "then"), UNSURE)
async def test_where_it_is_not_sure_nothing_changes(r: Rig, before: str, then: str) -> None:
    await say_in_turn(r, before, then)
    assert before in await lines(r)
    assert await told(r) == []


async def test_a_second_message_is_read_against_what_the_first_one_left(r: Rig) -> None:
    await say_in_turn(
        r, "My budget for the kitchen is 10k.", "Actually my budget is 15k.", "I mean for the kitchen, not 10k."
    )
    assert await lines(r) == {"Actually my budget is 15k.", "I mean for the kitchen, not 10k."}


@pytest.mark.parametrize("mode", MODES, ids=["off", "model"])
async def test_a_fact_is_pending_and_an_undone_conversation_gives_it_back(tmp_path: Path, mode: dict[str, Any]) -> None:
    async with rig(tmp_path, **mode) as r:
        await r.plan(upserts=[fact("budget", **triple("User's budget is 10k.", "budget", "10k"))])
        r.clock.advance(60)
        await r.say("Actually my budget is 15k.", scope=LATER)
        (ended,) = await r.facts()
        assert not ended.active
        assert ended.metadata["pending"] == "superseded"
        assert ended.slot is not None
        assert await r.state.slots(ANN, [ended.slot]) == {}
        assert await told(r) == [("pending", "superseded")]
        await r.plan(undo_session="s2")
        (given,) = await r.facts()
        assert given.active
        assert "pending" not in given.metadata
        assert await r.state.slots(ANN, [ended.slot]) == {ended.slot: "budget"}


async def test_an_undone_conversation_gives_the_messages_back(r: Rig) -> None:
    await say_in_turn(r, "I work at Siemens.", "I no longer work at Siemens.")
    assert await lines(r) == {"I no longer work at Siemens."}
    await r.plan(undo_session="s2")
    (given,) = await r.turns()
    assert given.active
    assert not {"pending", "retracted_by", "retracted_at"} & given.metadata.keys()


OLD = triple("User's budget for the kitchen is 10k.", "kitchen_budget", "10k")


@pytest.mark.parametrize(
    ("answer", "active", "result"),
    [
        ({**OLD, "intent": "correct", "content": "User's kitchen budget is 15k.", "object": "15k"}, "15k", None),
        ({"content": "User can spend 15k.", "predicate": "spends"}, "15k", None),
        (None, None, None),
        (OLD | {"evidence": "the 10k for the kitchen stay"}, "10k", "kept"),
    ],
    ids=["corrects", "states something else", "says nothing", "says it holds"],
)
async def test_learning_confirms_or_corrects_what_is_pending(
    tmp_path: Path, answer: dict[str, Any] | None, active: str | None, result: str | None
) -> None:
    async with rig(tmp_path, **LEARNS_LATER) as r:
        await r.teach("My budget for the kitchen is 10k.", OLD)
        await r.say("Actually my budget is 15k, of which the 10k for the kitchen stay.", scope=LATER)
        (pending,) = await r.facts()
        assert pending.metadata["pending"] == "superseded"
        r.server.answers.append({"candidates": [answer] if answer else []})
        assert await r.worker.learned(LATER, PATIENCE_S)
        assert OLD["content"] in r.server.prompts[-1]  # the model sees what is changed
        facts = await r.facts()
        holding = [one.content for one in facts if one.active]
        assert len(holding) == (1 if active else 0)
        assert all(active in one for one in holding if active)
        assert not any("pending" in one.metadata for one in (*facts, *await r.turns()))
        assert (("kept", None) in await told(r)) is (result is not None)


async def test_what_is_learned_later_from_a_message_that_was_taken_back_is_over(tmp_path: Path) -> None:
    async with rig(tmp_path, **LEARNS_LATER) as r:
        await r.say("My budget is 10k.")
        r.clock.advance(60)
        await r.teach("Actually my budget is 15k.", {"content": "User's new budget is 15k."}, scope=LATER)
        r.server.answers.append({"candidates": [{"content": "User's budget is 10k."}]})
        assert await r.worker.learned(ANN, PATIENCE_S)
        assert {one.content for one in await r.facts() if one.active} == {"User's new budget is 15k."}


async def test_nobody_but_the_user_changes_anything_by_a_message(r: Rig) -> None:
    await say_in_turn(r, "I work at Siemens.", Message(role="assistant", content="I no longer work at Siemens."))
    await r.say("I no longer work at Siemens.", scope=Scope(tenant="acme", user="ben", session="s2"))
    await r.say("I no longer work at Siemens.", scope=Scope(tenant="acme", user="ann", session="s2", project="p"))
    assert "I work at Siemens." in await lines(r)


async def test_an_older_message_that_comes_later_changes_nothing_newer(r: Rig) -> None:
    early = r.clock.now()
    r.clock.advance(3600)
    await r.say("I work at Siemens.")
    await r.say("I no longer work at Siemens.", scope=LATER, at=early)
    assert "I work at Siemens." in await lines(r)


async def test_the_same_message_twice_changes_nothing_more(r: Rig) -> None:
    await r.say("I work at Siemens.")
    r.clock.advance(60)
    at = r.clock.now()
    for _ in range(2):
        await r.say("I no longer work at Siemens.", scope=LATER, at=at)
    assert await lines(r) == {"I no longer work at Siemens."}
    assert len(await told(r)) == 1
    assert len([one for one in await r.turns() if one.kind is Kind.TURN]) == 2
