"""How likely a candidate is right is told apart from the order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall.query import Query
from memproxy.recall.ranking import Ranker
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.scores import in_order
from tests.recall.making import NOW, turn

LEXICAL = Bm25Encoder()
ROW = st.tuples(st.floats(-8, 8), st.floats(-8, 8), st.booleans())


@given(st.lists(ROW, min_size=1, max_size=20))
def test_the_level_never_changes_the_order(rows: list[tuple[float, float, bool]]) -> None:
    told, odds = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    members = np.array([row[2] for row in rows])
    found = in_order(told, odds, members)
    for one in np.flatnonzero(members):
        for other in np.flatnonzero(members):
            assert odds[one] >= odds[other] or found[one] <= found[other]
    assert (found <= told).all()
    assert (found == told)[~members].all()


def test_what_is_not_embedded_yet_scores_as_among_those_that_words_find() -> None:
    question = "Which port does the staging server use?"
    waiting = Candidate(memory=turn("the staging server uses port 8443"), cosine=None, bm25=15.0)
    beside = [Candidate(memory=turn(f"remark {number}"), cosine=0.3, bm25=0.0) for number in range(60)]
    query = HybridQuery(bm25=LEXICAL.encode_query(question))
    ranker = Ranker(LEXICAL, DEFAULT)
    alone = ranker.rank(Query(question, NOW), query, [waiting])[0]
    among = ranker.rank(Query(question, NOW), query, [*beside, waiting])
    found = next(one for one in among if one.memory.id == alone.memory.id)
    assert found.score == pytest.approx(alone.score)


@pytest.mark.parametrize(
    ("question", "many"),
    [
        ("Which countries have I visited?", True),
        ("How old are my kids?", True),
        ("Wie heißen meine Kinder?", True),
        ("¿Qué países he visitado?", True),
        ("Which country did I visit?", False),
        ("What does my brother do?", False),
        ("What was the address?", False),
        ("How many of my friends' birthdays are in May?", True),
        ("How many miles did I run?", False),
        ("How much is my rent?", False),
    ],
)
def test_a_question_for_several_memories_is_told_by_its_form(question: str, many: bool) -> None:
    assert Query(question, NOW).asks_for_many is many
