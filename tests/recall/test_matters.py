"""Everyday matters: what is asked of oneself and what was told of it share no word."""

from datetime import timedelta

import pytest

from memproxy.core.memory import Memory
from memproxy.core.protocol import RecallLimits
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Candidate, HybridQuery
from memproxy.recall import changes, constraints, matters
from memproxy.recall.asking import asking
from memproxy.recall.query import Query
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.search import Ranker
from memproxy.recall.select import Limits, select
from memproxy.settings import Settings
from tests.recall.making import NOW, fact, turn

LEXICAL = Bm25Encoder()
REMARKS = ("lovely weather", "the film was dull", "ok thanks", "such a long queue today")


def given(query: str, *told: Memory, cosine: float | None = None) -> list[str]:
    """What would be injected, beside some remarks; ``cosine`` None: by words alone."""
    memories = [*told, *(turn(text, session_id="s9", created_at=NOW - timedelta(days=40)) for text in REMARKS)]
    terms = set(LEXICAL.encode_query(query).indices)
    candidates = [
        Candidate(
            memory=memory,
            cosine=cosine,
            bm25=float(len(terms.intersection(LEXICAL.encode_document(memory.content).indices))),
        )
        for memory in memories
    ]
    asked = HybridQuery(dense=None if cosine is None else [1.0], bm25=LEXICAL.encode_query(query))
    found = Ranker(LEXICAL, DEFAULT).rank(query, asked, candidates, now=NOW)
    judged = select(found, Limits.of(Settings(), RecallLimits()), present=frozenset(), now=NOW)
    return [one.scored.memory.content for one in judged if one.rejected is None]


def ago(days: int, text: str) -> Memory:
    return turn(text, session_id=f"s{days}", created_at=NOW - timedelta(days=days))


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("whats my address", "signed the lease, Linden Avenue 4, from march"),
        ("who do i report to", "my manager Petra is on leave till June"),
        ("wo wohne ich", "endlich umgezogen, jetzt in Kassel"),
        ("¿a qué me dedico?", "desde el lunes trabajo en un hospital"),
        ("j'habite où ?", "emménagé à Brest, quatrième étage"),
        ("我住在哪里？", "上个月搬到苏州了"),
    ],
)
def test_what_tells_of_the_matter_is_known_without_a_shared_word(query: str, told: str) -> None:
    asked = matters.asked_about(query)
    assert asked.told(told)
    assert not asked.told("ok thanks, see you")
    assert set(matters.beside(Query(query, NOW)).split()) & set(asked.searched.split())


def test_it_is_given_by_words_alone_and_with_vectors() -> None:
    told = ago(5, "found a place at last: Linden Avenue 4, second floor")
    for cosine in (None, 0.2):
        assert given("what's my address", told, cosine=cosine) == [told.content]


@pytest.mark.parametrize(
    "query", ["what is the capital of Peru", "which book did you recommend", "Where does Ann live?"]
)
def test_nothing_is_searched_beside_what_asks_of_nothing_of_his_own(query: str) -> None:
    assert matters.beside(Query(query, NOW)) == ""


def test_what_holds_of_somebody_else_tells_nothing_of_the_user() -> None:
    asked = matters.asked_about("where do i work")
    for own in ("i work at the town library", "User works at the town library", "We moved, I work in Porto"):
        assert asked.told(own)
    assert not asked.told("my brother got a new job at the town library")
    brothers = "where does my brother work"
    assert matters.asked_about(brothers).told("my brother works at the library", constraints.whose(brothers))


def test_what_lacks_the_one_word_that_is_asked_for_is_not_given() -> None:
    router = ago(3, "new router, the wifi is called Heron and the guest wifi Egret")
    assert given("what is my wifi called", router, cosine=0.6) == [router.content]
    assert given("what's my wifi password", router, cosine=0.6) == []


