"""Fixtures that every room's tests may use."""

import dataclasses
import gc
import logging
import os
import re
import secrets
import signal
import tempfile
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, settings

from tests.support.folders import MEMORY_FOLDER, Folders
from tests.support.postgres import Databases, databases
from tests.support.proxy import Proxy, running_proxy
from tests.support.qdrant import QdrantAt, shared_qdrant
from tests.support.redis import RedisProcess, redis_process
from tests.support.upstream import ScriptedUpstream, scripted_upstream

# Beside other work on two processors a property takes what it takes: no verdict depends on seconds.
# `MEMPROXY_TEST_EXAMPLES=1000` tries many more of each that names no number of its own.
settings.register_profile(
    "unhurried",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=int(os.environ.get("MEMPROXY_TEST_EXAMPLES", "25")),
)
settings.load_profile("unhurried")


LONGEST_ROOMS = ("e2e", "isolation", "demo", "page", "retention", "house", "evals")
"""Rooms whose files take longest, mostly waiting for processes: begun last, they would leave one worker alone."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What collecting makes are millions of objects that stay: none is looked through for garbage meanwhile."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among workers, which take file after file, the longest come first; a run in one process keeps pytest's order."""
    if hasattr(config, "workerinput"):
        tests = Path(__file__).parent
        first = {tests / room: place for place, room in enumerate(LONGEST_ROOMS)}
        items.sort(key=lambda item: first.get(item.path.parent, len(first)))


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


@pytest.fixture(scope="session")
def postgres() -> Iterator[Databases]:
    """Makes databases; the server starts when the first test asks."""
    with databases() as made:
        yield made


@pytest.fixture(scope="session")
def postgres_url(postgres: Databases) -> str:
    """A database that tests share, each with tables of its own."""
    return postgres.new()


@pytest.fixture(scope="session")
def qdrant() -> Iterator[QdrantAt]:
    """A Qdrant server that tests share, each with collections of its own."""
    with shared_qdrant() as server:
        yield server


@pytest.fixture(scope="session")
def redis() -> Iterator[RedisProcess]:
    """A Redis server that tests share; what each keeps there has a name of its own."""
    with redis_process() as server:
        yield server


@pytest.fixture
def tmp_path(folders: Folders, request: pytest.FixtureRequest) -> Iterator[Path]:
    """In place of pytest's, which keeps the folders of failed tests: hundreds of them can fill a machine's memory."""
    with folders.new(re.sub(r"\W", "_", request.node.name)) as folder:
        yield folder


@pytest.fixture(autouse=True)
def _same_logging() -> Iterator[None]:
    """Commands that run within a test set logging up for their process; the next test finds it as it was."""
    root, ours = logging.getLogger(), logging.getLogger("memproxy")
    levels, handlers = (root.level, ours.level), list(root.handlers)
    yield
    root.setLevel(levels[0])
    ours.setLevel(levels[1])
    root.handlers[:] = handlers


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    """A scripted upstream of the test's own."""
    async with scripted_upstream() as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _worker_upstream() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as server:
        yield server


@pytest.fixture(scope="module")
def shared_upstream(_worker_upstream: ScriptedUpstream) -> ScriptedUpstream:
    """The worker's upstream, which begins anew with each module. Who is answered by it has ``loop_scope="session"``."""
    _worker_upstream.reset()
    return _worker_upstream


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _worker_proxy(_worker_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    with folders.new("home") as home:
        async with running_proxy(_worker_upstream.base_url, home) as proxy:
            yield proxy


@pytest.fixture(scope="module")
def shared_proxy(_worker_proxy: Proxy) -> Proxy:
    """The worker's proxy, for tests that leave it as it is: its clients are a tenant of the module's own. Who comes
    without a key is one for all modules.
    """
    return dataclasses.replace(_worker_proxy, key=f"sk-test-{secrets.token_hex(8)}")


@pytest_asyncio.fixture(loop_scope="session")
async def model(shared_upstream: ScriptedUpstream) -> ScriptedUpstream:
    """The worker's upstream with nothing recorded or queued."""
    shared_upstream.reset()
    return shared_upstream


@pytest.fixture(scope="module")
def hangup_not_ignored() -> Iterator[None]:
    """A hangup ends processes, also where the tests themselves were started with ``nohup``."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
