"""A process that uses an embedded store, for tests that kill it or damage its files.

``write FOLDER CYCLE``: writes for ever, and prints after each flush how many memories this process has acknowledged.
``read FOLDER``: opens, searches, writes; prints ``read``, or ``unavailable`` when the store says so.
"""

import asyncio
import sys
from itertools import count
from pathlib import Path

from memproxy.errors import StoreUnavailable
from memproxy.ports import HybridQuery, MemoryFilter
from memproxy.stores.edge import EdgeStore
from tests.stores.making import ANN, DIMENSION, WORDS, memory, point

EAST = [1.0, 0.0, 0.0, 0.0]


async def write(store: EdgeStore, cycle: str) -> None:
    await store.open(None)
    for batch in count(1):
        # every batch also replaces the one before: a kill in the middle must lose neither form
        names = [f"{cycle}/{one}/{place}" for one in (batch - 1, batch) for place in range(20) if one]
        await store.upsert(ANN, [point(memory(name, tags=["flushed"]), EAST) for name in names])
        await store.flush()
        print(batch * 20, flush=True)


async def read(store: EdgeStore) -> None:
    try:
        await store.open(None)
        await store.page(ANN, MemoryFilter(), limit=100)
        await store.search(ANN, HybridQuery(dense=EAST, bm25=WORDS))
        await store.upsert(ANN, [point(memory("more"), EAST)])
        await store.close()
    except StoreUnavailable as error:
        print("unavailable", error)
    else:
        print("read")


async def main() -> None:
    action, folder, *rest = sys.argv[1:]
    store = EdgeStore(Path(folder) / "store", dimension=DIMENSION, embedder_name="test:model")
    await (write(store, rest[0]) if action == "write" else read(store))


if __name__ == "__main__":
    asyncio.run(main())
