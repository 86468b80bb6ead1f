import logging
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnxruntime import InferenceSession  # type: ignore[import-untyped]

from memproxy.errors import EmbedderUnavailable
from memproxy.models import query_precision
from memproxy.models.embed import FastembedEmbedder
from memproxy.models.embedding import Encoder
from memproxy.models.encoder import load_fastembed
from memproxy.models.query_precision import BLOCK, for_questions, in_blocks, quantised
from memproxy.settings import EmbeddingSettings
from tests.support.folders import Folders
from tests.support.model import of_model, until_ready
from tests.support.shared import MODEL_PATH

QUESTIONS = ["Where did my sister go?", "When is the appointment with the dentist, and what do I have to bring?"]


def product(matrix: "np.ndarray[tuple[int, int], np.dtype[np.float32]]") -> bytes:
    """A model that multiplies its input by this matrix."""
    made = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"], name="m")],
        "one product",
        [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", matrix.shape[0]])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", matrix.shape[1]])],
        [numpy_helper.from_array(matrix, "w")],
    )
    made_model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    data: bytes = made_model.SerializeToString()
    return data


def settings(**more: object) -> EmbeddingSettings:
    return EmbeddingSettings.model_validate({"model_path": MODEL_PATH, **more})


@pytest.fixture(scope="module")
def model() -> Encoder:
    encode, _ = load_fastembed(settings(token_vectors=True), Path("unused"))
    return encode


@pytest.fixture(scope="module")
def copied(model: Encoder, folders: Folders) -> Iterator[Path]:
    """A cache folder that holds the copy of the model, which takes longer to make than to read."""
    with folders.new("copied") as folder:
        for_questions(model, settings(), folder)
        yield folder


def copies(folder: Path) -> list[Path]:
    return sorted((folder / "quantised").iterdir())


def test_a_weight_is_off_by_half_a_step_at_most_and_blocks_do_not_share_a_scale() -> None:
    chance = np.random.default_rng(7)
    matrix = chance.normal(size=(BLOCK + 40, 3)).astype(np.float32)
    matrix[BLOCK:] *= 1000
    matrix[:BLOCK, 1] = 0
    steps, scales = in_blocks(matrix)
    assert steps.shape == (3, 2, BLOCK)
    assert np.abs(steps.astype(int) - 128).max() == 127
    back = ((steps.astype(np.float32) - 128) * scales[:, :, None]).reshape(3, -1).T[: len(matrix)]
    allowed = np.repeat(scales, BLOCK, axis=1).T[: len(matrix)] / 2
    assert (np.abs(back - matrix) <= allowed * 1.001).all()
    assert scales[0, 1] > 100 * scales[0, 0]


def test_the_copy_of_a_model_computes_nearly_the_same_and_is_a_quarter_as_large() -> None:
    chance = np.random.default_rng(7)
    matrix = chance.normal(size=(300, 200)).astype(np.float32)
    copy = quantised(product(matrix))
    assert len(copy) < 0.4 * matrix.nbytes
    rows = chance.normal(size=(2, 300)).astype(np.float32)
    session = InferenceSession(copy, providers=["CPUExecutionProvider"])
    (made,) = session.run(None, {"x": rows})
    right = rows @ matrix
    assert np.linalg.norm(made - right) < 0.015 * np.linalg.norm(right)
    (alone,) = session.run(None, {"x": rows[:1]})
    assert np.allclose(alone[0], made[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("model", "why"), [(b"\xff\xff not a model", "no ONNX model"), (b"", "no product")])
def test_what_is_no_model_or_has_no_products_is_refused(model: bytes, why: str) -> None:
    with pytest.raises(EmbedderUnavailable, match=why):
        quantised(model)


@of_model
async def test_questions_are_embedded_by_the_copy_and_stored_texts_by_the_model(copied: Path, model: Encoder) -> None:
    made = FastembedEmbedder(settings(token_vectors=True), copied)
    await made.start()
    try:
        await until_ready(made)
        asked = [await made.embed_question(text) for text in QUESTIONS]
        stored = await made.embed_passages(QUESTIONS)
    finally:
        await made.close()
    assert made.precision == "int8"
    for question, passage, own in zip(asked, stored, model(QUESTIONS), strict=True):
        # at another place in a batch the last bits differ
        assert np.allclose(passage.parts[0], own.vector, atol=1e-5)
        assert 0.995 < float(np.dot(question.vector, own.vector)) < 0.99999
        assert question.words == own.words
        assert question.tokens is not None
        assert own.tokens is not None
        assert (question.tokens * own.tokens).sum(axis=1).min() > 0.98


@of_model
def test_the_copy_is_made_once_and_made_anew_when_it_cannot_be_read(tmp_path: Path, model: Encoder) -> None:
    first = for_questions(model, settings(), tmp_path)
    (path,) = copies(tmp_path)
    made = path.stat().st_mtime_ns
    assert for_questions(model, settings(), tmp_path).precision == "int8"
    assert (copies(tmp_path), path.stat().st_mtime_ns) == ([path], made)
    path.write_bytes(b"half a file")
    again = for_questions(model, settings(), tmp_path)
    assert again.precision == "int8"
    assert [one.vector for one in again.encode(QUESTIONS)] == [one.vector for one in first.encode(QUESTIONS)]


@of_model
def test_in_full_precision_nothing_is_copied(tmp_path: Path, model: Encoder) -> None:
    made = for_questions(model, settings(query_precision="fp32"), tmp_path / "cache")
    assert (made.encode is model, made.precision) == (True, "fp32")
    where_nothing_may_be_written, _ = load_fastembed(settings(), tmp_path, local_files_only=True)
    assert for_questions(where_nothing_may_be_written, settings(), tmp_path / "cache").precision == "fp32"
    assert not (tmp_path / "cache").exists()


@of_model
def test_a_copy_that_cannot_be_kept_leaves_the_model_and_is_told(
    tmp_path: Path, model: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "quantised").write_text("a file where the folder should be")
    made = for_questions(model, settings(), tmp_path)
    assert made.encode is model
    assert made.precision.startswith("fp32: the copy with weights of 8 bits cannot be kept")
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


@of_model
def test_without_onnx_the_model_itself_is_asked(
    tmp_path: Path, model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    made = for_questions(model, settings(), tmp_path)
    assert made.encode is model
    assert "the package onnx is not there" in made.precision


@of_model
def test_a_copy_that_says_something_else_is_not_used(tmp_path: Path, model: Encoder, copied: Path) -> None:
    shutil.copytree(copied, tmp_path, dirs_exist_ok=True)
    (path,) = copies(tmp_path)
    other = onnx.load(path)
    for one in other.graph.initializer:
        if one.name.endswith(".steps"):
            one.raw_data = bytes(reversed(one.raw_data))
    onnx.save(other, path)
    made = for_questions(model, settings(), tmp_path)
    assert made.encode is model
    assert "are others" in made.precision


@of_model
def test_a_model_too_large_to_copy_serves_as_it_is(
    tmp_path: Path, model: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_precision, "MOST_BYTES", 1_000_000)
    assert "larger than 1 MB" in for_questions(model, settings(), tmp_path).precision
