"""What people told and what they ask of it, read from ``cases.yaml``."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec
import yaml

from memproxy.core.turn import Message
from memproxy.evals.dataset import Dataset, Question, Session
from memproxy.evals.longmemeval import turn_id

ASKED_AT = datetime(2024, 9, 1, 12, tzinfo=UTC)


class Told(msgspec.Struct, frozen=True):
    """Two statements, and a question for each; ``first_value`` and ``last_value`` are what only one of them says."""

    first: str
    last: str
    asked_first: str
    first_value: str
    asked_last: str
    last_value: str


class Changed(msgspec.Struct, frozen=True):
    """A statement, what became of it, and a question for what holds now."""

    before: str
    after: str
    asked: str
    holds: str
    held: str


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What was told, each text that many days ago, and a question; ``answers`` are given, and ``misleads`` is not.

    A text after ``>`` is the assistant's. ``earlier`` are the user's messages before the question.
    """

    told: tuple[tuple[int, str], ...]
    asked: str
    answers: tuple[str, ...]
    misleads: str = "no such text"
    earlier: tuple[str, ...] = ()


class FollowUp(msgspec.Struct, frozen=True, kw_only=True):
    """``said`` are the user's earlier messages, ``answer`` the place in ``known`` of what answers ``asked``."""

    said: tuple[str, ...]
    asked: str
    answer: int


class Written(msgspec.Struct, frozen=True):
    """A fact, the predicate it has (empty: none), a question and what its answer holds; empty: nothing is asked."""

    text: str
    predicate: str = ""
    asked: str = ""
    answer: str = ""
    steps: bool = False


class Talk(msgspec.Struct, frozen=True):
    """One conversation, user and assistant in turn."""

    user: str
    session: str
    date: str
    said: tuple[str, ...]


class Asked(msgspec.Struct, frozen=True):
    """A question about the talks; ``gold`` are the messages that hold its answer. Without any it must bring nothing."""

    user: str
    ask: str
    gold: tuple[str, ...] = ()


class Cases(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    two_things: tuple[Told, ...]
    one_thing: tuple[Changed, ...]
    unrelated: tuple[tuple[int, str], ...]
    everyday: tuple[Case, ...]
    known: tuple[str, ...]
    leaning: tuple[FollowUp, ...]
    complete: tuple[FollowUp, ...]
    between: tuple[FollowUp, ...]
    written: tuple[Written, ...]
    talks: tuple[Talk, ...]
    answered: tuple[Asked, ...]
    two_hops: tuple[Asked, ...]
    elsewhere: tuple[Asked, ...]
    unanswered: tuple[Asked, ...]


CASES = msgspec.convert(yaml.safe_load((Path(__file__).parent / "cases.yaml").read_text("utf-8")), Cases)


def fixture(*parts: str) -> Dataset:
    """The talks, with the questions of these parts (all by default)."""
    sessions = [_session(talk) for talk in CASES.talks]
    groups = ("answered", "two_hops", "elsewhere", "unanswered")
    questions = [_question(group, one) for group in parts or groups for one in getattr(CASES, group)]
    return Dataset(name="fixture", total="answered", sessions=sessions, questions=questions)


def _session(talk: Talk) -> Session:
    messages = [
        Message(role="assistant" if place % 2 else "user", id=turn_id(talk.session, place), content=text)
        for place, text in enumerate(talk.said)
    ]
    said_at = datetime.fromisoformat(talk.date).replace(hour=18, tzinfo=UTC)
    return Session(user=talk.user, name=talk.session, date=said_at, messages=messages)


def _question(group: str, one: Asked) -> Question:
    return Question(
        id=f"{group}: {one.ask}",
        user=one.user,
        text=one.ask,
        group=group,
        asked_at=ASKED_AT,
        gold_turns=frozenset(one.gold),
        gold_sessions=frozenset(turn.partition("#")[0] for turn in one.gold),
        scored=bool(one.gold),
    )
