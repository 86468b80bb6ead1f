"""Situations for the calibration out of our own chats: what is asked of a user's messages, of what was learned of him,
and of many messages that are nearly alike.
"""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.turn import Message
from memproxy.recall.recipes import Recipe
from memproxy.recall.rewrite import by_itself, with_context
from tests.fitting.calibration import Document, Example, Person, Situations, Workshop, session_turns
from tests.fitting.chats import DATA, Chat, load
from tests.fitting.populations import Population, populations

LARGE = 100
"""Messages from which on a population is a situation of its own."""

_PER_SESSION = 40
_OTHER_CHATS = 6
_START = datetime(2026, 1, 1, tzinfo=UTC)


class _Case(msgspec.Struct, frozen=True):
    situation: str
    held_out: bool
    corpus: list[Document]
    questions: list[tuple[str, frozenset[str]]]


def situations(
    workshop: Workshop, everybody: Sequence[Person], recipe: Recipe, *, dense: bool, held_out: bool, large: bool = True
) -> Situations:
    """All examples by situation, of the users that may be fitted on or of those ``held_out``; ``everybody`` are people
    with long memories, who are asked general questions; ``large`` populations take an hour to embed.
    """
    chats = load()
    cases = [*_chats(workshop, chats), *_populations(workshop, large=large), *_general(workshop, everybody, chats)]
    limit = recipe.by_tokens if dense else recipe.candidates
    found: Situations = {}
    for case in cases:
        if case.held_out == held_out:
            made = [
                workshop.example(case.corpus, text, gold, dense=dense, limit=limit) for text, gold in case.questions
            ]
            found.setdefault(case.situation, []).extend(_there(made))
    return found


def _there(examples: Sequence[Example | None]) -> list[Example]:
    return [one for one in examples if one is not None]


def _chats(workshop: Workshop, chats: Sequence[Chat]) -> Iterator[_Case]:
    for chat in chats:
        questions = [(by_itself(one.queries) or with_context(one.queries), one.gold) for one in chat.questions]
        turns = _turns(workshop, chat)
        facts = [_fact(workshop, text, label, chat.sessions[-1].date) for label, text in chat.facts]
        yield _Case("chat", chat.held_out, turns, questions)
        yield _Case("chat statements", chat.held_out, _statements(workshop, chat), questions)
        if facts:
            labels = {label for label, _ in chat.facts}
            known = [(text, gold) for text, gold in questions if gold <= labels]
            yield _Case("chat and facts", chat.held_out, turns + facts, questions)
            yield _Case("chat facts", chat.held_out, facts, known)


def _populations(workshop: Workshop, *, large: bool) -> Iterator[_Case]:
    for one in populations():
        if len(one.messages) > LARGE and not large:
            continue
        messages = [Message(role="user", id=f"m{place}", content=text) for place, text in enumerate(one.messages)]
        turns = [
            document
            for start in range(0, len(messages), _PER_SESSION)
            for document in session_turns(
                workshop,
                f"s{start // _PER_SESSION}",
                messages[start : start + _PER_SESSION],
                _START + timedelta(days=start // _PER_SESSION),
            )
        ]
        yield _population(one, "large" if len(messages) > LARGE else "alike", turns)
        if len(messages) <= LARGE:
            facts = [_fact(workshop, text, f"m{place}", _START) for place, text in enumerate(one.messages)]
            yield _population(one, "alike statements", facts)


def _population(one: Population, situation: str, corpus: list[Document]) -> _Case:
    questions = [(asked.text, frozenset(f"m{place}" for place in asked.gold)) for asked in one.questions]
    return _Case(situation, one.held_out, corpus, questions)


def _general(workshop: Workshop, everybody: Sequence[Person], chats: Sequence[Chat]) -> Iterator[_Case]:
    """Questions that no memory answers, put to long memories and to chats."""
    short = {
        held_out: [
            corpus
            for chat in chats
            if chat.held_out == held_out
            for corpus in (_turns(workshop, chat), _statements(workshop, chat))
        ]
        for held_out in (False, True)
    }
    for place, text in enumerate(general_questions()):
        held_out, question = place % 3 == 2, [(text, frozenset[str]())]
        for person in everybody:
            turns, facts = next(iter(person.as_user.values()))
            yield _Case("general in long", held_out, turns + facts if place % 2 else turns, question)
        for corpus in random.Random(place).sample(short[held_out], _OTHER_CHATS):
            yield _Case("general in chats", held_out, corpus, question)


def general_questions() -> list[str]:
    """Questions, requests and remarks that need no memory."""
    return (DATA / "general.list").read_text("utf-8").splitlines()


def _turns(workshop: Workshop, chat: Chat) -> list[Document]:
    return [
        document
        for place, session in enumerate(chat.sessions)
        for document in session_turns(workshop, f"s{place}", session.messages, session.date)
    ]


def _statements(workshop: Workshop, chat: Chat) -> list[Document]:
    """What the user told, as facts would be stored."""
    return [
        _fact(workshop, message.content, message.id, chat.sessions[-1].date)
        for session in chat.sessions
        for message in session.messages
        if message.role == "user" and message.id is not None and not message.id[0].isdigit()
    ]


def _fact(workshop: Workshop, text: str, label: str, now: datetime) -> Document:
    fact = Memory(
        id=f"{label}{text}", tenant="t", user_id="u", kind=Kind.SEMANTIC, content=text, created_at=now, updated_at=now
    )
    return workshop.document(fact, frozenset({label}), None, None)
