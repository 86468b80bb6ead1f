"""`python -m tests.bench`, as a developer runs it. No figure is judged here: a busy machine is no failure."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from memproxy.serve.launch import ENGINE, RELAY
from tests.bench import nginx
from tests.bench.figures import Report
from tests.bench.plan import QUICK, scaled
from tests.bench.targets import kinds
from tests.support.program import ended, leftovers, output_of, started
from tests.support.waiting import LONGEST_S, eventually

SCALE = 0.02
PLAN = scaled(QUICK, SCALE)


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    bench = ("-m", "tests.bench", "--quick", "--out", str(folder / "results"))
    return started(folder, sys.executable, *bench, *arguments, columns=160)


def serving(process: subprocess.Popen[bytes]) -> bool:
    """Whether a proxy's own processes run below it, beside the upstream and the load client."""
    commands = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            commands.append(child.cmdline()[-1:])
    return [RELAY] in commands and [ENGINE] in commands


def missing(value: Any, where: str = "report") -> list[str]:
    """Where a figure is empty that must not be."""
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in missing(inner, f"{where}.{key}")]
    if isinstance(value, list):
        return [found for number, inner in enumerate(value) for found in missing(inner, f"{where}[{number}]")]
    return [where] if value == "" else []


async def test_a_run_reports_every_figure_and_leaves_nothing_behind(tmp_path: Path) -> None:
    process = start(tmp_path, "--scale", str(SCALE))
    assert await ended(process, tmp_path, 200) == 0, output_of(tmp_path)

    [path] = (tmp_path / "results").glob("*.json")
    report = json.loads(path.read_text(encoding="utf-8"))
    assert set(Report.__struct_fields__) == set(report)
    assert not missing(report)
    assert report["machine"]["processors"] >= 1
    assert {"memproxy", "python", "aiohttp", "qdrant-edge-py"} <= set(report["machine"]["versions"])
    assert len(report["machine"]["load_average_at_start"]) == 3
    assert report["starts"]
    assert all(each["first_answer_s"] > 0 and each["memory_s"] > 0 for each in report["starts"])

    names = [kind.name for kind in kinds(with_model=False)]
    for body in PLAN.bodies:
        rows = {row["target"]: row for row in report["calls"] if (row["body_bytes"], row["concurrency"]) == (body, 1)}
        assert list(rows) == names
        assert all(
            row["total"]["count"] and row["total"]["p99_ms"] >= row["total"]["p50_ms"] > 0 for row in rows.values()
        )
        assert all(row["per_second"] > 0 and not row["errors"] for row in rows.values())
        assert rows["memory off"]["outcomes"] == {"off": 1.0}
    cells = {(row["body_bytes"], row["concurrency"]) for row in report["calls"]}
    assert cells == {(body, concurrency) for body in PLAN.bodies for concurrency in PLAN.concurrencies}
    streamed = [kind.name for kind in kinds(with_model=False) if kind.streams]
    for concurrency in PLAN.streams:
        assert [row["target"] for row in report["streams"] if row["concurrency"] == concurrency] == streamed
    assert all(row["first_byte"]["p50_ms"] > 0 for row in report["streams"])

    assert all(row["search"]["count"] and row["turns_per_second"] > 0 and not row["errors"] for row in report["recall"])
    [use] = report["memory_use"]
    assert all(size > 0 for size in (*use["at_start"].values(), *use["at_end"].values()))
    assert (nginx.find() is None) == any("nginx" in warning for warning in report["warnings"])

    assert "Requests of 2 KB, 1 at once" in output_of(tmp_path)
    assert leftovers(tmp_path) == []


async def test_an_interrupted_run_ends_what_it_started_and_writes_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, "--scale", str(SCALE))
    try:
        await eventually(lambda: serving(process), 100, what=lambda: f"a proxy that starts\n{output_of(tmp_path)}")
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
    finally:
        code = await ended(process, tmp_path, 200)

    assert code == 130, output_of(tmp_path)
    assert "stopped" in output_of(tmp_path)
    _, alive = psutil.wait_procs(family, timeout=LONGEST_S)
    assert not alive
    assert leftovers(tmp_path) == []
    assert not (tmp_path / "results").exists()


async def test_a_model_that_is_not_there_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    process = start(tmp_path, "--scale", str(SCALE), "--model-path", str(tmp_path / "nowhere"))
    assert await ended(process, tmp_path, 200) == 2
    assert "--model-path" in output_of(tmp_path)
    assert leftovers(tmp_path) == []
