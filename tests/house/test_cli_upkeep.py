"""Commands that learn and forget: through the running server, else on the store itself."""

import asyncio
import contextlib
import logging
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import uvicorn
from typer.testing import CliRunner

from memproxy.auth.modes import ANONYMOUS
from memproxy.commands import app, upkeep
from memproxy.commands.installation import OPEN_TIMEOUT_S, installation, opened_state
from memproxy.core.protocol import LearnBody
from memproxy.core.scope import Scope
from memproxy.engine.app import build_app
from memproxy.engine.engine import Engine
from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.ports import MOVED, JournalEntry, JournalKind
from memproxy.serve.instance import ENGINE_SOCKET, AlreadyServed, InstanceLock, runtime_folder
from memproxy.serve.server import Server
from memproxy.settings import EmbeddingSettings, LearnSettings, PrivacySettings, Settings
from memproxy.settings.home import state_path
from memproxy.stores.sealing import MASTER_KEY, new_master_key
from memproxy.tasks import TaskOwner
from memproxy.wiring.engine_parts import make_engine
from tests.support.proxy import environment
from tests.support.waiting import eventually

pytestmark = pytest.mark.usefixtures("home")


def settings(**learn: Any) -> Settings:
    return Settings(
        embedding=EmbeddingSettings(provider="none"),
        learn=LearnSettings(**({"mode": "verbatim", "every_turns": 200, "idle_s": 3600} | learn)),
    )


async def contents(kind: str | None = None, tenant: str | None = None) -> set[str]:
    query = {"kind": kind} if kind else {}
    async with installation(settings(enabled=False)) as here:
        page = await here.call("GET", "/v1/memory", tenant=tenant, user="ann", params=query)
    return {memory["content"] for memory in page["data"]}


async def told(*said: tuple[str, str, str]) -> None:
    """Ingest texts, each with its user and session."""
    async with installation(settings(enabled=False)) as here:
        for user, session, text in said:
            body = {"session_id": session, "messages": [{"role": "user", "content": text}]}
            await here.call("POST", "/v1/memory/turns", user=user, json=body)


@contextlib.asynccontextmanager
async def served(home: Path, use: Settings | None = None) -> AsyncIterator[Engine]:
    """The engine behind its socket, as `memproxy serve` would have it, with the store's lock."""
    use = use or settings()
    lock = InstanceLock(state_path(use.state, home))
    lock.acquire()
    with runtime_folder(lock) as folder:
        engine = make_engine(use, home, b"s" * 32)
        config = uvicorn.Config(build_app(engine), uds=str(folder / ENGINE_SOCKET), log_config=None)
        server, tasks = Server(config), TaskOwner("test.server")
        task = tasks.start(server.serve(), "serve")
        try:
            await eventually(lambda: server.started and "loading" not in engine.readiness().values())
            yield engine
        finally:
            server.leave()
            await task
            lock.release()


async def test_a_user_or_a_session_is_forgotten_without_a_server() -> None:
    await told(("ann", "../s", "My name is Ann"), ("ann", "s2", "I live in Berlin"), ("../u", "s1", "I am odd"))
    assert await upkeep.forget(settings(), tenant=None, user="../u", session=None) == 1
    assert await upkeep.forget(settings(), tenant=None, user="ann", session="../s") == 1
    assert await contents() == {"I live in Berlin"}


async def test_with_a_server_running_it_is_done_through_its_api(home: Path) -> None:
    async with served(home):
        await told(("ann", "s1", "Is it going to rain tomorrow?"))
        async with installation(settings()) as here:
            assert here.in_process is None
        assert await upkeep.forget(settings(), tenant=None, user="ann", session=None) == 1
        left = await upkeep.mine(settings(), lambda done, total: None)
        assert left.steps == 0


async def test_a_holder_that_serves_nothing_is_named(home: Path) -> None:
    lock = InstanceLock(state_path(settings().state, home))
    lock.acquire()
    try:
        with pytest.raises(AlreadyServed, match="already served"):
            await upkeep.forget(settings(), tenant=None, user="ann", session=None)
    finally:
        lock.release()


async def test_mining_learns_what_waits_and_ends() -> None:
    await told(("ann", "s1", "My name is Ann."), ("ann", "s1", "I have a dog named Biscuit."))
    steps: list[tuple[int, int]] = []
    left = await upkeep.mine(settings(), lambda done, total: steps.append((done, total)))
    assert left == upkeep.WaitingWork(index=0, learn=0, sessions=0, parked=0)
    assert all(done <= total for done, total in steps)
    assert await contents("semantic")


async def parked(*tenants: str) -> None:
    """Something that Ann said in each tenant, and the row of learning from it, which was given up."""
    async with installation(settings(enabled=False)) as here:
        assert here.in_process is not None
        state = here.in_process.backends().state
        for tenant in tenants:
            said = {"session_id": "s1", "messages": [{"role": "user", "content": "My name is Ann."}]}
            await here.call("POST", "/v1/memory/turns", tenant=tenant, user="ann", json=said)
            scope = Scope(tenant=tenant, user="ann", session="s1")
            body = msgspec.json.encode(LearnBody(unlearned=1, reason="turns"))
            row = JournalEntry(kind=JournalKind.LEARN, scope=scope, body=body)
            number = await state.begin_learning(row, unlearned=1)
            assert number is not None
            await state.park(number, error="no JSON")


async def test_mining_tries_again_what_was_given_up() -> None:
    await parked(ANONYMOUS)
    assert (await upkeep.mine(settings(), lambda done, total: None)).parked == 1
    assert await contents("semantic") == set()
    assert (await upkeep.mine(settings(), lambda done, total: None, retry_parked=True)).parked == 0
    assert await contents("semantic")


async def test_mining_with_learning_off_says_so() -> None:
    with pytest.raises(ConfigError, match=r"learn\.enabled"):
        await upkeep.mine(settings(enabled=False), lambda done, total: None)


@pytest.mark.parametrize("arguments", [["forget"], ["mine", "--wrong"], ["forget", "--user"]])
def test_bad_usage_is_exit_code_two(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2


async def test_an_encrypted_user_is_forgotten_without_an_error_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(MASTER_KEY, new_master_key())
    sealed = settings().model_copy(update={"privacy": PrivacySettings(encrypt=True)})
    async with installation(sealed) as here:
        await here.call("POST", "/v1/memory", user="ann", json={"content": "Ann has a beagle.", "kind": "semantic"})
    assert await upkeep.forget(sealed, tenant=None, user="ann", session=None) == 1
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_state_that_does_not_open_is_told_soon() -> None:
    await told(("ann", "s1", "I have a beagle."))
    async with opened_state(settings()) as state:
        await state.set_meta(MOVED, "was moved elsewhere")
    began = asyncio.get_running_loop().time()
    with pytest.raises(StoreUnavailable, match=r"^The state in .* was moved elsewhere\."):
        await contents()
    assert asyncio.get_running_loop().time() - began < OPEN_TIMEOUT_S / 2


def test_a_disk_that_is_full_is_one_of_the_findings(home: Path) -> None:
    # what may be written is no longer than nothing: as a full disk answers, and it is this process's alone
    done = subprocess.run(
        [sys.executable, "-m", "memproxy", "check", "--json"],
        env=environment(home),
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0)),
        capture_output=True,
        check=False,
    )
    [finding] = [one for one in msgspec.json.decode(done.stdout)["findings"] if one["part"] == "store"]
    assert finding["text"].startswith(f"{home} cannot be written (File too large).")
