import json
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from rich.console import Console

from memproxy.errors import ConfigError, RequestError
from memproxy.evals import locomo

SAMPLE = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_2_date_time": "12:05 am on 1 June, 2023",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "Rex is my dog."}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "I moved to Lisbon."}],
        },
        "qa": [
            {"question": "Where does Ann live?", "category": 4, "evidence": ["D1:1; D2:1"]},
            {"question": "Who is Rex?", "category": 1, "evidence": ["D2:1"]},
            {"question": "No evidence", "category": 3, "evidence": []},
            {"question": "Unknown turn", "category": 5, "evidence": ["D9:9"]},
        ],
    }
]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(SAMPLE), "utf-8")
    return path


def test_dates_are_read() -> None:
    assert locomo.parse_date("1:56 pm on 8 May, 2023") == datetime(2023, 5, 8, 13, 56, tzinfo=UTC)
    assert locomo.parse_date("12:05 am on 1 June, 2023") == datetime(2023, 6, 1, 0, 5, tzinfo=UTC)


def test_evidence_with_several_ids_in_one_string_is_read() -> None:
    assert locomo.parse_evidence(["D8:6; D9:17", "D1:1"]) == {"D8:6", "D9:17", "D1:1"}
    assert locomo.parse_evidence(None) == frozenset()


def test_sessions_come_in_order_and_questions_need_evidence(sample: Path) -> None:
    (conversation,) = locomo.load(sample)
    assert [session.name for session in conversation.sessions] == ["session_1", "session_2"]
    assert [question.text for question in conversation.questions] == ["Where does Ann live?", "Who is Rex?"]


def test_a_file_that_is_not_locomo_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("[1]", "utf-8")
    for name in ("other.json", "absent.json"):
        with pytest.raises(ConfigError, match=name):
            locomo.load(tmp_path / name)


class Server:
    """Answers like the API: every search finds D2:1 first."""

    def __init__(self) -> None:
        self.ingested: list[dict[str, object]] = []
        self.deleted: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.method == "DELETE":
            self.deleted.append(request.url.params["user_id"])
            return httpx.Response(200, json={"deleted": 1})
        body = json.loads(request.content)
        if request.url.path.endswith("/turns"):
            self.ingested.append(body)
            return httpx.Response(201, json={"turn_ids": [message["id"] for message in body["messages"]]})
        assert (body["limit"], body["kind"]) == (10, "turn")
        return httpx.Response(200, json={"data": [{"memory": {"id": "D2:1"}, "score": 0.9, "signals": {}}]})


def test_every_session_goes_in_and_recall_is_counted(sample: Path) -> None:
    server = Server()
    with httpx.Client(base_url="http://test", transport=httpx.MockTransport(server)) as http:
        outcomes = locomo.evaluate(locomo.Client(http), locomo.load(sample), Console(quiet=True), keep=False)
    assert [body["timestamp"] for body in server.ingested] == ["2023-05-08T13:56:00+00:00", "2023-06-01T00:05:00+00:00"]
    assert len({body["user_id"] for body in server.ingested}) == 1
    assert server.deleted == [server.ingested[0]["user_id"]]
    figures = locomo.summary(outcomes)
    assert figures["4 single hop"] == {"questions": 1, "recall_at_5": 0.5, "recall_at_10": 0.5}
    assert figures["all"]["recall_at_10"] == 0.75
    assert set(locomo.latency(outcomes)) == {"p50_ms", "p95_ms"}


def test_an_error_of_the_server_ends_it_with_what_it_said() -> None:
    transport = httpx.MockTransport(lambda _request: httpx.Response(503, text="store unavailable"))
    with (
        httpx.Client(base_url="http://test", transport=transport) as http,
        pytest.raises(RequestError, match=r"503.*store"),
    ):
        locomo.Client(http).search("u", "q")
