"""LoCoMo: ten long conversations between two people, with questions about them.

Each conversation is a user of its own (pooled: all are one user's), each session is pushed with its date, the speaker
as ``name``, the dia_id as ``id`` and the text as ``content``. Gold turns are a question's ``evidence``, gold sessions
theirs. Category 5 is adversarial (no answer there, a near miss as evidence) and reported apart.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals.dataset import Dataset, Question, Session, read_json

SCORED_CATEGORIES = (1, 2, 3, 4)
"""Category 5 is adversarial: its questions have no answer in the conversation, its evidence is a near miss."""

CATEGORY_NAMES = {1: "multi-hop", 2: "temporal", 3: "open domain", 4: "single hop", 5: "adversarial"}
TOTAL = "categories 1-4"
POOLED_USER = "everybody"

_DIA_ID = re.compile(r"D\d+:\d+")
_DATE_FORMAT = "%I:%M %p on %d %B, %Y"


def load_dataset(path: Path, *, pooled: bool) -> Dataset:
    """Read a LoCoMo file: the questions that have evidence in their conversation.

    Raises:
        ConfigError: it is not there or not LoCoMo.
    """
    sessions: list[Session] = []
    questions: list[Question] = []
    try:
        for sample in read_json(path):
            user = POOLED_USER if pooled else name_of(sample)
            of_sample = _sessions(sample, user)
            sessions += of_sample
            questions += _questions(sample, user, of_sample)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"--data {path} cannot be read as LoCoMo ({error!r}); give a file like locomo10.json"
        ) from error
    if pooled:
        sessions.sort(key=lambda session: session.date)
    return Dataset(name="locomo", total=TOTAL, sessions=sessions, questions=questions)


def name_of(sample: dict[str, Any]) -> str:
    """The conversation's name."""
    return str(sample.get("sample_id", "conversation"))


def parse_date(text: str) -> datetime:
    """A session's date like ``1:56 pm on 8 May, 2023``, taken as UTC."""
    return datetime.strptime(text.strip(), _DATE_FORMAT).replace(tzinfo=UTC)


def evidence_of(evidence: Any, sample: dict[str, Any]) -> frozenset[str]:
    """All turns that evidence names; some entries hold several in one string (``D8:6; D9:17``)."""
    dia_ids = (dia_id for entry in evidence or () for dia_id in _DIA_ID.findall(str(entry)))
    return frozenset(_turn_id(dia_id, sample) for dia_id in dia_ids)


def _turn_id(dia_id: str, sample: dict[str, Any]) -> str:
    return f"{dia_id}@{name_of(sample)}"


def _sessions(sample: dict[str, Any], user: str) -> list[Session]:
    conversation = sample["conversation"]
    numbers = sorted(int(match[1]) for key in conversation if (match := re.fullmatch(r"session_(\d+)", key)))
    return [
        Session(
            user=user,
            name=f"{name_of(sample)}/session_{number}",
            date=parse_date(conversation[f"session_{number}_date_time"]),
            messages=[
                Message(role="user", id=_turn_id(turn["dia_id"], sample), name=turn["speaker"], content=turn["text"])
                for turn in conversation[f"session_{number}"]
            ],
        )
        for number in numbers
    ]


def _questions(sample: dict[str, Any], user: str, sessions: list[Session]) -> list[Question]:
    session_of = {message.id or "": session.name for session in sessions for message in session.messages}
    with_gold = [(entry, evidence_of(entry.get("evidence"), sample) & session_of.keys()) for entry in sample["qa"]]
    return [
        Question(
            id=f"{name_of(sample)}-{number}",
            user=user,
            text=entry["question"],
            group=f"{entry['category']} {CATEGORY_NAMES.get(entry['category'], '')}".strip(),
            asked_at=sessions[-1].date,
            answer=str(entry.get("answer", "")),
            gold_turns=frozenset(gold),
            gold_sessions=frozenset(session_of[turn] for turn in gold),
            scored=entry["category"] in SCORED_CATEGORIES,
        )
        for number, (entry, gold) in enumerate((entry, gold) for entry, gold in with_gold if gold)
    ]
