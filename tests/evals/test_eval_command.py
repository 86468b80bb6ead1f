"""`memproxy eval` from end to end: a small data set through the product's own parts, by words alone."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memproxy.commands import app
from memproxy.errors import ConfigError
from memproxy.evals import gate_verdicts as gate
from memproxy.evals.retrieval import Options
from tests.evals.gate_memory import of_locomo
from tests.evals.test_locomo import SAMPLE


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(SAMPLE), "utf-8")
    return path


def evaluate(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, ["eval", *map(str, arguments)])
    if result.exception is not None:
        raise result.exception
    return result.output


def test_locomo_is_measured_for_every_recipe(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    printed = evaluate("locomo", "--data", data, "--lexical", "--recipe", "default", "--recipe", "bm25", "--json", out)
    assert "turn_recall@10" in printed
    report: dict[str, Any] = json.loads(out.read_text("utf-8"))
    assert (report["questions"], report["turns"], report["embedder"]) == (2, 2, "none")
    assert set(report["recipes"]) == {"default", "bm25"}
    assert set(report["differences"]) == {"bm25"}
    figures = report["recipes"]["default"]["groups"]["categories 1-4"]
    assert figures["questions"] == 2
    assert figures["session_recall_any@5"]["value"] == 1.0
    assert set(report["recipes"]["default"]["latency_ms"]["recall"]) == {"p50", "p95", "p99"}
    assert report["recipes"]["default"]["questions"][1]["gold"] == {"D2:1@conv-1": 1}


def test_pooled_and_smoke_are_told_in_the_report(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    evaluate("locomo", "--data", data, "--lexical", "--pooled", "--smoke", "--json", out)
    report = json.loads(out.read_text("utf-8"))
    assert (report["pooled"], report["smoke"], report["data"]) == (True, True, "locomo.json")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--qa",), "models.reader.model"),
        (("--lexical", "--recipe", "no-such"), "no-such"),
        (("--lexical", "--json", "/no/such/folder/out.json"), "--json"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(data: Path, arguments: tuple[str, ...], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        evaluate("locomo", "--data", data, *arguments)


GATE_LINES = [
    {"text": "What is my budget?", "kind": "personal-memory", "source": "ours"},
    {"text": "hello", "kind": "greeting", "source": "ours"},
    {"text": "Where did I leave the lamp?", "kind": "general-fact", "source": "ours"},
]


def test_the_gate_is_measured_by_kind_and_by_first_person_words(tmp_path: Path) -> None:
    lines, out = tmp_path / "gate.jsonl", tmp_path / "figures.json"
    lines.write_text("\n".join(map(json.dumps, GATE_LINES)), "utf-8")
    evaluate("gate", "--data", lines, "--json", out)
    report = json.loads(out.read_text("utf-8"))
    assert report["kinds"]["personal-memory"]["all"] == {"lines": 1, "searched": 1, "rate": 1.0}
    assert report["kinds"]["greeting"]["no_first_person"]["rate"] == 0.0
    assert report["kinds"]["general-fact"]["first_person"]["rate"] == 1.0
    assert [one["text"] for one in report["wrong"]] == ["Where did I leave the lamp?"]


async def test_what_the_gate_lets_pass_needlessly_is_put_to_a_memory(data: Path, tmp_path: Path) -> None:
    lines = tmp_path / "gate.jsonl"
    lines.write_text("\n".join(map(json.dumps, GATE_LINES)), "utf-8")
    options = Options(recipes=["default"], lexical=True, cache=tmp_path)
    counts = await of_locomo(gate.evaluate(gate.load(lines)), data, options)
    assert counts == {"general-fact": {"asked": 1, "injected": 0, "rate": 0.0}}


def test_the_gate_of_a_configuration_is_measured(tmp_path: Path) -> None:
    lines, out, config = tmp_path / "gate.jsonl", tmp_path / "figures.json", tmp_path / "config.yaml"
    lines.write_text("\n".join(map(json.dumps, GATE_LINES)), "utf-8")
    for told, rate in (
        ("gate: {skip: [fact]}", 1.0),
        ("gate: {skip: [greeting]}", 0.0),
        ("gate: {enabled: false}", 1.0),
    ):
        config.write_text(told, "utf-8")
        evaluate("gate", "--data", lines, "--config", config, "--tenant", "acme", "--json", out)
        assert json.loads(out.read_text("utf-8"))["kinds"]["greeting"]["all"]["rate"] == rate


def test_a_file_that_is_no_gate_data_is_refused(tmp_path: Path) -> None:
    for name, content in (("empty.jsonl", ""), ("other.jsonl", '{"a": 1}')):
        (tmp_path / name).write_text(content, "utf-8")
        with pytest.raises(ConfigError, match=name):
            gate.load(tmp_path / name)
