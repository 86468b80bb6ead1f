"""Fixtures that every room's tests may use."""

import gc
import logging
import os
import re
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.folders import MEMORY_FOLDER, Folders
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


def pytest_collection_finish() -> None:
    """Thousands of tests and all that they import stay to the end: garbage is no more looked for among them."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def folders() -> Iterator[Folders]:
    """Temporary folders for fixtures of a wider scope than a test. ``MEMPROXY_TEST_KEEP=1`` leaves all of them."""
    named = os.environ.get("PYTEST_DEBUG_TEMPROOT")  # pytest's own name for where temporary folders are made
    keep = os.environ.get("MEMPROXY_TEST_KEEP") == "1"
    disk = Path(named or tempfile.gettempdir())
    made = Folders(disk if named else MEMORY_FOLDER, disk, keep=keep)
    yield made
    made.close()


@pytest.fixture
def tmp_path(folders: Folders, request: pytest.FixtureRequest) -> Iterator[Path]:
    """In place of pytest's, which keeps the folders of failed tests: hundreds of them can fill a machine's memory."""
    with folders.new(re.sub(r"\W", "_", request.node.name)) as folder:
        yield folder


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
