"""`memproxy eval` over small data."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memproxy.commands import app

Evaluate = Callable[..., tuple[str, Any]]

SAMPLE = [
    {
        "sample_id": "conv-1",
        "conversation": {
            "speaker_a": "Ann",
            "speaker_b": "Ben",
            "session_2_date_time": "12:05 am on 1 June, 2023",
            "session_2": [{"speaker": "Ben", "dia_id": "D2:1", "text": "Rex is my dog."}],
            "session_1_date_time": "1:56 pm on 8 May, 2023",
            "session_1": [{"speaker": "Ann", "dia_id": "D1:1", "text": "I moved to Lisbon."}],
        },
        "qa": [
            {"question": "Where does Ann live?", "category": 4, "evidence": ["D1:1; D2:1"]},
            {"question": "Who is Rex?", "category": 1, "evidence": ["D2:1"]},
            {"question": "No evidence", "category": 3, "evidence": []},
            {"question": "Unknown turn", "category": 5, "evidence": ["D9:9"]},
        ],
    }
]


@pytest.fixture
def sample(tmp_path: Path) -> Path:
    """A file of LoCoMo with one short conversation."""
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps(SAMPLE), "utf-8")
    return path


@pytest.fixture
def evaluate(tmp_path: Path) -> Evaluate:
    """Runs ``memproxy eval`` with these arguments; what it printed, and the figures."""

    def run(what: str, *arguments: str | Path) -> tuple[str, Any]:
        out = tmp_path / "figures.json"
        done = CliRunner().invoke(app, ["eval", what, "--json", str(out), *map(str, arguments)])
        if done.exception is not None:
            raise done.exception
        return done.output, json.loads(out.read_text("utf-8"))

    return run
