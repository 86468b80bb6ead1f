"""An installation of a test's own, for the commands."""

from pathlib import Path

import pytest


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its folder, without vectors."""
    monkeypatch.setenv("MEMPROXY_HOME", str(tmp_path))
    monkeypatch.setenv("MEMPROXY__EMBEDDING__PROVIDER", "none")
    monkeypatch.delenv("MEMPROXY_SECRET", raising=False)
    return tmp_path
