"""`memproxy demo`, as a user runs it."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil

from memproxy.demo.model_server import MODEL
from tests.support.http_client import plain_client
from tests.support.proxy import environment
from tests.support.waiting import LONGEST_S, eventually


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "memproxy", "demo", *arguments],
            env={**environment(folder), "TMPDIR": str(folder), "COLUMNS": "120"},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            # a shell that runs the tests in the background lets its children ignore Ctrl-C
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )


def output(folder: Path) -> str:
    return (folder / "output.txt").read_text(encoding="utf-8")


def leftovers(folder: Path) -> list[str]:
    """Temporary homes and runtime folders that were left behind."""
    return [path.name for path in folder.iterdir() if path.name.startswith("memproxy-")]


async def ended(process: subprocess.Popen[bytes], folder: Path) -> int:
    try:
        await eventually(lambda: process.poll() is not None, 110, what=lambda: f"the end of\n{output(folder)}")
    finally:
        process.kill()
        process.wait()
    return process.returncode


async def test_the_demonstration_keeps_every_promise(tmp_path: Path) -> None:
    code = await ended(start(tmp_path), tmp_path)
    text = output(tmp_path)
    assert code == 0, text
    assert "a script" in text
    assert "Every promise held." in text
    assert "\x1b[" not in text, "colours belong on a terminal"
    assert leftovers(tmp_path) == []


async def test_it_stays_when_asked_to_and_leaves_nothing_after_ctrl_c(tmp_path: Path) -> None:
    process = start(tmp_path, "--serve")
    try:
        await eventually(
            lambda: "curl" in output(tmp_path) or process.poll() is not None, 90, what=lambda: output(tmp_path)
        )
        base_url = re.search(r"^base_url: (\S+)$", output(tmp_path), re.MULTILINE)
        assert base_url is not None, output(tmp_path)
        family = psutil.Process(process.pid).children(recursive=True)
        question = [{"role": "user", "content": "What's my dog's name?"}]
        async with plain_client(headers={"authorization": "Bearer demo-key"}) as client:
            answer = await client.post(
                f"{base_url[1]}/chat/completions", json={"model": MODEL, "messages": question}, timeout=LONGEST_S
            )
        assert "Biscuit" in answer.text
    finally:
        process.send_signal(signal.SIGINT)
        code = await ended(process, tmp_path)
    assert code == 0
    _, alive = psutil.wait_procs(family, timeout=LONGEST_S)
    assert not alive
    assert leftovers(tmp_path) == []
