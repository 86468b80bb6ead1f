"""What is set aside is ranked in the same go, as two rankings would, and noise counts nowhere; echoes of facts are told
by a quick look that misses none.
"""

import re
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.text import key_terms
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall.aside import Aside
from memproxy.recall.each import Each
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.search import Ranker, best_first
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
    counted = ranker.rank(query, hybrid, [one for place, one in enumerate(found) if place not in aside], now=NOW)
    ids = {found[place].memory.id for place in aside}
    everyone = ranker.rank(query, hybrid, found, now=NOW)
    expected = best_first([*counted, *(one for one in everyone if one.memory.id in ids)])
    ranked = ranker.rank(query, hybrid, found, now=NOW, aside=aside)
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
    ranked = ranker.rank(query, hybrid, found, now=NOW, aside=aside, noise=noise)
    counted = ranker.rank(query, hybrid, left, now=NOW)
    assert ranked == best_first(ranked)
    told = {one.memory.id: {"score": one.score} | one.signals for one in ranked}
    assert told.keys() == {one.memory.id for one in found}
    # a sum over fewer candidates may be rounded another way, which may turn two that are equal around
    assert {one.memory.id: told[one.memory.id] for one in counted} == {
        one.memory.id: pytest.approx({"score": one.score} | one.signals, abs=1e-12) for one in counted
    }


def repeated(memories: list[Memory]) -> set[str]:
    """The turns that hold all terms of a fact, and an assistant's that have at most one other than a fact's, by taking
    every one apart.
    """
    facts = [_terms(memory) for memory in memories if memory.kind is not Kind.TURN]
    return {one.id for one in memories if one.kind is Kind.TURN and any(_repeats(one, said) for said in facts if said)}


def _repeats(turn: Memory, fact: frozenset[str]) -> bool:
    said = _terms(turn)
    others = said - fact
    is_part = len(others) <= 1 and len(others) <= len(said & fact) > 0
    return fact <= said or (turn.trust is Trust.ASSISTANT and is_part)


def _terms(memory: Memory) -> frozenset[str]:
    terms = key_terms(memory.content[:500])
    return frozenset(re.sub(r"(?<=...)(?<!s)s$", "", term) for term in terms) - {"user"}


@settings(max_examples=200, deadline=None)
@given(found=candidates())
def test_a_turn_that_says_what_a_fact_says_is_never_missed(found: list[Candidate]) -> None:
    memories = [one.memory for one in found]
    assert Aside().told_by_facts(memories) == repeated(memories)


def test_a_query_and_a_candidate_are_read_once_for_all_rankings() -> None:
    found = [Candidate(memory=fact(text, id=text), bm25=1.0) for text in ("Berlin", "Hawaii")]
    everyone = Ranker(LEXICAL, DEFAULT).batch("trip", HybridQuery(bm25=LEXICAL.encode_query("trip")), found, NOW)
    read: list[str] = []

    def length(text: str) -> int:
        read.append(text)
        return len(text)

    def name(each: Each, place: int) -> str:
        read.append(each.memories[place].id)
        return each.memories[place].id

    for batch, place in ((everyone, 1), (everyone.only([1]), 0)):
        assert (batch.each.of_text(length), batch.of_memory(name, place)) == (4, "Hawaii")
    assert read == ["trip", "Hawaii"]


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_the_source_of_a_memory_is_the_last_message_of_the_user_that_it_came_from(data: st.DataObject) -> None:
    """Also where clients use one id in several sessions."""
    names = st.sampled_from(["a", "b", "c", "d"])
    memories = [
        data.draw(st.sampled_from([fact, turn]))(
            "text",
            id=data.draw(names),
            created_at=NOW + timedelta(minutes=data.draw(st.integers(0, 3))),
            trust=data.draw(st.sampled_from([Trust.USER, Trust.ASSISTANT])),
            turn_ids=data.draw(st.lists(names, max_size=2)),
        )
        for _ in range(data.draw(st.integers(1, 6)))
    ]
    found = [Candidate(memory=one, bm25=1.0) for one in memories]
    each = Ranker(LEXICAL, DEFAULT).batch("trip", HybridQuery(bm25=LEXICAL.encode_query("trip")), found, NOW).each
    said = {one.id: place for place, one in enumerate(memories) if one.kind is Kind.TURN and one.trust is Trust.USER}
    for place, memory in enumerate(memories):
        known = [said[name] for name in memory.turn_ids if name in said]
        assert each.sources[place] == max(known, key=lambda one: memories[one].created_at, default=place)
