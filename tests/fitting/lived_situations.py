"""Situations for the calibration out of lives and of our own unseen chats: what everyday questions ask of the messages
that tell something, and of these with what a perfect extractor learned of them.
"""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.telling import only_asks
from memproxy.evals.dataset import Session
from memproxy.recall.recipes import Recipe
from tests.evals import everyday_chats, lives
from tests.evals.everyday_chats import Chats
from tests.evals.lives import Life
from tests.evals.probes import Probe
from tests.fitting.calibration import Document, Situations, Workshop, session_turns

_Add = Callable[[str, Sequence[Document], Iterable[Probe]], None]

_OF_ASSISTANT = "reference"
"""Probes that ask for what the assistant said."""

_LARGE = 400
"""Sessions from which on a person's log would outweigh all others."""


def situations(workshop: Workshop, files: Sequence[Path], recipe: Recipe, *, dense: bool) -> Situations:
    found: Situations = {}
    limit = recipe.by_tokens if dense else recipe.candidates

    def add(name: str, corpus: Sequence[Document], probes: Iterable[Probe]) -> None:
        for probe in probes:
            gold = frozenset[str]().union(*probe.gold)
            kept = [one for one in corpus if not one.sources & probe.acceptable]  # neither right nor wrong
            example = workshop.example(kept, probe.ask, gold, dense=dense, limit=limit)
            found.setdefault(name, []).extend([] if example is None else [example])

    for path in files:
        for life in lives.load([path]):
            turns = turns_of(workshop, life.sessions)
            telling = [one for one in turns if tells(one)]
            probes = [one.probe for one in life.asked]
            add(f"lived: {path.stem}", telling, probes)
            add(f"lived facts: {path.stem}", telling + _facts(workshop, life, turns), probes)
    for chats in everyday_chats.load(everyday_chats.OWN):
        if len(chats.sessions) < _LARGE:
            _add_chats(add, workshop, chats)
    return found


def _add_chats(add: _Add, workshop: Workshop, chats: Chats) -> None:
    turns = turns_of(workshop, chats.sessions)
    own = [one for one in turns if tells(one)]
    everything = [one for one in turns if one.memory.trust is not Trust.USER or tells(one)]
    add("unseen chats", own, [one for one in chats.probes if one.group != _OF_ASSISTANT])
    add("unseen chats", everything, [one for one in chats.probes if one.group == _OF_ASSISTANT])


def turns_of(workshop: Workshop, sessions: Sequence[Session]) -> list[Document]:
    """All messages, as they are stored."""
    return [
        document
        for session in sessions
        for document in session_turns(workshop, session.name, session.messages, session.date)
    ]


def tells(document: Document) -> bool:
    """Whether it is the user's and tells something."""
    return document.memory.trust is Trust.USER and not only_asks(document.memory)


def _facts(workshop: Workshop, life: Life, turns: Sequence[Document]) -> list[Document]:
    """What is active at the end: neither replaced nor taken back."""
    gone = {fact.replaces for fact in life.facts if fact.replaces}
    gone |= {fact.text for fact in life.facts if fact.intent == "forget"}
    found = []
    for number, fact in enumerate(life.facts):
        said = [one for one in turns if tells(one) and fact.evidence in one.memory.content]
        if fact.text not in gone and said:
            now = said[0].memory.created_at
            memory = Memory(
                id=f"fact{number}",
                tenant="t",
                user_id="u",
                kind=Kind.SEMANTIC,
                content=fact.text,
                created_at=now,
                updated_at=now,
                turn_ids=[one.memory.id for one in said],
            )
            found.append(workshop.document(memory, frozenset(one.memory.id for one in said), None, None))
    return found
