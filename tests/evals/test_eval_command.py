"""`memproxy eval` from end to end: a small data set through the product's own parts, by words alone."""

import json
from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from memproxy.evals import gate_verdicts as gate
from memproxy.evals.retrieval import Options
from tests.evals.conftest import Evaluate
from tests.evals.gate_memory import of_locomo


def test_locomo_is_measured_for_every_recipe(sample: Path, evaluate: Evaluate) -> None:
    printed, report = evaluate("locomo", "--data", sample, "--lexical", "--recipe", "default", "--recipe", "bm25")
    assert "turn_recall@10" in printed
    assert (report["questions"], report["turns"], report["embedder"]) == (2, 2, "none")
    assert set(report["recipes"]) == {"default", "bm25"}
    assert set(report["differences"]) == {"bm25"}
    figures = report["recipes"]["default"]["groups"]["categories 1-4"]
    assert figures["questions"] == 2
    assert figures["session_recall_any@5"]["value"] == 1.0
    assert set(report["recipes"]["default"]["latency_ms"]["recall"]) == {"p50", "p95", "p99"}
    assert report["recipes"]["default"]["questions"][1]["gold"] == {"D2:1@conv-1": 1}


def test_pooled_and_smoke_are_told_in_the_report(sample: Path, evaluate: Evaluate) -> None:
    _, report = evaluate("locomo", "--data", sample, "--lexical", "--pooled", "--smoke")
    assert (report["pooled"], report["smoke"], report["data"]) == (True, True, "locomo.json")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--qa",), "models.reader.model"),
        (("--lexical", "--recipe", "no-such"), "no-such"),
        (("--lexical", "--json", "/no/such/folder/out.json"), "--json"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_reason(
    sample: Path, evaluate: Evaluate, arguments: tuple[str, ...], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        evaluate("locomo", "--data", sample, *arguments)


GATE_LINES = [
    {"text": "What is my budget?", "kind": "personal-memory", "source": "ours"},
    {"text": "hello", "kind": "greeting", "source": "ours"},
    {"text": "Where did I leave the lamp?", "kind": "general-fact", "source": "ours"},
]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "gate.jsonl"
    path.write_text("\n".join(map(json.dumps, GATE_LINES)), "utf-8")
    return path


def test_the_gate_is_measured_by_kind_and_by_first_person_words(lines: Path, evaluate: Evaluate) -> None:
    _, report = evaluate("gate", "--data", lines)
    assert report["kinds"]["personal-memory"]["all"] == {"lines": 1, "searched": 1, "rate": 1.0}
    assert report["kinds"]["greeting"]["no_first_person"]["rate"] == 0.0
    assert report["kinds"]["general-fact"]["first_person"]["rate"] == 1.0
    assert [one["text"] for one in report["wrong"]] == ["Where did I leave the lamp?"]


async def test_what_the_gate_lets_pass_needlessly_is_put_to_a_memory(sample: Path, lines: Path, tmp_path: Path) -> None:
    options = Options(recipes=["default"], lexical=True, cache=tmp_path)
    counts = await of_locomo(gate.evaluate(gate.load(lines)), sample, options)
    assert counts == {"general-fact": {"asked": 1, "injected": 0, "rate": 0.0}}


def test_the_gate_of_a_configuration_is_measured(tmp_path: Path, lines: Path, evaluate: Evaluate) -> None:
    config = tmp_path / "config.yaml"
    for told, rate in (("skip: [fact]", 1.0), ("skip: [greeting]", 0.0), ("enabled: false", 1.0)):
        config.write_text(f"gate: {{{told}}}", "utf-8")
        _, report = evaluate("gate", "--data", lines, "--config", config, "--tenant", "acme")
        assert report["kinds"]["greeting"]["all"]["rate"] == rate


def test_a_file_that_is_no_gate_data_is_refused(tmp_path: Path) -> None:
    for name, content in (("empty.jsonl", ""), ("other.jsonl", '{"a": 1}')):
        (tmp_path / name).write_text(content, "utf-8")
        with pytest.raises(ConfigError, match=name):
            gate.load(tmp_path / name)
