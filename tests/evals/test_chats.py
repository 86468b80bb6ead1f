import pytest

from memproxy.errors import ConfigError
from tests.fitting import chats
from tests.fitting.populations import populations


def test_every_chat_can_be_read_and_a_third_is_held_out() -> None:
    told = chats.load()
    assert len(told) >= 40
    assert len(told) / 3 <= sum(one.held_out for one in told) <= len(told) / 2
    assert len({one.user for one in told}) == len(told)
    for chat in told:
        for question in chat.questions:
            assert bool(question.gold) is (question.kind not in ("none", "general", "smalltalk")), question


def test_a_question_about_a_message_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="'cat'"):
        list(chats.parse("# ann | en\n@ 2026-01-01\n[dog] We have a dog\n? direct | What is my cat called? | cat\n"))


def test_populations_are_the_same_each_time_and_answer_their_questions() -> None:
    made = populations((25,))
    assert made == populations((25,))
    assert all(place < len(one.messages) for one in made for question in one.questions for place in question.gold)
