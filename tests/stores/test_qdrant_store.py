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


@pytest.mark.parametrize(
    ("answered", "told"), [(b"401 No", "store.api_key"), (b"500 No", "log"), (b"503 No", "log"), (b"200 OK", None)]
)
async def test_a_server_that_refuses_or_is_none_is_unavailable_and_its_words_are_not_repeated(
    answered: bytes, told: str | None
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = b"SECRET hello" if answered.startswith(b"200") else b'{"status":{"error":"SECRET payload"}}'
        writer.write(b"HTTP/1.1 %b\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (answered, len(body), body))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        store = remote(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(StoreUnavailable, match=told) as raised:
            await store.open(None)
        assert "SECRET" not in str(raised.value)
        await store.close()


async def test_a_remote_store_without_an_address_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match=r"store\.url"):
        remote(None)
