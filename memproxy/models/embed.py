"""The embedder on a local ONNX model (through fastembed); `embed_remote` and `embedding` have the others."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from memproxy.core.text import split_parts
from memproxy.core.vectors import pack
from memproxy.errors import ConfigError, EmbedderUnavailable, ModelUnavailable
from memproxy.metrics import metrics
from memproxy.models.embedding import TEXT_BATCH, Batcher, Encoder
from memproxy.ports import Passage, Question
from memproxy.settings import EmbeddingSettings, RecallSettings
from memproxy.tasks import TaskOwner

if TYPE_CHECKING:
    from memproxy.models.query_precision import Questions

log = logging.getLogger(__name__)

Result = TypeVar("Result")

RETRY_SECONDS = 300.0  # how long after a failed load the model is tried again
LOOK_S = 5.0  # how often to look whether the folder of a model that cannot be loaded has changed
CLOSE_S = 3.0  # how long closing waits for a model that is just being read; not for a download


WITH_MODEL = "PATH[fastembed]"  # what to install for a local model: it is most of an installation, so it is an extra


def load_local(settings: EmbeddingSettings, cache_dir: Path, *, local_files_only: bool = False) -> tuple[Encoder, int]:
    """`encoder.load_fastembed`, where its packages are there. Raises `EmbedderUnavailable`: also where they are not."""
    try:
        from memproxy.models.encoder import load_fastembed  # noqa: PLC0415 - half a second, which no start needs
    except ImportError as error:
        raise EmbedderUnavailable(
            f'the packages of the local model are not installed ({error}); run: pip install "{WITH_MODEL}" (PATH: the '
            "wheel or folder that memproxy came from); or set embedding.provider to openai or none"
        ) from error

    return load_fastembed(settings, cache_dir, local_files_only=local_files_only)


def load_reranker(
    settings: RecallSettings, cache_dir: Path, threads: int
) -> Callable[[str, Sequence[str]], list[float]]:
    """`encoder.load_cross_encoder`. Raises `ModelUnavailable`, also where its packages are not installed."""
    try:
        from memproxy.models.encoder import load_cross_encoder  # noqa: PLC0415 - the same
    except ImportError as error:
        raise ModelUnavailable(f'its packages are not installed ({error}); run: pip install "{WITH_MODEL}"') from error
    return load_cross_encoder(settings, cache_dir, threads)


def _for_questions(encoder: Encoder, settings: EmbeddingSettings, cache_dir: Path) -> "Questions":
    from memproxy.models.query_precision import for_questions  # noqa: PLC0415 - the same

    return for_questions(encoder, settings, cache_dir)


class _Loader:
    """Loads in threads that nothing waits for, the interpreter's end included (which waits for an executor's): without
    network a download takes 39 s to give up, and nobody who stops the process is to wait for that.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None

    async def run(self, work: Callable[[], Result]) -> Result:
        """The result or error of ``work``."""
        done: Future[Result] = Future()
        done.set_running_or_notify_cancel()  # who stops waiting for it does not end it

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the work is waited for
                done.set_exception(error)

        self._thread = threading.Thread(target=run, name="embedder-load", daemon=True)
        self._thread.start()
        return await asyncio.wrap_future(done)

    async def close(self, within_s: float) -> None:
        """Let what runs end, if it does so soon: an interpreter that ends meanwhile may abort in the runtime's code."""
        if self._thread is not None and self._thread.is_alive():
            await asyncio.to_thread(self._thread.join, within_s)


