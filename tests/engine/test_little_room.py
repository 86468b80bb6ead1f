"""Readiness on a disk with little room."""

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memproxy.errors import StoreUnavailable
from memproxy.stores.edge import EdgeStore
from tests.support.disk import TestDisk
from tests.support.engine import DIMENSION, SwitchedStore, make_engine, serve_engine
from tests.support.waiting import eventually


async def test_a_store_whose_disk_is_full_is_degraded_until_there_is_room(tmp_path: Path) -> None:
    disk = TestDisk(mib=40)
    store = EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None, disk=disk)
    async with serve_engine(make_engine(tmp_path, store=store)) as api:
        parts = await api.readiness()
        assert parts["store"].startswith("degraded: The disk of the store in")
        assert "has 40 MiB left. Free some space" in parts["store"]
        assert parts["state"] == "ready"
        assert (await api.call("GET", "/v1/memory")).status_code == 200
        disk.mib = 100

        async def ready() -> bool:
            return (await api.readiness())["store"] == "ready"

        await eventually(ready, what="there is room")


class CrowdedStore(SwitchedStore):
    """A real store whose disk has no room to write its files anew."""

    crowded = True

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = super().__getattr__(name)
        if not inspect.iscoroutinefunction(call):
            return call

        async def unless_crowded(*arguments: Any, **named: Any) -> Any:
            if self.crowded and name == "optimize":
                raise StoreUnavailable("Not enough space available for optimization.")
            return await call(*arguments, **named)

        return unless_crowded


async def test_a_user_is_erased_where_the_files_cannot_be_written_anew_and_they_are_later(tmp_path: Path) -> None:
    store = CrowdedStore(EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None))
    engine = make_engine(tmp_path, store=store.as_store())
    async with serve_engine(engine) as api:
        await api.store("User plays the theremin")
        gone = await api.call("DELETE", "/v1/memory/users/default")
        assert (gone.status_code, gone.json(), gone.headers["x-memproxy-erasure"]) == (200, {"deleted": 1}, "pending")
        assert await api.page() == []
        assert (await api.call("GET", "/v1/memory/stats")).json()["erasure"] == "pending"
        store.crowded = False
        again = await api.call("DELETE", "/v1/memory/users/default")
        assert (again.status_code, again.headers["x-memproxy-erasure"]) == (200, "complete")
        assert not engine.backends().eraser.pending
