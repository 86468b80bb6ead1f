"""Texts that are looked through all at once say what each of them says by itself; equal scores have an order."""

from datetime import timedelta
from itertools import permutations

import msgspec
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery, SparseVector
from memproxy.recall.query import Query
from memproxy.recall.ranking import Scored, best_first, searched_candidates
from memproxy.recall.reading import Reader
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.word_index import WordIndex
from tests.recall.making import NOW, fact, turn

WORDS = "run runs running city cities sky bees bee 10 100 I'm my a café 狗 die — citizenship citizenships".split()  # noqa: SIM905
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
READER = Reader(Bm25Encoder())


@given(query=TEXTS, texts=st.lists(TEXTS, max_size=6))
def test_terms_of_many_texts_are_those_of_each(query: str, texts: list[str]) -> None:
    terms = sorted(READER.terms(query))
    readings = [READER.read(turn(text)) for text in texts]
    together = READER.held_terms(query, terms, readings).T.tolist()
    assert together == [READER.held_terms(query, terms, [one])[:, 0].tolist() for one in readings]


@example(query="run city", texts=["my bee", "run city run city"])
@given(query=TEXTS, texts=st.lists(TEXTS, max_size=6))
def test_phrases_of_many_texts_are_those_of_each(query: str, texts: list[str]) -> None:
    parts = [READER.read(turn(text)).letters for text in texts]
    asked = Query(query, NOW)
    for some in [*asked.word_pairs, *(b" %b " % word for word in asked.single_words)]:
        assert WordIndex(parts).having(some) == [place for place, part in enumerate(parts) if some in part]


@given(texts=st.lists(TEXTS, max_size=6))
def test_each_word_of_many_texts_is_found_where_it_is(texts: list[str]) -> None:
    parts = [READER.read(turn(text)).letters for text in texts]
    found = {(word, place) for word, places in WordIndex(parts).words() for place in places}
    assert found == {(word, place) for place, part in enumerate(parts) for word in part.split()}


def test_of_equal_scores_the_newer_is_first_then_the_one_of_lower_id() -> None:
    ages = [("b", 0), ("c", 1), ("a", 1), ("d", 2)]
    tied = [
        Scored(memory=fact("x", id=name, created_at=NOW - timedelta(days=age)), score=0.5, signals={})
        for name, age in ages
    ]
    better = Scored(memory=fact("y", id="z", created_at=NOW - timedelta(days=9)), score=0.6, signals={})
    for some in permutations([*tied, better]):
        assert [one.memory.id for one in best_first(some)] == ["z", "b", "a", "c", "d"]


QUERY = HybridQuery(
    dense=[1.0], bm25=SparseVector([2], [1.0]), tokens=np.zeros((1, 1), np.float32), limit=DEFAULT.by_tokens
)


def found(place: int, *, bm25: float = 1.0, tokens: bytes = b"") -> Candidate:
    return Candidate(memory=turn(f"message {place}"), cosine=1 - place / 1000, bm25=bm25, tokens=tokens)


def test_without_tokens_as_many_are_looked_at_as_a_search_without_them_finds_and_the_facts() -> None:
    far = Candidate(memory=fact("User is allergic to peanuts"), cosine=0.0, bm25=0.0)
    some = [*(found(place) for place in range(DEFAULT.by_tokens)), far]
    assert searched_candidates(DEFAULT, QUERY, some) == [*some[: DEFAULT.candidates], far]


def test_what_has_the_words_is_looked_at_however_far_its_vector_is() -> None:
    some = [found(place, bm25=0.0) for place in range(DEFAULT.by_tokens)]
    some[-1] = msgspec.structs.replace(some[-1], bm25=1.0)
    assert searched_candidates(DEFAULT, QUERY, some) == [*some[: DEFAULT.candidates], some[-1]]


def test_all_are_looked_at_where_one_has_tokens_or_somebody_asked_for_more() -> None:
    some = [found(place) for place in range(DEFAULT.by_tokens)]
    assert searched_candidates(DEFAULT, msgspec.structs.replace(QUERY, limit=DEFAULT.by_tokens + 1), some) == some
    some[-1] = msgspec.structs.replace(some[-1], tokens=b"t")
    assert searched_candidates(DEFAULT, QUERY, some) == some
