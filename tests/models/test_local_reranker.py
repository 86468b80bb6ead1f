"""The local reranker on a cross-encoder that is made here: it scores a text by how often it says "bicycle"."""

import asyncio
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from tokenizers import Tokenizer, models, pre_tokenizers

from memproxy.errors import ModelError, ModelUnavailable
from memproxy.models.embed import load_reranker
from memproxy.recall.rerank import LocalReranker
from memproxy.settings import RecallSettings
from tests.support.waiting import LONGEST_S, eventually

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "bicycle"]
TEXTS = ["my cat sleeps", "a bicycle and another bicycle", "the bicycle is red"]


def make_model(folder: Path) -> None:
    ints, floats = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    nodes = [
        helper.make_node("Equal", ["input_ids", "word"], ["is_it"]),
        helper.make_node("Cast", ["is_it"], ["ones"], to=floats),
        helper.make_node("ReduceSum", ["ones", "axis"], ["logits"], keepdims=1),
    ]
    kept = [
        numpy_helper.from_array(np.array([WORDS.index("bicycle")]), "word"),
        numpy_helper.from_array(np.array([1]), "axis"),
    ]
    given = [helper.make_tensor_value_info("input_ids", ints, ["texts", "tokens"])]
    made = [helper.make_tensor_value_info("logits", floats, ["texts", 1])]
    graph = helper.make_graph(nodes, "counts", given, made, kept)
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx"
    )
    tokenizer = Tokenizer(models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text('{"pad_token_id": 0}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 64, "pad_token": "[PAD]"}')
    (folder / "special_tokens_map.json").write_text('{"pad_token": "[PAD]"}')


@asynccontextmanager
async def reranker(folder: Path, timeout_s: float = LONGEST_S) -> AsyncIterator[LocalReranker]:
    settings = RecallSettings(rerank_model_path=folder)
    made = LocalReranker(partial(load_reranker, settings, folder / "cache", 1), timeout_s)
    try:
        yield made
    finally:
        await made.close()


async def test_texts_get_the_models_word_as_a_share_of_one(tmp_path: Path) -> None:
    make_model(tmp_path)
    async with reranker(tmp_path) as made:

        async def scores() -> list[float] | None:
            with suppress(ModelUnavailable):
                return await made.rerank("acme", "Where is it?", TEXTS)
            return None

        await eventually(scores, what="the model is loaded")
        assert await scores() == pytest.approx([0.5, 0.8808, 0.7311], abs=1e-4)


async def test_a_folder_without_a_model_is_named_and_recall_is_told(tmp_path: Path) -> None:
    async with reranker(tmp_path) as made:

        async def told() -> bool:
            with pytest.raises(ModelUnavailable) as failed:
                await made.rerank("acme", "Where is it?", TEXTS)
            return "recall.rerank_model_path holds model.onnx" in failed.value.message

        await eventually(told, what="it is known that nothing is there")


async def test_a_model_that_takes_too_long_is_done_without(tmp_path: Path) -> None:
    make_model(tmp_path)
    async with reranker(tmp_path, timeout_s=0.05) as made:
        await eventually(lambda: made._model is not None, what="the model is loaded")
        held = threading.Event()
        made._worker.submit(held.wait)
        with pytest.raises(ModelUnavailable, match=r"recall\.rerank_timeout_s \(0\.05 s\)") as failed:
            await made.rerank("acme", "Where is it?", TEXTS)
        assert isinstance(failed.value.__cause__, TimeoutError)
        held.set()
        await asyncio.sleep(0)


async def test_a_model_that_fails_is_done_without() -> None:
    def model(query: str, texts: Sequence[str]) -> list[float]:
        raise RuntimeError("no such operator")

    made = LocalReranker(lambda: model, LONGEST_S)
    await eventually(lambda: made._model is not None, what="the model is loaded")
    with pytest.raises(ModelError, match="no such operator"):
        await made.rerank("acme", "Where is it?", TEXTS)
    await made.close()
