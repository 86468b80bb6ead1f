"""Questions by a copy of the local model whose weights take 8 bits: half the time, and nearly the same vectors. Reading
the weights from memory bounds a short question (MiniLM: 42 MB). Stored texts stay with the model itself, so that their
vectors do not change. Figures: ``docs/decisions/0027-precision-of-questions.md``.
"""

import hashlib
import logging
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import onnxruntime  # type: ignore[import-untyped]
from onnxruntime.capi import onnxruntime_pybind11_state as runtime  # type: ignore[import-untyped]

from memproxy.errors import EmbedderUnavailable
from memproxy.metrics import metrics
from memproxy.models.embedding import Encoder
from memproxy.settings import EmbeddingSettings

if TYPE_CHECKING:
    import onnx

log = logging.getLogger(__name__)

VERSION = 1  # of `quantised`; a copy made by another one is made anew
BLOCK = 64  # consecutive weights of a column that share a scale (MiniLM: 128 is less like it, 32 takes 0.3 ms more)
_MIDDLE = 128  # what stands for zero in a byte without sign
_DOMAIN = "com.microsoft"
_INT8_ACCUMULATION = 4
"""The inputs of a product become 8 bits too, row by row and block by block: a text's vector does not depend on which
others are embedded with it, as it would with one scale for a whole batch.
"""

MOST_BYTES = 600_000_000  # a larger model is not copied: the copying holds it in memory about three times
LEAST_COSINE = 0.985  # of the copy's vectors and the model's, of `_SAMPLES`; MiniLM's least of 3,922 texts is 0.996

_SAMPLES = (
    "What is my dog called?",
    "When is my appointment with the dentist, and where do I have to go for it?",
    "Which database does the billing service use since the team moved it last summer?",
    "budget for the trip to Hawaii",
)

_FAILURES = (
    runtime.Fail,
    runtime.InvalidArgument,
    runtime.InvalidGraph,
    runtime.InvalidProtobuf,
    runtime.NoSuchFile,
    runtime.NotImplemented,
    runtime.RuntimeException,
)
"""What a session raises for a file that it cannot read, and for an operator that it does not know."""


@runtime_checkable
class Exchangeable(Protocol):
    """An encoder that can do its work with other weights."""

    source: Path | None  # the model's file; None where no copy of it may be made

    def with_session(self, session: onnxruntime.InferenceSession) -> Encoder:
        """The same with this session; tokenizer and pooling stay."""


class Questions(NamedTuple):
    """What embeds questions, and ``int8``, ``fp32`` or ``fp32: why`` it is not the former."""

    encode: Encoder
    precision: str


def for_questions(encode: Encoder, settings: EmbeddingSettings, cache_dir: Path) -> Questions:
    """The encoder of questions as ``embedding.query_precision`` has it: ``encode`` itself, or a copy of it with weights
    of 8 bits, made once and kept in ``cache_dir``. Where there can be no good one, ``encode`` serves. Blocking, slow.
    """
    if settings.query_precision == "fp32" or not isinstance(encode, Exchangeable) or encode.source is None:
        return Questions(encode, "fp32")
    try:
        copy = encode.with_session(_session(encode.source, settings.threads, cache_dir / "quantised"))
        _compare(encode, copy)
    except EmbedderUnavailable as error:
        log.warning("questions are embedded in full precision: %s", error.message)
        return Questions(encode, f"fp32: {error.message}")
    return Questions(copy, "int8")


def _session(source: Path, threads: int, folder: Path) -> onnxruntime.InferenceSession:
    if source.stat().st_size > MOST_BYTES:
        raise EmbedderUnavailable(f"the model's file is larger than {MOST_BYTES // 1_000_000} MB")
    with source.open("rb") as file:
        path = folder / f"{hashlib.file_digest(file, 'sha256').hexdigest()[:32]}-{VERSION}.onnx"
    if path.exists():
        try:
            return _open_session(path, threads)
        except _FAILURES as error:
            log.info("the copy of the embedding model for questions is made anew: %s", error)
    _make(source, path)
    try:
        return _open_session(path, threads)
    except _FAILURES as error:
        raise EmbedderUnavailable(f"the copy with weights of 8 bits cannot be opened ({error})") from error


