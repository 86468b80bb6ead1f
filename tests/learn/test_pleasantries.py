"""A conversation of greetings and thanks costs no model call; an answer to a question is none of these."""

from pathlib import Path
from time import process_time

import pytest

from memproxy.core.scope import Scope
from memproxy.core.turn import Message, make_turns
from memproxy.learn.pleasantries import hold_nothing
from tests.learn.rig import ANN, NOON, PATIENCE_S, rig

HELLO = ("Hi there!", "Hello! How can I help you today?", "thanks, bye", "You're welcome!")


def said(*texts: str, role: str = "assistant") -> list[Message]:
    """Messages of the user and of another one in turn."""
    return [Message(role=("user", role)[place % 2], content=text) for place, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("messages", "nothing"),
    [
        (said(*HELLO), True),
        (said("Hola, ¿qué tal?", "¡Hola! ¿En qué puedo ayudarte?", "gracias"), True),
        (said("ok", "Is there anything else I can do for you?", "no thanks"), True),
        (said("hi", "Are you vegetarian?", "yes"), False),
        (said("hello", "Do you still live in Bonn?", "no"), False),
        (said("hi", "Hello!", "I live in Bonn"), False),
        (said("thanks", "You are welcome! I'm glad I could help. Have a nice day."), True),
        (said("thanks", "You are welcome. Your train leaves at nine."), False),
        (said("hello", "Hello! You live in Bonn, I see."), False),
        (said("hello", "Hi Ann! His name is Rex."), False),
        (said("ok", "42", role="tool"), False),
        (said("What is my dog called?", "Rex.", "thanks"), False),
        (said("你好", "你好！有什么可以帮您的吗？", "谢谢", "不客气！随时为您服务。"), True),
        (said("谢谢！", "不客气，很高兴能帮到你！如果还有其他问题，随时告诉我。祝你有美好的一天！"), True),
        (said("你好", "你好！今天我能帮你做些什么？", "没事，谢谢"), True),
        (said("你好", "你吃素吗？", "是的"), False),
        (said("你好", "你好！有什么可以帮您？你还住在北京吗？", "不是"), False),
        (said("谢谢", "不客气。你的火车九点出发。"), False),
        (said("你好", "你好！你住在上海。"), False),
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


def test_an_answer_without_an_end_is_read_in_time_that_grows_with_it() -> None:
    def seconds(words: int) -> float:
        turns = make_turns(ANN, said("thanks", "word " * words), now=NOON)
        spent = []
        for _ in range(3):
            began = process_time()
            assert not hold_nothing(turns, frozenset(turn.id for turn in turns))
            spent.append(process_time() - began)
        return min(spent)

    assert seconds(4_800) < 25 * seconds(600), "eight times the text; where each letter may begin a question, 64 times"


async def test_no_model_is_asked_about_greetings_and_they_are_not_looked_at_again(tmp_path: Path) -> None:
    async with rig(tmp_path) as r:
        await r.say(*said(*HELLO))
        assert await r.worker.end_session(ANN, PATIENCE_S)
        assert r.server.prompts == []
        assert not await r.state.due_sessions(every=1, idle_before=r.clock.now(), limit=10)
        other = Scope(tenant="acme", user="ann", session="s2")
        await r.say(*said("hi", "Are you vegetarian?", "yes"), scope=other)
        assert await r.worker.learned(other, PATIENCE_S)
        assert len(r.server.prompts) == 1