def test_the_home_that_was_told_last_is_given_and_not_the_one_before() -> None:
    before, since = ago(90, "we live in the city of Turku, close to the river"), ago(9, "moved to Tampere")
    for cosine in (None, 0.3):
        assert given("which city do we live in", before, since, cosine=cosine) == [since.content]
    assert before.content in given("in which city did we live before", before, since, cosine=0.3)


def test_what_goes_on_with_what_was_said_tells_of_the_same() -> None:
    first = turn("two cats live here, Pip is the shy one", created_at=NOW - timedelta(days=2), metadata={"seq": 0})
    second = turn("and Moss, who eats everything", created_at=NOW - timedelta(days=2, minutes=-1), metadata={"seq": 1})
    assert set(given("what are my cats called", first, second, cosine=0.35)) == {first.content, second.content}


def test_what_was_said_on_the_day_that_is_asked_for_comes_first() -> None:
    days = [turn(f"slept {hours} hours", created_at=NOW - timedelta(days=hours)) for hours in (5, 6, 7, 8)]
    assert given("how did i sleep on 15 november 2026", *days, cosine=0.3)[0] == "slept 6 hours"


@pytest.mark.parametrize(
    ("query", "himself"),
    [("what meds is mum on", 1.0), ("what did Ann's mum say", 0.0), ("on habite où", 1.0), ("things on a shelf", 0.0)],
)
def test_who_calls_his_mother_mum_asks_of_his_own(query: str, himself: float) -> None:
    assert asking(query).of_self == himself


def test_what_the_user_must_avoid_is_known_from_a_fact_and_where_he_eats_with_others() -> None:
    query = "suggest a dinner with friends"
    matter, bearers = constraints.asked_for(query), constraints.whose(query)
    assert constraints.constrains(fact("User is allergic to shellfish"), matter, bearers)
    assert not constraints.constrains(fact("Ben is allergic to shellfish"), matter, bearers)


@pytest.mark.parametrize(
    ("query", "before", "since"),
    [
        ("who is my running coach", "my running coach is Abby, easy runs only", "abby emigrated, so Tom coaches us"),
        ("am i in a band", "playing bass in a cover band called Static Owls", "static owls split up, oh well"),
        ("qué carrera estudio", "estudio segundo de enfermería", "dejo enfermería, empiezo fisioterapia"),
        ("je fais quel sport", "mon sport : je fais de l'escalade", "j'arrête l'escalade, place à la natation"),
    ],
)
def test_what_is_told_of_the_end_of_what_was_named_is_given_in_its_place(query: str, before: str, since: str) -> None:
    old, new = ago(90, before), ago(9, since)
    assert given(query, old, new, cosine=0.45) == [since]
    assert given(query, old, cosine=0.45) == [before]


@pytest.mark.parametrize(
    ("said", "name", "ended"),
    [
        ("捷达卖了，提了辆比亚迪", "捷达", True),
        ("der passat ist weg, fahre jetzt elektrisch", "passat", True),
        ("linda got fired?! a guy named Osman is in charge", "linda", True),
        ("linda got fired?! a guy named Osman is in charge", "osman", False),
        ("the passat has new tyres, the old ones are gone", "passat", False),
    ],
)
def test_what_is_no_more_is_what_is_named_in_the_same_clause(said: str, name: str, *, ended: bool) -> None:
    assert name in changes.names(said)
    assert changes.is_ended(said, name) is ended


def test_a_fact_is_replaced_as_the_message_that_it_was_learned_from() -> None:
    old, new = ago(90, "my running coach is Abby, easy runs only"), ago(9, "abby emigrated, so Tom coaches us now")
    learned = fact("User's running coach is Abby.", turn_ids=[old.id])
    assert given("who is my running coach", learned, old, new, cosine=0.45) == [new.content]


def test_the_same_name_without_a_change_replaces_nothing() -> None:
    old, new = ago(90, "my running coach is Abby, easy runs only"), ago(9, "abby likes the colour of my shoes")
    assert given("who is my running coach", old, new, cosine=0.45) == [old.content]


