"""What is told next is indexed although what was told before waits for a flush, and the flush for searches to pause."""

from pathlib import Path

from tests.learn.rig import rig
from tests.learn.test_groups import Watched, said
from tests.support.waiting import eventually


class Patient(Watched):
    """Its flushes wait until they are to hurry."""

    def hurry(self) -> None:
        self.may_flush.set()


async def test_a_message_behind_one_that_is_not_flushed_has_the_flush_hurry(tmp_path: Path) -> None:
    store = Patient(tmp_path)
    store.may_flush.clear()
    async with rig(tmp_path, store=store, enabled=False) as r:

        async def indexed() -> list[str]:
            return [turn.content for turn in await r.turns()]

        await r.submit(said(1))
        await eventually(indexed, what="the first one is found")
        await r.submit(said(2))

        async def both() -> bool:
            return sorted(await indexed()) == ["remark 1", "remark 2"]

        await eventually(both, what="the second one is found")
