import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memproxy.errors import ConfigError
from memproxy.evals import longmemeval


def entry(name: str, sessions: dict[str, tuple[str, list[str]]], *, answer: str) -> dict[str, Any]:
    """A question; the session named ``answer`` holds the answer in its first turn."""
    return {
        "question_id": name,
        "question_type": "single-session-user",
        "question": "Where do I live?",
        "question_date": "2023/06/01 (Thu) 10:00",
        "answer_session_ids": [answer],
        "haystack_session_ids": list(sessions),
        "haystack_dates": [date for date, _ in sessions.values()],
        "haystack_sessions": [
            [
                {"role": "user", "content": text, "has_answer": session == answer and not place}
                for place, text in enumerate(texts)
            ]
            for session, (_, texts) in sessions.items()
        ],
    }


LATE = ("2023/05/23 (Tue) 20:21", ["I live in Lisbon.", "Bye."])
EARLY = ("2023/05/21 (Sun) 06:18", ["Hello there."])
ENTRIES = [entry("q1", {"late": LATE, "early": EARLY}, answer="late"), entry("q2_abs", {"late": LATE}, answer="late")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "longmemeval.json.gz"
    file.write_bytes(gzip.compress(json.dumps(ENTRIES).encode()))
    return file


def test_every_question_has_a_haystack_of_its_own_in_the_order_of_its_dates(path: Path) -> None:
    data = longmemeval.load(path, pooled=False)
    assert [(one.user, one.name) for one in data.sessions] == [("q1", "early"), ("q1", "late"), ("q2_abs", "late")]
    assert data.sessions[1].date == datetime(2023, 5, 23, 20, 21, tzinfo=UTC)
    assert [message.id for message in data.sessions[1].messages] == ["late#0", "late#1"]


def test_gold_is_what_the_file_marks_and_questions_without_an_answer_are_apart(path: Path) -> None:
    answered, abstention = longmemeval.load(path, pooled=False).questions
    assert answered.gold_turns == {"late#0"}
    assert answered.gold_sessions == {"late"}
    assert (answered.scored, answered.group) == (True, "single-session-user")
    assert (abstention.scored, abstention.group) == (False, "without an answer")


def test_pooled_sessions_that_questions_share_are_there_once(path: Path) -> None:
    data = longmemeval.load(path, pooled=True)
    assert [one.name for one in data.sessions] == ["early", "late"]
    users = [one.user for one in data.sessions] + [one.user for one in data.questions]
    assert set(users) == {longmemeval.POOLED_USER}


def test_a_file_that_is_not_longmemeval_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[{}]", "utf-8")
    (tmp_path / "damaged.json").write_bytes(b"\x1f\x8bno")
    for name in ("other.json", "damaged.json", "absent.json"):
        with pytest.raises(ConfigError, match=name):
            longmemeval.load(tmp_path / name, pooled=False)


def test_sessions_of_users_take_turns_and_keep_their_order(path: Path) -> None:
    data = longmemeval.load(path, pooled=False)
    assert [(one.user, one.name) for one in data.by_turns()] == [("q1", "early"), ("q2_abs", "late"), ("q1", "late")]
