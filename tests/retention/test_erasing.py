"""How long deleted text may stay in the files where nobody waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic

import pytest

from memproxy.errors import StoreUnavailable
from memproxy.retention.erasing import LONGEST_REST_S, WAITED_REST, Eraser, rest_after
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState
from tests.support.waiting import LONGEST_S


def test_text_waits_ten_seconds_at_most_unless_writing_files_would_take_over_a_fifth_of_the_time() -> None:
    assert all(rest_after(took_s) <= LONGEST_REST_S == 10 for took_s in (0.01, 0.1, 0.5, 1.0, 2.5))
    for took_s in (3.0, 60.0, 600.0):
        assert took_s / (took_s + rest_after(took_s)) == pytest.approx(0.2)
    assert rest_after(0.3) == pytest.approx(6), "a twentieth of the time where they are written at once"


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


@asynccontextmanager
async def erasing(folder: Path, **options: float) -> AsyncIterator[tuple[Eraser, LargeStore]]:
    """An eraser of a large store."""
    store = LargeStore(folder / "store", dimension=4, embedder_name=None, lull_s=0)
    store.times = []
    state = SqliteState(folder / "state.db", sync="normal")
    await store.open(None)
    await state.open()
    eraser = Eraser(store, state, **options)
    try:
        yield eraser, store
    finally:
        await eraser.close()
        await store.close()
        await state.close()


async def test_between_two_erasures_the_store_is_free_for_longer_than_one_takes(tmp_path: Path) -> None:
    async with erasing(tmp_path, longest_wait_s=LONGEST_S) as (eraser, store):
        await eraser.now()
        for _ in range(3):  # three at a time share one
            await asyncio.gather(eraser.now(), eraser.now(), eraser.now())
    assert len(store.times) == 4
    gaps = [begin - end for (_, end), (begin, _) in zip(store.times, store.times[1:], strict=False)]
    assert min(gaps) >= (WAITED_REST - 0.5) * SECONDS


async def test_the_first_waits_for_nothing_and_what_would_wait_too_long_is_done_later(tmp_path: Path) -> None:
    async with erasing(tmp_path, longest_wait_s=0) as (eraser, store):
        await eraser.now()
        with pytest.raises(StoreUnavailable):
            await eraser.now()
        assert eraser.pending
        assert len(store.times) == 1
