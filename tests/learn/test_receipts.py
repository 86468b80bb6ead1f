"""What learning came to is told to the receipts of the requests whose turns it read."""

from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.protocol import PlanBody, TurnsBody
from memproxy.core.receipt import Decided, Outcome, ReceiptPart
from memproxy.core.turn import Message
from memproxy.ports import JournalEntry, JournalKind
from tests.learn.rig import ANN, PATIENCE_S, Rig, budget, fact, rig
from tests.support.waiting import eventually


async def told(r: Rig, request_id: str, *said: str | Message) -> None:
    """The turn of a request, and what was learned from it."""
    messages = [Message(role="user", content=one) if isinstance(one, str) else one for one in said]
    body = TurnsBody(messages=messages, said_at=r.clock.now(), metadata={"request_id": request_id})
    assert await r.worker.applied(await r.submit(body), PATIENCE_S)
    assert await r.worker.learned(ANN, PATIENCE_S)
    r.clock.advance(60)


async def outcomes(r: Rig) -> list[Outcome]:
    """All that was noted, oldest first."""
    return [noted.outcome for noted in await r.state.outcomes(ANN, session=None, limit=100)][::-1]


async def test_each_operation_names_its_request_and_its_memories(r: Rig) -> None:
    r.server.answers += [
        {"candidates": [budget("$10,000", "My budget for Hawaii is $10,000")]},
        {"candidates": [budget("$10,000", "it is still $10,000 for Hawaii")]},
        {"candidates": [budget("$15,000", "my Hawaii budget is $15,000 now")]},
    ]
    await told(r, "req_1", "My budget for Hawaii is $10,000")
    await told(r, "req_2", "As I said, it is still $10,000 for Hawaii")
    await told(r, "req_3", "Actually my Hawaii budget is $15,000 now")
    (active,), (old,) = await r.facts(active=True), await r.facts(active=False)
    stored, duplicate, pending, superseded = await outcomes(r)
    assert (stored.result, stored.memory_id, stored.request_ids) == ("stored", old.id, ["req_1"])
    assert (duplicate.result, duplicate.memory_id, duplicate.request_ids) == ("duplicate", old.id, ["req_2"])
    assert (superseded.result, superseded.memory_id, superseded.request_ids) == ("superseded", active.id, ["req_3"])
    assert (pending.result, pending.memory_id, pending.request_ids) == ("pending", old.id, ["req_3"])
    assert superseded.supersedes == old.id
    assert [turn.id for turn in await r.turns() if turn.id == stored.turn_id]


async def test_what_is_rejected_says_why(r: Rig) -> None:
    invented = budget("$99,000", "words that nobody said at all")
    r.server.answers += [
        {"candidates": [invented]},
        {"candidates": [budget("$10,000", "My budget for Hawaii is $10,000")]},
        {"candidates": [budget("$12,000", "Your budget for Hawaii is $12,000")]},
    ]
    await told(r, "req_1", "I had a nice day today")
    await told(r, "req_2", "My budget for Hawaii is $10,000")
    claim = Message(role="assistant", content="Your budget for Hawaii is $12,000, I believe.")
    await told(r, "req_3", "I forgot what it was", claim)
    evidence, _, trust = await outcomes(r)
    assert (evidence.result, evidence.reason, evidence.request_ids) == ("rejected", "evidence", ["req_1"])
    assert evidence.content == invented["content"]
    assert (trust.result, trust.reason, trust.request_ids) == ("rejected", "trust", ["req_3"])
    assert "$12,000" in (trust.content or "")


async def applied(r: Rig, plan: PlanBody | dict[str, Any], *noted: Outcome) -> None:
    """The plan was saved, and its outcomes noted, when the engine died; it is applied after the start."""
    number = await r.state.append(JournalEntry(kind=JournalKind.LEARN, scope=ANN, body=b"{}"))
    assert await r.state.save_plan(number, msgspec.json.encode(plan), [])
    await r.state.note_outcomes(number, list(noted), r.clock.now())
    await r.worker.start()
    assert await r.worker.applied(number, PATIENCE_S)


async def test_a_saved_plan_that_is_applied_after_a_crash_tells_its_outcomes_once(tmp_path: Path) -> None:
    outcome = Outcome(result="stored", request_ids=["req_1"], memory_id="f1")
    async with rig(tmp_path, started=False) as r:
        await applied(r, PlanBody(upserts=[fact("f1")], outcomes=[outcome]), outcome)
        assert await outcomes(r) == [outcome]


async def test_a_plan_from_before_there_were_receipts_is_applied(tmp_path: Path) -> None:
    plan = msgspec.to_builtins(PlanBody(upserts=[fact("f1")]))
    del plan["outcomes"]
    async with rig(tmp_path, started=False) as r:
        await applied(r, plan)
        assert await eventually(r.facts)
        assert await outcomes(r) == []


async def test_what_reading_a_turn_cost_is_told_to_its_request(r: Rig) -> None:
    r.server.answers = [500, {"candidates": [budget("$10,000", "My budget for Hawaii is $10,000")]}]
    body = TurnsBody(messages=[Message(role="user", content="My budget for Hawaii is $10,000")], said_at=r.clock.now())
    body.metadata = {"request_id": "req_1"}
    part = ReceiptPart(request_id="req_1", scope=ANN, at=r.clock.now(), decided=Decided(result="empty"))
    await r.state.note_receipts([part])
    assert await r.worker.applied(await r.submit(body), PATIENCE_S)

    await r.worker.learned(ANN, 0.5)
    await r.meanwhile(r.facts, what="it is learned")

    async def told() -> list[Outcome]:
        found = await r.state.receipt(ANN, "req_1")
        return [one for one in found.outcomes if one.result == "tokens"] if found is not None else []

    (cost,) = await eventually(told)
    assert cost.tokens == {"extract": (10, 5)}
    assert [one.result for one in await outcomes(r)] == ["stored"]
