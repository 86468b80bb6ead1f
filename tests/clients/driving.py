"""Run a client's driver as a program of its own, and order it to do things."""

import asyncio
import json
import os
import shutil
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-clients" / "bin" / "python"
NODE_FOLDER = Path(__file__).resolve().parent / "node"
ANSWER_S = 90.0
_LINE_BYTES = 16 * 1024 * 1024

PYTHON_CLIENTS = [
    f"{name}/{way}"
    for name in ("langchain", "llamaindex", "pydanticai", "litellm", "llm")
    for way in ("chat", "responses")
]
NODE_CLIENTS = ["openai/chat", "openai/responses", "ai-sdk/chat", "ai-sdk/responses", "ai-sdk-compatible/chat"]

QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "PYTHONPATH": str(ROOT),
    "PYTHONWARNINGS": "ignore",
}
"""No client asks anybody but the address it was given."""


def missing(client: str, *, node: bool) -> str | None:
    """Why a client cannot run here, or None."""
    if node:
        if shutil.which("node") is None:
            return f"{client} needs Node.js, which is not installed"
        installed = (NODE_FOLDER / "node_modules").is_dir()
        return None if installed else f"{client} needs its packages: `make test-clients` installs them"
    return None if PYTHON.exists() else f"{client} needs .venv-clients: `make test-clients` makes it"


class Driven:
    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log

    async def run(self, case: str, base_url: str, question: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = json.dumps({"name": case, "base_url": base_url, "question": question})
        self._process.stdin.write(order.encode() + b"\n")
        await self._process.stdin.drain()
        line = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_S)
        assert line, f"the driver ended:\n{self._log.read_text(encoding='utf-8', errors='replace')[-4000:]}"
        return json.loads(line)["result"]


@asynccontextmanager
async def driven(client: str, log: Path, *, node: bool) -> AsyncIterator[Driven]:
    """A client's driver for the length of a block."""
    program = ["node", str(NODE_FOLDER / "run.mjs")] if node else [str(PYTHON), "-m", "tests.clients.drivers.run"]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "LLM_", "MEMPROXY"))}
    with log.open("ab") as errors:
        process = await asyncio.create_subprocess_exec(
            *program, client, stdin=PIPE, stdout=PIPE, stderr=errors, env={**kept, **QUIET}, limit=_LINE_BYTES
        )
    try:
        yield Driven(process, log)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
