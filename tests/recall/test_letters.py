"""Texts that are looked through all at once say what each of them says by itself; equal scores have an order."""

from datetime import timedelta
from itertools import permutations

from hypothesis import example, given
from hypothesis import strategies as st

from memproxy.models.lexical import Bm25Encoder
from memproxy.recall.hops import follow, phrase_of
from memproxy.recall.letters import Letters
from memproxy.recall.reading import Reader, phrases, single_words
from memproxy.recall.search import Scored, best_first
from tests.recall.making import NOW, fact, turn

WORDS = "run runs running city cities sky bees bee 10 100 I'm my a café 狗 die — citizenship citizenships".split()  # noqa: SIM905
TEXTS = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
READER = Reader(Bm25Encoder())


@given(query=TEXTS, texts=st.lists(TEXTS, max_size=6))
def test_terms_of_many_texts_are_those_of_each(query: str, texts: list[str]) -> None:
    terms = sorted(READER.terms(query))
    readings = [READER.read(turn(text)) for text in texts]
    together = READER.found(query, terms, readings).T.tolist()
    assert together == [READER.found(query, terms, [one])[:, 0].tolist() for one in readings]


@example(query="run city", texts=["my bee", "run city run city"])
@given(query=TEXTS, texts=st.lists(TEXTS, max_size=6))
def test_phrases_of_many_texts_are_those_of_each(query: str, texts: list[str]) -> None:
    parts = [READER.read(turn(text)).letters for text in texts]
    for some in [*phrases(query), *(b" %b " % word for word in single_words(query))]:
        assert Letters(parts).having(some) == [place for place, part in enumerate(parts) if some in part]


@given(texts=st.lists(TEXTS, max_size=6))
def test_each_word_of_many_texts_is_found_where_it_is(texts: list[str]) -> None:
    parts = [READER.read(turn(text)).letters for text in texts]
    found = {(word, place) for word, places in Letters(parts).words() for place in places}
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


def test_a_relation_is_followed_however_its_fact_is_written() -> None:
    asked = phrase_of("Where does my sister live?")
    assert asked is not None
    for said in ("User's SISTER is Anna", "User's ｓｉｓｔｅｒ is Anna"):
        found = follow(asked, [fact("User's job is Baker"), fact(said)])
        assert found is not None
        assert found[1] == "Anna"
