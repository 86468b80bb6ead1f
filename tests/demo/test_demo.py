"""`memproxy demo`, as a user runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.proxy import environment

pytestmark = pytest.mark.xdist_group("demo")


def test_the_demonstration_keeps_every_promise(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "memproxy.cli", "demo"]
    done = subprocess.run(
        command,
        env={**environment(tmp_path), "TMPDIR": str(tmp_path), "COLUMNS": "120"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "a script" in done.stdout
    assert "Every promise held." in done.stdout
    assert "$15,000" in done.stdout
    assert "\x1b[" not in done.stdout, "colours belong on a terminal"
    assert not list(tmp_path.glob("memproxy-demo-*")), "the temporary home was left behind"
