"""Questions about somebody's own life that have no first-person word and no name, and general ones that look alike."""

import pytest

from memproxy.core.gate import Verdict, judge
from memproxy.evals.gate import SKIP

PERSONAL = Verdict(searched=True, reason="personal")
FACT = Verdict(searched=False, reason="fact")


@pytest.mark.parametrize(
    "text",
    [
        "When is the swimming exam?",
        "And when is the recital?",
        "When is bin day?",
        "Where is the spare tyre kept?",
        "Where's the TV remote?",
        "How much for the roof?",
        "How many eggs are left?",
        "What size are the curtains?",
        "In which drawer are the batteries?",
        "What is the dress code for the gala?",
        "What is the tenant's phone number?",
        "What does the tutor charge?",
        "Is the piano in tune?",
        "Has the fence been painted?",
        "Which key opens the basement?",
    ],
)
def test_a_definite_everyday_thing_is_searched_for(text: str) -> None:
    assert judge(text, SKIP) == PERSONAL
    assert judge(text.lower(), SKIP) == PERSONAL


@pytest.mark.parametrize(
    "text",
    [
        "What happened on Sunday?",
        "What happened this morning?",
        "What is planned for Thursday?",
        "Is Sunday free?",
        "Who came on the 14th?",
        "How was the weather in the Azores?",
        "How was Crete?",
        "How were the exams?",
    ],
)
def test_an_occasion_near_now_is_searched_for(text: str) -> None:
    assert judge(text, SKIP).searched
    assert judge(text.lower(), SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "Who has a dive shop?",
        "Who has the key to the shed?",
        "Who speaks Portuguese?",
        "Who lives in Oslo?",
        "Who is allergic to peanuts?",
        "Who is bringing the salad?",
        "Who broke the vase?",
        "Who is the new manager?",
    ],
)
def test_what_people_around_the_user_have_and_do_is_searched_for(text: str) -> None:
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "What language should you answer in?",
        "Which tone should you use in emails?",
        "How long should your answers be?",
        "How formal should you be?",
    ],
)
def test_how_the_assistant_was_told_to_answer_is_searched_for(text: str) -> None:
    assert judge(text, SKIP).searched


@pytest.mark.parametrize(
    "text",
    [
        "When is Easter?",
        "When is the summer solstice?",
        "When does the Super Bowl start?",
        "Where is the liver?",
        "Where is the Louvre?",
        "How much is a Big Mac?",
        "How far is the moon?",
        "How long is the gestation period?",
        "Is the tomato a fruit?",
        "Is the vegan diet healthy?",
        "What does the liver do?",
        "What is the largest desert?",
        "What is the dosage for aspirin?",
        "What oil should you use for frying?",
    ],
)
def test_what_the_world_has_one_of_or_says_which_is_a_fact(text: str) -> None:
    assert judge(text, SKIP) == FACT
    assert judge(text.lower(), SKIP) == FACT


@pytest.mark.parametrize(
    "text",
    [
        "What happened at Chernobyl?",
        "What happened to the dinosaurs?",
        "What happened on Bloody Sunday?",
        "What happens on Good Friday?",
        "Why are banks closed on Sunday?",
        "How was paper invented?",
        "How was the weather in London in 1952?",
        "Who has the longest beard?",
        "Who has veto power in the UN?",
        "Who runs Germany?",
    ],
)
def test_history_feasts_and_the_famous_are_facts(text: str) -> None:
    assert judge(text, SKIP) == FACT
