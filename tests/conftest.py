"""Fixtures that every room's tests may use."""

import gc
import logging
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.upstream import ScriptedUpstream, scripted_upstream

# Beside other work on two processors a property takes what it takes: no verdict depends on seconds.
# `MEMPROXY_TEST_EXAMPLES=1000` tries many more of each that names no number of its own.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("MEMPROXY_TEST_EXAMPLES", "50")),
)
settings.load_profile("unhurried")

_MEMORY_FOLDER = Path("/dev/shm")
_ROOM = 4 * 1024**3
_TEMPORARY_ROOT = "PYTEST_DEBUG_TEMPROOT"
"""pytest's own name for where temporary folders are made."""


def folder_in_memory() -> Path | None:
    """A folder in main memory, where there is room: an embedded store flushes some hundred files, for which tests on a
    busy disk wait several times as long as they work. A process that is killed loses nothing there either.
    """
    try:
        room = shutil.disk_usage(_MEMORY_FOLDER).free > _ROOM and os.access(_MEMORY_FOLDER, os.W_OK)
    except OSError:
        return None
    return _MEMORY_FOLDER if room else None


if (_memory := folder_in_memory()) is not None:
    os.environ.setdefault(_TEMPORARY_ROOT, str(_memory))


def pytest_collection_finish() -> None:
    """Thousands of tests and all that they import stay to the end: garbage is no more looked for among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _same_logging() -> Iterator[None]:
    """Commands that run within a test set logging up for their process; the next test finds it as it was."""
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """A scripted upstream of the test's own."""
    async with scripted_upstream() as server:
        yield server
