"""Embedded stores that go on with the files of one that is done, for tests that are about something else."""

import atexit
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import qdrant_edge as edge

from memproxy.stores.edge import EdgeStore
from tests.support.folders import MEMORY_FOLDER, Folders

MOST_USES = 50
"""What is deleted stays in the files until they are made anew."""

_folders = Folders(MEMORY_FOLDER, Path(tempfile.gettempdir()))
atexit.register(_folders.close)


class _Files:
    """A store's files, which are made at the first use."""

    def __init__(self) -> None:
        self.block = _folders.new("store")
        self.folder = self.block.__enter__()
        self.shard: edge.EdgeShard | None = None
        self.uses = 0


_left: dict[tuple[int, str | None], list[_Files]] = defaultdict(list)


class EmptiedStore(EdgeStore):
    """An empty store, opened once. To make a new one takes 50 ms of processor time, most of it for 36 MB of zeros; to
    delete all that is in one takes less than one. Nothing else is kept: what is in memory is this object's.
    """

    def __init__(self, *, dimension: int, embedder_name: str | None, lull_s: float = 0.0, **options: Any) -> None:
        self._others = _left[dimension, embedder_name]
        self._files: _Files | None = self._others.pop() if self._others else _Files()
        folder = self._files.folder / "store"
        super().__init__(folder, dimension=dimension, embedder_name=embedder_name, lull_s=lull_s, **options)

    def _loaded(self, dimension: int) -> edge.EdgeShard:
        assert self._files is not None, "whoever opens a store again has files of his own"
        self._files.shard = self._files.shard or super()._loaded(dimension)
        return self._files.shard

    def _close(self) -> None:
        files, shard = self._files, self._shard
        if files is None or shard is None or files.shard is not shard:  # not open, or reindexed
            super()._close()
            return
        self._files = self._shard = None
        self._folder.release()
        files.uses += 1
        if files.uses < MOST_USES:
            shard.update(edge.UpdateOperation.delete_points_by_filter(edge.Filter()))
            assert shard.info().points_count == 0
            self._others.append(files)
        else:
            shard.close()
            files.block.__exit__(None, None, None)
