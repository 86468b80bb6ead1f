"""Which of the candidates that a store answers are looked at, and what is searched for beside a question in one go."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.ports import Beside, Candidate, HybridQuery, SparseVector
from memproxy.recall.candidates import looked_at
from memproxy.recall.recipes import DEFAULT
from memproxy.stores.edge import EdgeStore
from tests.recall.making import DIMENSION, asking, bench, fact, turn

BESIDE = (Beside(bm25=SparseVector([1], [1.0]), limit=20),)
TOKENS = np.zeros((1, 1), np.float32)
QUERY = HybridQuery(dense=[1.0], bm25=SparseVector([2], [1.0]), limit=DEFAULT.by_tokens, beside=BESIDE)


def found(place: int, *, bm25: float | None = 1.0, beside: bool = False, tokens: bytes = b"") -> Candidate:
    one: Memory = turn(f"message {place}")
    return Candidate(memory=one, cosine=1 - place / 1000, bm25=bm25, beside=beside, tokens=tokens)


@pytest.mark.parametrize("own", [1, 0])
def test_what_was_found_beside_a_question_has_none_of_its_words(own: int) -> None:
    """None at all says that nothing has them."""
    some = [found(place, tokens=b"t") for place in range(own)] + [found(9, bm25=None, beside=True, tokens=b"t")]
    looked = looked_at(DEFAULT, QUERY, some)
    assert [one.memory for one in looked] == [one.memory for one in some]
    assert [one.bm25 for one in looked] == ([1.0, 0.0] if own else [None])


def test_without_tokens_as_many_are_looked_at_as_a_search_without_them_finds_and_what_was_found_beside() -> None:
    query = msgspec.structs.replace(QUERY, tokens=TOKENS)
    some = [found(place, beside=place == DEFAULT.by_tokens - 1) for place in range(DEFAULT.by_tokens)]
    some.append(found(500, bm25=None, beside=True))
    looked = looked_at(DEFAULT, query, some)
    assert [one.memory for one in looked] == [one.memory for one in (*some[: DEFAULT.candidates], *some[-2:])]
    assert [one.bm25 for one in looked[-3:]] == [1.0, 0.0, 0.0]


class Asked(EdgeStore):
    """A store that remembers what it was asked for."""

    queries: list[HybridQuery]

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        self.queries.append(query)
        return await super().search(scope, query)


async def test_a_question_for_advice_is_one_search(tmp_path: Path) -> None:
    async with bench(tmp_path / "other") as it:
        store = Asked(tmp_path / "store", dimension=DIMENSION, embedder_name=None)
        store.queries = []
        await store.open(None)
        it.store = it.recall._store = store
        await it.put(fact("User is allergic to peanuts", id="nuts"), turn("I had soup for lunch", id="soup"))
        answer = await it.recall.recall(asking("What can you recommend me for dinner, which foods must I avoid?"))
        await store.close()
    (query,) = store.queries
    assert [one.facts_only for one in query.beside] == [False, True]
    assert [citation.memory_id for citation in answer.citations] == ["nuts"]
