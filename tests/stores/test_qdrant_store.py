"""A Qdrant server that is down, silent or refuses: known quickly, said plainly."""

import asyncio

import pytest

from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.stores.qdrant import QdrantStore

UNREACHABLE = "http://127.0.0.1:9"


def remote(url: str | None) -> QdrantStore:
    return QdrantStore(url=url, api_key=None, collection="c", dimension=4, embedder_name=None)


async def test_a_server_that_is_down_is_unavailable() -> None:
    store = remote(UNREACHABLE)
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match=r"store\.url"):
            await store.open(None)
    with pytest.raises(StoreUnavailable):
        await store.points()
    await store.close()


@pytest.mark.parametrize(("status", "told"), [(401, "store.api_key"), (500, "log"), (503, "log")])
async def test_a_server_that_refuses_is_unavailable_and_its_words_are_not_repeated(status: int, told: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b'{"status":{"error":"SECRET payload"}}'
        head = f"HTTP/1.1 {status} No\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        store = remote(f"http://127.0.0.1:{port}")
        with pytest.raises(StoreUnavailable, match=told) as raised:
            await store.open(None)
        assert "SECRET" not in str(raised.value)
        await store.close()


async def test_an_answer_that_is_not_qdrants_is_unavailable() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        store = remote(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(StoreUnavailable):
            await store.open(None)
        await store.close()


async def test_a_remote_store_without_an_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"store\.url"):
        remote(None)
