"""The programs of docs/clients.md, run by the clients that they are for: `make test-clients`."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.clients.driving import NODE_FOLDER, PYTHON, QUIET, missing
from tests.clients.test_clients import WANTED
from tests.docs_blocks import Block, all_blocks
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

BLOCKS = [block for block in all_blocks() if block.attribute == "clients"]

pytestmark = [
    pytest.mark.skipif(not os.environ.get(WANTED), reason=f"real clients are tested by `make test-clients` ({WANTED})"),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(upstream: ScriptedUpstream, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Proxy]:
    async with running_proxy(upstream.base_url, tmp_path_factory.mktemp("documented") / "home") as proxy:
        yield proxy


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.value}:{block.line}")
async def test_a_documented_program_says_who_speaks_and_gets_its_answer(
    block: Block, proxy: Proxy, tmp_path: Path
) -> None:
    node = block.language == "js"
    if reason := missing(block.value, node=node):
        pytest.skip(reason)
    program = tmp_path / ("program.mjs" if node else "program.py")
    program.write_text(block.text.replace("127.0.0.1:8484", f"127.0.0.1:{proxy.port}"), encoding="utf-8")
    if node:
        (tmp_path / "node_modules").symlink_to(NODE_FOLDER / "node_modules")
    done = await asyncio.to_thread(
        subprocess.run,
        ["node" if node else str(PYTHON), str(program)],
        env={**os.environ, **QUIET, "OPENAI_API_KEY": f"sk-{block.line}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "You said: I moved to Porto.", done.stderr
    async with proxy.client(f"sk-{block.line}") as client:

        async def kept() -> bool:
            return "I moved to Porto." in (await client.get("/v1/memory", params={"user_id": "ann"})).text

        await eventually(kept, what="ann's memory has what was said")
