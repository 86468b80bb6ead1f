"""What a scrape shows before anything was counted."""

import os
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


def test_a_folder_that_was_tidied_away_costs_counts_and_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROMETHEUS_MULTIPROC_DIR", str(tmp_path / "gone" / "metrics"))
    assert b"memproxy_requests_total" in render()
