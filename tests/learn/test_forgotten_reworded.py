"""What was forgotten does not come back in other words, when the turns that told it are read again."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.scope import Scope
from tests.learn.rig import ANN, PATIENCE_S, Rig, budget, rig

SAID = "We keep our yacht in Monaco harbour, and Biscuit the dog loves it"
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
async def test_a_deleted_fact_without_a_slot_does_not_come_back_in_other_words(
    tmp_path: Path, again: dict[str, Any]
) -> None:
    async with rig(tmp_path) as r:
        await r.teach(SAID, YACHT, DOG)
        (yacht,) = [fact for fact in await r.facts() if "yacht" in fact.content]
        assert yacht.slot is None
        await r.plan(deletes=[yacht.id])
        await read_again(r, again, DOG)
        assert await contents(r) == {DOG["content"]}
        latest = (await r.state.outcomes(ANN, session=None, limit=10))[0].outcome
        assert ("rejected", "forgotten") in {
            (noted.outcome.result, noted.outcome.reason)
            for noted in await r.state.outcomes(ANN, session=None, limit=10)
        }, latest


async def test_something_else_from_the_same_turn_is_learned_though_one_fact_of_it_was_deleted(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.teach(SAID, YACHT)
        (yacht,) = await r.facts()
        await r.plan(deletes=[yacht.id])
        await read_again(r, DOG)
        assert await contents(r) == {DOG["content"]}


async def test_what_is_said_anew_after_it_was_deleted_is_learned(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.teach(SAID, YACHT)
        (yacht,) = await r.facts()
        await r.plan(deletes=[yacht.id])
        await r.teach(
            "As I said, our yacht is in Monaco harbour", YACHT | {"evidence": "our yacht is in Monaco harbour"}
        )
        assert await contents(r) == {YACHT["content"]}


async def test_several_deleted_facts_of_one_turn_all_stay_away(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.teach(SAID, YACHT, DOG)
        for fact in await r.facts():
            await r.plan(deletes=[fact.id])
        await read_again(r, REWORDED[0], DOG | {"content": "Biscuit is the user's dog"})
        assert await contents(r) == set()


@pytest.mark.parametrize("again", REWORDED)
async def test_what_the_user_took_back_does_not_come_back_in_other_words(tmp_path: Path, again: dict[str, Any]) -> None:
    async with rig(tmp_path) as r:
        await r.teach(SAID, YACHT, DOG)
        request = "Please forget the yacht in Monaco"
        await r.teach(request, {"intent": "forget", "content": "the yacht in Monaco", "evidence": request})
        assert await contents(r, active=True) == {DOG["content"]}
        await read_again(r, again, DOG)
        assert await contents(r, active=True) == {DOG["content"]}


async def test_what_was_taken_back_holds_again_once_it_is_said_again(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.teach(SAID, YACHT)
        request = "Please forget the yacht in Monaco"
        await r.teach(request, {"intent": "forget", "content": "the yacht in Monaco", "evidence": request})
        said = "We have a yacht in Monaco again"
        await r.teach(said, {"content": "The user owns a yacht in Monaco", "evidence": said})
        assert await contents(r, active=True) == {"The user owns a yacht in Monaco"}


async def test_an_old_conversation_that_is_imported_after_all_does_not_undo_a_request_to_forget(tmp_path: Path) -> None:
    """The same words under another session, of the time before the request: a client's history that is sent again."""
    async with rig(tmp_path) as r:
        before = r.clock.now()
        await r.teach(SAID, YACHT)
        request = "Please forget the yacht in Monaco"
        await r.teach(request, {"intent": "forget", "content": "the yacht in Monaco", "evidence": request})
        again = Scope(tenant=ANN.tenant, user=ANN.user, session="s9")
        await r.teach(SAID, REWORDED[0], scope=again, at=before)
        assert await contents(r, active=True) == set()
        assert [turn.active for turn in await r.turns() if turn.session_id == "s9"] == [False]


async def test_a_deleted_fact_with_a_slot_does_not_come_back_under_another(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        said = "My budget for Hawaii is $10,000"
        await r.teach(said, budget("$10,000", said))
        (learned,) = await r.facts()
        await r.plan(deletes=[learned.id])
        other = {"content": "User put $10,000 aside for Hawaii", "subject": "user", "predicate": "hawaii_savings"}
        await read_again(r, other | {"object": "$10,000", "evidence": said})
        assert await contents(r) == set()
