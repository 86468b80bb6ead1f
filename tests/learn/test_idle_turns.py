"""A conversation of questions, greetings and thanks costs no model call; an answer to a question is none of these."""

from pathlib import Path

import pytest

from memproxy.core.scope import Scope
from memproxy.core.turn import Message, make_turns
from memproxy.learn.admission import hold_nothing
from tests.learn.rig import ANN, NOON, PATIENCE_S, rig

HELLO = ("Hi there!", "Hello! How can I help you today?", "thanks, bye", "You're welcome!")


def said(*texts: str, role: str = "assistant") -> list[Message]:
    """Messages of the user and of another one in turn."""
    return [Message(role=("user", role)[place % 2], content=text) for place, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("messages", "nothing"),
    [
        (said(*HELLO), True),
        (said("hi", "Are you vegetarian?", "yes"), False),
        (said("hello", "Do you still live in Bonn?", "no"), False),
        (said("Book a table", "For how many people?", "Around five."), False),
        (said("hi", "Hello!", "I live in Bonn"), False),
        (said("thanks", "You are welcome. Your train leaves at nine."), True),
        (said("hello", "Hello! You live in Bonn, I see."), True),
        (said("ok", "I live in Bonn", role="tool"), False),
        (said("What is my dog called?", "Rex.", "thanks"), True),
        (said("What's the capital of France?", "Paris. Shall I tell you more?", "What is it of Spain?"), True),
        (said("Can you suggest a gift for my daughter Emma who turns 7 on May 3?", "A kite."), False),
        (said("¿Qué es un agujero negro?", "Una región del espacio.", "gracias"), True),
        (said("你好", "你好！有什么可以帮您的吗？", "谢谢"), True),
        (said("你好", "你吃素吗？", "是的"), False),
        (said("你好", "你好！", "我住在上海"), False),
    ],
)
def test_what_holds_nothing_to_learn_from(messages: list[Message], nothing: bool) -> None:
    turns = make_turns(ANN, messages, now=NOON)
    assert hold_nothing(turns, frozenset(turn.id for turn in turns)) is nothing


def test_only_new_turns_count_and_those_before_tell_what_is_answered() -> None:
    turns = make_turns(ANN, said("I live in Bonn", "Nice!", "thanks"), now=NOON)
    assert hold_nothing(turns, frozenset([turns[2].id]))
    asked = make_turns(ANN, said("I live in Bonn", "In the centre?", "yes"), now=NOON)
    assert not hold_nothing(asked, frozenset([asked[2].id]))


async def test_no_model_is_asked_about_questions_and_greetings_and_they_are_not_looked_at_again(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.say(*said(*HELLO), *said("What is the capital of France?", "Paris."))
        assert await r.worker.end_session(ANN, PATIENCE_S)
        assert r.server.prompts == []
        assert not await r.state.due_sessions(every=1, idle_before=r.clock.now(), limit=10)
        other = Scope(tenant="acme", user="ann", session="s2")
        await r.say(*said("hi", "Are you vegetarian?", "yes"), scope=other)
        assert await r.worker.learned(other, PATIENCE_S)
        assert len(r.server.prompts) == 1
