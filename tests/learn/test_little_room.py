"""On a disk with little room nothing new is learned, and what is deleted is gone."""

from pathlib import Path

from memproxy.core.protocol import PlanBody
from memproxy.core.scope import Scope
from memproxy.stores.edge import EdgeStore
from tests.learn.rig import ANN, DIMENSION, PATIENCE_S, WordEmbedder, budget, rig
from tests.support.disk import TestDisk
from tests.support.waiting import eventually

FIRST = Scope(tenant="acme", user="ann", session="first")
SECOND = Scope(tenant="acme", user="ann", session="second")
LITTLE_MIB, NOTHING_MIB = 20, 0


def edge_store(folder: Path, disk: TestDisk) -> EdgeStore:
    return EdgeStore(folder / "store", dimension=DIMENSION, embedder_name=WordEmbedder().name, lull_s=0, disk=disk)


async def test_with_little_room_deletions_go_through_with_the_marks_that_go_with_them(tmp_path: Path) -> None:
    disk = TestDisk()
    async with rig(tmp_path, store=edge_store(tmp_path, disk)) as r:
        await r.teach("My budget for Hawaii is $10,000", budget("$10,000"), scope=FIRST)
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
        await r.teach("My budget for Hawaii is $10,000", budget("$10,000"), scope=FIRST)
        (fact,) = await r.facts()
        disk.mib = NOTHING_MIB
        number = await r.submit(PlanBody(deletes=[fact.id]), ANN)

        async def gone() -> bool:
            return await r.facts() == []

        await eventually(gone, what="the fact is gone")
        assert [turn.active for turn in await r.turns()] == [True]
        disk.mib = LITTLE_MIB
        r.clock.advance(600)
        r.worker.wake()
        assert await r.worker.applied(number, PATIENCE_S)
        assert [turn.active for turn in await r.turns()] == [False]
