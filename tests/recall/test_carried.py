"""What one candidate says of another: later statements, answers, and what the user must avoid."""

from datetime import timedelta

import numpy as np
import pytest

from memproxy.core.memory import Memory, Trust
from memproxy.core.protocol import RecallLimits
from memproxy.core.tokenvectors import Vectors, pack, unpack
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall import constraints
from memproxy.recall.asking import asking
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.search import Ranker, Scored
from memproxy.recall.select import Limits, select
from memproxy.settings import Settings
from tests.recall.making import NOW, fact, turn

LEXICAL = Bm25Encoder()
SOURCE = np.random.default_rng(11)
FLOOR = 0.6


def units(rows: int) -> Vectors:
    made = SOURCE.normal(size=(rows, 384)).astype(np.float32)
    found: Vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
    return found


ASKED, ABOUT = units(4), units(6)


def ranked(text: str, *candidates: Candidate) -> list[Scored]:
    query = HybridQuery(dense=[1.0], bm25=LEXICAL.encode_query(text), tokens=ASKED, words=["where", "i", "did", "park"])
    return Ranker(LEXICAL, DEFAULT).rank(text, query, candidates, now=NOW)


def candidate(memory: Memory, tokens: Vectors, cosine: float = 0.1) -> Candidate:
    return Candidate(memory=memory, cosine=cosine, bm25=0.0, tokens=pack(tokens))


def parked() -> list[Candidate]:
    """An older statement with the question's tokens, a later one near to it only, and remarks."""
    older = turn("parked on level -3, spot 118", created_at=NOW - timedelta(days=3))
    later = turn("the car is on -2 now, spot 75", created_at=NOW - timedelta(days=1))
    remarks = [turn(f"remark {letter}", created_at=NOW - timedelta(days=9)) for letter in "abcde"]
    return [
        candidate(older, np.concatenate([ASKED, ABOUT]), 0.8),
        candidate(later, np.concatenate([units(2), ABOUT, units(2)])),
        *(candidate(one, units(8)) for one in remarks),
    ]


def test_a_later_statement_about_the_same_takes_the_place_of_the_one_that_is_found() -> None:
    found = ranked("where did i park", *parked())
    limits = Limits.of(Settings(), RecallLimits())
    kept = [
        one.scored.memory.content for one in select(found, limits, present=frozenset(), now=NOW) if not one.rejected
    ]
    assert kept == ["the car is on -2 now, spot 75"]


@pytest.mark.parametrize("later", ["The ski boots are size 28.", "My skis are 170 now."])
def test_what_is_told_later_of_another_thing_takes_no_place(later: str) -> None:
    """However near to it, token by token."""
    older = turn("The running shoes are size 43.", created_at=NOW - timedelta(days=3))
    found = ranked(
        "what size are my running shoes",
        candidate(older, np.concatenate([ASKED, ABOUT]), 0.8),
        candidate(turn(later, created_at=NOW - timedelta(days=1)), np.concatenate([units(2), ABOUT, units(2)])),
        *(candidate(turn(f"remark {letter}", created_at=NOW - timedelta(days=9)), units(8)) for letter in "abcde"),
    )
    assert found[0].memory is older
    assert found[0].score > FLOOR


def test_what_was_before_is_found_as_it_was_said() -> None:
    assert ranked("where did i park before", *parked())[0].memory.content == "parked on level -3, spot 118"


def test_the_answer_of_the_assistant_stands_with_the_message_that_it_answers() -> None:
    question = turn("a gift for my nephew?", metadata={"seq": 0})
    answer = turn(
        "A visit to a digger park.", created_at=NOW + timedelta(minutes=1), trust=Trust.ASSISTANT, metadata={"seq": 1}
    )
    found = ranked(
        "what gift did you suggest for my nephew",
        candidate(question, np.concatenate([ASKED, units(4)]), 0.8),
        candidate(answer, units(6)),
        *(candidate(turn(f"remark {letter}", session_id="s9"), units(8)) for letter in "abc"),
    )
    assert found[0].memory.content == answer.content
    assert found[0].score > FLOOR


@pytest.mark.parametrize("query", ["which roads should I avoid", "I can't eat lunch today, too busy"])
def test_what_must_be_avoided_elsewhere_asks_for_no_constraint(query: str) -> None:
    assert constraints.asked_for(query) == frozenset()


