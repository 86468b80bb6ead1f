"""The benchmark of recall in the engine, at a small size: what it measures is there to be found."""

import io
import json
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from tests.bench.engine import main, measure
from tests.bench.plan import Population
from tests.support.shared import MODEL_PATH, needs_model


async def test_every_population_is_asked_and_timed() -> None:
    row = await measure(Population(memories=400, users=4), 30, Console(file=io.StringIO()))
    assert (row.memories, row.users, row.recall.count) == (400, 4, 30)
    assert 0 < row.recall.p50_ms <= row.recall.p95_ms <= row.recall.p99_ms
    assert {"embed", "search", "rank", "assemble", "recall"} <= row.stages.keys()
    assert row.stages["search"] > 0
    assert row.with_embedding is None


@needs_model
@pytest.mark.model
async def test_the_time_of_a_model_is_told_apart() -> None:
    console = Console(file=io.StringIO())
    row = await measure(Population(memories=40, users=2), 5, console, model_path=Path(MODEL_PATH))
    assert row.with_embedding is not None
    assert row.with_embedding.count == row.recall.count == 5
    assert row.with_embedding.p50_ms > row.recall.p50_ms


def test_the_figures_are_written_for_each_population(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    out = tmp_path / "figures.json"
    done = CliRunner().invoke(app, ["--full", "--most", "1000", "--questions", "5", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert [(row["memories"], row["users"]) for row in json.loads(out.read_text())] == [(1_000, 1), (1_000, 10)]
