"""Token vectors are stored beside a memory, are read with the candidates of a search alone, and tell nobody a word."""

import base64
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from memproxy.core.vectors import pack
from memproxy.errors import EmbedderUnavailable
from memproxy.ports import HybridQuery, MemoryFilter, MemoryStore, Passage, Point
from memproxy.stores.backend import TOKEN_VECTORS, Backend, FoundPoint
from memproxy.stores.edge import EdgeStore
from memproxy.stores.filters import readable
from memproxy.stores.payload import Points
from tests.stores.making import ANN, BEN, DIMENSION, NOON, WORDS, turn
from tests.stores.opening import OpenStore, stores_under
from tests.stores.reindexing import NEW, OLD, Lengths, fill, people, reindexed
from tests.stores.states import encrypted

EAST = [1.0, 0.0, 0.0, 0.0]
TOKENS = pack(np.random.default_rng(7).normal(size=(25, 384)).astype(np.float32))
ALL = readable(ANN, MemoryFilter())


def late(name: str, tokens: bytes = TOKENS) -> Point:
    return Point(memory=turn(name), dense=[EAST], bm25=WORDS, tokens=tokens)


async def found(store: MemoryStore) -> dict[str, bytes]:
    """The tokens of each candidate of a search."""
    candidates = await store.search(ANN, HybridQuery(dense=EAST, bm25=WORDS))
    return {one.memory.id: one.tokens for one in candidates}


def backend(store: object) -> Points:
    made: Points = store._points  # type: ignore[attr-defined]
    return made


async def raw(inner: Points | Backend, name: str) -> FoundPoint:
    """The point as the engine has it."""
    (place,) = [one.id for one in await inner.scroll(ALL, limit=10, fields=["id"]) if one.payload["id"] == name]
    (whole,) = await inner.retrieve([place])
    return whole


async def test_candidates_have_the_tokens_that_were_written_and_memories_do_not(store: MemoryStore) -> None:
    await store.upsert(ANN, [late("t1"), late("t2", b"")])
    expected = {"t1": TOKENS, "t2": b""}
    assert await found(store) == expected
    assert await found(store) == expected  # what was read before is not decoded again
    assert await store.get(ANN, ["t1"]) == {"t1": turn("t1")}
    page = await store.page(ANN, MemoryFilter(), limit=9)
    assert sorted(page.memories, key=lambda one: one.id) == [turn("t1"), turn("t2")]
    assert {one.memory.id: one.tokens for one in (await store.point_page(ANN, limit=9)).points} == expected
    listed = await backend(store).scroll(ALL, limit=9)
    assert sorted(one.payload["content"] for one in listed) == ["content of t1", "content of t2"]
    assert not [one for one in listed if TOKEN_VECTORS in one.payload], "lists and neighbours are read without"


async def test_tokens_are_replaced_with_their_point_and_go_when_its_text_alone_changes(store: MemoryStore) -> None:
    for tokens in (b"", TOKENS[:51], b"", TOKENS):
        await store.upsert(ANN, [late("t1", tokens), late("t2")])
        assert await found(store) == {"t1": tokens, "t2": TOKENS}
    await store.set_fields(ANN, {"t1": {"content": "another"}, "t2": {"active": False}})
    assert await found(store) == {"t1": b"", "t2": TOKENS}
    assert (await store.get(ANN, ["t1"]))["t1"].content == "another"


async def test_a_point_of_before_and_one_that_is_damaged_are_found_without_tokens(store: MemoryStore) -> None:
    """The old form has no such field: that is what is written where there are no tokens."""
    await store.upsert(ANN, [late("old", b""), late("damaged")])
    assert TOKEN_VECTORS not in (await raw(backend(store), "old")).payload
    damaged = (await raw(backend(store), "damaged")).id
    for wrong in ("%%", 7):
        await backend(store).set_payload([damaged], {TOKEN_VECTORS: wrong}, ANN.owner)
        assert await found(store) == {"old": b"", "damaged": b""}


async def test_a_text_embedded_again_leaves_nothing_to_be_erased_from_files(tmp_path: Path) -> None:
    async with stores_under("edge", tmp_path)() as store:
        said = turn("t1", confidence=0.1, tags=["one"], valid_from=NOON, active=False, quarantined=True)
        said.metadata = {"seq": 1, "nested": {"list": [1, 2.5, "x", None]}, "empty": []}
        again = Point(memory=said, dense=[EAST], bm25=WORDS, tokens=TOKENS)
        await store.upsert(ANN, [again, late("t2")])
        await store.optimize()
        again.tokens = TOKENS[:51]
        await store.upsert(ANN, [again])
        assert not await store.optimize()
        again.memory.content = "another"
        await store.upsert(ANN, [again])
        assert await store.optimize()


async def test_encrypted_tokens_are_read_by_their_owners_key_alone(tmp_path: Path) -> None:
    edge = EdgeStore(tmp_path / "store", dimension=DIMENSION, embedder_name=None)
    async with encrypted(edge, tmp_path) as (store, state):
        await store.upsert(ANN, [late("t1"), late("t2")])
        assert await found(store) == {"t1": TOKENS, "t2": TOKENS}
        inner: Backend = backend(store).engine
        stored = await raw(inner, "t1")
        assert TOKEN_VECTORS not in stored.payload
        assert base64.b64encode(TOKENS).decode() not in str(stored.payload)
        assert [name for name in (await inner.scroll(ALL, limit=1))[0].payload if TOKEN_VECTORS in name] == []
        await store.set_fields(ANN, {"t1": {"content": "another"}})
        assert await found(store) == {"t1": b"", "t2": TOKENS}
        await state.destroy_key(ANN)
        store.drop_read()
        assert await found(store) == {}


class Late(Lengths):
    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        return [Passage(parts=one.parts, tokens=TOKENS) for one in await super().embed_passages(texts)]


async def tokens_of_all(store: MemoryStore) -> list[bytes]:
    pages = [await store.point_page(scope, limit=100) for scope in (ANN, BEN)]
    return [point.tokens for page in pages for point in page.points]


@pytest.fixture(params=["edge", "local"])
def at(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    return stores_under(request.param, tmp_path)


async def test_a_reindex_gives_tokens_to_what_was_stored_without(at: OpenStore) -> None:
    async with at(**OLD) as store:
        await fill(store, people(), Lengths(4))
        assert set(await tokens_of_all(store)) == {b""}
        await reindexed(store, Late(4))  # type: ignore[arg-type]
        assert set(await tokens_of_all(store)) == {TOKENS}
        await reindexed(store, Lengths(4))  # type: ignore[arg-type]
        assert set(await tokens_of_all(store)) == {b""}


async def test_a_reindex_that_an_older_version_began_leaves_nothing_without_tokens(tmp_path: Path) -> None:
    at = stores_under("local", tmp_path)
    async with at(**OLD) as store:
        await fill(store, people(), Lengths(4))
    async with at(open_it=False, **NEW) as store:
        with pytest.raises(EmbedderUnavailable):
            await reindexed(store, Lengths(8, most=40))  # type: ignore[arg-type]
    async with at(open_it=False, **NEW) as store:
        done = await reindexed(store, Late(8))  # type: ignore[arg-type]
        assert done.progress.kept == 0
        assert set(await tokens_of_all(store)) == {TOKENS}
