"""`python -m tests.bench.endurance`, shortened. No figure is judged here: a busy machine is no failure."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.endurance import LongRun, Used
from tests.support.proxy import environment

ROOT = Path(__file__).parents[2]


def test_the_slope_is_that_of_the_last_half() -> None:
    grown = LongRun(requests=[1_000, 2_000, 3_000, 4_000], relay_mb=[10, 60, 71, 72], outcomes={}, errors={})
    assert grown.slope == pytest.approx(100)
    flat = LongRun(requests=[1_000, 2_000, 3_000, 4_000], relay_mb=[10, 60, 72, 72], outcomes={}, errors={})
    assert flat.slope == 0


def test_what_several_relays_could_do_is_bound_by_the_busiest() -> None:
    one = Used(answered=1_000, elapsed_s=2.0, relay_s={11: 0.5})
    two = Used(answered=1_000, elapsed_s=2.0, relay_s={12: 0.2, 13: 0.4})
    found = two.workers(one)
    assert (found.workers, found.per_second, found.relay_cpu_us, found.shares) == (2, 500, 600, [0.667, 0.333])
    assert found.capacity == 1.25, "2,500 requests a second of the busiest's processor, one alone did 2,000"
    assert one.workers(one).capacity == 1
    assert Used(answered=10, elapsed_s=1.0, relay_s={14: 0.0}).workers(one).capacity == 0, "nothing is known"


def test_a_short_run_reports_memory(tmp_path: Path) -> None:
    arguments = ["--requests", "64", "--parts", "4", "--streams", "0", "--workers", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.endurance", *arguments, "--json", str(tmp_path / "figures.json")],
        cwd=ROOT,
        env={**environment(tmp_path), "TMPDIR": str(tmp_path)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_bytes())
    assert figures["residence"]["errors"] == {}
    assert figures["residence"]["outcomes"]["off"] == 64
    assert len(figures["residence"]["relay_mb"]) == 4
