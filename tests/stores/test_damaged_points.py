"""What is left of a damaged store's points is passed over, counted and named; it hides nothing else."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from memproxy.ports import MemoryFilter, MemoryStore
from memproxy.stores.backend import FoundPoint
from memproxy.stores.filters import Where, readable
from memproxy.stores.paging import Cursor, newest
from memproxy.stores.payload import Points
from tests.stores.making import ANN, memory, point
from tests.stores.opening import stores_under

ALL = readable(ANN, MemoryFilter())


class HalfGone:
    """A real engine some of whose points have lost their payload, as after their file was cut short: its indexes of
    the payload know them still.
    """

    def __init__(self, inner: Points, kept: dict[str, dict[str, Any]]) -> None:
        """``kept`` is what is left of each, by point id."""
        self._inner = inner
        self._kept = kept

    async def scroll(self, where: Where, **options: Any) -> list[FoundPoint]:
        read = await self._inner.scroll(where, **options)
        return [FoundPoint(one.id, self._kept.get(one.id, one.payload)) for one in read]


def passed_over() -> float:
    return REGISTRY.get_sample_value("memproxy_internal_errors_total", {"where": "store.payload"}) or 0.0


async def written(store: MemoryStore) -> list[FoundPoint]:
    """Twelve memories, three of each time, newest first as they are listed."""
    await store.upsert(ANN, [point(memory(f"m{place}", seconds=place // 3)) for place in range(12)])
    found, _ = await newest(inner(store), ALL, limit=20, cursor=None)
    return found


def inner(store: MemoryStore) -> Points:
    made: Points = store._points  # type: ignore[attr-defined]
    return made


async def pages(backend: Points, limit: int) -> list[list[str]]:
    read: list[list[str]] = []
    cursor: Cursor | None = None
    while cursor is not None or not read:
        found, cursor = await newest(backend, ALL, limit=limit, cursor=cursor)
        read.append([one.id for one in found])
    return read


@pytest.mark.parametrize("gone", [[0], [11], [1, 3, 4, 5], [0, 1, 2, 3, 4, 5, 6], range(12)])
async def test_a_list_passes_over_points_without_a_payload_and_misses_none_of_the_others(
    tmp_path: Path, gone: Sequence[int], caplog: pytest.LogCaptureFixture
) -> None:
    async with stores_under("edge", tmp_path)() as store:
        found = await written(store)
        left: list[dict[str, Any]] = [{}, {"created_at": "never"}]
        damaged = {found[place].id: left[place % 2] for place in gone}
        backend = cast(Points, HalfGone(inner(store), damaged))
        before = passed_over()
        for limit in (1, 2, 3, 5, 12):
            read = await pages(backend, limit)
            assert [name for page in read for name in page] == [one.id for one in found if one.id not in damaged]
            assert {len(page) for page in read[:-1]} <= {limit}
        assert passed_over() > before
        assert all(place in caplog.text for place in damaged)
