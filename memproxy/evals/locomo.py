"""LoCoMo: ten long conversations between two people, with questions about them.

Each conversation is a user of its own (pooled: all are one user's), each session is pushed with its date, the speaker
as ``name``, the dia_id as ``id`` and the text as ``content``; the proxy itself puts the name before the text where it
searches, so that the stored turn stays verbatim. Gold turns are a question's ``evidence``, gold sessions theirs.
Category 5 is adversarial (no answer there, a near miss as evidence) and reported apart.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals import dataset
from memproxy.evals.dataset import Dataset, read_json

SCORED_CATEGORIES = (1, 2, 3, 4)
"""Category 5 is adversarial: its questions have no answer in the conversation, its evidence is a near miss."""

CATEGORY_NAMES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single hop", 5: "adversarial"}
TOTAL = "categories 1-4"
POOLED_USER = "everybody"

_DIA_ID = re.compile(r"D\d+:\d+")
_DATE_FORMAT = "%I:%M %p on %d %B, %Y"


class Turn(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    dia_id: str
    speaker: str
    text: str


class Session(msgspec.Struct, frozen=True):
    """The messages of one session and when it was."""

    name: str
    date: datetime
    turns: list[Turn]


class Question(msgspec.Struct, frozen=True):
    """A question, the dia_ids that hold its answer, and that answer (empty in category 5)."""

    text: str
    category: int
    evidence: frozenset[str]
    answer: str = ""


class Conversation(msgspec.Struct, frozen=True):
    """One sample: its sessions in order and its questions that have evidence in them."""

    name: str
    sessions: list[Session]
    questions: list[Question]


def parse_date(text: str) -> datetime:
    """A session's date like ``1:56 pm on 8 May, 2023``, taken as UTC."""
    return datetime.strptime(text.strip(), _DATE_FORMAT).replace(tzinfo=UTC)


def parse_evidence(evidence: Any) -> frozenset[str]:
    """All dia_ids of a question; some entries hold several in one string (``D8:6; D9:17``)."""
    return frozenset(match for entry in evidence or () for match in _DIA_ID.findall(str(entry)))


def load(path: Path) -> list[Conversation]:
    """Read a LoCoMo file.

    Raises:
        ConfigError: it is not there or not LoCoMo.
    """
    try:
        return [_conversation(sample) for sample in read_json(path)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"--data {path} cannot be read as LoCoMo ({error!r}); give a file like locomo10.json"
        ) from error


def load_dataset(path: Path, *, pooled: bool) -> Dataset:
    """Read a LoCoMo file for an evaluation.

    Raises:
        ConfigError: it is not there or not LoCoMo.
    """
    conversations = load(path)
    sessions = [session for one in conversations for session in _pushed(one, POOLED_USER if pooled else one.name)]
    questions = [question for one in conversations for question in _asked(one, POOLED_USER if pooled else one.name)]
    if pooled:
        sessions.sort(key=lambda session: session.date)
    return Dataset(name="locomo", total=TOTAL, sessions=sessions, questions=questions)


def _pushed(conversation: Conversation, user: str) -> Iterator[dataset.Session]:
    for session in conversation.sessions:
        messages = [
            Message(role="user", id=_turn_id(turn.dia_id, conversation), name=turn.speaker, content=turn.text)
            for turn in session.turns
        ]
        name = _session_name(session, conversation)
        yield dataset.Session(user=user, name=name, date=session.date, messages=messages)


def _asked(conversation: Conversation, user: str) -> Iterator[dataset.Question]:
    session_of = {
        turn.dia_id: _session_name(session, conversation) for session in conversation.sessions for turn in session.turns
    }
    for number, question in enumerate(conversation.questions):
        yield dataset.Question(
            id=f"{conversation.name}-{number}",
            user=user,
            text=question.text,
            group=f"{question.category} {CATEGORY_NAMES.get(question.category, '')}".strip(),
            asked_at=conversation.sessions[-1].date,
            answer=question.answer,
            answerable=question.category in SCORED_CATEGORIES,
            gold_turns=frozenset(_turn_id(dia_id, conversation) for dia_id in question.evidence),
            gold_sessions=frozenset(session_of[dia_id] for dia_id in question.evidence),
            scored=question.category in SCORED_CATEGORIES,
        )


def _turn_id(dia_id: str, conversation: Conversation) -> str:
    return f"{dia_id}@{conversation.name}"


def _session_name(session: Session, conversation: Conversation) -> str:
    return f"{conversation.name}/{session.name}"


def _conversation(sample: dict[str, Any]) -> Conversation:
    sessions = list(_sessions(sample["conversation"]))
    known = {turn.dia_id for session in sessions for turn in session.turns}
    questions = [
        Question(
            entry["question"],
            entry["category"],
            parse_evidence(entry.get("evidence")) & known,
            str(entry.get("answer", "")),
        )
        for entry in sample["qa"]
    ]
    name = str(sample.get("sample_id", "conversation"))
    return Conversation(name, sessions, [question for question in questions if question.evidence])


def _sessions(conversation: dict[str, Any]) -> Iterator[Session]:
    numbers = sorted(int(match[1]) for key in conversation if (match := re.fullmatch(r"session_(\d+)", key)))
    for number in numbers:
        turns = [Turn(turn["dia_id"], turn["speaker"], turn["text"]) for turn in conversation[f"session_{number}"]]
        yield Session(f"session_{number}", parse_date(conversation[f"session_{number}_date_time"]), turns)
