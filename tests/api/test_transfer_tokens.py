"""Token vectors leave with an export that asks for vectors, come in again as they were, and are in no other answer."""

import base64
from typing import Any

import numpy as np

from memproxy.core.transfer_lines import MOST_TOKEN_BYTES
from memproxy.core.vectors import pack, packed
from memproxy.models.embedding import NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from tests.api.test_transfer import export, lines, memory, read, take
from tests.support.engine import DIMENSION, Api

TOKENS = base64.b64encode(pack(np.random.default_rng(3).normal(size=(12, 384)).astype(np.float32))).decode()
EAST = base64.b64encode(packed([1.0] + [0.0] * (DIMENSION - 1))).decode()


def header(**other: Any) -> dict[str, Any]:
    return {"format": "memproxy", "version": 1, "embedder": NoEmbedder.name, "lexical": 0} | other


def line(name: str, tokens: str = TOKENS) -> dict[str, Any]:
    words = Bm25Encoder().encode_document(text := f"User likes tea {name}")
    vectors = {"dense": [EAST], "indices": words.indices, "values": words.values, "tokens": tokens}
    return memory(name, text) | {"vectors": vectors}


async def test_what_an_export_with_vectors_holds_comes_in_and_goes_out_again(own_api: Api) -> None:
    told = await take(own_api, lines(header(), line("m1"), line("m2", "")))
    assert (told["imported"], told["rejected"], told["notes"]) == (2, 0, [])
    exported = read(await export(own_api, vectors=True), "vectors")
    assert sorted(vectors.get("tokens", "") for vectors in exported) == ["", TOKENS]
    assert [vectors["dense"] for vectors in exported] == [[EAST], [EAST]]


async def test_without_vectors_and_in_every_other_answer_there_are_none(own_api: Api) -> None:
    await take(own_api, lines(header(), line("m1")))
    answers = [
        await export(own_api),
        (await own_api.call("GET", "/v1/memory")).content,
        (await own_api.call("GET", "/v1/memory/m1")).content,
        (await own_api.call("POST", "/v1/memory/search", json={"query": "tea"})).content,
    ]
    assert all(b"User likes tea m1" in answer for answer in answers)
    assert not any(TOKENS.encode() in answer or b"token_vectors" in answer for answer in answers)


async def test_tokens_of_another_embedder_are_left_out_with_its_vectors(own_api: Api) -> None:
    told = await take(own_api, lines(header(embedder="another"), line("m1")))
    assert (told["imported"], len(told["notes"])) == (1, 1)
    (vectors,) = read(await export(own_api, vectors=True), "vectors")
    assert not {"tokens", "dense"} & vectors.keys()


async def test_tokens_that_are_none_are_refused(own_api: Api) -> None:
    huge = base64.b64encode(b"x" * (MOST_TOKEN_BYTES + 1)).decode()
    told = await take(own_api, lines(header(), line("m1", "%%"), line("m2", huge), line("m3")))
    assert (told["imported"], told["rejected"]) == (1, 2)
    assert [one["message"] for one in told["errors"]] == [
        "vectors: must be base64",
        f"vectors: tokens must be at most {MOST_TOKEN_BYTES} bytes",
    ]
