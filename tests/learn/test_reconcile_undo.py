"""Undoing a conversation, and deletions that nothing brings back."""

from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.ports import JournalEntry, JournalKind, SlotChange
from tests.learn.rig import ANN, NOON, PATIENCE_S, Rig, budget, fact, rig
from tests.learn.test_invariants import check

FIRST, SECOND, THIRD = (Scope(tenant="acme", user="ann", session=one) for one in ("first", "second", "third"))
TOLD = "My budget for Hawaii is $10,000"


async def told(r: Rig, scope: Scope, text: str, amount: str, **fields: Any) -> None:
    await r.teach(text, budget(amount, text, **fields), scope=scope)


async def taken_back(r: Rig) -> None:
    said = "Forget my Hawaii budget"
    request = {"intent": "forget", "content": "the user's Hawaii budget", "evidence": said}
    await r.teach(said, request, scope=SECOND)


async def undo(r: Rig, session: str) -> list[Memory]:
    await r.plan(undo_session=session)
    facts = await r.facts()
    check(facts)
    return facts


async def holder(r: Rig) -> list[str]:
    slot = "user|budget_for_hawaii_vacation|"
    return list((await r.state.slots(ANN, [slot])).values())


async def test_what_an_undone_conversation_superseded_is_active_again(r: Rig) -> None:
    await told(r, FIRST, TOLD, "$10,000")
    before, turns = await r.facts(), await r.turns()
    await told(r, SECOND, "My Hawaii budget is $15,000 now", "$15,000")
    (only,) = await undo(r, "second")
    assert msgspec.structs.replace(only, updated_at=before[0].updated_at) == before[0]
    assert await holder(r) == [only.id]
    assert await r.turns() == turns


async def test_undoing_the_middle_joins_what_stands_beside_it(r: Rig) -> None:
    await told(r, FIRST, TOLD, "$10,000")
    await told(r, SECOND, "My Hawaii budget is $15,000 now", "$15,000")
    await told(r, THIRD, "My Hawaii budget is $20,000 now", "$20,000")
    facts = {fact.object: fact for fact in await undo(r, "second")}
    assert set(facts) == {"$10,000", "$20,000"}
    assert facts["$10,000"].superseded_by == facts["$20,000"].id
    assert facts["$10,000"].valid_to == facts["$20,000"].valid_from
    assert await holder(r) == [facts["$20,000"].id]
    marks = {turn.session_id: turn.superseded_by for turn in await r.turns()}
    assert marks == {"first": facts["$20,000"].id, "third": None}


async def test_what_other_conversations_say_too_stays_and_no_longer_quotes_the_undone_one(r: Rig) -> None:
    await told(r, FIRST, TOLD, "$10,000")
    await told(r, SECOND, "As I said, my budget for Hawaii is 10,000 dollars", "$10,000")
    (known,) = await r.facts()
    assert known.metadata["evidence"] == TOLD
    (kept,) = await undo(r, "first")
    (turn,) = await r.turns()
    assert (kept.active, kept.turn_ids, kept.session_id) == (True, [turn.id], "second")
    assert known.turn_ids[1:] == [turn.id]
    assert (kept.room, kept.pointer) == ("second", "W-001/R-02")
    assert "evidence" not in kept.metadata
    assert await holder(r) == [kept.id]


async def test_what_an_undone_conversation_took_back_holds_again(r: Rig) -> None:
    await told(r, FIRST, TOLD, "$10,000")
    before, turns = await r.facts(), await r.turns()
    await taken_back(r)
    assert await r.facts(active=True) == []
    (again,) = await undo(r, "second")
    assert msgspec.structs.replace(again, updated_at=before[0].updated_at) == before[0]
    assert await r.turns() == turns
    assert await holder(r) == [again.id]


async def test_what_the_assistant_repeated_elsewhere_of_an_undone_conversation_is_not_given(r: Rig) -> None:
    await told(r, FIRST, TOLD, "$10,000")
    answer = Message(role="assistant", content="Your budget for Hawaii is $10,000.")
    await r.say("What is my budget for Hawaii?", answer, scope=SECOND)
    await undo(r, "first")
    assert {turn.content: turn.active for turn in await r.turns()} == {
        "What is my budget for Hawaii?": True,
        answer.content: False,
    }


async def test_a_reopened_statement_leaves_its_slot_to_whoever_took_it_meanwhile(r: Rig) -> None:
    await told(r, FIRST, TOLD, "$10,000")
    await taken_back(r)
    await told(r, THIRD, "My Hawaii budget is $20,000 now", "$20,000")
    facts = {fact.object: fact for fact in await undo(r, "second")}
    assert (facts["$10,000"].active, facts["$20,000"].active) == (False, True)
    assert await holder(r) == [facts["$20,000"].id]


async def test_undoing_a_conversation_that_does_not_exist_changes_nothing(r: Rig) -> None:
    await told(r, FIRST, TOLD, "$10,000")
    before = await r.facts()
    assert await undo(r, "never") == before
    assert len(await r.turns()) == 1


async def test_a_delete_by_scope_frees_its_slots_with_its_plan(tmp_path: Path) -> None:
    async with rig(tmp_path, enabled=False) as r:
        mine = fact("a", subject="user", predicate="rent", object="900", session_id="s1")
        other = fact("b", subject="user", predicate="salary", object="900", session_id="s2")
        await r.plan(upserts=[mine, other])
        await r.plan(delete_where=Deletion(session_ids=["s1"]))
        assert await r.state.slots(ANN, ["user|rent|", "user|salary|"]) == {"user|salary|": "b"}


async def saved(r: Rig, *memories: Memory, slots: list[SlotChange]) -> int:
    """A learn row whose plan is saved and not applied: the engine died in between."""
    number = await r.state.append(JournalEntry(kind=JournalKind.LEARN, scope=ANN, body=b"{}"))
    assert await r.state.save_plan(number, msgspec.json.encode(PlanBody(upserts=list(memories))), slots)
    return number


async def test_a_deleted_memory_is_not_brought_back_by_a_plan_that_is_applied_again(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False) as r:
        number = await saved(r, fact("f1"), fact("f2"), slots=[])
        await r.state.claim("learn", limit=1, now=NOON)  # it is being worked on, and had got so far as to write them
        await r.worker.start()
        await r.plan(upserts=[fact("f1"), fact("f2")])
        await r.plan(deletes=["f1"])
        assert await r.worker.applied(number, PATIENCE_S)
        assert [one.id for one in await r.facts()] == ["f2"]


async def test_what_rests_on_deleted_turns_is_not_brought_back_by_a_plan_that_is_applied_again(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False) as r:
        old = fact("old", subject="user", predicate="rent", object="900", slot="user|rent|")
        new = fact("new", subject="user", predicate="rent", object="950", slot="user|rent|", supersedes="old")
        new.turn_ids = ["deleted meanwhile"]
        assert await r.state.change_slots(ANN, [SlotChange(slot="user|rent|", expected=None, new="old")])
        taken = SlotChange(slot="user|rent|", expected="old", new="new")
        number = await saved(r, new, slots=[taken])
        await r.worker.start()
        assert await r.worker.applied(number, PATIENCE_S)
        assert await r.facts() == []
        assert await r.state.slots(ANN, ["user|rent|"]) == {"user|rent|": old.id}
