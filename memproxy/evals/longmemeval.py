"""LongMemEval-S: 500 questions, each with a haystack of about fifty dated sessions between a user and an assistant.

Sessions are pushed in the order of ``haystack_dates`` (in the file they are not sorted), messages verbatim with their
role. Each question's haystack is a user of its own; pooled, all sessions of all questions are one user's (those that
several questions share once, with the date they had first). Gold sessions are ``answer_session_ids``, gold turns those
with ``has_answer``; questions whose id ends in ``_abs`` have no answer and are reported apart.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals.dataset import Dataset, Question, Session, read_json

POOLED_USER = "everybody"
TOTAL = "all with an answer"

_ABSTENTION = "_abs"
_DATE_FORMAT = "%Y/%m/%d %H:%M"


def parse_date(text: str) -> datetime:
    """A date like ``2023/05/23 (Tue) 11:26``, taken as UTC."""
    day, _, time = text.split()
    return datetime.strptime(f"{day} {time}", _DATE_FORMAT).replace(tzinfo=UTC)


def load(path: Path, *, pooled: bool) -> Dataset:
    """Read a LongMemEval file (JSON, gzipped or not).

    Raises:
        ConfigError: it is not there or not LongMemEval.
    """
    try:
        entries = read_json(path)
        sessions: dict[tuple[str, str], Session] = {}
        for entry in entries:
            user = POOLED_USER if pooled else entry["question_id"]
            for session in _sessions(entry, user):
                sessions.setdefault((user, session.name), session)
        questions = [_question(entry, POOLED_USER if pooled else entry["question_id"]) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"--data {path} cannot be read as LongMemEval ({error!r}); give a file like longmemeval_s.json"
        ) from error
    in_order = sorted(sessions.values(), key=lambda session: session.date) if pooled else list(sessions.values())
    return Dataset(name="longmemeval", total=TOTAL, sessions=in_order, questions=questions)


def turn_id(session: str, place: int) -> str:
    """The id given to the message at this place of a session."""
    return f"{session}#{place}"


def _sessions(entry: dict[str, Any], user: str) -> Iterator[Session]:
    dates = [parse_date(date) for date in entry["haystack_dates"]]
    named = zip(entry["haystack_session_ids"], dates, entry["haystack_sessions"], strict=True)
    for name, date, turns in sorted(named, key=lambda entry_session: entry_session[1]):
        messages = [
            Message(role=turn["role"], id=turn_id(name, place), content=turn["content"])
            for place, turn in enumerate(turns)
        ]
        yield Session(user=user, name=name, date=date, messages=messages)


def _question(entry: dict[str, Any], user: str) -> Question:
    answerable = not entry["question_id"].endswith(_ABSTENTION)
    answering = frozenset(entry["answer_session_ids"])
    gold = (
        turn_id(name, place)
        for name, turns in zip(entry["haystack_session_ids"], entry["haystack_sessions"], strict=True)
        for place, turn in enumerate(turns)
        if turn.get("has_answer")
    )
    return Question(
        id=entry["question_id"],
        user=user,
        text=entry["question"],
        group=entry["question_type"] if answerable else "without an answer",
        asked_at=parse_date(entry["question_date"]),
        answer=str(entry.get("answer", "")),
        gold_turns=frozenset(gold),
        gold_sessions=answering,
        scored=answerable,
    )
