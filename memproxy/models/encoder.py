"""A local ONNX model through fastembed: texts to their vectors and to those of their tokens, blocking."""

import copy
import logging
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np

if not sys.stderr.isatty():
    # its library reads this at import; in a log, bars would stand between the lines
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    warnings.filterwarnings("ignore", "Cannot enable progress bars")  # fastembed tries
# fastembed logs each of its retries through loguru; what matters is in the error that we raise
os.environ.setdefault("LOGURU_AUTOINIT", "0")

from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType
from fastembed.common.onnx_model import OnnxOutputContext
from fastembed.rerank.cross_encoder import TextCrossEncoder
from fastembed.text.onnx_text_model import OnnxTextModel

from memproxy.core.text import is_unspaced
from memproxy.errors import EmbedderUnavailable, ModelUnavailable
from memproxy.logs import LogLimit
from memproxy.models.embedding import TEXT_BATCH, Encoder, Floats, unit
from memproxy.ports import Question
from memproxy.settings import EmbeddingSettings, RecallSettings

log = logging.getLogger(__name__)

UNREAD_SHARE = 0.5
"""A text with a larger share of tokens that are unknown to the model, or single letters within a word, is unread:
MiniLM knows words of the Latin script alone (docs/lab/recall.md).
"""

_WITHIN = "##"  # how WordPiece begins a token that goes on with a word

_ANNOUNCED = LogLimit(every_s=3600)  # without network a download is tried every few minutes, and told once an hour


def load_fastembed(
    settings: EmbeddingSettings, cache_dir: Path, *, local_files_only: bool = False
) -> tuple[Encoder, int]:
    """Load the local model (downloading it once, unless ``local_files_only``): the encoder and its dimension. Blocking,
    slow; without a network the library tries for 39 s to download.

    Raises:
        EmbedderUnavailable: it cannot be had; the message says why and what to do.
    """
    model = _open_fastembed(settings, cache_dir, local_files_only=local_files_only)
    inner = model.model

    def plain(texts: Sequence[str]) -> list[Question]:  # of a model that is not run as the others are
        return [Question(vector=unit(vector)) for vector in model.embed(list(texts), batch_size=TEXT_BATCH)]

    encode: Encoder = plain
    if isinstance(inner, OnnxTextModel):
        source = None if local_files_only else _file_of(inner)
        encode = _Local(inner, source, token_vectors=bool(settings.token_vectors))
    return encode, len(encode(["dimension"])[0].vector)


def _file_of(model: "OnnxTextModel[Any]") -> Path | None:
    """The model's file; fastembed knows it, and does not give it away."""
    folder, description = getattr(model, "_model_dir", None), getattr(model, "model_description", None)
    return Path(folder) / description.model_file if folder is not None and description is not None else None


class _Local:
    """`Encoder` of texts' vectors and, with ``token_vectors``, of their tokens', from one inference. ``source`` is the
    model's file, None where no copy may be made.
    """

    def __init__(self, model: "OnnxTextModel[Any]", source: Path | None, *, token_vectors: bool) -> None:
        self._model = model
        self.source = source
        self._token_vectors = token_vectors
        tokenizer = model.tokenizer
        if tokenizer is None:
            raise EmbedderUnavailable("the embedding model has no tokenizer; check that tokenizer.json is there")
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        self._words = [""] * (max(vocabulary.values()) + 1)
        for word, number in vocabulary.items():
            self._words[number] = word
        special = set(model.special_token_to_id.values())
        # punctuation is in every text: it says nothing of which one is meant, and would take a tenth of the room
        tells = [number not in special and any(map(str.isalnum, word)) for number, word in enumerate(self._words)]
        self._tells = np.array(tells)
        unknown = getattr(tokenizer.model, "unk_token", None)
        self._unread = np.array([word == unknown or _is_letter_within(word) for word in self._words])

    def with_session(self, session: Any) -> Self:
        """The same model, run by this ``onnxruntime.InferenceSession``."""
        other = copy.copy(self)
        other._model = copy.copy(self._model)  # noqa: SLF001 - of our own kind
        other._model.model = session  # noqa: SLF001
        return other

    def __call__(self, texts: Sequence[str]) -> list[Question]:
        questions: list[Question] = []
        for start in range(0, len(texts), TEXT_BATCH):
            questions += self._batch(list(texts[start : start + TEXT_BATCH]))
        return questions

    def _batch(self, texts: list[str]) -> list[Question]:
        output = self._model.onnx_embed(texts)
        # what `embed` does with an output, which it does not give away
        vectors = self._model._post_process_onnx_output(output)  # noqa: SLF001
        return [self._question(unit(vector), output, place) for place, vector in enumerate(vectors)]

    def _question(self, vector: list[float], output: OnnxOutputContext, place: int) -> Question:
        states, ids, mask = output.model_output, output.input_ids, output.attention_mask
        if ids is None or mask is None:
            return Question(vector=vector)
        inner = ids[place][mask[place] > 0][1:-1]  # without the marks of beginning and end
        unread = bool(np.count_nonzero(self._unread[inner]) > UNREAD_SHARE * len(inner))
        if not self._token_vectors or states.ndim != 3:
            return Question(vector=vector, unread=unread)
        token_places = np.flatnonzero(self._tells[ids[place]] & (mask[place] > 0))
        words, rows = [self._words[number] for number in ids[place][token_places]], states[place][token_places]
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        tokens: Floats = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return Question(vector=vector, tokens=tokens, words=words, unread=unread)


