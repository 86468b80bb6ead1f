"""On a disk with little room nothing new is learned, and what is deleted is gone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from memproxy.core.protocol import Deletion, PlanBody, TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.stores.edge import EdgeStore
from tests.learn.rig import ANN, DIMENSION, Rig, WordEmbedder, budget, rig
from tests.learn.test_reconcile_undo import FIRST, SECOND, TOLD
from tests.support.disk import TestDisk
from tests.support.waiting import eventually

OWNER = Scope(tenant="acme", user="ann")
LITTLE_MIB, NOTHING_MIB = 20, 0
TOO_MUCH_FOR_ONE_RUN = "My dog is Rex. " * 5_000


def edge_store(folder: Path, disk: TestDisk) -> EdgeStore:
    return EdgeStore(folder / "store", dimension=DIMENSION, embedder_name=WordEmbedder().name, lull_s=0, disk=disk)


async def test_with_little_room_deletions_go_through_with_the_marks_that_go_with_them(tmp_path: Path) -> None:
    disk = TestDisk()
    async with rig(tmp_path, store=edge_store(tmp_path, disk)) as r:
        await r.teach(TOLD, budget("$10,000"), scope=FIRST)
        await r.teach("My budget for Hawaii is $15,000", budget("$15,000"), scope=SECOND)
        disk.mib = LITTLE_MIB
        await r.plan(undo_session="second")
        (fact,) = await r.facts(active=True)
        assert fact.object == "$10,000"
        await r.plan(deletes=[fact.id])
        assert await r.facts() == []
        assert [(turn.session_id, turn.active) for turn in await r.turns()] == [("first", False)]


async def test_without_any_room_a_deletion_takes_effect_before_the_marks_can(tmp_path: Path) -> None:
    disk = TestDisk()
    async with rig(tmp_path, store=edge_store(tmp_path, disk)) as r:
        await r.teach(TOLD, budget("$10,000", category="honeymoon"), scope=FIRST)
        (fact,) = await r.facts()
        disk.mib = NOTHING_MIB
        number = await r.submit(PlanBody(deletes=[fact.id]), ANN)

        async def gone() -> bool:
            return await r.facts() == []

        await eventually(gone, what="the fact is gone")
        assert [turn.active for turn in await r.turns()] == [True]
        disk.mib = LITTLE_MIB
        await r.carried_out(number)
        assert [turn.active for turn in await r.turns()] == [False]
        assert "honeymoon" not in {row.name for row in await r.state.palace_rows(ANN)}, "nor does its place tell of it"


@asynccontextmanager
async def full(folder: Path, disk: TestDisk, *waiting: tuple[Scope, str]) -> AsyncIterator[Rig]:
    """Something is known of two conversations, and messages wait because there is no room for them."""
    async with rig(folder, store=edge_store(folder, disk)) as r:
        await r.teach(TOLD, budget("$10,000"), scope=FIRST)
        await r.say("The weather is fine", scope=SECOND)
        disk.mib = LITTLE_MIB
        for scope, text in waiting:
            await r.submit(TurnsBody(messages=[Message(role="user", content=text)], said_at=r.clock.now()), scope)
        yield r


async def shown_with_room(r: Rig, disk: TestDisk) -> set[str]:
    """What is shown of the conversations when there is room, and nothing waits any more."""
    disk.mib = 1024
    await r.meanwhile(lambda: r.worker.indexed(ANN, 1), what="all that waited is shown")
    return {turn.content for turn in await r.turns() if turn.active}


@pytest.mark.parametrize(
    ("asked", "waits", "left"),
    [
        ({"delete_where": Deletion()}, "My dog is Rex", set[str]()),
        ({"delete_where": Deletion()}, TOO_MUCH_FOR_ONE_RUN, set[str]()),
        ({"undo_session": "first"}, "My dog is Rex", {"The weather is fine", "It rains"}),
        ({"delete_where": Deletion(session_ids=["first"])}, "My dog is Rex", {"The weather is fine", "It rains"}),
    ],
)
async def test_a_deletion_goes_ahead_of_what_waits_for_room_and_covers_it(
    tmp_path: Path, asked: dict[str, Any], waits: str, left: set[str]
) -> None:
    disk = TestDisk()
    async with full(tmp_path, disk, (FIRST, waits), (SECOND, "It rains")) as r:
        await r.carried_out(await r.submit(PlanBody(**asked), OWNER))
        assert await r.facts() == []
        assert {turn.content for turn in await r.turns()} == left - {"It rains"}
        assert await shown_with_room(r, disk) == left


@pytest.mark.parametrize(("waits", "ahead"), [("My dog is Rex", True), ("So $10,000 for Hawaii it is", False)])
async def test_one_memory_goes_ahead_of_what_does_not_state_it(tmp_path: Path, waits: str, ahead: bool) -> None:
    disk = TestDisk()
    async with full(tmp_path, disk, (SECOND, waits)) as r:
        (fact,) = await r.facts()
        if ahead:
            await r.carried_out(await r.submit(PlanBody(deletes=[fact.id]), OWNER))
            assert await r.facts() == []
        else:
            await r.submit(PlanBody(deletes=[fact.id]))
        assert await shown_with_room(r, disk) == {"The weather is fine"} | ({waits} if ahead else set())
        assert await r.facts() == []


async def test_an_undone_conversation_whose_marks_wait_is_not_begun_anew_by_what_waited(tmp_path: Path) -> None:
    disk = TestDisk()
    async with full(tmp_path, disk) as r:
        disk.mib = 1024
        await r.teach("My budget for Hawaii is $15,000", budget("$15,000"), scope=SECOND)
        disk.mib = NOTHING_MIB
        dog = Message(role="user", content="My dog is Rex")
        await r.submit(TurnsBody(messages=[dog], said_at=r.clock.now()), SECOND)
        await r.submit(PlanBody(undo_session="second"), OWNER)

        async def gone() -> bool:
            return [fact.object for fact in await r.facts()] == ["$10,000"]

        await r.meanwhile(gone, what="the conversation is gone")
        assert [fact.active for fact in await r.facts()] == [False], "its marks wait"
        assert await shown_with_room(r, disk) == {TOLD}
        assert [fact.active for fact in await r.facts()] == [True]
