"""Who erases his memory again and again does not keep the store from all others."""

import asyncio
from pathlib import Path
from time import monotonic

from memproxy.retention.erasing import WAITED_REST, Eraser
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState

SECONDS = 0.2


class LargeStore(EdgeStore):
    """Writing its files anew takes as long as a large one's does."""

    times: list[tuple[float, float]]

    async def optimize(self) -> bool:
        begun = monotonic()
        await asyncio.sleep(SECONDS)
        done = await super().optimize()
        self.times.append((begun, monotonic()))
        return done


async def test_between_two_erasures_the_store_is_free_for_longer_than_one_takes(tmp_path: Path) -> None:
    store = LargeStore(tmp_path / "store", dimension=4, embedder_name=None, lull_s=0)
    store.times = []
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await store.open(None)
    await state.open()
    eraser = Eraser(store, state)
    try:
        begun = monotonic()
        await eraser.now()
        assert monotonic() - begun < WAITED_REST * SECONDS, "the first one waits for nothing"
        for _ in range(3):  # three at a time share one
            await asyncio.gather(eraser.now(), eraser.now(), eraser.now())
    finally:
        await eraser.close()
        await store.close()
        await state.close()
    assert len(store.times) == 4
    gaps = [begin - end for (_, end), (begin, _) in zip(store.times, store.times[1:], strict=False)]
    assert min(gaps) >= (WAITED_REST - 0.5) * SECONDS
