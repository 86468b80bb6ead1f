"""What was deleted is not learned again from its turns, in whatever words."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import Deletion
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.learn.nearby import TRACE_TAG
from tests.learn.rig import ANN, PATIENCE_S, Rig, budget, fact, rig
from tests.learn.test_changes import triple

EARLIER = Scope(tenant="acme", user="ann", session="s0")
SAID = "My budget for Hawaii is $10,000"
TOLD = budget("$10,000", SAID)
BERLIN = triple("User lives in Berlin", "lives_in", "Berlin")
BARE = {"content": "User has a yacht in Monaco harbour"}


async def contents(r: Rig, *, active: bool | None = None) -> set[str]:
    return {one.content for one in await r.facts(active=active)}


async def deleted(r: Rig, words: str = "") -> Memory:
    """What was learned of these words, which is deleted."""
    (learned,) = [one for one in await r.facts(active=True) if words in one.content]
    await r.plan(deletes=[learned.id])
    return learned


async def take_back(r: Rig, text: str, content: str, **fields: Any) -> None:
    await r.teach(text, {"intent": "forget", "content": content, "evidence": text, **fields})


@pytest.mark.parametrize(
    ("request_", "late"),
    [
        ({"content": "where the user lives", "subject": "user", "predicate": "lives_in"}, BERLIN),
        ({"content": "the user's Hawaii budget"}, TOLD),
        ({"content": "the yacht in Monaco"}, BARE),
    ],
)
async def test_what_was_taken_back_before_it_was_told_is_kept_and_never_current(
    r: Rig, request_: dict[str, Any], late: dict[str, Any]
) -> None:
    before = r.clock.now().replace(hour=8)
    await take_back(r, "Please forget " + request_["content"], **request_)
    for _ in range(2):
        await r.teach(f"{late['content']}, {SAID}", late, scope=EARLIER, at=before)
        facts = [one for one in await r.facts() if TRACE_TAG not in one.tags]
        assert [(one.content, one.active) for one in facts] == [(late["content"], False)]
        assert facts[0].metadata["retracted_by"] in {turn.id for turn in await r.turns()}
    (hidden,) = [turn for turn in await r.turns() if turn.session_id == "s0"]
    assert not hidden.active
    await r.teach(f"{late['content']} after all, {SAID}", late)
    assert await contents(r, active=True) == {late["content"]}
    await r.plan(undo_session="s1")
    kept = [one for one in await r.facts() if TRACE_TAG not in one.tags]
    assert [(one.content, one.active) for one in kept] == [(late["content"], True)]


@pytest.mark.parametrize(
    ("content", "late"),
    [("everything the user told", BERLIN), ("the user's Norway budget", TOLD), ("the dog Rex", BERLIN)],
)
async def test_what_a_request_did_not_mean_holds_when_it_comes_late(r: Rig, content: str, late: dict[str, Any]) -> None:
    before = r.clock.now().replace(hour=8)
    await take_back(r, "Please forget " + content, content)
    await r.teach(f"{late['content']}, {SAID}", late, scope=EARLIER, at=before)
    assert await contents(r, active=True) == {late["content"]}


async def test_a_statement_beside_a_request_to_forget_holds(r: Rig) -> None:
    said = "Forget where I lived, I live in Berlin now"
    gone = {"intent": "forget", "content": "where the user lives", "subject": "user", "predicate": "lives_in"}
    await r.teach(said, gone | {"evidence": said}, BERLIN)
    assert [one.content for one in await r.facts(active=True)] == [BERLIN["content"]]


async def test_a_deleted_fact_is_not_read_from_its_turns_again_nor_under_another_slot(r: Rig) -> None:
    await r.teach(SAID, TOLD)
    await deleted(r)
    other = {"content": "User put $10,000 aside for Hawaii", "subject": "user", "predicate": "hawaii_savings"}
    for reworded in (TOLD | {"content": "User's Hawaii budget: $10,000"}, TOLD | other):
        await r.mined(reworded)
        assert await r.facts() == []
        assert await r.latest() == ("rejected", "forgotten")
    again = "my budget for Hawaii is 10,000 dollars"
    await r.teach(f"As I said, {again}", budget("$10,000", again))
    assert [one.object for one in await r.facts()] == ["$10,000"]


async def test_what_was_edited_does_not_return_to_what_was_said(r: Rig) -> None:
    await r.teach(SAID, TOLD)
    (learned,) = await r.facts()
    await r.plan(changes={learned.id: {"content": "User's Hawaii budget is $12,000", "object": "$12,000"}})
    await r.mined(TOLD)
    assert [(one.object, one.active) for one in await r.facts()] == [("$12,000", True)]


async def test_a_deleted_correction_does_not_come_back(r: Rig) -> None:
    await r.teach(SAID, TOLD)
    fix = {"intent": "correct", "content": "It's 15,000 now", "object": "15,000", "evidence": "it's 15,000 now"}
    await r.teach("No, it's 15,000 now", fix)
    await deleted(r)
    await r.mined(TOLD, fix)
    assert [one.object for one in await r.facts()] == ["$10,000"]


@pytest.mark.parametrize(
    "gone",
    [
        {"undo_session": "s1"},
        {"delete_where": Deletion(session_ids=["s1"])},
        {"delete_where": Deletion(ids=["m1"], session_ids=["s1"])},
    ],
)
async def test_what_is_noted_of_deleted_facts_goes_with_their_turns(tmp_path: Path, gone: dict[str, Any]) -> None:
    async with rig(tmp_path, every_turns=1000) as r:
        for _ in range(2):
            await r.teach([Message(role="user", content=SAID, id="m1")], TOLD)
            await deleted(r)
            await r.plan(**gone)


@pytest.mark.parametrize("how", ["edited", "deleted", "taken back", "superseded by a call"])
async def test_a_summary_ends_with_what_it_tells(tmp_path: Path, how: str) -> None:
    async with rig(tmp_path, every_turns=100) as r:
        r.server.default = {
            "summary": "The user has a budget of $10,000 for the Hawaii vacation.",
            "candidates": [TOLD],
        }
        await r.say(SAID)
        assert await r.worker.end_session(ANN, PATIENCE_S)
        r.clock.advance(60)
        (learned,) = [one for one in await r.facts() if one.kind is Kind.SEMANTIC]
        if how == "edited":
            await r.plan(changes={learned.id: {"content": "User's Hawaii budget is $12,000", "object": "$12,000"}})
        elif how == "deleted":
            await r.plan(deletes=[learned.id])
        elif how == "taken back":
            await take_back(r, "Forget my Hawaii budget", "the user's Hawaii budget")
        else:
            await r.plan(upserts=[fact("w1", **budget("$9,000", kind=Kind.SEMANTIC))])
        assert [one for one in await r.facts(active=True) if one.kind is Kind.EPISODIC] == []


YACHT_TOLD = "We keep our yacht in Monaco harbour, and Biscuit the dog loves it"
YACHT = {"content": "User has a yacht in Monaco harbour", "evidence": "We keep our yacht in Monaco harbour"}
DOG = {"content": "User has a dog named Biscuit", "evidence": "Biscuit the dog loves it"}
REWORDED: list[dict[str, Any]] = [
    {"content": "The user owns a yacht moored in Monaco", "evidence": "our yacht in Monaco harbour"},
    {"content": "User's yacht is kept in Monaco harbour", "evidence": YACHT["evidence"]},
    YACHT | {"subject": "user", "predicate": "owns_yacht_in", "object": "Monaco harbour"},
]


@pytest.mark.parametrize("again", REWORDED)
async def test_a_deleted_fact_without_a_slot_does_not_come_back_in_other_words(r: Rig, again: dict[str, Any]) -> None:
    await r.teach(YACHT_TOLD, YACHT, DOG)
    yacht = await deleted(r, "yacht")
    assert yacht.slot is None
    await r.mined(again, DOG)
    assert await contents(r) == {DOG["content"]}
    noted = [one.outcome for one in await r.state.outcomes(ANN, session=None, limit=10)]
    assert ("rejected", "forgotten") in {(one.result, one.reason) for one in noted}, noted[0]


async def test_something_else_from_the_same_turn_and_what_is_said_anew_is_learned_after_a_fact_was_deleted(
    r: Rig,
) -> None:
    await r.teach(YACHT_TOLD, YACHT)
    await deleted(r)
    await r.mined(DOG)
    assert await contents(r) == {DOG["content"]}
    await r.teach("As I said, our yacht is in Monaco harbour", YACHT | {"evidence": "our yacht is in Monaco harbour"})
    assert await contents(r) == {DOG["content"], YACHT["content"]}


async def test_several_deleted_facts_of_one_turn_all_stay_away(r: Rig) -> None:
    await r.teach(YACHT_TOLD, YACHT, DOG)
    for one in await r.facts():
        await r.plan(deletes=[one.id])
    await r.mined(REWORDED[0], DOG | {"content": "Biscuit is the user's dog"})
    assert await contents(r) == set()


@pytest.mark.parametrize("again", REWORDED)
async def test_what_the_user_took_back_does_not_come_back_in_other_words(r: Rig, again: dict[str, Any]) -> None:
    await r.teach(YACHT_TOLD, YACHT, DOG)
    await take_back(r, "Please forget the yacht in Monaco", "the yacht in Monaco")
    assert await contents(r, active=True) == {DOG["content"]}
    await r.mined(again, DOG)
    assert await contents(r, active=True) == {DOG["content"]}


async def test_what_was_taken_back_holds_again_once_it_is_said_again(r: Rig) -> None:
    await r.teach(YACHT_TOLD, YACHT)
    await take_back(r, "Please forget the yacht in Monaco", "the yacht in Monaco")
    said = "We have a yacht in Monaco again"
    await r.teach(said, {"content": "The user owns a yacht in Monaco", "evidence": said})
    assert await contents(r, active=True) == {"The user owns a yacht in Monaco"}


async def test_an_old_conversation_that_is_imported_after_all_does_not_undo_a_request_to_forget(r: Rig) -> None:
    """The same words under another session, of the time before the request: a client's history that is sent again."""
    before = r.clock.now()
    await r.teach(YACHT_TOLD, YACHT)
    await take_back(r, "Please forget the yacht in Monaco", "the yacht in Monaco")
    again = Scope(tenant=ANN.tenant, user=ANN.user, session="s9")
    await r.teach(YACHT_TOLD, REWORDED[0], scope=again, at=before)
    assert await contents(r, active=True) == set()
    assert [turn.active for turn in await r.turns() if turn.session_id == "s9"] == [False]
