"""`memproxy demo`, as a user runs it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from memproxy.demo.model_server import MODEL
from tests.support.http_client import plain_client
from tests.support.program import ended, output_of, started
from tests.support.waiting import LONGEST_S, eventually


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return started(folder, sys.executable, "-m", "memproxy", "demo", *arguments, columns=120)


def leftovers(folder: Path) -> list[str]:
    """Temporary homes and runtime folders that were left behind."""
    return [path.name for path in folder.iterdir() if path.name.startswith("memproxy-")]


async def test_the_demonstration_keeps_every_promise(tmp_path: Path) -> None:
    code = await ended(start(tmp_path), tmp_path, 110)
    text = output_of(tmp_path)
    assert code == 0, text
    assert "a script" in text
    assert "Every promise held." in text
    assert "\x1b[" not in text, "colours belong on a terminal"
    assert leftovers(tmp_path) == []


async def test_it_stays_when_asked_to_and_leaves_nothing_after_ctrl_c(tmp_path: Path) -> None:
    process = start(tmp_path, "--serve")
    try:
        await eventually(
            lambda: "curl" in output_of(tmp_path) or process.poll() is not None, 90, what=lambda: output_of(tmp_path)
        )
        base_url = re.search(r"^base_url: (\S+)$", output_of(tmp_path), re.MULTILINE)
        assert base_url is not None, output_of(tmp_path)
        family = psutil.Process(process.pid).children(recursive=True)
        question = [{"role": "user", "content": "What's my dog's name?"}]
        async with plain_client(headers={"authorization": "Bearer demo-key"}) as client:
            answer = await client.post(
                f"{base_url[1]}/chat/completions", json={"model": MODEL, "messages": question}, timeout=LONGEST_S
            )
        assert "Biscuit" in answer.text
    finally:
        process.send_signal(signal.SIGINT)
        code = await ended(process, tmp_path, 110)
    assert code == 0
    _, alive = psutil.wait_procs(family, timeout=LONGEST_S)
    assert not alive
    assert leftovers(tmp_path) == []
