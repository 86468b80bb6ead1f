"""An installation of a test's own, for the commands."""

from pathlib import Path

import pytest


def at_home(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """A new installation in this folder, without vectors."""
    folder.mkdir()
    patch.setenv("MEMPROXY_HOME", str(folder))
    patch.setenv("MEMPROXY__EMBEDDING__PROVIDER", "none")
    patch.delenv("MEMPROXY_SECRET", raising=False)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the test's own installation."""
    return at_home(tmp_path / "home", monkeypatch)