def _make(source: Path, path: Path) -> None:
    """Write the copy atomically: readers find the whole file or none."""
    copy = quantised(source.read_bytes())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            written = Path(file.name)
            try:
                file.write(copy)
                file.flush()
                os.fsync(file.fileno())
                written.replace(path)
            except BaseException:
                written.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise EmbedderUnavailable(
            f"the copy with weights of 8 bits cannot be kept in {path.parent} ({error}); let memproxy write there, or "
            "set embedding.query_precision: fp32"
        ) from error
    log.info("made a copy of the embedding model for questions, %d MB: %s", len(copy) // 1_000_000, path)


def quantised(model: bytes) -> bytes:
    """The model with each product by a matrix of 32-bit floats replaced by one with a matrix of 8 bits (ONNX Runtime's
    ``MatMulNBits``); all else, the table of words above all, stays as it is.

    Raises:
        EmbedderUnavailable: the package ``onnx`` is not there, or it is no ONNX model, its weights are in other files,
            or it has no such matrix.
    """
    try:
        import onnx  # noqa: PLC0415 - it is needed, and loaded, this once
    except ImportError as error:
        raise EmbedderUnavailable(
            f"the package onnx is not there to make a copy with weights of 8 bits ({error}); install it, or set "
            "embedding.query_precision: fp32"
        ) from error
    try:
        parsed = onnx.load_model_from_string(model)
    except Exception as error:
        # protobuf's own types, of a package that is onnx's and not ours; questions go on in full precision
        metrics().internal_errors.labels(where="models.quantise").inc()
        log.warning("the embedding model's file cannot be read by onnx (%s: %s)", type(error).__name__, error)
        raise EmbedderUnavailable("the model's file is no ONNX model") from error
    _quantise(parsed)
    copy: bytes = parsed.SerializeToString()
    return copy


def _quantise(parsed: "onnx.ModelProto") -> None:
    import onnx  # noqa: PLC0415 - as above

    graph = parsed.graph
    if any(tensor.data_location == onnx.TensorProto.EXTERNAL for tensor in graph.initializer):
        raise EmbedderUnavailable("the model's weights are in files of their own")
    matrices = {tensor.name: tensor for tensor in graph.initializer if tensor.data_type == onnx.TensorProto.FLOAT}
    products = [
        node
        for node in graph.node
        if node.op_type == "MatMul" and node.input[1] in matrices and len(matrices[node.input[1]].dims) == 2
    ]
    if not products:
        raise EmbedderUnavailable("the model has no product with a matrix of 32-bit floats")
    for name in dict.fromkeys(node.input[1] for node in products):
        steps, scales = in_blocks(onnx.numpy_helper.to_array(matrices[name]))
        graph.initializer.append(onnx.numpy_helper.from_array(steps, f"{name}.steps"))
        graph.initializer.append(onnx.numpy_helper.from_array(scales, f"{name}.scales"))
    for node in products:
        matrix = matrices[node.input[1]]
        new_node = onnx.helper.make_node(
            "MatMulNBits",
            [node.input[0], f"{matrix.name}.steps", f"{matrix.name}.scales"],
            list(node.output),
            name=node.name,
            domain=_DOMAIN,
            K=matrix.dims[0],
            N=matrix.dims[1],
            bits=8,
            block_size=BLOCK,
            accuracy_level=_INT8_ACCUMULATION,
        )
        node.CopyFrom(new_node)
    _drop_unused(graph)
    if all(tensor.domain != _DOMAIN for tensor in parsed.opset_import):
        parsed.opset_import.append(onnx.helper.make_opsetid(_DOMAIN, 1))


def in_blocks(matrix: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.float32]]:
    """A matrix of shape [rows, columns] as bytes, [columns, blocks, `BLOCK`], and their scales, [columns, blocks]: a
    weight is (byte - 128) × scale. What a last block lacks is zero.
    """
    rows, columns = matrix.shape
    padded = np.zeros((columns, -(-rows // BLOCK) * BLOCK), np.float32)
    padded[:, :rows] = matrix.T
    blocks = padded.reshape(columns, -1, BLOCK)
    scales = np.abs(blocks).max(axis=2) / 127
    # nothing but zeros needs no scale
    steps = np.rint(blocks / np.where(scales > 0, scales, 1)[:, :, None])
    return (steps + _MIDDLE).astype(np.uint8), scales


def _drop_unused(graph: "onnx.GraphProto") -> None:
    used = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name not in used:
            del graph.initializer[place]


def _open_session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # threads that wait for the next question must not keep the processor busy
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _compare(model: Encoder, copy: Encoder) -> None:
    """Whether both say the same: the kernels differ between processors, and nobody has tried every model."""
    pairs = zip(model(_SAMPLES), copy(_SAMPLES), strict=True)
    cosine = min(float(np.dot(vector.vector, other.vector)) for vector, other in pairs)
    if cosine < LEAST_COSINE:
        raise EmbedderUnavailable(f"with weights of 8 bits this model's vectors are others (cosine {cosine:.3f})")
