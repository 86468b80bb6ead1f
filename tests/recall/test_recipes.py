from collections.abc import Mapping
from typing import Any, get_args

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from memproxy.core import fusion
from memproxy.core.memory import Memory
from memproxy.errors import ConfigError
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall import recipes, stages
from memproxy.recall.query import Query
from memproxy.recall.ranking import Ranker, Scored
from memproxy.recall.recipes import BIAS, DEFAULT, RECIPES, Recipe, configured, named
from memproxy.recall.scores import weighted
from memproxy.settings import RecallSettings, RecipeName, StageName
from tests.recall.making import NOW, fact, turn

LEXICAL = Bm25Encoder()
Signals = tuple[float | None, float]


def ranked(recipe: Recipe, query: str, found: Mapping[str, Signals] | list[tuple[Memory, Signals]]) -> list[Scored]:
    """Candidates given with their cosine and BM25, ranked by a recipe."""
    pairs = found if isinstance(found, list) else [(fact(text), signals) for text, signals in found.items()]
    candidates = [Candidate(memory=memory, cosine=cosine, bm25=bm25) for memory, (cosine, bm25) in pairs]
    hybrid = HybridQuery(bm25=LEXICAL.encode_query(query))
    return Ranker(LEXICAL, recipe).rank(Query(query, NOW), hybrid, candidates)


def order(recipe: Recipe, found: Mapping[str, Signals]) -> str:
    return "".join(one.memory.content for one in ranked(recipe, "query", found))


FOUND: dict[str, Signals] = {"a": (0.9, 0.0), "b": (0.6, 8.0), "c": (0.1, 9.0)}


def test_the_usual_designs_rank_as_they_are_known_to() -> None:
    assert order(named("dense"), FOUND) == "abc"
    assert order(named("bm25"), FOUND) == "cba"
    assert order(named("average"), FOUND) == "bca"
    assert order(named("rrf"), FOUND) == "abc"
    assert [round(one.score, 2) for one in ranked(named("dense"), "query", FOUND)] == [0.9, 0.6, 0.1]


@pytest.mark.parametrize("recipe", list(RECIPES.values()), ids=list(RECIPES))
@given(
    found=st.dictionaries(
        st.text(min_size=1, max_size=8), st.tuples(st.none() | st.floats(-1, 1), st.floats(0, 50)), max_size=12
    )
)
def test_every_recipe_gives_scores_between_0_and_1_best_first(recipe: Recipe, found: dict[str, Signals]) -> None:
    scores = [one.score for one in ranked(recipe, "which city", found)]
    assert len(scores) == len(found)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)


VECTORS = st.lists(st.tuples(st.floats(-1, 1), st.floats(0, 50), st.floats(0, 1)), min_size=2, max_size=30)


def score_of_first(signals: list[tuple[float, float, float]], model: Mapping[str, float]) -> float:
    cosine, bm25, coverage = np.array(signals).T
    found = fusion.columns(cosine, bm25, coverage, 3)
    return float(weighted(found, model, len(signals))[0])


@given(VECTORS, st.floats(0.01, 5))
def test_better_matching_words_never_lower_a_score(signals: list[tuple[float, float, float]], more: float) -> None:
    cosine, bm25, coverage = signals[0]
    for model in (DEFAULT.hybrid, DEFAULT.lexical):
        plain, better = (cosine, bm25 + 0.01, coverage), (cosine, bm25 + 0.01 + more, coverage)
        assert score_of_first([better, plain, *signals[1:]], model) >= score_of_first(
            [plain, better, *signals[1:]], model
        )


@given(VECTORS, st.floats(0, 1))
def test_a_nearer_vector_never_lowers_a_score(signals: list[tuple[float, float, float]], more: float) -> None:
    cosine, bm25, coverage = signals[0]
    plain, better = (cosine, bm25, coverage), (min(1.0, cosine + more), bm25, coverage)
    ahead = score_of_first([better, plain, *signals[1:]], DEFAULT.hybrid)
    assert ahead >= score_of_first([plain, better, *signals[1:]], DEFAULT.hybrid) - 1e-9


@given(VECTORS)
def test_a_column_that_is_0_for_everybody_changes_no_bit_of_a_sum(signals: list[tuple[float, float, float]]) -> None:
    cosine, bm25, coverage = np.array(signals).T
    for count in (1, len(signals)):
        found, nothing = fusion.columns(cosine[:count], bm25[:count], coverage[:count], 3), np.zeros(count)
        found |= {"newest": nothing, "preference": nothing}
        told = weighted(found, DEFAULT.hybrid, count, nothing)
        assert told.tolist() == weighted(found, DEFAULT.hybrid, count).tolist()


