"""A process that uses an embedded store, for tests that kill it or damage its files.

``write FOLDER CYCLE``: writes for ever, and prints after each flush how many memories this process has acknowledged.
``replace FOLDER``: writes and flushes some memories, prints ``flushed``, then replaces them for ever.
``damaged FOLDER``: puts noise in place of one file after the other; prints its name, then opens, searches, writes, and
prints ``read``, or ``unavailable`` when the store says so.
"""

import asyncio
import os
import sys
from contextlib import suppress
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


DAMAGED = ("segment.json", "edge_config.json", "mutable_id_tracker.mappings", "config.json", "tracker.dat")


async def damaged(folder: Path) -> None:
    for path in sorted((folder / "store" / "shard").rglob("*")):
        if path.name in DAMAGED and "payload_index" not in str(path):
            good = path.read_bytes()
            path.write_bytes(os.urandom(max(64, min(len(good), 4096))))
            print(path.name, end=" ", flush=True)
            print(await read(made(folder)), flush=True)
            path.write_bytes(good)


async def read(store: EdgeStore) -> str:
    try:
        await store.open(None)
        await store.page(ANN, MemoryFilter(), limit=100)
        await store.search(ANN, HybridQuery(dense=EAST, bm25=WORDS))
        await store.upsert(ANN, [point(memory("more"), EAST)])
    except StoreUnavailable:
        return "unavailable"
    else:
        return "read"
    finally:
        with suppress(StoreUnavailable):
            await store.close()


def made(folder: Path) -> EdgeStore:
    return EdgeStore(folder / "store", dimension=DIMENSION, embedder_name="test:model")


async def main() -> None:
    action, folder, *rest = sys.argv[1:]
    if action == "damaged":
        await damaged(Path(folder))
    elif action == "write":
        await write(made(Path(folder)), rest[0])
    else:
        await replace(made(Path(folder)))


if __name__ == "__main__":
    asyncio.run(main())
