"""What was deleted is not learned again from its turns, in whatever words."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.memory import Kind
from memproxy.core.protocol import Deletion
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.learn.nearby import TRACE_TAG
from tests.learn.rig import ANN, PATIENCE_S, Answer, Rig, budget, rig

EARLIER = Scope(tenant="acme", user="ann", session="s0")
SAID = "My budget for Hawaii is $10,000"
TOLD = budget("$10,000", SAID)
BERLIN = {"content": "User lives in Berlin", "subject": "user", "predicate": "lives_in", "object": "Berlin"}
BARE = {"content": "User has a yacht in Monaco harbour"}


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
        facts = [fact for fact in await r.facts() if TRACE_TAG not in fact.tags]
        assert [(fact.content, fact.active) for fact in facts] == [(late["content"], False)]
        assert facts[0].metadata["retracted_by"] in {turn.id for turn in await r.turns()}
    (hidden,) = [turn for turn in await r.turns() if turn.session_id == "s0"]
    assert not hidden.active
    await r.teach(f"{late['content']} after all, {SAID}", late)
    assert [fact.content for fact in await r.facts(active=True)] == [late["content"]]
    await r.plan(undo_session="s1")
    kept = [fact for fact in await r.facts() if TRACE_TAG not in fact.tags]
    assert [(fact.content, fact.active) for fact in kept] == [(late["content"], True)]


@pytest.mark.parametrize(
    ("content", "late"),
    [("everything the user told", BERLIN), ("the user's Norway budget", TOLD), ("the dog Rex", BERLIN)],
)
async def test_what_a_request_did_not_mean_holds_when_it_comes_late(r: Rig, content: str, late: dict[str, Any]) -> None:
    before = r.clock.now().replace(hour=8)
    await take_back(r, "Please forget " + content, content)
    await r.teach(f"{late['content']}, {SAID}", late, scope=EARLIER, at=before)
    assert [fact.content for fact in await r.facts(active=True)] == [late["content"]]


async def test_a_statement_beside_a_request_to_forget_holds(r: Rig) -> None:
    said = "Forget where I lived, I live in Berlin now"
    gone = {"intent": "forget", "content": "where the user lives", "subject": "user", "predicate": "lives_in"}
    await r.teach(said, gone | {"evidence": said}, BERLIN)
    assert [fact.content for fact in await r.facts(active=True)] == [BERLIN["content"]]


async def test_a_deleted_fact_is_not_read_from_its_turns_again(r: Rig) -> None:
    await r.teach(SAID, TOLD)
    (learned,) = await r.facts()
    await r.plan(deletes=[learned.id])
    r.server.default = {"candidates": [TOLD | {"content": "User's Hawaii budget: $10,000"}]}
    assert await r.worker.mine(ANN, PATIENCE_S)
    assert await r.facts() == []
    latest = (await r.state.outcomes(ANN, session=None, limit=1))[0].outcome
    assert (latest.result, latest.reason) == ("rejected", "forgotten")
    again = "my budget for Hawaii is 10,000 dollars"
    await r.teach(f"As I said, {again}", budget("$10,000", again))
    assert [fact.object for fact in await r.facts()] == ["$10,000"]


async def test_what_was_edited_does_not_return_to_what_was_said(r: Rig) -> None:
    await r.teach(SAID, TOLD)
    (learned,) = await r.facts()
    await r.plan(changes={learned.id: {"content": "User's Hawaii budget is $12,000", "object": "$12,000"}})
    r.server.default = {"candidates": [TOLD]}
    assert await r.worker.mine(ANN, PATIENCE_S)
    assert [(fact.object, fact.active) for fact in await r.facts()] == [("$12,000", True)]


async def test_a_deleted_correction_does_not_come_back(r: Rig) -> None:
    await r.teach(SAID, TOLD)
    fix = {"intent": "correct", "content": "It's 15,000 now", "object": "15,000", "evidence": "it's 15,000 now"}
    await r.teach("No, it's 15,000 now", fix)
    (now,) = await r.facts(active=True)
    await r.plan(deletes=[now.id])
    r.server.default = {"candidates": [TOLD, fix]}
    assert await r.worker.mine(ANN, PATIENCE_S)
    assert [fact.object for fact in await r.facts()] == ["$10,000"]


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
            r.server.answers = [{"candidates": [TOLD]}]
            await r.say(Message(role="user", content=SAID, id="m1"))
            assert await r.worker.learned(ANN, PATIENCE_S)
            (learned,) = await r.facts()
            await r.plan(deletes=[learned.id])
            await r.plan(**gone)


def extracting(summary: str, *candidates: Any) -> Answer:
    return {"summary": summary, "candidates": list(candidates)}


@pytest.mark.parametrize("how", ["edited", "deleted", "taken back", "superseded by a call"])
async def test_a_summary_ends_with_what_it_tells(tmp_path: Path, how: str) -> None:
    async with rig(tmp_path, every_turns=100) as r:
        r.server.default = extracting("The user has a budget of $10,000 for the Hawaii vacation.", TOLD)
        await r.say(SAID)
        assert await r.worker.end_session(ANN, PATIENCE_S)
        r.clock.advance(60)
        (learned,) = [fact for fact in await r.facts() if fact.kind is Kind.SEMANTIC]
        if how == "edited":
            await r.plan(changes={learned.id: {"content": "User's Hawaii budget is $12,000", "object": "$12,000"}})
        elif how == "deleted":
            await r.plan(deletes=[learned.id])
        elif how == "taken back":
            await take_back(r, "Forget my Hawaii budget", "the user's Hawaii budget")
        else:
            new = budget("$9,000")
            new.pop("kind")
            await r.plan(upserts=[type(learned)(**_fields(learned, new))])
        assert [fact for fact in await r.facts(active=True) if fact.kind is Kind.EPISODIC] == []


def _fields(learned: Any, new: dict[str, Any]) -> dict[str, Any]:
    base = {name: getattr(learned, name) for name in ("tenant", "user_id", "kind", "created_at", "updated_at")}
    return base | {"id": "w1"} | new


YACHT_TOLD = "We keep our yacht in Monaco harbour, and Biscuit the dog loves it"
YACHT = {"content": "User has a yacht in Monaco harbour", "evidence": "We keep our yacht in Monaco harbour"}
DOG = {"content": "User has a dog named Biscuit", "evidence": "Biscuit the dog loves it"}
REWORDED: list[dict[str, Any]] = [
    {"content": "The user owns a yacht moored in Monaco", "evidence": "our yacht in Monaco harbour"},
    {"content": "User's yacht is kept in Monaco harbour", "evidence": YACHT["evidence"]},
    YACHT | {"subject": "user", "predicate": "owns_yacht_in", "object": "Monaco harbour"},
]


async def contents(r: Rig, *, active: bool | None = None) -> set[str]:
    return {fact.content for fact in await r.facts(active=active)}


async def read_again(r: Rig, *candidates: Any) -> None:
    r.server.default = {"candidates": list(candidates)}
    assert await r.worker.mine(ANN, PATIENCE_S)


@pytest.mark.parametrize("again", REWORDED)
async def test_a_deleted_fact_without_a_slot_does_not_come_back_in_other_words(r: Rig, again: dict[str, Any]) -> None:
    await r.teach(YACHT_TOLD, YACHT, DOG)
    (yacht,) = [fact for fact in await r.facts() if "yacht" in fact.content]
    assert yacht.slot is None
    await r.plan(deletes=[yacht.id])
    await read_again(r, again, DOG)
    assert await contents(r) == {DOG["content"]}
    latest = (await r.state.outcomes(ANN, session=None, limit=10))[0].outcome
    assert ("rejected", "forgotten") in {
        (noted.outcome.result, noted.outcome.reason) for noted in await r.state.outcomes(ANN, session=None, limit=10)
    }, latest


async def test_something_else_from_the_same_turn_is_learned_though_one_fact_of_it_was_deleted(r: Rig) -> None:
    await r.teach(YACHT_TOLD, YACHT)
    (yacht,) = await r.facts()
    await r.plan(deletes=[yacht.id])
    await read_again(r, DOG)
    assert await contents(r) == {DOG["content"]}


async def test_what_is_said_anew_after_it_was_deleted_is_learned(r: Rig) -> None:
    await r.teach(YACHT_TOLD, YACHT)
    (yacht,) = await r.facts()
    await r.plan(deletes=[yacht.id])
    await r.teach("As I said, our yacht is in Monaco harbour", YACHT | {"evidence": "our yacht is in Monaco harbour"})
    assert await contents(r) == {YACHT["content"]}


async def test_several_deleted_facts_of_one_turn_all_stay_away(r: Rig) -> None:
    await r.teach(YACHT_TOLD, YACHT, DOG)
    for fact in await r.facts():
        await r.plan(deletes=[fact.id])
    await read_again(r, REWORDED[0], DOG | {"content": "Biscuit is the user's dog"})
    assert await contents(r) == set()


@pytest.mark.parametrize("again", REWORDED)
async def test_what_the_user_took_back_does_not_come_back_in_other_words(r: Rig, again: dict[str, Any]) -> None:
    await r.teach(YACHT_TOLD, YACHT, DOG)
    request = "Please forget the yacht in Monaco"
    await r.teach(request, {"intent": "forget", "content": "the yacht in Monaco", "evidence": request})
    assert await contents(r, active=True) == {DOG["content"]}
    await read_again(r, again, DOG)
    assert await contents(r, active=True) == {DOG["content"]}


async def test_what_was_taken_back_holds_again_once_it_is_said_again(r: Rig) -> None:
    await r.teach(YACHT_TOLD, YACHT)
    request = "Please forget the yacht in Monaco"
    await r.teach(request, {"intent": "forget", "content": "the yacht in Monaco", "evidence": request})
    said = "We have a yacht in Monaco again"
    await r.teach(said, {"content": "The user owns a yacht in Monaco", "evidence": said})
    assert await contents(r, active=True) == {"The user owns a yacht in Monaco"}


async def test_an_old_conversation_that_is_imported_after_all_does_not_undo_a_request_to_forget(r: Rig) -> None:
    """The same words under another session, of the time before the request: a client's history that is sent again."""
    before = r.clock.now()
    await r.teach(YACHT_TOLD, YACHT)
    request = "Please forget the yacht in Monaco"
    await r.teach(request, {"intent": "forget", "content": "the yacht in Monaco", "evidence": request})
    again = Scope(tenant=ANN.tenant, user=ANN.user, session="s9")
    await r.teach(YACHT_TOLD, REWORDED[0], scope=again, at=before)
    assert await contents(r, active=True) == set()
    assert [turn.active for turn in await r.turns() if turn.session_id == "s9"] == [False]


async def test_a_deleted_fact_with_a_slot_does_not_come_back_under_another(r: Rig) -> None:
    said = "My budget for Hawaii is $10,000"
    await r.teach(said, budget("$10,000", said))
    (learned,) = await r.facts()
    await r.plan(deletes=[learned.id])
    other = {"content": "User put $10,000 aside for Hawaii", "subject": "user", "predicate": "hawaii_savings"}
    await read_again(r, other | {"object": "$10,000", "evidence": said})
    assert await contents(r) == set()
