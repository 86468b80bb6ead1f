"""Reranking: a model reads the query and the best of what was found together, and says which of it helps."""

import json
from collections.abc import Sequence

import msgspec

from memproxy.core.block import quote
from memproxy.core.redact import redact
from memproxy.errors import ModelUnreadable
from memproxy.ports import Reranker, RoleModel
from memproxy.recall.ranking import Scored, best_first
from memproxy.recall.rewrite import shorten

RERANKED = 20
"""How many of the best candidates are reranked; what ranks below them stays where it is."""

MODEL_SHARE = 0.5
"""How much the model's word counts against the score it corrects: it does not know who said a memory, and when."""

_TEXT_CHARACTERS = 500
_ANSWER_CHARACTERS = 20_000


class ModelReranker:
    """Implements `ports.Reranker` over a chat model that answers with a JSON list of scores."""

    def __init__(self, model: RoleModel, *, prompt: str, redact_kinds: frozenset[str]) -> None:
        self._model = model
        self._prompt = prompt
        self._redact = redact_kinds

    async def rerank(self, tenant: str, query: str, texts: Sequence[str]) -> list[float]:
        memories = [{"number": place, "text": self._quoted(text)} for place, text in enumerate(texts, 1)]
        lines = [json.dumps(one, ensure_ascii=False) for one in memories]
        asked = json.dumps({"query": self._quoted(shorten(query))}, ensure_ascii=False)
        parts = ["Query (data):", asked, "", "Memories (data):", *lines, "", "Answer with the JSON object only."]
        answer = await self._model.ask(tenant, system=self._prompt, user="\n".join(parts), json_mode=True)
        return read_scores(answer, len(texts))

    def _quoted(self, text: str) -> str:
        return quote(redact(text, self._redact))[:_TEXT_CHARACTERS]


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


async def reranked(reranker: Reranker, tenant: str, query: str, found: Sequence[Scored]) -> list[Scored]:
    """All that was found, the best `RERANKED` with the model's word in their scores, best first.

    Raises:
        ModelError: the model cannot be asked, or its answer cannot be read.
    """
    best, rest = found[:RERANKED], found[RERANKED:]
    judged = await reranker.rerank(tenant, query, [one.memory.content for one in best])
    corrected = [_corrected(one, score) for one, score in zip(best, judged, strict=True)]
    return best_first([*corrected, *rest])


def _corrected(one: Scored, judged: float) -> Scored:
    score = (1 - MODEL_SHARE) * one.score + MODEL_SHARE * judged
    return msgspec.structs.replace(one, score=score, signals=one.signals | {"rerank": judged})
