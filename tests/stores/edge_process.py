"""A process that uses an embedded store, for tests that kill it or damage its files.

``write FOLDER CYCLE``: writes for ever, and prints after each flush how many memories this process has acknowledged.
``replace FOLDER``: writes and flushes some memories, prints ``flushed``, then replaces them for ever.
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

REPLACED = 50
EAST = [1.0, 0.0, 0.0, 0.0]


async def write(store: EdgeStore, cycle: str) -> None:
    await store.open(None)
    for batch in count(1):
        # every batch also replaces the one before: a kill in the middle must lose neither form
        names = [f"{cycle}/{one}/{place}" for one in (batch - 1, batch) for place in range(20) if one]
        await store.upsert(ANN, [point(memory(name, tags=["flushed"]), EAST) for name in names])
        await store.flush()
        print(batch * 20, flush=True)


async def replace(store: EdgeStore) -> None:
    await store.open(None)
    for batch in count():
        some = [point(memory(f"m{place}", tags=[f"batch {batch}"]), EAST) for place in range(REPLACED)]
        await store.upsert(ANN, some)
        await store.flush()
        if not batch:
            print("flushed", flush=True)


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
    if action == "write":
        await write(store, rest[0])
    else:
        await (replace(store) if action == "replace" else read(store))


if __name__ == "__main__":
    asyncio.run(main())