def test_a_weight_is_that_of_a_column_that_a_stage_gives() -> None:
    for recipe in RECIPES.values():
        given_columns = _columns(recipe)
        assert (recipe.hybrid.keys() | recipe.lexical.keys()) - {BIAS} <= given_columns, recipe.name


def _columns(recipe: Recipe) -> set[str]:
    candidates = [Candidate(memory=fact("a"), cosine=0.5, bm25=1.0)]
    ranker = Ranker(LEXICAL, recipe)
    return set(ranker.columns(ranker.table(Query("a", NOW), HybridQuery(), candidates)))


def test_the_settings_allow_exactly_the_recipes_and_stages_that_there_are() -> None:
    assert set(get_args(RecipeName)) == set(RECIPES)
    assert set(get_args(StageName)) == set(stages.STAGES)


def test_an_unknown_name_is_refused_with_the_allowed_ones() -> None:
    with pytest.raises(ConfigError, match=r"'best'.*default, late, dense, rrf, average, bm25"):
        named("best")
    unchecked: dict[str, Any] = {"recipe": "default", "stages": ["fused", "rerank"]}
    with pytest.raises(ConfigError, match=r"'rerank'.*fused, dense"):
        configured(RecallSettings.model_construct(**unchecked))
    with pytest.raises(ValidationError, match="'default'"):
        RecallSettings.model_validate({"recipe": "best"})
    with pytest.raises(ValidationError, match="'substance'"):
        RecallSettings.model_validate({"stages": ["fused", "rerank"]})


@pytest.mark.parametrize(
    ("names", "told"), [(["fused", "fused"], "each stage once"), (["times"], "one of the stages that search")]
)
def test_stages_that_cannot_rank_are_refused(names: list[str], told: str) -> None:
    with pytest.raises(ValidationError, match=told):
        RecallSettings.model_validate({"stages": names})


def test_stages_of_the_settings_take_the_place_of_the_recipes_own() -> None:
    recipe = configured(RecallSettings.model_validate({"stages": ["fused", "times"]}))
    assert recipe == msgspec.structs.replace(DEFAULT, stages=("fused", "times"))
    assert recipes.configured(RecallSettings()) == DEFAULT


def best(query: str, *told: Memory) -> Any:
    """The content of the best of memories that match alike."""
    return ranked(DEFAULT, query, [(memory, (0.5, 5.0)) for memory in told])[0].memory.content


def test_a_named_speaker_is_preferred() -> None:
    mine, theirs = (turn(f"{word} likes it", metadata={"name": name}) for word, name in (("He", "Ann"), ("We", "Bob")))
    assert best("What does Ann like?", mine, theirs) == mine.content
    assert best("What does Bob's friend like?", mine, theirs) == theirs.content


def test_the_assistants_words_are_found_when_they_are_asked_for() -> None:
    user = turn("The red one in the old town", trust="user")
    model = turn("The blue one in the old town", trust="assistant")
    user, model = (msgspec.convert(msgspec.to_builtins(one), Memory) for one in (user, model))
    assert best("Which hotel did you recommend?", user, model) == model.content
    assert best("Which hotel did I take?", user, model) == user.content


def test_a_named_time_prefers_what_was_said_then() -> None:
    may = turn("We went to the sea", created_at=NOW.replace(month=5))
    june = turn("We went to the mountains", created_at=NOW.replace(month=6, day=28))
    assert best("Where did we go in May 2026?", may, june) == may.content
    assert best("Where did we go in late June 2026?", may, june) == june.content


def test_the_newest_is_preferred_only_when_it_is_asked_for() -> None:
    old = fact("User works at Acme in town", created_at=NOW.replace(year=2020))
    new = fact("User works at Bolt in town", created_at=NOW)
    now, plain = (
        ranked(DEFAULT, query, [(old, (0.5, 5.0)), (new, (0.5, 5.0))])
        for query in ("Where do I work currently?", "Where do I work?")
    )
    assert now[0].memory.content == new.content
    assert now[0].score > now[1].score
    assert plain[0].score == plain[1].score


def test_the_answer_to_a_matching_question_is_preferred() -> None:
    talk = [
        turn(text, metadata={"seq": place}) for place, text in enumerate(("Which breed is it?", "A retriever", "Oh"))
    ]
    signals: list[Signals] = [(0.7, 9.0), (0.3, 1.0), (0.3, 1.0)]
    found = {one.memory.content: one.score for one in ranked(DEFAULT, "breed", list(zip(talk, signals, strict=True)))}
    assert found["A retriever"] > found["Oh"]