@dataclass(eq=False)
class FastembedEmbedder:
    """`ports.Embedder` on a local ONNX model: loaded by ``load`` in the background, one session, one worker thread.
    ``start`` returns at once, also without network, where fastembed retries for 39 s; until the model is there (and
    again ``retry_s`` after a failure) calls raise `EmbedderUnavailable` at once. Queries that wait are embedded
    together; the last ones are cached. ``precision`` (`models.query_precision.Questions`) is empty until then.
    """

    settings: EmbeddingSettings
    cache_dir: Path
    load: Callable[[EmbeddingSettings, Path], tuple[Encoder, int]] = load_local
    _: KW_ONLY
    retry_s: float = RETRY_SECONDS
    close_s: float = CLOSE_S

    def __post_init__(self) -> None:
        self._tasks = TaskOwner("embedder")
        self._loader = _Loader()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="embedder")
        self._encoder: Encoder | None = None
        self._question_encoder: Encoder | None = None
        self.name = f"fastembed:{self.settings.model}"
        self.dimension = self.settings.dimension
        self.precision = ""
        self.state = "loading"
        self._queries = Batcher(self._tasks, self._questions)

    async def start(self) -> None:
        self._tasks.start(self._keep_loading(), "load")

    async def close(self) -> None:
        """Stop loading and release the model. A download under way ends with the process."""
        await self._tasks.cancel()
        await self._loader.close(self.close_s)
        await asyncio.to_thread(self._worker.shutdown, wait=True, cancel_futures=True)
        self._encoder = self._question_encoder = None
        self.state = "unavailable: closed"

    async def embed_question(self, text: str) -> Question:
        self._require()
        return await self._queries.submit(text)

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        self._require()
        split = [split_parts(text) for text in texts]
        parts = [part for of_text in split for part in of_text]
        passages: list[Passage] = []
        encoded: list[Question] = []
        for start in range(0, len(parts), TEXT_BATCH):
            encoded += await self._run(self._require(), parts[start : start + TEXT_BATCH])
            # tokens are packed as soon as a text is whole, so that of few texts they are held in full
            while len(passages) < len(split) and len(encoded) >= (count := len(split[len(passages)])):
                passages.append(_passage(encoded[:count]))
                del encoded[:count]
        return passages

    async def _questions(self, texts: Sequence[str]) -> list[Question]:
        return await self._run(self._question_encoder or self._require(), texts)

    async def _run(self, encoder: Encoder, texts: Sequence[str]) -> list[Question]:
        return await asyncio.get_running_loop().run_in_executor(self._worker, encoder, texts)

    def _require(self) -> Encoder:
        if self._encoder is None:
            raise EmbedderUnavailable(f"the embedding model is not there: {self.state}; recall goes on by words")
        return self._encoder

    async def _keep_loading(self) -> None:
        logged, folder = False, self.settings.model_path
        while not await self._try_load(logged):
            logged = True
            old_files, waited = _files_of(folder), 0.0
            # soon, where the model has a folder of its own, and that has changed
            while waited < self.retry_s and _files_of(folder) == old_files:
                step = min(LOOK_S, self.retry_s)
                await asyncio.sleep(step)
                waited += step

    async def _try_load(self, logged: bool) -> bool:
        """Load once; the first failure is a warning, repeated ones are not."""
        try:
            encoder, dimension = await self._loader.run(partial(self.load, self.settings, self.cache_dir))
            self._check(dimension)
            questions = await self._loader.run(partial(_for_questions, encoder, self.settings, self.cache_dir))
        except (EmbedderUnavailable, ConfigError) as error:
            self.state = f"unavailable: {error.message}"
            log.log(logging.DEBUG if logged else logging.WARNING, "recall is lexical only for now: %s", error.message)
            return False
        except Exception as error:  # the runtime raises its own types; whatever it is, recall goes on by words
            metrics().internal_errors.labels(where="embedder").inc()
            self.state = f"unavailable: {type(error).__name__}: {error}"
            log.log(logging.DEBUG if logged else logging.WARNING, "the embedding model failed to load", exc_info=error)
            return False
        self._question_encoder, self.precision = questions
        self.dimension, self._encoder, self.state = dimension, encoder, "ready"
        model = self.settings.model
        log.info("embedding model %s is ready, %d dimensions; questions: %s", model, dimension, self.precision)
        return True

    def _check(self, dimension: int) -> None:
        if self.settings.dimension not in (None, dimension):
            raise ConfigError(
                f"embedding.dimension is {self.settings.dimension}, but {self.settings.model} has {dimension}; "
                f"set embedding.dimension: {dimension} or leave it out"
            )


def _passage(parts: Sequence[Question]) -> Passage:
    """A text whose parts are these."""
    tokens = [part.tokens for part in parts if part.tokens is not None]
    return Passage(parts=[part.vector for part in parts], tokens=pack(np.concatenate(tokens)) if tokens else b"")


def _files_of(folder: Path | None) -> frozenset[tuple[str, int, int]]:
    """Names, sizes and times of a folder's files; nothing of a folder that is not there."""
    if folder is None:
        return frozenset()
    with suppress(OSError):
        entries = ((path, path.stat()) for path in folder.rglob("*"))
        return frozenset((str(path), about.st_size, about.st_mtime_ns) for path, about in entries)
    return frozenset()
