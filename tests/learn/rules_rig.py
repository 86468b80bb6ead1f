"""Windows for the rules, made of what was said."""

from collections.abc import Sequence

from memproxy.core.memory import Memory
from memproxy.core.turn import Message, make_turns
from memproxy.learn.candidates import Extracted, Window
from memproxy.learn.rules.reader import read as extract
from tests.learn.rig import ANN, NOON


def window(messages: Sequence[tuple[str, str]], known: Sequence[Memory] = ()) -> Window:
    """A window in which every message is new."""
    turns = make_turns(ANN, [Message(role=role, content=text) for role, text in messages], now=NOON)
    return Window(turns=turns, new_ids=frozenset(turn.id for turn in turns), related=known)


def said(*messages: tuple[str, str], known: Sequence[Memory] = ()) -> list[Extracted]:
    """What the rules read in a conversation (role and text)."""
    return [one.candidate for one in extract(window(messages, known)).grounded]


def contents(text: str) -> list[str]:
    """What the rules read in one message of the user."""
    return [one.content for one in said(("user", text))]
