"""What a plan deletes, supersedes or edits is taken out of the blocks that sessions repeat; nothing else is."""

from typing import Any

import pytest

from memproxy.core.protocol import Deletion
from memproxy.core.scope import Scope
from memproxy.ports import BlockLine
from tests.learn.rig import ANN, BEN, NOON, Rig, budget, fact


async def show(r: Rig, *ids: str, scope: Scope = ANN) -> None:
    """A session was given these memories."""
    lines = [BlockLine(text=f"- {name}", memory_id=name) for name in ids]
    erasures = (await r.state.find_blocks(scope, [])).erasures
    assert await r.state.save_block(scope, "message", lines, erasures=erasures, at=NOON)


async def shown(r: Rig, scope: Scope = ANN) -> list[str | None]:
    blocks = (await r.state.find_blocks(scope, ["message"])).blocks
    return [line.memory_id for line in blocks.get("message", [])]


@pytest.mark.parametrize(
    ("plan", "left"),
    [
        ({"deletes": ["f1"]}, ["f2"]),
        ({"delete_where": Deletion(ids=["f1"])}, ["f2"]),
        ({"delete_where": Deletion(session_ids=["elsewhere"])}, []),
        ({"changes": {"f1": {"content": "another text"}}}, ["f2"]),
        ({"changes": {"f1": {"valid_to": "2024-05-01T12:00:00Z", "active": False}}}, ["f2"]),
        ({"changes": {"f1": {"tags": ["new"]}}}, ["f1", "f2"]),
        ({"upserts": [fact("f1", content="the same id, another text")]}, ["f2"]),
        ({"upserts": [fact("f3")]}, ["f1", "f2"]),
    ],
)
async def test_a_plan_takes_what_it_erases_out_of_the_blocks(r: Rig, plan: dict[str, Any], left: list[str]) -> None:
    await r.plan(upserts=[fact("f1"), fact("f2")])
    await show(r, "f1", "f2")
    await show(r, "f1", scope=BEN)
    await r.plan(**plan)
    assert await shown(r) == left
    assert await shown(r, BEN) == ["f1"]


async def test_a_superseded_fact_and_its_turn_leave_the_blocks(r: Rig) -> None:
    await r.teach("My budget for Hawaii is $10,000", budget("$10,000"))
    (old,), (turn,) = await r.facts(), await r.turns()
    await show(r, old.id, turn.id, "other")
    await r.teach("Actually my Hawaii budget is $15,000 now", budget("$15,000"))
    assert await shown(r) == ["other"]


async def test_a_fact_that_was_said_again_stays_in_the_blocks(r: Rig) -> None:
    await r.teach("My budget for Hawaii is $10,000", budget("$10,000"))
    (known,) = await r.facts()
    await show(r, known.id)
    await r.teach("As I said, ten grand for Hawaii: a budget of 10000 dollars", budget("10000 dollars"))
    assert await shown(r) == [known.id]
