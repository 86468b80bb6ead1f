"""Answers over what is recalled: `--qa` from end to end with a scripted reader and judge on a real socket."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memproxy.commands import app
from memproxy.errors import ConfigError, ModelRefused
from memproxy.evals.answers import read_verdict, token_f1
from tests.evals.test_locomo import SAMPLE
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
def run(models: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("OPENAI_BASE_URL", models.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-eval")
    data, out = tmp_path / "locomo.json", tmp_path / "figures.json"
    data.write_text(json.dumps(SAMPLE), "utf-8")

    def evaluate(*arguments: str) -> dict[str, Any]:
        fixed = ["eval", "locomo", "--data", str(data), "--lexical", "--json", str(out), "--cache", str(tmp_path)]
        result = CliRunner().invoke(app, [*fixed, "--qa", *arguments])
        if result.exception is not None:
            raise result.exception
        read: dict[str, Any] = json.loads(out.read_text("utf-8"))["qa"]
        return read

    return evaluate


ASKED = ("--reader", "reader-1", "--judge", "judge-1")


def test_the_reader_answers_from_the_block_and_the_judge_decides(run: Any, models: Scripted) -> None:
    models.answers["judge-1"] = '{"correct": true}'
    answers = run(*ASKED)
    group = answers["recipes"]["default"]["groups"]["categories 1-4"]
    assert (group["questions"], group["judged"], group["accuracy"]["value"]) == (2, 2, 1.0)
    read = [one for one in models.asked if one["model"] == "reader-1"]
    assert any("<recalled-memory" in one["messages"][1]["content"] for one in read)
    judged = json.loads(next(one for one in models.asked if one["model"] == "judge-1")["messages"][1]["content"])
    assert set(judged) == {"question", "right_answer", "answer_to_judge"}


def test_a_second_run_asks_only_what_has_no_verdict_yet(run: Any, models: Scripted, tmp_path: Path) -> None:
    models.answers["judge-1"] = "hard to say"
    assert run(*ASKED)["recipes"]["default"]["unjudged"] == 2
    models.answers["judge-1"] = "No."
    run(*ASKED)
    asked = len(models.asked)
    answers = run(*ASKED)
    assert len(models.asked) == asked
    assert answers["recipes"]["default"]["groups"]["categories 1-4"]["accuracy"]["value"] == 0.0
    assert len((tmp_path / "qa-locomo.jsonl").read_text("utf-8").splitlines()) == 4


def test_a_log_whose_last_line_was_cut_short_is_gone_on_from(run: Any, models: Scripted, tmp_path: Path) -> None:
    run(*ASKED)
    log = tmp_path / "qa-locomo.jsonl"
    whole = log.read_text("utf-8").splitlines()
    log.write_text(whole[0] + "\n" + whole[1][:40], "utf-8")
    asked = len(models.asked)
    assert run(*ASKED)["recipes"]["default"]["failed"] == 0
    assert len(models.asked) == asked + 2


def test_a_model_that_fails_for_a_moment_is_asked_again(run: Any, models: Scripted) -> None:
    models.failures = 1
    assert run(*ASKED)["recipes"]["default"]["failed"] == 0


def test_a_refused_key_stops_the_run(run: Any, models: Scripted) -> None:
    models.status = 401
    with pytest.raises(ModelRefused, match="key"):
        run(*ASKED)


def test_a_missing_model_is_named(run: Any) -> None:
    with pytest.raises(ConfigError, match="--judge"):
        run("--reader", "reader-1")


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
