"""Data beside the repository that some tests read in place; they skip, with the reason, where it is absent."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("MEMPROXY_TEST_SHARED", Path(__file__).resolve().parents[3] / "shared"))
"""The folder with models and evaluation data; by default ``shared`` beside the repository."""

MODEL_PATH = SHARED / "models" / "all-MiniLM-L6-v2"
"""The real embedding model's files (all-MiniLM-L6-v2, 384 dimensions)."""

EVAL = SHARED / "eval"
"""Evaluation data; read in place, never copied into the repository."""

MODEL_REASON = f"the real embedding model's files are not at {MODEL_PATH} (MEMPROXY_TEST_SHARED names another place)"

needs_model = pytest.mark.skipif(not MODEL_PATH.is_dir(), reason=MODEL_REASON)
"""For tests of the real model: skipped where its files are absent."""


def needs_data(*parts: str) -> pytest.MarkDecorator:
    """For tests that read ``shared/eval/<parts>``: skipped where that is absent."""
    path = EVAL.joinpath(*parts)
    return pytest.mark.skipif(not path.exists(), reason=f"evaluation data is not at {path}")