def test_who_of_several_has_gone_takes_the_others_from_nobody() -> None:
    several, gone = ago(90, "my flatmates are Femke and Roos"), ago(9, "femke moved out, Iker has her room")
    assert several.content in given("who are my flatmates", several, gone, cosine=0.45)


@pytest.mark.parametrize(
    ("query", "other"),
    [
        ("where do i work", fact("User's sister Dee works at Barnaby's.")),
        ("which city do i live in", ago(9, "my ex Jonas lives in Uppsala, awkward")),
        ("what's my dentist's name", fact("User's aunt is named Rosie.")),
    ],
)
def test_what_is_told_of_somebody_else_is_not_given_for_the_users_own(query: str, other: Memory) -> None:
    assert other.content not in given(query, other, cosine=0.6)


def test_whom_the_question_names_is_not_somebody_else() -> None:
    sister = fact("User's sister Dee works at Barnaby's.")
    assert given("do i know where Dee works", sister, cosine=0.6) == [sister.content]


@pytest.mark.parametrize(
    ("said", "own"),
    [
        ("we went with my brother, I work in Porto", True),
        ("he dejado la farmacia, trabajo en un laboratorio", True),
        ("my coach Iwona wants me to work at night", True),
        ("my brother came by. started as a nurse today", True),
        ("my brother came by, he works at a bank", False),
    ],
)
def test_it_is_told_of_the_one_who_is_named_last_in_the_sentence(said: str, *, own: bool) -> None:
    assert bool(matters.asked_about("where do i work").told(said)) is own


def test_sizes_of_another_kind_do_not_tell_how_tall_somebody_is() -> None:
    weighed = ago(9, "96 kg this morning")
    assert given("how much do i weigh", weighed, cosine=0.4) == [weighed.content]
    assert given("how tall am i", weighed, cosine=0.4) == []


def test_a_fact_that_tells_something_else_is_not_given_beside_what_answers() -> None:
    told, silent = fact("User weighs 87 kg."), fact("User's brother Nils likes cakes.")
    assert given("how much do i weigh", told, silent, cosine=0.5) == [told.content]


def test_who_is_the_matter_himself_is_not_somebody_else() -> None:
    asked = matters.asked_about("who is my boss")
    assert not asked.told_of_others("User's manager is Karen", constraints.whose("who is my boss"))
    assert asked.told_of_others("my sister's manager is Karen", constraints.whose("who is my boss"))


@pytest.mark.parametrize("said", ["any beginner-friendly plants?", "eine freundliche Antwort", "fue muy amigable"])
def test_what_is_friendly_tells_of_no_friend(said: str) -> None:
    asked = matters.asked_about("when is my friend coming?")
    assert not asked.told(said)
    assert not asked.told_of_others(said)


def test_a_fact_is_of_what_its_predicate_or_its_subject_names() -> None:
    asked = matters.asked_about("where do i live")
    assert asked.named_by(fact("User has a flat near the harbour.", subject="user", predicate="lives_in"))
    assert not asked.named_by(fact("User's sister Ana lives in Oslo.", predicate="lives_in"))
    assert not asked.named_by(fact("Ana lives in Oslo.", subject="Ana", predicate="lives_in"))
    assert not matters.asked_about("what is my job").told("User's hairdresser closed for two weeks.")
    sisters = "where does my sister live"
    told = fact("User's sister Ana lives in Oslo.", predicate="lives_in")
    assert matters.asked_about(sisters).named_by(told, constraints.whose(sisters))
    rent = matters.asked_about("how much is my rent")
    assert rent.named_by(fact("User's rent is 890 euros."))
    assert not rent.named_by(fact("User's rent book is on the shelf."))


def test_neither_a_colleague_nor_a_sister_stands_for_the_parents_or_the_brother() -> None:
    for query, other in (
        ("where do my parents live", "my colleague Jonas moved to Denmark"),
        ("where does my brother live", "my sister moved to Denmark"),
    ):
        assert not matters.asked_about(query).told(other, constraints.whose(query))
