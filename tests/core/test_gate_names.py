import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.gate_names import names_somebody


@pytest.mark.parametrize(
    "text",
    [
        "Where does Sarah live?",
        "What is Joanna allergic to?",
        "Can Dave work with engines?",
        "Biscuit's favourite food",
        "What subject have Caroline and Melanie both painted?",
        "What was grandma's gift to Caroline?",
        "Which song from the childhood of Calvin was it?",
        "Which events in Dave's life inspired him?",
        "Who is Galileo?",
        "When is Brian coming?",
        "What did Christian say to Duncan?",
    ],
)
def test_a_single_name_may_be_somebody_the_user_knows(text: str) -> None:
    assert names_somebody(text)


@pytest.mark.parametrize(
    "text",
    [
        "When did Neil Armstrong land on the moon?",
        "How many Great Lakes are there?",
        "What county is Phoenix, AZ in?",
        "What is the capital of Burundi?",
        "Who won the Battle of Bighorn?",
        "What county is Modesto, California in?",
        "When did Hawaii become a state?",
        "What is Teflon?",
        "Who painted the Gioconda?",
        "What is the Japanese word for peace?",
        "where does sarah live",
        "What is DNA?",
        "",
    ],
)
def test_what_the_world_knows_is_nobody(text: str) -> None:
    assert not names_somebody(text)


@given(st.text(st.characters(codec=None), max_size=200))
def test_any_text_is_read(text: str) -> None:
    assert isinstance(names_somebody(text), bool)