def _is_letter_within(token: str) -> bool:
    """Whether it is a single letter within a word of a script with spaces."""
    letter = token.removeprefix(_WITHIN)
    return letter != token and len(letter) == 1 and letter.isalpha() and not is_unspaced(letter)


def _open_fastembed(settings: EmbeddingSettings, cache_dir: Path, *, local_files_only: bool) -> TextEmbedding:
    name, options = settings.model, dict[str, Any](local_files_only=True) if local_files_only else dict[str, Any]()
    if settings.model_path is not None:
        name, options = _local_model(settings, settings.model_path)
    try:
        # fastembed does not try to download where the environment forbids it
        is_offline = os.environ.get("HF_HUB_OFFLINE", "").strip().upper() in {"1", "TRUE", "YES", "ON"}
        if not options and not is_offline and (description := _description(name)) is not None:
            try:
                return TextEmbedding(name, cache_dir=str(cache_dir), threads=settings.threads, local_files_only=True)
            except ValueError:  # its files are not there
                return _download(description, settings, cache_dir)
        return TextEmbedding(name, cache_dir=str(cache_dir), threads=settings.threads, **options)
    except (ValueError, OSError, RuntimeError) as error:
        remedy = "allow the download, or put the files on this machine and set embedding.model_path"
        if settings.model_path is not None:
            remedy = "check that embedding.model_path holds model.onnx, tokenizer.json and config.json of that model"
        raise EmbedderUnavailable(
            f"embedding model {settings.model} could not be loaded ({error}); {remedy}"
        ) from error


def _description(name: str, kind: type[TextEmbedding | TextCrossEncoder] = TextEmbedding) -> dict[str, Any] | None:
    """Fastembed's description of a model; None of one that it does not know."""
    return next((model for model in kind.list_supported_models() if model["model"].lower() == name.lower()), None)


def _onnx_file(folder: Path) -> str | None:
    return next((name for name in ("model.onnx", "onnx/model.onnx") if (folder / name).is_file()), None)


def _download(description: dict[str, Any], settings: EmbeddingSettings, cache_dir: Path) -> TextEmbedding:
    """Download the model, with a log line before and after."""
    name, sources = str(description["model"]), description["sources"]
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # it advises to get an account there
    if tries := _ANNOUNCED.due(name):
        hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
        source = f"{hub}/{sources['hf']}" if sources.get("hf") else str(sources.get("url"))
        repetition = f" ({tries} tries since this was said)" if tries > 1 else ""
        log.info(
            "downloading the embedding model %s, about %d MB, from %s to %s%s; recall goes by words until it is there",
            *(name, round(float(description["size_in_GB"]) * 1000), source, cache_dir, repetition),
        )
    began = time.monotonic()
    model = TextEmbedding(name, cache_dir=str(cache_dir), threads=settings.threads)
    log.info("downloaded the embedding model %s in %.0f s", name, time.monotonic() - began)
    return model


def _local_model(settings: EmbeddingSettings, folder: Path) -> tuple[str, dict[str, Any]]:
    """The name and options under which fastembed loads a folder: as the model it knows when the file is where it looks
    for it, else as a custom one (mean pooling, as sentence-transformers models have it).
    """
    model, options = _description(settings.model), {"specific_model_path": str(folder)}
    if model is not None and (folder / model["model_file"]).is_file():
        return settings.model, options
    if (file := _onnx_file(folder)) is None:
        raise EmbedderUnavailable(
            f"no ONNX model in embedding.model_path ({folder}); it must hold model.onnx (or onnx/model.onnx), "
            "tokenizer.json and config.json"
        )
    custom = f"local/{settings.model}#{file}"
    if _description(custom) is None:
        TextEmbedding.add_custom_model(
            custom,
            pooling=PoolingType.MEAN,
            normalization=True,
            sources=ModelSource(url="file:///"),
            dim=settings.dimension or (model["dim"] if model else 0),
            model_file=file,
        )
    return custom, options


def load_cross_encoder(
    settings: RecallSettings, cache_dir: Path, threads: int
) -> Callable[[str, Sequence[str]], list[float]]:
    """Load the local reranking model, downloading it once where its folder is not given: a query and texts to their
    scores. Blocking, slow.

    Raises:
        ModelUnavailable: it cannot be had; the message says why and what to do.
    """
    name, folder, options = settings.rerank_model, settings.rerank_model_path, dict[str, Any]()
    remedy = "allow the download, or put the files on this machine and set recall.rerank_model_path"
    if folder is not None:
        remedy = "check that recall.rerank_model_path holds model.onnx, tokenizer.json and config.json of that model"
        if (file := _onnx_file(folder)) is None:
            raise ModelUnavailable(f"there is no ONNX model in {folder}; {remedy}")
        name, options = f"local/{name}#{file}", {"specific_model_path": str(folder)}
        if _description(name, TextCrossEncoder) is None:
            TextCrossEncoder.add_custom_model(name, sources=ModelSource(url="file:///"), model_file=file)
    try:
        model = TextCrossEncoder(name, cache_dir=str(cache_dir), threads=threads, **options)
    except (ValueError, OSError, RuntimeError) as error:
        raise ModelUnavailable(f"{settings.rerank_model} could not be loaded ({error}); {remedy}") from error
    return lambda query, texts: list(model.rerank(query, texts))
