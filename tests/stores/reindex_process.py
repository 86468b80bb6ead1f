"""A process that reindexes an embedded store and is killed meanwhile.

``copy FOLDER``: copies some memories durably, prints ``stuck`` and waits for ever.
``switch FOLDER``: prints ``switching`` before the switch and ``switched`` behind it, and waits for ever.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from memproxy.learn.reindex import Reindexer
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Passage, Rebuild
from memproxy.stores.edge import EdgeStore
from tests.stores.reindexing import Lengths

COPIED = 24
"""Memories that ``copy`` has made durable before it gets stuck."""

BATCH = 8


class Stuck(Lengths):
    """Does not answer any more after some texts."""

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        if self.embedded >= COPIED:
            print("stuck", flush=True)
            await asyncio.Event().wait()
        return await super().embed_passages(texts)


class Telling:
    """A rebuild that tells of its switch."""

    def __init__(self, rebuild: Rebuild) -> None:
        self._rebuild = rebuild

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rebuild, name)

    async def switch(self) -> None:
        print("switching", flush=True)
        await self._rebuild.switch()
        print("switched", flush=True)
        await asyncio.Event().wait()


async def main() -> None:
    action, folder = sys.argv[1:]
    store = EdgeStore(Path(folder) / "store", dimension=8, embedder_name="test:new")
    rebuild = cast("Rebuild", Telling(await store.begin_rebuild(None)))
    embedder = Stuck(8) if action == "copy" else Lengths(8)
    await Reindexer(rebuild, embedder=embedder, lexical=Bm25Encoder(), batch=BATCH, flush_every_s=0).run()


if __name__ == "__main__":
    asyncio.run(main())
