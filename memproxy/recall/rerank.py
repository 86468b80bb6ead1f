"""Reranking: a model reads the query and the best of what was found together, and says which of it helps."""

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec

from memproxy.core.block import quote
from memproxy.core.redact import redact
from memproxy.errors import ModelError, ModelUnavailable, ModelUnreadable
from memproxy.metrics import metrics
from memproxy.ports import Reranker, RoleModel
from memproxy.recall.ranking import Scored, best_first
from memproxy.recall.rewrite import shorten

log = logging.getLogger(__name__)

RERANKED = 20
"""How many of the best candidates are reranked; what ranks below them stays where it is."""

MODEL_SHARE = 0.5
"""How much the model's word counts against the score it corrects: it does not know who said a memory, and when."""

_TEXT_CHARACTERS = 500
_ANSWER_CHARACTERS = 20_000
_READ_CHARACTERS = 1_000
"""What a cross-encoder is given of a text: some 250 tokens, half of what such models take."""

_RETRY_S = 300.0
"""How long after a failed load the local model is tried again, as the embedding model is."""

_CLOSE_S = 3.0
"""How long closing waits for a local model that is just being read."""

CrossEncoder = Callable[[str, Sequence[str]], list[float]]
"""A loaded model: a query and texts to one score each, any number. Blocking; raises whatever its library does."""


class ModelReranker:
    """Implements `ports.Reranker` over a chat model that answers with a JSON list of scores."""

    def __init__(self, model: RoleModel, *, prompt: str, redact_kinds: frozenset[str]) -> None:
        self._model = model
        self._prompt = prompt
        self._redact = redact_kinds

    async def rerank(self, tenant: str, query: str, texts: Sequence[str]) -> list[float]:
        memories = [{"number": number, "text": self._quoted(text)} for number, text in enumerate(texts, 1)]
        lines = [json.dumps(memory, ensure_ascii=False) for memory in memories]
        query_line = json.dumps({"query": self._quoted(shorten(query))}, ensure_ascii=False)
        parts = ["Query (data):", query_line, "", "Memories (data):", *lines, "", "Answer with the JSON object only."]
        answer = await self._model.ask(tenant, system=self._prompt, user="\n".join(parts), json_mode=True)
        return read_scores(answer, len(texts))

    def _quoted(self, text: str) -> str:
        return quote(redact(text, self._redact))[:_TEXT_CHARACTERS]


class LocalReranker:
    """`ports.Reranker` on a cross-encoder of this machine, which is loaded in the background from the beginning. Until
    it is there, and again after a failure, `rerank` raises `ModelUnavailable` at once.
    """

    def __init__(self, load: Callable[[], CrossEncoder], timeout_s: float) -> None:
        """``load`` makes the model, in a thread; ``timeout_s`` is the longest that a question waits for it."""
        self._load = load
        self._timeout_s = timeout_s
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="reranker")
        self._model: CrossEncoder | None = None
        self._state = "it is being loaded"
        self._failed_at = math.inf
        self._loading = self._load_again()

    async def rerank(self, tenant: str, query: str, texts: Sequence[str]) -> list[float]:  # noqa: ARG002 - the port's
        """The model's word for each text: the logistic function of its score.

        Raises:
            ModelUnavailable: it is not loaded, or did not answer in time.
            ModelError: it failed.
        """
        if self._model is None:
            if time.monotonic() - self._failed_at > _RETRY_S:
                self._loading = self._load_again()
            raise ModelUnavailable(f"the local reranking model is not there: {self._state}")
        inputs = [text[:_READ_CHARACTERS] for text in texts]
        scoring = asyncio.get_running_loop().run_in_executor(
            self._worker, self._model, query[:_READ_CHARACTERS], inputs
        )
        try:
            async with asyncio.timeout(self._timeout_s):
                return [_logistic(score) for score in await scoring]
        except TimeoutError as error:
            raise ModelUnavailable(
                f"the local reranking model took longer than recall.rerank_timeout_s ({self._timeout_s:g} s)"
            ) from error
        except Exception as error:  # the runtime raises its own types; whatever it is, recall goes on in its own order
            metrics().internal_errors.labels(where="models.reranker").inc()
            log.warning("the local reranking model failed", exc_info=error)
            raise ModelError(f"the local reranking model failed ({type(error).__name__}: {error})") from error

    async def close(self) -> None:
        """End the model's thread. A download under way ends with the process."""
        await asyncio.to_thread(self._loading.join, _CLOSE_S)
        await asyncio.to_thread(self._worker.shutdown, wait=True, cancel_futures=True)
        self._model = None

    def _load_again(self) -> threading.Thread:
        self._failed_at = math.inf
        # nothing waits for its end, the interpreter's included: without network a download takes long to give up
        thread = threading.Thread(target=self._load_model, name="reranker-load", daemon=True)
        thread.start()
        return thread

    def _load_model(self) -> None:
        try:
            self._model = self._load()
        except ModelUnavailable as error:
            self._fail(error.message)
        except Exception as error:  # the runtime raises its own types; whatever it is, recall goes on in its own order
            metrics().internal_errors.labels(where="models.reranker").inc()
            log.warning("the local reranking model failed to load", exc_info=error)
            self._fail(f"{type(error).__name__}: {error}")
        else:
            log.info("the local reranking model is ready")

    def _fail(self, state: str) -> None:
        self._state, self._failed_at = state, time.monotonic()
        log.warning("memories are not reranked for now: %s", state)


def _logistic(score: float) -> float:
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, score))))


def read_scores(answer: str, count: int) -> list[float]:
    """The scores of an answer: ``{"scores": [...]}`` or the bare list, with or without words or a fence around it.

    Raises:
        ModelUnreadable: there is no such list, it has not ``count`` numbers, or one is not in [0, 1].
    """
    text = answer[:_ANSWER_CHARACTERS]
    first, last = text.find("["), text.rfind("]")
    try:
        scores = msgspec.json.decode(text[first : last + 1], type=list[float])
    except msgspec.DecodeError as error:
        raise ModelUnreadable("the reranking model answered something that is no list of scores") from error
    if len(scores) != count or not all(0 <= score <= 1 for score in scores):
        raise ModelUnreadable(f"the reranking model was asked for {count} scores in [0, 1] and gave others")
    return scores


async def reranked(reranker: Reranker, tenant: str, query: str, scored: Sequence[Scored]) -> list[Scored]:
    """All that was found, the best `RERANKED` with the model's word in their scores, best first.

    Raises:
        ModelError: the model cannot be asked, or its answer cannot be read.
    """
    best, rest = scored[:RERANKED], scored[RERANKED:]
    judged = await reranker.rerank(tenant, query, [candidate.memory.content for candidate in best])
    corrected = [_corrected(candidate, score) for candidate, score in zip(best, judged, strict=True)]
    return best_first([*corrected, *rest])


def _corrected(candidate: Scored, judged: float) -> Scored:
    score = (1 - MODEL_SHARE) * candidate.score + MODEL_SHARE * judged
    return msgspec.structs.replace(candidate, score=score, signals=candidate.signals | {"rerank": judged})
