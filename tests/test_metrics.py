"""What a scrape shows before anything was counted."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from memproxy.metrics import render

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
