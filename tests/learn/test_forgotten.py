"""What was taken back or deleted does not come back: by a late import, by reading its turns again, by a summary."""

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
    tmp_path: Path, request_: dict[str, Any], late: dict[str, Any]
) -> None:
    async with rig(tmp_path) as r:
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
async def test_what_a_request_did_not_mean_holds_when_it_comes_late(
    tmp_path: Path, content: str, late: dict[str, Any]
) -> None:
    async with rig(tmp_path) as r:
        before = r.clock.now().replace(hour=8)
        await take_back(r, "Please forget " + content, content)
        await r.teach(f"{late['content']}, {SAID}", late, scope=EARLIER, at=before)
        assert [fact.content for fact in await r.facts(active=True)] == [late["content"]]


async def test_a_statement_beside_a_request_to_forget_holds(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        said = "Forget where I lived, I live in Berlin now"
        gone = {"intent": "forget", "content": "where the user lives", "subject": "user", "predicate": "lives_in"}
        await r.teach(said, gone | {"evidence": said}, BERLIN)
        assert [fact.content for fact in await r.facts(active=True)] == [BERLIN["content"]]


async def test_a_deleted_fact_is_not_read_from_its_turns_again(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
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


async def test_what_was_edited_does_not_return_to_what_was_said(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.teach(SAID, TOLD)
        (learned,) = await r.facts()
        await r.plan(changes={learned.id: {"content": "User's Hawaii budget is $12,000", "object": "$12,000"}})
        r.server.default = {"candidates": [TOLD]}
        assert await r.worker.mine(ANN, PATIENCE_S)
        assert [(fact.object, fact.active) for fact in await r.facts()] == [("$12,000", True)]


async def test_a_deleted_correction_does_not_come_back(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
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
