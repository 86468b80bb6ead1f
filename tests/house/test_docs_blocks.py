"""Every code block of README.md and docs/ is run, or says why not and is checked as far as it can be here."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from memproxy.evals import dialogues
from memproxy.settings.loading import load_settings
from tests.docs_blocks import SHOWN, Block, all_blocks, blocks_of, faults, script_faults
from tests.evals import everyday_chats, lives
from tests.support.folders import Folders
from tests.support.postgres import ADMIN, postgres_server
from tests.support.proxy import Proxy, environment, running_proxy
from tests.support.upstream import scripted_upstream
from tests.support.waiting import LONGEST_S

BLOCKS = all_blocks()
PARSED = [block for block in BLOCKS if block.language in {"yaml", "json"}]
RUN = [block for block in BLOCKS if block.language in {"bash", "python"} and not block.attribute]
PAGES = [list(found) for _, found in groupby(RUN, key=lambda block: block.page)]
FORMS: dict[str, Any] = {
    "lives": lambda path: lives.load([path]),
    "dialogues": dialogues.load,
    "chats": everyday_chats.load,
}
VARIABLES = {
    name: "http://127.0.0.1:9/v1" if name.endswith("URL") else f"of-{name.lower()}"
    for name in ("OPENAI_API_KEY", "OPENROUTER_API_KEY", "LITELLM_KEY", "AZURE_OPENAI_RESOURCE", "PGPASSWORD")
}
"""What stands as ${…} in settings on the pages."""

REMEMBERED = {
    "id": "mem_1f0c8a2e",
    "content": "Ann is on a vegetarian diet.",
    "kind": "semantic",
    "user_id": "ann",
    "created_at": "2026-03-02T08:15:00Z",
}
"""What pages name by its id."""

FILES = {
    ".curlrc": "fail-with-body\nsilent\nshow-error\n",
    "mem0.json": '{"results": [{"id": "m1", "memory": "Likes tea", "created_at": "2026-01-01T00:00:00Z"}]}',
    "bin/memproxy": f'#!/bin/sh\nexec "{sys.executable}" -m memproxy "$@"\n',
}
"""What a page's commands find in their folder; `curl` fails where an answer is an error."""


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.where)
def test_a_block_is_run_or_says_why_not(block: Block, tmp_path: Path) -> None:
    assert not faults(block)
    assert block.language != "js" or not script_faults(block, tmp_path)
    ran = block in RUN or block in PARSED or block.language in SHOWN | {"sql"}
    assert ran or block.attribute in {"not-run", "clients"}, "say why it is not run: ```bash not-run: REASON"


@pytest.mark.parametrize("block", PARSED, ids=lambda block: block.where)
def test_a_block_of_yaml_or_json_is_read_by_what_it_is_for(block: Block, tmp_path: Path) -> None:
    if block.language == "json":
        json.loads(block.text)
        return
    path = tmp_path / "block.yaml"
    path.write_text(block.text, encoding="utf-8")
    if block.attribute == "form":
        assert FORMS[block.value](path)
    else:
        assert isinstance(yaml.safe_load(block.text), dict)
        load_settings(path, environ=VARIABLES)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def proxy(folders: Folders) -> AsyncIterator[Proxy]:
    with folders.new("home") as home:
        changes = {"learn": {"mode": "verbatim"}}
        async with scripted_upstream() as upstream, running_proxy(upstream.base_url, home, changes) as proxy:
            yield proxy


@pytest_asyncio.fixture(loop_scope="module")
async def folder(proxy: Proxy, tmp_path: Path) -> Path:
    """Where a page's commands run, and what they find."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    lines = "\n".join(map(json.dumps, [{"format": "memproxy", "version": 1}, {"memory": REMEMBERED}]))
    async with proxy.client(None, **{"content-type": "application/x-ndjson"}) as client:
        answer = await client.post("/v1/memory/import?user_id=ann", content=lines)
        assert answer.json()["rejected"] == 0, answer.text
    return tmp_path


def ran(blocks: list[Block], proxy: Proxy, folder: Path) -> str:
    """What blocks that follow each other printed; a shell's variables hold from one to the next."""
    block, text = blocks[0], "\n".join(block.text for block in blocks)
    text = re.sub(r"(127\.0\.0\.1|localhost):8484", rf"\1:{proxy.port}", text)
    more = {
        "OPENAI_API_KEY": f"sk-{block.page.stem}",  # a tenant for each page
        "CURL_HOME": str(folder),
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "MEMPROXY__EMBEDDING__PROVIDER": "none",
        "MEMPROXY__SERVER__PORT": str(proxy.port),
    }
    watched = f"trap 'echo \"this line failed: $BASH_COMMAND\" >&2' ERR\n{text}"
    shell = ["bash", "-euo", "pipefail", "-c", watched]
    done = subprocess.run(
        shell if block.language == "bash" else [sys.executable, "-c", text],
        cwd=folder,
        env=environment(proxy.home, more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * LONGEST_S,  # a page's commands one after the other, each a process of its own
    )
    assert done.returncode == 0, f"{block.where}\n{done.stdout}\n{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("blocks", PAGES, ids=lambda blocks: str(blocks[0].page.name))
async def test_the_commands_and_programs_of_a_page_work_one_after_the_other(
    blocks: list[Block], proxy: Proxy, folder: Path
) -> None:
    parts = [list(found) for _, found in groupby(blocks, key=lambda block: block.language)]
    printed = "".join([await asyncio.to_thread(ran, part, proxy, folder) for part in parts])
    if blocks[0].page.name in {"README.md", "quickstart.md"}:
        assert "injected" in printed


def test_the_sql_of_the_pages_is_taken_by_a_server() -> None:
    blocks = [block for block in BLOCKS if block.language == "sql"]
    with postgres_server() as server:
        for database, block in zip(("postgres", "docs"), blocks, strict=True):
            words = [str(server.programs / "psql"), "-v", "ON_ERROR_STOP=1", server.url(database, ADMIN)]
            text = re.sub(r"\bmemproxy\b", "docs", block.text)  # the role of that name is the test server's own
            done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{block.where}\n{done.stderr}"


def test_a_block_that_nobody_runs_is_found(tmp_path: Path) -> None:
    def of(text: str) -> list[str]:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return [fault for block in blocks_of(page) for fault in faults(block)]

    assert of("```\nx\n```\n")
    assert of("```ruby\nx\n```\n")
    assert of("```text\nmemproxy serve\n```\n")
    assert of("```bash because\nls\n```\n")
    assert of("```bash\nif\n```\n")
    assert of("```bash\nmemproxy serv\n```\n")
    assert of("```bash not-run: x\nmemproxy serve --prot 3\n```\n")
    assert of("```bash\npython -m tests.nothing\n```\n")
    assert of("```bash\nmake nothing\n```\n")
    assert of("```bash\ndocker build -f deploy/Nofile .\n```\n")
    assert not of("```bash not-run: no Docker here\nmake demo && memproxy serve --port 3 # x\n```\n")
