"""Questions by a copy of the local model whose weights take 8 bits: half the time, and nearly the same vectors.

What bounds a short question is reading the weights from memory (MiniLM: 42 MB), so a quarter of the bytes is most of
the gain. Stored texts stay with the model itself: their vectors, and what the store was built with, do not change. The
figures are in ``docs/decisions/0027-precision-of-questions.md``.
"""

import hashlib
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
from onnxruntime.capi import onnxruntime_pybind11_state as runtime  # type: ignore[import-untyped]

from memproxy.errors import EmbedderUnavailable
from memproxy.ports import Question
from memproxy.settings import EmbeddingSettings

if TYPE_CHECKING:
    from memproxy.models.encoding import Encoder

log = logging.getLogger(__name__)

VERSION = 1
"""Of `models.quantise`; a copy made by another one is made anew."""

MOST_BYTES = 600_000_000
"""A larger model is not copied: making the copy holds the model in memory about three times, once."""

LEAST_COSINE = 0.985
"""How near the copy's vectors must be to the model's own, for each of `_SAMPLES`. Of 3,922 short texts MiniLM's
farthest has 0.996.
"""

_SAMPLES = (
    "What is my dog called?",
    "When is my appointment with the dentist, and where do I have to go for it?",
    "Which database does the billing service use since the team moved it last summer?",
    "budget for the trip to Hawaii",
)

_READ = 1 << 20

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

    source: Path | None
    """The model's file; None where no copy of it may be made."""

    def with_session(self, session: onnxruntime.InferenceSession) -> "Encoder":
        """The same with this session; tokenizer and pooling stay."""


class Questions(NamedTuple):
    """What embeds questions, and ``int8``, ``fp32`` or ``fp32: why`` it is not the former."""

    encode: "Encoder"
    precision: str


def for_questions(encode: "Encoder", settings: EmbeddingSettings, cache_dir: Path) -> Questions:
    """The encoder of questions as ``embedding.query_precision`` has it: ``encode`` itself, or a copy of it with weights
    of 8 bits, made once and kept in ``cache_dir``. Where there can be no good one, ``encode`` serves. Blocking, slow.
    """
    if settings.query_precision == "fp32" or not isinstance(encode, Exchangeable) or encode.source is None:
        return Questions(encode, "fp32")
    try:
        made = encode.with_session(_session(encode.source, settings.threads, cache_dir / "quantised"))
        _compare(encode, made)
    except EmbedderUnavailable as error:
        log.warning("questions are embedded in full precision: %s", error.message)
        return Questions(encode, f"fp32: {error.message}")
    return Questions(made, "int8")


def _session(source: Path, threads: int, folder: Path) -> onnxruntime.InferenceSession:
    if source.stat().st_size > MOST_BYTES:
        raise EmbedderUnavailable(f"the model's file is larger than {MOST_BYTES // 1_000_000} MB")
    path = folder / f"{_hash(source)[:32]}-{VERSION}.onnx"
    if path.exists():
        try:
            return _opened(path, threads)
        except _FAILURES as error:
            log.info("the copy of the embedding model for questions is made anew: %s", error)
    _make(source, path)
    try:
        return _opened(path, threads)
    except _FAILURES as error:
        raise EmbedderUnavailable(f"the copy with weights of 8 bits cannot be opened ({error})") from error


def _hash(source: Path) -> str:
    found = hashlib.sha256()
    with source.open("rb") as file:
        while piece := file.read(_READ):
            found.update(piece)
    return found.hexdigest()


def _make(source: Path, path: Path) -> None:
    """Write the copy; whoever looks finds the whole file or none."""
    try:
        from memproxy.models.quantise import quantised  # noqa: PLC0415 - onnx is needed, and loaded, this once
    except ImportError as error:
        raise EmbedderUnavailable(
            f"the package onnx is not there to make a copy with weights of 8 bits ({error}); install it, or set "
            "embedding.query_precision: fp32"
        ) from error
    made = quantised(source.read_bytes())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            written = Path(file.name)
            try:
                file.write(made)
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
    log.info("made a copy of the embedding model for questions, %d MB: %s", len(made) // 1_000_000, path)


def _opened(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    # threads that wait for the next question must not keep the processor busy
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _compare(model: "Encoder", copy: "Encoder") -> None:
    """Whether both say the same: the kernels differ between processors, and nobody has tried every model."""
    cosine = min(map(_cosine, model(_SAMPLES), copy(_SAMPLES)))
    if cosine < LEAST_COSINE:
        raise EmbedderUnavailable(f"with weights of 8 bits this model's vectors are others (cosine {cosine:.3f})")


def _cosine(one: Question, other: Question) -> float:
    return float(_vector(one.vector) @ _vector(other.vector))


def _vector(numbers: Sequence[float]) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.asarray(numbers, dtype=np.float64)
