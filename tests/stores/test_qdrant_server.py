"""What a real Qdrant server does to a store: it restarts, hangs, refuses, is full or another one. Skipped without."""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.ports import HybridQuery, MemoryFilter, SparseVector
from memproxy.stores.qdrant import QdrantStore
from tests.stores.making import ANN, BEN, DIMENSION, WORDS, memory, point
from tests.stores.reindexing import Lengths, fill, reindexed
from tests.support.opening import opening
from tests.support.proxy import free_port
from tests.support.qdrant import QdrantAt, QdrantServer, qdrant_server
from tests.support.tcp_proxy import tcp_proxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.services

EAST = [1.0, 0.0, 0.0, 0.0]
BOTH = HybridQuery(dense=EAST, bm25=WORDS, limit=10)


def opened(at: QdrantAt, collection: str | None = None, **changed: Any) -> AbstractAsyncContextManager[QdrantStore]:
    defaults: dict[str, Any] = {"dimension": DIMENSION, "embedder_name": "test:model", "grpc_port": at.grpc_port}
    store = QdrantStore(
        url=changed.pop("url", at.url),
        api_key=changed.pop("api_key", at.api_key),
        collection=collection or f"t_{uuid4().hex}",
        **defaults | changed,
    )
    return opening(store, None)


def at(server: QdrantServer, *, by_grpc: bool = True) -> QdrantAt:
    return QdrantAt(server.url, server.grpc_port if by_grpc else 0)


@pytest.fixture
def own_server() -> Iterator[QdrantServer]:
    """A server that the test may break."""
    with qdrant_server() as server:
        yield server


async def answers(store: QdrantStore) -> bool:
    try:
        return bool(await store.search(ANN, BOTH))
    except StoreUnavailable:
        return False


async def refusal(at: QdrantAt, collection: str | None = None, **changed: Any) -> str:
    """What is said when the store is opened: one line."""
    with pytest.raises((StoreUnavailable, ConfigError)) as told:
        async with opened(at, collection, **changed):
            pass
    assert "\n" not in told.value.message
    return told.value.message


