"""Questions that name somebody by a relation are answered by what is known of whom they mean."""

import msgspec
import pytest

from memproxy.core.memory import Memory, Relation
from memproxy.recall.links import DECAY, Phrase, phrase_of, question_about, resolve
from memproxy.recall.ranking import Scored
from memproxy.recall.select import ELBOW, select
from tests.recall.making import LIMITS, NOW, Bench, asking, fact, turn

CITY = "In which city does the dog's owner live?"
OWNS = fact("User owns Biscuit", subject="user", predicate="owns", object="Biscuit", entities=["Biscuit"])
IS_DOG = fact("Biscuit is a dog", subject="Biscuit", predicate="is", object="dog")
LIVES = fact("User lives in Berlin", subject="user", predicate="lives_in", object="Berlin", entities=["Berlin"])
OTHERS = [
    fact("User's budget for Hawaii is $10,000", subject="user"),
    fact("User prefers tea over coffee", subject="user"),
    fact("User works as a nurse", subject="user"),
]


@pytest.mark.parametrize(
    ("question", "phrase"),
    [
        (CITY, ("the dog's owner", "dog", "owner")),
        ("Does Biscuit's vet work on Sundays?", ("Biscuit's vet", "Biscuit", "vet")),
        ("where does the owner of the dog live", ("the owner of the dog", "dog", "owner")),
        ("What can't my sister eat?", ("my sister", "user", "sister")),
        ("what's my boss's wife called on weekends", ("my boss", "user", "boss")),
        ("What is my dog's name?", None),
        ("What is my budget?", None),
        ("What's for lunch? It's late, let's go", None),
        ("", None),
        ("'s 's the of ’s" * 100, None),
    ],
)
def test_a_relation_is_seen_when_the_question_asks_for_more_than_it(
    question: str, phrase: tuple[str, str, str] | None
) -> None:
    assert phrase_of(question) == (Phrase(*phrase) if phrase else None)


SISTER = fact("User's sister is Clara", subject="user", predicate="sister", object="Clara")


@pytest.mark.parametrize(
    ("question", "facts", "becomes"),
    [
        (CITY, [OWNS, IS_DOG, LIVES], "In which city does the user live?"),
        ("In which city does Biscuit's owner live?", [OWNS, LIVES], "In which city does the user live?"),
        ("What can't my sister eat?", [SISTER], "What can't Clara eat?"),
    ],
)
def test_a_fact_says_whom_the_relation_means(question: str, facts: list[Memory], becomes: str) -> None:
    phrase = phrase_of(question)
    assert phrase is not None
    step = resolve(phrase, facts)
    assert step is not None
    assert question_about(question, phrase, step[1]) == becomes


@pytest.mark.parametrize(
    "facts",
    [
        [],
        [LIVES, *OTHERS],
        [OWNS, fact("Anna owns Biscuit", subject="Anna", predicate="owns", object="Biscuit")],
        [msgspec.structs.replace(OWNS, active=False)],
        [msgspec.structs.replace(OWNS, superseded_by="x")],
        [fact("User owns Biscuit")],
        [turn("I own Biscuit")],
    ],
)
def test_nobody_is_meant_where_facts_say_nothing_or_several(facts: list[Memory]) -> None:
    assert resolve(Phrase("Biscuit's owner", "Biscuit", "owner"), facts) is None


def test_relations_are_edges_while_they_hold() -> None:
    phrase = Phrase("Clara's boss", "Clara", "boss")
    works = Relation(subject="Clara", predicate="boss", object="Sam")
    over = Relation(subject="Clara", predicate="boss", object="Kim", valid_to=OWNS.created_at)
    step = resolve(phrase, [fact("About Clara's work", relations=[works, over])])
    assert step is not None
    assert step[1] == "Sam"


async def test_two_facts_answer_together(it: Bench) -> None:
    await it.put(OWNS, IS_DOG, LIVES, *OTHERS)
    answer = await it.recall.recall(asking("In which city does Biscuit's owner live?"))
    assert "Berlin" in answer.context
    found = {one["memory_id"]: one for one in answer.candidates}[LIVES.id]
    assert found["signals"]["hops"] == 1
    assert found["score"] <= DECAY
    assert "tea" not in answer.context
    assert "hops" in answer.timings


async def test_three_facts_answer_together(it: Bench) -> None:
    boss = fact("User's boss is Sam", subject="user", predicate="boss", object="Sam")
    wife = fact("Sam's wife is Petra", subject="Sam", predicate="wife", object="Petra")
    town = fact("Petra lives in Oslo")
    await it.put(boss, wife, town, *OTHERS)
    answer = await it.recall.recall(asking("In which town does my boss's wife live?"))
    assert "Oslo" in answer.context
    assert {one["memory_id"]: one for one in answer.candidates}[town.id]["signals"]["hops"] == 2


async def test_a_question_without_a_relation_costs_no_walk(it: Bench) -> None:
    await it.put(OWNS, LIVES, *OTHERS)
    answer = await it.recall.recall(asking("Where do I live?"))
    assert "Berlin" in answer.context
    assert "hops" not in answer.timings


INFINITE = float("inf")


def rejected(*scores: float, elbow: float = ELBOW, hops: int = 0) -> list[str | None]:
    found = [
        Scored(memory=fact(f"fact {place}"), score=score, signals={"hops": float(hops)} if hops else {})
        for place, score in enumerate(scores)
    ]
    return [one.rejected for one in select(found, LIMITS, present=frozenset(), now=NOW, elbow=elbow)]


def test_beside_what_surely_answers_nothing_hardly_likely_is_given() -> None:
    assert rejected(0.97, 0.95, 0.6, 0.5) == [None, None, "elbow", "elbow"]


def test_a_gentle_slope_goes_down_to_the_floor() -> None:
    assert rejected(0.9, 0.8, 0.7, 0.5, 0.31, 0.29) == [None, None, None, None, None, "score"]


def test_scores_that_are_no_probabilities_have_no_elbow() -> None:
    assert rejected(1.0, 0.4, elbow=INFINITE) == [None, None]
    assert rejected(1.0, 0.4) == [None, "elbow"]


def test_that_an_edge_was_walked_counts_before_the_floor_and_how_many_were_does_not() -> None:
    assert rejected(0.9 * DECAY, hops=1) == [None]
    assert rejected(0.4 * DECAY, hops=1) == ["score"]
    assert rejected(0.9 * DECAY**3, hops=3) == [None]
