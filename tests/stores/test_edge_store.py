"""The embedded store: its folder, its owner, and what happens to its files."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import qdrant_edge as edge

from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.ports import HybridQuery, MemoryFilter
from memproxy.stores.backend import FLAG_FIELDS, OWNER_FIELDS, TIME_FIELDS
from memproxy.stores.edge import EdgeStore
from memproxy.stores.edge_files import StoreFolder
from memproxy.stores.edge_shard import create, load, shape
from tests.stores.edge_process import REPLACED
from tests.stores.making import ANN, BEN, DIMENSION, WORDS, memory, point
from tests.support.opening import opening

EAST = [1.0, 0.0, 0.0, 0.0]


def edge_store(folder: Path, **options: Any) -> EdgeStore:
    return EdgeStore(folder / "store", dimension=DIMENSION, embedder_name="test:model", **options)


async def test_files_that_are_gone_while_running_make_the_store_unavailable(tmp_path: Path) -> None:
    store = edge_store(tmp_path)
    name = await store.open(None)
    await store.upsert(ANN, [point(memory("m"), EAST)])
    await store.flush()
    shutil.rmtree(tmp_path / "store")
    for ask in (
        store.get(ANN, ["m"]),
        store.search(ANN, HybridQuery(dense=EAST)),
        store.upsert(ANN, [point(memory("n"))]),
        store.count(ANN, MemoryFilter()),
        store.flush(),
        store.points(),
    ):
        with pytest.raises(StoreUnavailable, match="gone"):
            await ask
    with pytest.raises(StoreUnavailable, match="gone"):
        await store.close()
    again = edge_store(tmp_path)
    with pytest.raises(StoreUnavailable, match="remove the state file"):
        await again.open(name)
    assert not (tmp_path / "store").exists()
    await again.close()


async def test_files_replaced_while_running_make_the_store_unavailable(tmp_path: Path) -> None:
    store = edge_store(tmp_path)
    await store.open(None)
    shutil.copytree(tmp_path / "store", tmp_path / "backup")
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "backup").rename(tmp_path / "store")
    with pytest.raises(StoreUnavailable, match="replaced"):
        await store.points()
    with pytest.raises(StoreUnavailable, match="replaced"):
        await store.close()


async def test_with_too_little_room_on_the_disk_nothing_is_written_but_all_is_read_and_deleted(tmp_path: Path) -> None:
    store = edge_store(tmp_path)
    name = await store.open(None)
    await store.upsert(ANN, [point(memory("m"), EAST)])
    await store.close()
    async with opening(edge_store(tmp_path, least_room=2**60), name) as full:
        for write in (full.upsert(ANN, [point(memory("n"))]), full.set_fields(ANN, {"m": {"importance": 0.9}})):
            with pytest.raises(StoreUnavailable, match="MiB left"):
                await write
        assert list(await full.get(ANN, ["m", "n"])) == ["m"]
        assert await full.delete(ANN, MemoryFilter(ids=("m",))) == 1


async def test_damaged_files_are_refused_and_never_crash_the_process(tmp_path: Path) -> None:
    """In a process of its own: damage that aborted it would show as its exit code, and what it printed tells which."""
    async with opening(edge_store(tmp_path), None) as store:
        await store.upsert(ANN, [point(memory(f"m{place}"), EAST) for place in range(50)])
    command = [sys.executable, "-m", "tests.stores.edge_process", "damaged", str(tmp_path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert ended.returncode == 0, (ended.stdout, ended.stderr[-500:])
    files = [line.split() for line in ended.stdout.splitlines()]
    assert {name for name, _ in files} >= {"segment.json", "edge_config.json", "tracker.dat"}
    assert {outcome for _, outcome in files} <= {"unavailable", "read"}


async def test_a_second_owner_is_refused_and_told_who_the_first_is(tmp_path: Path) -> None:
    first = edge_store(tmp_path)
    second = edge_store(tmp_path, lock_wait_s=0.1)
    name = await first.open(None)
    with pytest.raises(StoreUnavailable, match=str(os.getpid())):
        await second.open(None)
    await first.close()
    assert await second.open(name) == name
    await second.close()


async def test_a_closing_store_stops_waiting_for_its_folder(tmp_path: Path) -> None:
    first, second = StoreFolder(tmp_path / "store"), StoreFolder(tmp_path / "store")
    first.hold(wait_s=0, pause=lambda _: False)
    with pytest.raises(StoreUnavailable):
        second.hold(wait_s=3600, pause=lambda _: True)
    first.release()
    second.hold(wait_s=0, pause=lambda _: True)
    second.release()


async def test_a_newer_layout_is_refused(tmp_path: Path) -> None:
    store = edge_store(tmp_path)
    await store.open(None)
    await store.close()
    marker = tmp_path / "store" / "memproxy-store.json"
    marker.write_bytes(msgspec.json.encode(msgspec.json.decode(marker.read_bytes()) | {"version": 99}))
    again = edge_store(tmp_path)
    with pytest.raises(ConfigError, match="99"):
        await again.open(None)
    await again.close()


async def test_a_start_killed_before_its_marker_is_begun_again(tmp_path: Path) -> None:
    store = edge_store(tmp_path)
    await store.open(None)
    await store.close()
    (tmp_path / "store" / "memproxy-store.json").unlink()
    (tmp_path / "store" / "shard.new").mkdir()
    async with opening(edge_store(tmp_path), None) as again:
        assert await again.points() == 0


@pytest.mark.parametrize("gone", ["memproxy-store.json", "shard"])
async def test_a_file_that_goes_is_noticed_at_once_in_a_folder_that_was_left_alone_for_long(
    tmp_path: Path, gone: str
) -> None:
    store, folder = edge_store(tmp_path), tmp_path / "store"
    await store.open(None)
    os.utime(folder, (0, 0))
    for _ in range(2):
        assert await store.points() == 0
    (folder / gone).rename(tmp_path / gone)
    with pytest.raises(StoreUnavailable, match="are gone"):
        await store.points()
    (tmp_path / gone).rename(folder / gone)
    assert await store.points() == 0
    await store.close()


async def test_memories_without_a_marker_are_not_taken_for_an_empty_store(tmp_path: Path) -> None:
    async with opening(edge_store(tmp_path), None) as store:
        await store.upsert(ANN, [point(memory("m"))])
    (tmp_path / "store" / "memproxy-store.json").unlink()
    again = edge_store(tmp_path)
    with pytest.raises(StoreUnavailable, match="1 points but no"):
        await again.open(None)
    await again.close()


async def test_a_store_that_could_not_be_opened_opens_when_it_can(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("a file where the folder should be")
    store = edge_store(tmp_path)
    with pytest.raises(StoreUnavailable):
        await store.open(None)
    (tmp_path / "store").unlink()
    await store.open(None)
    assert await store.points() == 0
    await store.close()


async def test_a_vector_added_later_is_found(tmp_path: Path) -> None:
    async with opening(edge_store(tmp_path), None) as store:
        await store.upsert(ANN, [point(memory("m"))])
        await store.flush()
        await store.upsert(ANN, [point(memory("m"), EAST)])
        (found,) = await store.search(ANN, HybridQuery(dense=EAST, bm25=WORDS))
        assert found.cosine == pytest.approx(1.0)


async def test_what_is_replaced_survives_a_kill_in_its_old_or_its_new_form(tmp_path: Path) -> None:
    for cycle in range(3):
        command = [sys.executable, "-m", "tests.stores.edge_process", "replace", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1 + 0.15 * cycle)  # somewhere between two flushes, or within one
            process.kill()
        async with opening(edge_store(tmp_path), None) as store:
            assert await store.count(ANN, MemoryFilter()) == REPLACED


@pytest.mark.parametrize(("others", "how"), [(0, "replaced"), (300, "erased")])
async def test_replaced_and_erased_text_is_not_left_in_the_files(tmp_path: Path, others: int, how: str) -> None:
    async with opening(edge_store(tmp_path), None) as store:
        await store.upsert(BEN, [point(memory(f"b{place}", BEN), EAST) for place in range(others)])
        await store.upsert(ANN, [point(memory("m", content="MARKED secret of ann", tags=["MARKEDtag"]), EAST)])
        await store.flush()
        assert _files_holding(tmp_path, b"MARKED")
        if how == "replaced":
            await store.upsert(ANN, [point(memory("m", content="harmless"), EAST)])
        else:
            await store.delete(ANN, MemoryFilter())
            await store.flush()
        await store.optimize()
        assert await store.points() == (1 if how == "replaced" else others)
    assert _files_holding(tmp_path, b"MARKED") == []


def _files_holding(folder: Path, text: bytes) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and text in path.read_bytes()]


async def test_nothing_acknowledged_is_lost_when_the_process_is_killed(tmp_path: Path) -> None:
    acknowledged = 0
    for cycle in range(5):
        with subprocess.Popen(
            [sys.executable, "-m", "tests.stores.edge_process", "write", str(tmp_path), str(cycle)],
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            for _ in range(3 + cycle):
                line = process.stdout.readline()
                assert line
            process.send_signal(signal.SIGKILL)
            lines = [line, *process.stdout.readlines()]
        acknowledged += int(lines[-1])
    async with opening(edge_store(tmp_path), None) as store:
        assert await store.count(ANN, MemoryFilter(tags=("flushed",))) >= acknowledged


async def test_a_search_that_no_request_waits_for_holds_no_flush_back(tmp_path: Path) -> None:
    async with opening(edge_store(tmp_path, lull_s=60), None) as store:
        await store.search(ANN, HybridQuery(dense=EAST, background=True))
        with pytest.raises(StopIteration):  # it ends without having waited
            store._searches.wait().send(None)
        await store.search(ANN, HybridQuery(dense=EAST))
        waiting = store._searches.wait()
        waiting.send(None)
        waiting.close()


async def test_a_store_with_more_indexes_than_new_ones_opens_and_answers(tmp_path: Path) -> None:
    async with opening(edge_store(tmp_path), None) as store:
        await store.upsert(ANN, [point(memory("m", tags=["red"]), EAST)])
        index = edge.UpdateOperation.create_field_index("tags", edge.PayloadSchemaType.Keyword)
        await store._on_shard(lambda shard: shard.update(index))
    async with opening(edge_store(tmp_path), None) as again:
        await again.upsert(ANN, [point(memory("n", tags=["red"]), EAST)])
        assert await again.count(ANN, MemoryFilter(tags=("red",))) == 2


def test_a_shard_that_a_killed_start_has_not_indexed_is_indexed_by_the_next(tmp_path: Path) -> None:
    create(tmp_path / "shard", DIMENSION)
    made = edge.EdgeShard.load(str(tmp_path / "shard"), shape(DIMENSION))
    assert made.info().payload_schema == {}
    made.close()
    shard = load(tmp_path / "shard", DIMENSION)
    assert {*OWNER_FIELDS, *TIME_FIELDS, *FLAG_FIELDS} < shard.info().payload_schema.keys()
    shard.close()
