"""What a call deleted, ended or put right is not given out of the turns that told it."""

from typing import Any

import pytest

from memproxy.core.memory import Memory
from tests.learn.rig import Rig, fact

SAID = "My dog is called Rex"
REX = {"content": "User has a dog named Rex.", "subject": "user", "predicate": "has_dog", "object": "Rex"}
CAT = {"content": "User has a cat named Tom.", "subject": "user", "predicate": "has_cat", "object": "Tom"}


async def told(r: Rig) -> Memory:
    """The dog, learned from a turn of its own; and a cat from another one."""
    await r.teach(SAID, REX)
    await r.teach("My cat is called Tom", CAT)
    return next(memory for memory in await r.facts() if memory.object == "Rex")


async def shown(r: Rig) -> set[str]:
    return {turn.content for turn in await r.turns() if turn.active and turn.superseded_by is None}


async def test_a_deleted_fact_takes_the_turns_that_state_it_out_of_recall(r: Rig) -> None:
    learned = await told(r)
    await r.say("Rex is a good dog, my dog Rex")
    await r.plan(deletes=[learned.id])
    assert await shown(r) == {"My cat is called Tom"}
    assert len(await r.turns()) == 3, "what was said stays, where it can be read and deleted"


async def test_a_pruned_fact_leaves_its_turn(r: Rig) -> None:
    learned = await told(r)
    await r.plan(deletes=[learned.id], deleted_by="limit")
    assert SAID in await shown(r)


@pytest.mark.parametrize("how", ["ended", "found to be wrong"])
async def test_an_edit_by_which_a_fact_holds_no_more_hides_its_turn_until_it_holds_again(r: Rig, how: str) -> None:
    learned = await told(r)
    ended: dict[str, Any] = {"active": False, "valid_to": r.clock.now()}
    await r.plan(changes={learned.id: ended if how == "ended" else {"quarantined": True}})
    assert await shown(r) == {"My cat is called Tom"}
    holds: dict[str, Any] = {"active": True, "valid_to": None}
    await r.plan(changes={learned.id: holds if how == "ended" else {"quarantined": False}})
    assert await shown(r) == {SAID, "My cat is called Tom"}


@pytest.mark.parametrize(
    ("fields", "outdated"),
    [
        ({"content": "User has a dog named Bello.", "object": "Bello"}, True),
        ({"content": "User does not have a dog named Rex."}, True),
        ({"content": "User has a dog named Rex, a beagle."}, False),
        ({"importance": 0.9}, False),
    ],
)
async def test_an_edit_that_says_something_else_marks_the_turn_with_it(
    r: Rig, fields: dict[str, Any], outdated: bool
) -> None:
    learned = await told(r)
    await r.plan(changes={learned.id: fields})
    marks = {turn.content: turn.superseded_by for turn in await r.turns()}
    assert marks == {SAID: learned.id if outdated else None, "My cat is called Tom": None}


async def test_what_a_correction_put_right_marks_the_turn_with_the_correction(r: Rig) -> None:
    learned = await told(r)
    right = fact("right", content="User has a dog named Bello.", supersedes=learned.id)
    ended = {"active": False, "superseded_by": "right", "valid_to": r.clock.now()}
    await r.plan(upserts=[right], changes={learned.id: ended})
    marks = {turn.content: turn.superseded_by for turn in await r.turns()}
    assert marks == {SAID: "right", "My cat is called Tom": None}


async def test_a_turn_that_ends_what_was_told_and_says_what_is_so_now_is_still_given(r: Rig) -> None:
    vegan = {"content": "User is vegan.", "subject": "user", "predicate": "diet", "object": "vegan"}
    over = "I'm not vegan any more, I eat fish again"
    await r.teach("I'm vegan, mind that in recipes", vegan)
    await r.teach(over, {**vegan, "intent": "forget", "evidence": "I'm not vegan any more"})
    assert await r.facts(active=True) == []
    assert await shown(r) == {over}


async def test_a_turn_that_orders_to_forget_what_it_names_is_not_given(r: Rig) -> None:
    await told(r)
    await r.teach("Forget that my dog is called Rex, I mean it", {**REX, "intent": "forget"})
    assert await shown(r) == {"My cat is called Tom"}
