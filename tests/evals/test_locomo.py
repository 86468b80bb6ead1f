import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from memproxy.evals import locomo
from tests.evals.conftest import SAMPLE


def test_dates_are_read() -> None:
    assert locomo.parse_date("1:56 pm on 8 May, 2023") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert locomo.parse_date("12:05 am on 1 June, 2023") == datetime(2023, 6, 1, 0, 5, tzinfo=UTC)


def test_evidence_with_several_ids_in_one_string_is_read() -> None:
    sample = {"sample_id": "c"}
    assert locomo.evidence_of(["D8:6; D9:17", "D1:1"], sample) == {"D8:6@c", "D9:17@c", "D1:1@c"}
    assert locomo.evidence_of(None, sample) == frozenset()


def test_sessions_come_in_order_and_questions_need_evidence(sample: Path) -> None:
    data = locomo.load_dataset(sample, pooled=False)
    assert [session.name for session in data.sessions] == ["conv-1/session_1", "conv-1/session_2"]
    assert [question.text for question in data.questions] == ["Where does Ann live?", "Who is Rex?"]


def test_a_file_that_is_not_locomo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[1]", "utf-8")
    for name in ("other.json", "absent.json"):
        with pytest.raises(ConfigError, match=name):
            locomo.load_dataset(tmp_path / name, pooled=False)


def test_turns_and_sessions_have_names_of_their_own_and_gold_names_them(sample: Path) -> None:
    data = locomo.load_dataset(sample, pooled=False)
    assert [(one.user, one.name) for one in data.sessions] == [
        ("conv-1", "conv-1/session_1"),
        ("conv-1", "conv-1/session_2"),
    ]
    message = data.sessions[0].messages[0]
    assert (message.id, message.name, message.content) == ("D1:1@conv-1", "Ann", "I moved to Lisbon.")
    first, second = data.questions
    assert first.gold_turns == {"D1:1@conv-1", "D2:1@conv-1"}
    assert first.gold_sessions == {"conv-1/session_1", "conv-1/session_2"}
    assert (second.group, second.scored, second.asked_at) == ("1 multi-hop", True, data.sessions[-1].date)


def test_pooled_conversations_are_one_users(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([*SAMPLE, {**SAMPLE[0], "sample_id": "conv-2"}]), "utf-8")
    data = locomo.load_dataset(path, pooled=True)
    users = [one.user for one in data.sessions] + [one.user for one in data.questions]
    assert set(users) == {locomo.POOLED_USER}
    assert len({message.id for session in data.sessions for message in session.messages}) == 4
    assert [one.date for one in data.sessions] == sorted(one.date for one in data.sessions)