def test_what_the_user_must_not_eat_is_given_with_any_advice_on_food() -> None:
    allergy = turn("i'm allergic to peanuts and carry an epipen")
    remarks = [candidate(turn(f"remark {letter}"), units(8), 0.2) for letter in "abc"]
    assert ranked("suggest a thai dish for dinner", candidate(allergy, units(8)), *remarks)[0].score > FLOOR
    assert ranked("what is my brother called", candidate(allergy, units(8)), *remarks)[0].score < FLOOR


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("was kann ich heute kochen", "ich vertrage Milch nicht"),
        ("¿qué puedo preparar para cenar?", "soy celíaca"),
        ("une idée de dessert ?", "j'ai fait une réaction aux fraises"),
        ("今晚吃什么好？", "我对虾过敏"),
        ("i have a headache, what can i take?", "ibuprofen gives me stomach pain, never again"),
        ("what can't I eat?", "i'm allergic to peanuts and carry an epipen"),
        ("which foods should I avoid", "soy celíaca"),
        ("was darf ich nicht essen?", "ich vertrage Milch nicht"),
        ("¿qué no puedo comer?", "soy celíaca"),
        ("qu'est-ce que je ne peux pas manger ?", "j'ai fait une réaction aux fraises"),
    ],
)
def test_constraints_are_told_and_asked_for_in_five_languages(query: str, told: str) -> None:
    assert constraints.constrains(turn(told), constraints.asked_for(query), constraints.whose(query))


def test_a_constraint_counts_for_the_one_who_has_it() -> None:
    mine, mothers = turn("i'm vegan"), turn("my mum is diabetic")
    for query, one, other in (("dinner ideas?", mine, mothers), ("soup ideas for my mother?", mothers, mine)):
        matters, bearers = constraints.asked_for(query), constraints.whose(query)
        assert constraints.constrains(one, matters, bearers)
        assert not constraints.constrains(other, matters, bearers)


@pytest.mark.parametrize("query", ["how long should i bake a cake", "what did we have for dinner", "who cooks dinner"])
def test_a_question_for_no_advice_asks_for_no_constraint(query: str) -> None:
    assert not constraints.asked_for(query)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("which book did you recommend", 1.0),
        ("tu m'avais conseillé quoi ?", 1.0),
        ("¿qué libros me recomendaste?", 1.0),
        ("你上次推荐给我的书是哪本？", 1.0),
        ("was hast du mir damals empfohlen", 1.0),
        ("can you suggest a book", 0.0),
    ],
)
def test_a_question_for_what_the_assistant_said_is_known_from_a_wish(query: str, said: float) -> None:
    assert asking(query).assistant_said == said


def test_what_is_unpacked_points_where_the_vectors_did() -> None:
    vectors = units(3)
    assert np.all(np.sum(unpack(pack(vectors)) * vectors, axis=1) > 0.7)
    assert unpack(b"").shape[0] == 0


def test_what_was_replaced_is_not_given_however_low_the_threshold_is() -> None:
    found = ranked("where did i park", *parked())
    limits = Limits.of(Settings(), RecallLimits(similarity_threshold=0.1))
    judged = {one.scored.memory.content: one.rejected for one in select(found, limits, present=frozenset(), now=NOW)}
    assert judged["the car is on -2 now, spot 75"] is None
    assert judged["parked on level -3, spot 118"] == "replaced"


def test_what_is_not_likely_itself_replaces_nothing_that_is_asked_for_as_it_is_now() -> None:
    text = "which tank did i currently lend to my friends"
    lent = turn("lent the small fish tank to my friend's kid, the big tank stays", created_at=NOW - timedelta(days=5))
    parted = turn("new shoes at last, goodbye old friends", created_at=NOW - timedelta(days=1))
    query = HybridQuery(bm25=LEXICAL.encode_query(text))
    others = [Candidate(memory=turn(f"a fish tank, {place}"), cosine=None, bm25=3.0) for place in range(4)]
    candidates = [Candidate(memory=lent, cosine=None, bm25=9.0), Candidate(memory=parted, cosine=None, bm25=0.4)]
    found = Ranker(LEXICAL, DEFAULT).rank(text, query, [*candidates, *others], now=NOW)
    assert found[0].memory.content == lent.content
    assert "replaced" not in found[0].signals


def test_a_fact_counts_for_less_beside_the_message_that_it_was_learned_from() -> None:
    message = turn("settled in Leeds, at last")
    scores: list[float] = []
    for source in ("elsewhere", message.id):
        learned = Candidate(memory=fact("User lives in Leeds.", turn_ids=[source]), cosine=0.5, bm25=0.0)
        found = ranked("where do i live", learned, candidate(message, units(8), 0.4))
        scores += [one.score for one in found if one.memory.id == learned.memory.id]
    assert scores[1] < scores[0]
