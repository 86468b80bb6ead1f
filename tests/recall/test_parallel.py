"""Statements of one form about two things, and those about one."""

import pytest

from memproxy.recall.parallel import Asked

TWO_THINGS = [
    ("What is my garden budget?", "My garden budget is 1001 euros.", "My roof budget is now 500 euros."),
    ("What size are my running shoes?", "My running shoes are size 43.", "My ski boots are size 28."),
    ("When does my passport expire?", "My passport expires in 2029.", "My driving licence expires in 2033."),
    ("How much is my gym membership?", "My gym membership costs 30 euros.", "My phone contract costs 18 euros."),
    ("How much ramipril do I take?", "I take 5 mg of ramipril at 8.", "I take 20 mg of atorvastatin at 9."),
    ("When does my flight to Lisbon leave?", "My flight to Lisbon leaves at 9.", "My train to Porto leaves at 14."),
]
ONE_THING = [
    ("What is my garden budget?", "My garden budget is 1001 euros.", "My garden budget is now 800 euros."),
    ("When is my dentist appointment?", "My dentist appointment is on 4 May.", "The dentist moved me to 9 June."),
    ("How much is my gym membership?", "My gym membership costs 30 euros.", "The gym raised its price: 35 euros now."),
    ("Which car do I drive?", "I drive a VW car.", "I drive a Tesla now."),
    ("What phone do I have?", "I have a Pixel phone.", "I have an iPhone now."),
    ("Where do I live?", "I live in Berlin.", "I live in Hamburg now."),
]


@pytest.mark.parametrize(("question", "earlier", "later"), TWO_THINGS)
def test_another_thing_in_the_place_of_the_one_that_is_asked_for_is_told_from_it(
    question: str, earlier: str, later: str
) -> None:
    assert Asked.of(question).names_another(earlier, later)


@pytest.mark.parametrize(("question", "earlier", "later"), ONE_THING)
def test_another_value_of_the_same_thing_is_no_other_thing(question: str, earlier: str, later: str) -> None:
    assert not Asked.of(question).names_another(earlier, later)
    assert Asked.of(question).names_as_much(earlier, later)


@pytest.mark.parametrize(
    ("question", "earlier", "later"),
    [
        ("Who is my car insurance with?", "My car insurance is with Allianz.", "I moved the home insurance to HUK."),
        ("What is our alarm code?", "The alarm code at home is 4711.", "the code of my bike lock is 0815 now"),
        ("When is my flight to Lisbon?", "My flight to Lisbon is at 9:40.", "the train to Porto leaves at 14:10"),
    ],
)
def test_what_lacks_the_name_of_the_thing_does_not_tell_as_much_of_it(question: str, earlier: str, later: str) -> None:
    assert not Asked.of(question).names_as_much(earlier, later)


def test_long_and_strange_texts_are_read_too() -> None:
    assert not Asked.of("").names_another("", "")
    assert not Asked.of("cat " * 2000).names_another("cat " * 5000, "dog " * 5000)
    assert Asked.of("").names_as_much("", "")
    assert not Asked.of("").of_itself


@pytest.mark.parametrize(
    "question", ["Do I still live in Berlin?", "hi! is my rent 1000 euros?", "Was my rent 1000 euros?"]
)
def test_a_question_that_names_its_own_answer_is_seen(question: str) -> None:
    assert Asked.of(question).of_itself


@pytest.mark.parametrize(
    "question",
    [
        "Where do I live?",
        "Can you tell me my garden budget?",
        "Do you remember my garden budget?",
        "Could I ask, what is my garden budget?",
    ],
)
def test_a_polite_question_does_not_name_its_answer(question: str) -> None:
    assert not Asked.of(question).of_itself
