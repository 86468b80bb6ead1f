"""Answers over what is recalled: `--qa` from end to end with a scripted reader and judge on a real socket."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from memproxy.errors import ConfigError, ModelRefused
from memproxy.evals.answers import read_verdict, token_f1
from tests.evals.conftest import Evaluate
from tests.support.threaded import QuietHandler, ThreadedServer, serving


class Scripted(ThreadedServer):
    """Reader and judge: ``answers`` by model name; every request is kept."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.asked: list[dict[str, Any]] = []
        self.answers = {"reader-1": "I do not know.", "judge-1": '{"correct": false}'}
        self.failures = 0
        self.status = 200

    @property
    def base_url(self) -> str:
        return f"{self.origin}/v1"


class _Handler(QuietHandler):
    server: Scripted

    def do_POST(self) -> None:  # noqa: N802 - as the base class calls it
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append(request)
        status = self.server.status
        if self.server.failures:
            self.server.failures -= 1
            status = 500
        message = {"role": "assistant", "content": self.server.answers[request["model"]]}
        usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}
        choices = [{"index": 0, "message": message, "finish_reason": "stop"}]
        answer: dict[str, Any] = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
        self.answer(answer | {"choices": choices, "usage": usage}, status)


@pytest.fixture
def models() -> Iterator[Scripted]:
    with serving(Scripted()) as server:
        yield server


@pytest.fixture
def run(
    models: Scripted, sample: Path, evaluate: Evaluate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], dict[str, Any]]:
    """Runs it; the figures of the answers."""
    monkeypatch.setenv("OPENAI_BASE_URL", models.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-eval")
    monkeypatch.setenv("MEMPROXY__MODELS__READER__MODEL", "reader-1")
    monkeypatch.setenv("MEMPROXY__MODELS__JUDGE__MODEL", "judge-1")
    arguments = ("locomo", "--data", sample, "--lexical", "--cache", tmp_path, "--qa")
    return lambda: evaluate(*arguments)[1]["qa"]


def test_the_reader_answers_from_the_block_and_the_judge_decides(run: Any, models: Scripted) -> None:
    models.answers["judge-1"] = '{"correct": true}'
    answers = run()
    group = answers["recipes"]["default"]["groups"]["categories 1-4"]
    assert (group["questions"], group["judged"], group["accuracy"]["value"]) == (2, 2, 1.0)
    read = [one for one in models.asked if one["model"] == "reader-1"]
    assert any("<recalled-memory" in one["messages"][1]["content"] for one in read)
    judged = json.loads(next(one for one in models.asked if one["model"] == "judge-1")["messages"][1]["content"])
    assert set(judged) == {"question", "right_answer", "answer_to_judge"}


def test_verdicts_that_cannot_be_read_count_as_neither(run: Any, models: Scripted) -> None:
    models.answers["judge-1"] = "hard to say"
    recipe = run()["recipes"]["default"]
    assert (recipe["unjudged"], recipe["groups"]["categories 1-4"]["accuracy"]["value"]) == (2, None)
    assert [one["judged"] for one in recipe["questions"]] == ["hard to say"] * 2


def test_a_model_that_fails_for_a_moment_is_asked_again(run: Any, models: Scripted) -> None:
    models.failures = 1
    assert run()["recipes"]["default"]["failed"] == 0


def test_a_refused_key_stops_the_run(run: Any, models: Scripted) -> None:
    models.status = 401
    with pytest.raises(ModelRefused, match="key"):
        run()


def test_a_missing_model_is_named(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMPROXY__MODELS__JUDGE__MODEL")
    with pytest.raises(ConfigError, match=r"models\.judge\.model"):
        run()


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ('{"correct": true}', True),
        ('Sure: {"correct": false, "why": "other city"}', False),
        ("yes", True),
        ("The answer is incorrect.", False),
        ("yes and no", None),
        ("", None),
        ('{"correct": "maybe"}', None),
        ("{broken", None),
    ],
)
def test_verdicts_are_read_in_whatever_form(text: str, verdict: bool | None) -> None:
    assert read_verdict(text) is verdict


@pytest.mark.parametrize(
    ("answer", "right", "f1"),
    [("The red car.", "a red car", 1.0), ("red", "red car", 2 / 3), ("blue", "red", 0.0), ("", "", 1.0)],
)
def test_token_f1_is_that_of_squad(answer: str, right: str, f1: float) -> None:
    assert token_f1(answer, right) == pytest.approx(f1)
