"""The embedded store on a disk with little room: what it still does, and what it says."""

import resource
from pathlib import Path

import pytest

from memproxy.errors import StoreUnavailable
from memproxy.ports import MemoryFilter
from memproxy.stores.edge import EdgeStore
from memproxy.stores.edge_files import LEAST_ROOM, Disk, Room, StoreFolder
from memproxy.stores.vector_store import BATCH
from tests.stores.making import ANN, DIMENSION, memory, point
from tests.support.disk import MIB, TestDisk
from tests.support.opening import opening


def edge_store(folder: Path, disk: TestDisk) -> EdgeStore:
    return EdgeStore(folder / "store", dimension=DIMENSION, embedder_name="test:model", disk=disk)


async def test_with_little_room_memories_are_changed_and_deleted_but_not_written(tmp_path: Path) -> None:
    disk = TestDisk()
    async with opening(edge_store(tmp_path, disk), None) as store:
        await store.upsert(ANN, [point(memory("m")), point(memory("n"))])
        disk.mib = 20
        with pytest.raises(
            StoreUnavailable, match=r"has 20 MiB left\. Free some space: memories are written again when"
        ):
            await store.upsert(ANN, [point(memory("o"))])
        await store.set_fields(ANN, {"m": {"active": False}})
        disk.mib = 7
        with pytest.raises(StoreUnavailable, match="changed again when there are 8 MiB"):
            await store.set_fields(ANN, {"n": {"active": False}})
        assert await store.delete(ANN, MemoryFilter(ids=("n",))) == 1
        assert {name: one.active for name, one in (await store.get(ANN, ["m", "n", "o"])).items()} == {"m": False}


class Filling(TestDisk):
    """Has 30 MiB less each time that it is asked."""

    def free(self) -> int:
        self.mib -= 30
        return super().free()


async def test_many_memories_are_not_written_beyond_the_room_there_is(tmp_path: Path) -> None:
    async with opening(edge_store(tmp_path, disk := Filling()), None) as store:
        disk.mib = LEAST_ROOM // MIB + 30
        with pytest.raises(StoreUnavailable, match=r"has 34 MiB left"):
            await store.upsert(ANN, [point(memory(f"m{number}")) for number in range(BATCH + 1)])
        assert await store.points() == BATCH


async def test_what_is_erased_while_a_full_disk_ends_a_reindex_leaves_its_unfinished_copy_too(tmp_path: Path) -> None:
    disk = TestDisk()
    async with opening(edge_store(tmp_path, disk), None) as store:
        points = [point(memory("m")), point(memory("n"))]
        await store.upsert(ANN, points)
        rebuild = await store.begin_rebuild(None)
        await rebuild.write(points)
        places = [rebuild.point_id(one.memory) for one in points]
        disk.mib = 20
        with pytest.raises(StoreUnavailable, match="memories are written again when"):
            await rebuild.write(points)
        assert await store.delete(ANN, MemoryFilter(ids=("m",))) == 1
        await rebuild.close()
        again = await store.begin_rebuild(None)
        assert again.resumed
        assert list(await again.stored(places)) == places[1:]
        await again.close()


def test_the_folder_is_held_where_the_disk_has_no_room_to_say_by_whom(tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    folder = StoreFolder(tmp_path / "store")
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limit[1]))
    try:
        folder.hold(wait_s=0, pause=bool)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    with pytest.raises(StoreUnavailable, match="in use by process unknown"):
        StoreFolder(folder.path).hold(wait_s=0, pause=bool)
    folder.release()
    again = StoreFolder(folder.path)
    again.hold(wait_s=0, pause=bool)
    again.release()


async def test_a_new_store_is_not_begun_where_it_would_not_fit_and_is_made_when_it_does(tmp_path: Path) -> None:
    disk = TestDisk(mib=80, memory=True)
    store = edge_store(tmp_path, disk)
    (tmp_path / "store" / "shard.new").mkdir(parents=True)  # what was begun on this disk before is no reason to wait
    with pytest.raises(StoreUnavailable, match=r"has 80 MiB left\. Free some space: opening a new store takes 120 MiB"):
        await store.open(None)
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["lock"]
    disk.mib = 120
    await store.open(None)
    assert await store.points() == 0
    await store.close()


async def test_a_store_on_a_full_disk_opens_as_opening_takes_nothing_of_it(tmp_path: Path) -> None:
    disk = TestDisk()
    store = edge_store(tmp_path, disk)
    name = await store.open(None)
    await store.close()
    disk.mib = 0
    again = edge_store(tmp_path, disk)
    assert await again.open(name) == name
    await again.close()


def test_on_a_disk_in_memory_an_opening_needs_the_place_of_what_it_reads(tmp_path: Path) -> None:
    for folder, mib in (("payload_index", 30), ("payload_storage", 32), ("vector_storage-bm25", 32)):
        (tmp_path / folder).mkdir()
        with (tmp_path / folder / "page_0.dat").open("wb") as file:
            file.truncate(mib * MIB)
    disk = TestDisk(mib=37, memory=True)
    room = Room(tmp_path, least=LEAST_ROOM, disk=disk)
    with pytest.raises(StoreUnavailable, match=r"has 37 MiB left\. Free some space: opening this store takes 38 MiB"):
        room.check_opening(tmp_path)
    disk.mib = 38
    room.check_opening(tmp_path)
    disk.mib = 0
    (tmp_path / "payload_index" / "page_0.dat").write_bytes(bytes(4096))
    room.check_opening(tmp_path)


def test_which_disks_are_memory_is_read_from_the_system() -> None:
    mounts = {line.split()[4]: line for line in Path("/proc/self/mountinfo").read_text().splitlines()}
    assert " tmpfs " in mounts["/dev/shm"], "this machine has no tmpfs to look at"
    assert Disk(Path("/dev/shm")).in_memory()
    assert not Disk(Path("/proc")).in_memory()
