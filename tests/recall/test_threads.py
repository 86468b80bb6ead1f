"""The products of a recall are computed in its own thread: others would keep a processor busy that others need."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TASKS = Path("/proc/self/task")
MULTIPLIED = """
import os
import memproxy.core.vectors as vectors
import numpy as np
some = np.ones((512, 384), np.float32)
some @ some.T
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.skipif(not TASKS.exists() or (os.cpu_count() or 1) < 2, reason="threads are counted in /proc")
@pytest.mark.parametrize(("set_to", "threads"), [(None, "1"), ("2", "2")])
def test_one_thread_multiplies_unless_more_are_asked_for(set_to: str | None, threads: str) -> None:
    environment = {name: value for name, value in os.environ.items() if "THREADS" not in name}
    if set_to is not None:
        environment["OPENBLAS_NUM_THREADS"] = set_to
    done = subprocess.run(
        [sys.executable, "-c", MULTIPLIED], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == threads