async def test_grpc_is_preferred_and_rest_serves_where_it_is_not_open(
    qdrant: QdrantAt, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(qdrant) as store:
        assert store.connection.by_grpc
    async with opened(qdrant, grpc_port=0) as store:
        assert not store.connection.by_grpc
    assert not [one for one in caplog.records if "set store.grpc_port" in one.message]
    async with opened(qdrant, grpc_port=free_port()) as store:
        assert not store.connection.by_grpc
        await store.upsert(ANN, [point(memory("m"), EAST)])
        assert await answers(store)
    assert len([one for one in caplog.records if "set store.grpc_port" in one.message]) == 1


async def test_another_servers_grpc_is_not_used(own_server: QdrantServer, qdrant: QdrantAt) -> None:
    async with opened(qdrant, grpc_port=own_server.grpc_port) as store:
        assert not store.connection.by_grpc
        await store.upsert(ANN, [point(memory("m"), EAST)])
    assert httpx.get(f"{own_server.url}/collections").json()["result"]["collections"] == []


async def test_where_words_are_counted_over_everybody_it_is_said(
    qdrant: QdrantAt, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with opened(qdrant) as store:
        said = [one for one in caplog.records if "counts how rare a word is among all users" in one.message]
        assert len(said) == (0 if store.connection.counts_within else 1)
        await store.upsert(ANN, [point(memory("m"), words=SparseVector([1], [1.0]))])
        assert [one.memory.id for one in await store.search(ANN, HybridQuery(bm25=SparseVector([1], [1.0])))] == ["m"]


@pytest.mark.parametrize("by_grpc", [True, False])
async def test_what_was_acknowledged_survives_a_crash_in_traffic_and_the_store_goes_on(
    own_server: QdrantServer, by_grpc: bool
) -> None:
    async with opened(at(own_server, by_grpc=by_grpc)) as store:
        assert store.connection.by_grpc == by_grpc
        acknowledged: list[str] = []
        told: list[str] = []

        async def write() -> None:
            for number in range(400):
                try:
                    await store.upsert(ANN, [point(memory(f"m{number}"), EAST)])
                    acknowledged.append(f"m{number}")
                except StoreUnavailable as error:
                    told.append(error.message)
                    await asyncio.sleep(0.02)

        writing = asyncio.get_running_loop().create_task(write())
        await eventually(lambda: len(acknowledged) > 50)
        own_server.stop()
        before = len(acknowledged)
        await eventually(lambda: told)
        own_server.start()
        await eventually(lambda: len(acknowledged) > before + 20, what="it writes again, without being opened anew")
        await writing
        assert (await store.get(ANN, acknowledged)).keys() == set(acknowledged)
        assert all("Check that Qdrant runs" in one or "every second" in one for one in told)


@pytest.mark.parametrize("by_grpc", [True, False])
async def test_a_server_that_hangs_costs_a_few_calls_their_time_and_the_next_ones_none(
    own_server: QdrantServer, by_grpc: bool
) -> None:
    async with opened(at(own_server, by_grpc=by_grpc)) as store:
        await store.upsert(ANN, [point(memory("m"), EAST)])
        own_server.pause()
        for _ in range(3):
            with pytest.raises((TimeoutError, StoreUnavailable)):
                async with asyncio.timeout(0.15):
                    await store.search(ANN, BOTH)
        with pytest.raises(StoreUnavailable, match="tried again every second"):  # said without asking it
            await store.search(ANN, BOTH)
        own_server.go_on()
        await eventually(lambda: answers(store), what="it is asked again")


@pytest.mark.parametrize("by_grpc", [True, False])
async def test_a_slow_way_to_the_server_is_slow_and_a_broken_one_is_gone_on_with(
    qdrant: QdrantAt, by_grpc: bool
) -> None:
    rest = int(qdrant.url.rpartition(":")[2])
    ports = (qdrant.grpc_port or rest + 1) if by_grpc else rest
    async with tcp_proxy(ports) as proxy:
        way = {"grpc_port": proxy.port} if by_grpc else {"grpc_port": 0, "url": f"http://127.0.0.1:{proxy.port}"}
        async with opened(qdrant, **way) as store:
            await store.upsert(ANN, [point(memory("m"), EAST)])
            proxy.delay_s = 0.1
            assert await answers(store)
            proxy.delay_s = 0.0
            searching = [asyncio.get_running_loop().create_task(answers(store)) for _ in range(5)]
            await proxy.cut()
            await asyncio.gather(*searching)  # found or unavailable, and nothing else
            await eventually(lambda: answers(store), what="connections are made anew")
            await proxy.stop()
            assert not await answers(store)
            await proxy.start()
            await eventually(lambda: answers(store), what="the way is open again")


@contextmanager
def guarded() -> Iterator[QdrantServer]:
    """A server with a key, and one for reading alone."""
    with qdrant_server(QDRANT__SERVICE__API_KEY="right", QDRANT__SERVICE__READ_ONLY_API_KEY="reader") as server:
        yield server


async def test_a_wrong_key_and_one_for_reading_alone_are_told_with_the_setting() -> None:
    with guarded() as server:
        for wrong in (None, "wrong"):
            message = await refusal(at(server), api_key=wrong)
            assert "Check store.api_key" in message
            assert "wrong" not in message
        assert "for reading alone" in await refusal(at(server), api_key="reader")
        async with opened(at(server), "mine", api_key="right") as store:
            assert store.connection.by_grpc
            await store.upsert(ANN, [point(memory("m"), EAST)])
        for port in (server.grpc_port, 0):
            async with opened(at(server), "mine", api_key="reader", grpc_port=port) as reading:
                assert await answers(reading)
                with pytest.raises(StoreUnavailable, match="for reading alone"):
                    await reading.upsert(ANN, [point(memory("n"), EAST)])


async def test_a_key_that_is_changed_beneath_us_is_told(own_server: QdrantServer) -> None:
    async with opened(at(own_server)) as store:
        own_server.stop()
        own_server.settings["QDRANT__SERVICE__API_KEY"] = "new"
        own_server.start()

        async def told() -> bool:
            try:
                await store.search(ANN, BOTH)
            except StoreUnavailable as error:
                return "Check store.api_key" in error.message
            return False

        await eventually(told)


@pytest.mark.parametrize("version", ["1.15.5", "1.9.0", "0.11.7"])
async def test_an_old_server_is_told_with_the_version_that_is_needed(version: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = json.dumps({"title": "qdrant - vector search engine", "version": version}).encode()
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        message = await refusal(QdrantAt(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", None))
    assert f"Qdrant {version}, which is too old: memproxy needs 1.16 or newer" in message


async def test_somebody_elses_collection_is_left_alone(qdrant: QdrantAt) -> None:
    name = f"t_{uuid4().hex}"
    headers = {"api-key": qdrant.api_key} if qdrant.api_key else {}
    async with httpx.AsyncClient(base_url=qdrant.url, headers=headers) as http:
        made = await http.put(f"/collections/{name}", json={"vectors": {"size": 3, "distance": "Dot"}})
        assert made.is_success
        before = (await http.get(f"/collections/{name}")).json()["result"]
        assert "was not made by memproxy, and is left alone" in await refusal(qdrant, name)
        assert (await http.get(f"/collections/{name}")).json()["result"] == before


async def test_a_collection_that_is_deleted_beneath_us_is_told_and_never_made_again(qdrant: QdrantAt) -> None:
    for grpc_port in (qdrant.grpc_port, 0):
        async with opened(qdrant, name := f"t_{uuid4().hex}", grpc_port=grpc_port) as store:
            await store.upsert(ANN, [point(memory("m"), EAST)])
            async with httpx.AsyncClient(base_url=qdrant.url, headers={"api-key": qdrant.api_key or ""}) as http:
                await http.delete(f"/collections/{name}")
                for call in (
                    lambda: store.upsert(ANN, [point(memory("n"), EAST)]),
                    lambda: store.search(ANN, BOTH),
                    store.points,
                    lambda: store.delete(ANN, MemoryFilter()),
                ):
                    with pytest.raises(StoreUnavailable, match="collection is gone: restore a snapshot"):
                        await call()
                assert (await http.get(f"/collections/{name}")).status_code == 404


async def test_a_collection_that_is_replaced_beneath_us_is_told(qdrant: QdrantAt) -> None:
    async with opened(qdrant, name := f"t_{uuid4().hex}") as store:
        async with httpx.AsyncClient(base_url=qdrant.url, headers={"api-key": qdrant.api_key or ""}) as http:
            await http.delete(f"/collections/{name}")
        async with opened(qdrant, name):
            pass
        with pytest.raises(StoreUnavailable, match="was replaced while it was in use"):
            await store.points()


async def test_vectors_are_compared_as_bytes_first_and_switched_back(qdrant: QdrantAt) -> None:
    name = f"t_{uuid4().hex}"
    many = [point(memory(f"m{number}"), [1.0, number / 10, 0.0, 0.0]) for number in range(30)]
    for quantized in (False, True, False):
        async with opened(qdrant, name, quantized=quantized) as store:
            await store.upsert(ANN, many)
            found = await store.search(ANN, HybridQuery(dense=EAST, limit=3))
            assert [one.memory.id for one in found] == ["m0", "m1", "m2"]
            assert found[1].cosine == pytest.approx(1 / 1.01**0.5, abs=1e-5)  # of the whole vector
            collection = store.collection
            assert collection is not None
            there = (await collection.information()).config.quantization_config
            assert (there is not None) == quantized


async def test_a_reindex_keeps_shards_and_replicas(qdrant: QdrantAt) -> None:
    async with opened(qdrant, name := f"t_{uuid4().hex}") as store:
        await fill(store, [memory("m")], Lengths(DIMENSION))
        headers = {"api-key": qdrant.api_key or ""}
        async with httpx.AsyncClient(base_url=qdrant.url, headers=headers) as http:
            changed = await http.patch(f"/collections/{name}", json={"params": {"replication_factor": 2}})
            assert changed.is_success
        await reindexed(store, Lengths(DIMENSION))
        collection = store.collection
        assert collection is not None
        assert collection.name == f"{name}__a"
        assert (await collection.information()).config.params.replication_factor == 2
        assert [one.memory.id for one in await store.search(ANN, BOTH)] == ["m"]


async def test_more_than_a_server_takes_at_once_goes_in_several_calls(qdrant: QdrantAt) -> None:
    part = [[0.123456789 + number / 1e6 for number in range(384)]] * 100
    for grpc_port in (qdrant.grpc_port, 0):
        async with opened(qdrant, dimension=384, grpc_port=grpc_port) as store:
            await store.upsert(ANN, [point(memory(f"m{number}", content="x" * 50_000), *part) for number in range(60)])
            assert await store.points() == 60


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own, of this size."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a small disk")
    folder.mkdir()
    made = subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=False)
    if made.returncode:
        pytest.skip("no small disk can be made here")
    try:
        yield folder
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True)


async def test_a_full_disk_is_told_and_what_was_acknowledged_is_there_when_there_is_room(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "500m") as disk, qdrant_server(disk) as server:
        filler = disk / "filler"
        async with opened(at(server)) as store:
            await store.upsert(ANN, [point(memory("before"), EAST)])
            _fill_up(filler)
            told, acknowledged = "", list[str]()
            for number in range(4000):
                try:
                    await store.upsert(BEN, [point(memory(f"m{number}", BEN, content="y" * 4000), EAST)])
                except StoreUnavailable as error:
                    told = error.message
                    break
                acknowledged.append(f"m{number}")
            assert "has no room on its disk" in told
            assert await answers(store)  # what is there is found meanwhile
            filler.unlink()

            async def takes() -> bool:
                try:
                    await store.upsert(BEN, [point(memory("after", BEN), EAST)])
                except StoreUnavailable:
                    return False
                return True

            await eventually(takes)
            found = {**await store.get(ANN, ["before"]), **await store.get(BEN, [*acknowledged, "after"])}
            assert found.keys() == {"before", *acknowledged, "after"}


def _fill_up(filler: Path) -> None:
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while file.write(b"x" * 65536):
            pass
