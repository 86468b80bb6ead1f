"""What is set aside is ranked in the same go, as two rankings would, and noise counts nowhere."""

from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memproxy.core.memory import Trust
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall.query import Query
from memproxy.recall.ranking import Ranker, best_first
from memproxy.recall.recipes import DEFAULT
from tests.recall.making import NOW, fact, turn

WORDS = (
    *("budget", "hawaii", "trip", "dog", "Biscuit", "10,000", "dollars", "it's", "Anna's", "sister\u2019s"),
    *("berlin", "straße", "über", "the", "my", "预算", "?"),
)
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)
SCORES = st.floats(0, 1, width=32)
LEXICAL = Bm25Encoder()


@st.composite
def candidates(draw: st.DrawFn) -> list[Candidate]:
    found = []
    for place in range(draw(st.integers(1, 12))):
        made = draw(st.sampled_from([fact, turn]))
        memory = made(
            draw(TEXTS),
            id=f"m{place}",
            session_id=draw(st.sampled_from(["s1", "s2"])),
            created_at=NOW + timedelta(minutes=place),
            trust=draw(st.sampled_from([Trust.USER, Trust.ASSISTANT])),
        )
        cosine = draw(st.none() | SCORES)
        found.append(Candidate(memory=memory, cosine=cosine, bm25=draw(SCORES)))
    return found


@settings(max_examples=60, deadline=None)
@given(query=TEXTS, found=candidates(), data=st.data())
def test_what_is_set_aside_is_ranked_as_in_a_ranking_of_its_own(
    query: str, found: list[Candidate], data: st.DataObject
) -> None:
    aside = data.draw(st.sets(st.integers(0, len(found) - 1)))
    ranker, hybrid = Ranker(LEXICAL, DEFAULT), HybridQuery(bm25=LEXICAL.encode_query(query))
    asked = Query(query, NOW)
    counted = ranker.rank(asked, hybrid, [one for place, one in enumerate(found) if place not in aside])
    ids = {found[place].memory.id for place in aside}
    everyone = ranker.rank(asked, hybrid, found)
    expected = best_first([*counted, *(one for one in everyone if one.memory.id in ids)])
    ranked = ranker.rank(asked, hybrid, found, aside=aside)
    assert ranked == best_first(ranked)
    # a sum over fewer candidates may be rounded another way, which may turn two that are equal around
    wanted = {one.memory.id: {"score": one.score} | one.signals for one in expected}
    assert {one.memory.id: {"score": one.score} | one.signals for one in ranked} == {
        name: pytest.approx(values, abs=1e-12) for name, values in wanted.items()
    }


@settings(max_examples=60, deadline=None)
@given(query=TEXTS, found=candidates(), data=st.data())
def test_noise_in_the_same_ranking_changes_nothing_of_what_is_said_of_the_others(
    query: str, found: list[Candidate], data: st.DataObject
) -> None:
    places = st.sets(st.integers(0, len(found) - 1), max_size=len(found) - 1)
    aside, noise = data.draw(places), data.draw(places)
    left = [one for place, one in enumerate(found) if place not in aside | noise]
    ranker, hybrid = Ranker(LEXICAL, DEFAULT), HybridQuery(bm25=LEXICAL.encode_query(query))
    asked = Query(query, NOW)
    ranked = ranker.rank(asked, hybrid, found, aside=aside, noise=noise)
    counted = ranker.rank(asked, hybrid, left)
    assert ranked == best_first(ranked)
    told = {one.memory.id: {"score": one.score} | one.signals for one in ranked}
    assert told.keys() == {one.memory.id for one in found}
    # a sum over fewer candidates may be rounded another way, which may turn two that are equal around
    assert {one.memory.id: told[one.memory.id] for one in counted} == {
        one.memory.id: pytest.approx({"score": one.score} | one.signals, abs=1e-12) for one in counted
    }
