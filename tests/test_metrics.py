"""What a scrape shows before anything was counted."""

import ast
import inspect
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from memproxy.core.facts import Operation
from memproxy.core.message_kinds import KINDS, OWN
from memproxy.core.retention import EXPIRED, OVER_LIMIT
from memproxy.learn.acknowledge import _REASONS
from memproxy.learn.budget import SOURCES
from memproxy.metrics import KNOWN, Metrics, render
from memproxy.relay.decide import DEGRADED

PACKAGE = Path(inspect.getfile(Metrics)).parent

SCRAPE = """
from memproxy.metrics import metrics, render
metrics().requests.labels(route="chat", status="200").inc()
print(render().decode())
"""


def test_a_scrape_names_every_metric_from_the_start_and_each_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", SCRAPE], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    named = [line.split()[2] for line in done.stdout.splitlines() if line.startswith("# TYPE")]
    assert len(named) == len(set(named))
    uncounted = {"recall_total", "memories_written_total", "request_overhead_seconds", "recall_stage_seconds"}
    assert {f"memproxy_{name}" for name in uncounted} <= set(named)
    assert 'memproxy_requests_total{route="chat",status="200"} 1.0' in done.stdout


COUNT_AND_DIE = """
import os, signal
from memproxy.metrics import count_as, metrics
count_as("engine-0")
metrics().turns_captured.inc()
metrics().learn_seconds.observe(1)
metrics().store_points.set(7)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_that_are_killed_again_and_again_leave_no_more_files_and_every_count(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    left = []
    for _ in range(3):
        died = subprocess.run([sys.executable, "-c", COUNT_AND_DIE], env=environment, timeout=60, check=False)
        assert died.returncode == -signal.SIGKILL
        left.append(sorted(path.name for path in tmp_path.iterdir()))
    assert left[0] == left[1] == left[2]
    shown = subprocess.run(
        [sys.executable, "-c", "from memproxy.metrics import render; print(render().decode())"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert "memproxy_turns_captured_total 3.0" in shown
    assert "memproxy_learn_seconds_count 3.0" in shown
    assert "memproxy_store_points 7.0" in shown


def test_a_folder_that_was_tidied_away_costs_counts_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "gone" / "metrics"))
    assert b"memproxy_requests_total" in render()


def calls() -> Iterator[tuple[str, ast.Call]]:
    """Every call in the package, with where it stands; what measures it is no part of it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.relative_to(PACKAGE).parts[0] != "evals":
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call):
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", node


def words(counter: str, label: int = 0) -> set[str]:
    return {row[label] for rows in KNOWN[counter].values() for row in rows}


def test_the_words_that_are_counted_are_known_ones() -> None:
    """A child that is made by its first event has no increase: whoever counts a new word adds it to `metrics.KNOWN`."""
    looked_at = 0
    for where, call in calls():
        match call:
            case ast.Call(
                func=ast.Attribute(value=ast.Attribute(attr=counter), attr="labels"), args=arguments, keywords=keywords
            ) if counter in KNOWN:
                for place, argument in enumerate([*arguments, *(keyword.value for keyword in keywords)]):
                    if isinstance(argument, ast.Constant):
                        looked_at += 1
                        assert argument.value in words(counter, place), f"{where} counts another word in {counter}"
            case ast.Call(func=ast.Name(id="TaskOwner"), args=[ast.Constant(value=owner)]):
                looked_at += 1
                assert owner in words("internal_errors") | {"check"}, f"{where}: failures of its tasks are counted"
    assert looked_at > 60


def test_the_reasons_of_recall_are_known_ones() -> None:
    reasons = words("recall", 1)
    for where, call in calls():
        named = {
            keyword.arg: keyword.value.value for keyword in call.keywords if isinstance(keyword.value, ast.Constant)
        }
        if "result" in named and "reason" in named and where.startswith(("relay", "recall", "engine")):
            assert named["reason"] in reasons, where
    assert reasons >= set(KINDS) - {OWN}
    page = (PACKAGE.parent / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    assert set(re.findall(r"reason=(\w+)`", page)) == reasons - {""}
    assert {reason for result, reason in KNOWN["recall"]["relay"] if result == "degraded"} == {
        *DEGRADED,
        "upstream_rejected",
    }


def test_words_that_have_a_list_of_their_own_are_all_known() -> None:
    assert words("memories_written") >= {operation.value for operation in Operation}
    assert words("memories_pruned") == {EXPIRED, OVER_LIMIT}
    assert words("model_tokens") == SOURCES
    assert words("learn_failures") == {*_REASONS.values(), "fault"}
