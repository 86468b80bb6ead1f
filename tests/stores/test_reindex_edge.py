"""The folder of an embedded store through reindexes: older layouts, and kills at the worst moments."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from memproxy.stores.edge import EdgeStore
from memproxy.stores.edge_files import MARKER, OTHER_SHARD, REBUILD, SHARD
from tests.stores.making import ANN
from tests.stores.reindex_process import COPIED
from tests.stores.reindexing import Lengths, everything, fill, found_by, named, people, reindexed

ROOT = Path(__file__).resolve().parents[2]


def old(folder: Path) -> EdgeStore:
    return EdgeStore(folder / "store", dimension=4, embedder_name="test:old")


def new(folder: Path) -> EdgeStore:
    return EdgeStore(folder / "store", dimension=8, embedder_name="test:new")


async def filled(folder: Path) -> None:
    store = old(folder)
    await store.open(None)
    await fill(store, people(), Lengths(4))
    await store.close()


def layout(folder: Path) -> tuple[str, set[str]]:
    """The subfolder that the marker names, and what subfolders there are."""
    marker = json.loads((folder / "store" / MARKER).read_text())
    there = {one.name for one in (folder / "store").iterdir() if one.is_dir()}
    return marker["shard"], there


async def killed_at(line: str, action: str, folder: Path) -> None:
    """Run the process until it prints ``line``, and kill it then."""
    arguments = [sys.executable, "-m", "tests.stores.reindex_process", action, str(folder)]
    process = await asyncio.create_subprocess_exec(
        *arguments, stdout=asyncio.subprocess.PIPE, cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert process.stdout is not None
    while (said := (await process.stdout.readline()).decode().strip()) != line:
        assert said, "it ended by itself"
    process.kill()
    await process.wait()


async def opens(folder: Path, dimension: int) -> bool:
    """Whether it opens for vectors of this length; then everything is in it and found."""
    store = old(folder) if dimension == 4 else new(folder)
    try:
        await store.open(None)
    except ConfigError:
        return False
    try:
        assert await everything(store) == named(people())
        assert await store.points() == len(people())
        assert await found_by(store, ANN, "word3", dimension=dimension) == {"t2", "t3", "t4"}
    finally:
        await store.close()
    return True


async def test_a_reindex_writes_to_the_other_subfolder_and_the_next_one_back(tmp_path: Path) -> None:
    await filled(tmp_path)
    assert await opens(tmp_path, 4)
    assert layout(tmp_path) == (SHARD, {SHARD})
    for store, dimension, expected in (
        (new(tmp_path), 8, (OTHER_SHARD, {OTHER_SHARD})),
        (old(tmp_path), 4, (SHARD, {SHARD})),
    ):
        await reindexed(store, Lengths(dimension))
        await store.close()
        assert await opens(tmp_path, dimension)
        assert layout(tmp_path) == expected
        assert not (tmp_path / "store" / REBUILD).exists()


async def test_a_killed_reindex_goes_on_where_it_was(tmp_path: Path) -> None:
    await filled(tmp_path)
    await killed_at("stuck", "copy", tmp_path)
    assert await opens(tmp_path, 4)
    store, embedder = new(tmp_path), Lengths(8)
    done = await reindexed(store, embedder)
    await store.close()
    assert done.progress.kept == COPIED
    assert embedder.embedded == len(people()) - COPIED + 1  # one text to see whether it gives token vectors
    assert await opens(tmp_path, 8)


@pytest.mark.parametrize("moment", ["switching", "switched"])
async def test_a_kill_at_the_switch_leaves_exactly_one_store(tmp_path: Path, moment: str) -> None:
    await filled(tmp_path)
    await killed_at(moment, "switch", tmp_path)
    assert [await opens(tmp_path, dimension) for dimension in (4, 8)].count(True) == 1
    if moment == "switched":
        assert layout(tmp_path) == (OTHER_SHARD, {OTHER_SHARD})
        assert not (tmp_path / "store" / REBUILD).exists()
