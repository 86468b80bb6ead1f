"""`memproxy demo`, as a user runs it."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from memproxy.demo.model_server import MODEL
from tests.support.folders import Folders
from tests.support.http_client import plain_client
from tests.support.program import ended, leftovers, output_of, started
from tests.support.waiting import LONGEST_S, eventually


def start(folder: Path, *arguments: str) -> subprocess.Popen[bytes]:
    return started(folder, sys.executable, "-m", "memproxy", "demo", *arguments, columns=120)


Started = tuple[subprocess.Popen[bytes], Path]


@pytest.fixture(scope="module")
def both(folders: Folders) -> Iterator[tuple[Started, Started]]:
    """One that ends and one that stays, each with its folder: side by side, for most of their time they wait."""
    with folders.new("ends") as ends, folders.new("stays") as stays:
        processes = start(ends), start(stays, "--serve")
        yield (processes[0], ends), (processes[1], stays)
        for process in processes:
            process.send_signal(signal.SIGINT)  # to one that no test has waited for
            process.wait(LONGEST_S)


async def test_the_demonstration_keeps_every_promise(both: tuple[Started, Started]) -> None:
    process, folder = both[0]
    code = await ended(process, folder, 110)
    text = output_of(folder)
    assert code == 0, text
    assert "a script" in text
    assert "Every promise held." in text
    assert "\x1b[" not in text, "colours belong on a terminal"
    assert leftovers(folder) == []


async def test_it_stays_when_asked_to_and_leaves_nothing_after_ctrl_c(both: tuple[Started, Started]) -> None:
    process, folder = both[1]
    try:
        await eventually(
            lambda: "curl" in output_of(folder) or process.poll() is not None, 90, what=lambda: output_of(folder)
        )
        base_url = re.search(r"^base_url: (\S+)$", output_of(folder), re.MULTILINE)
        assert base_url is not None, output_of(folder)
        family = psutil.Process(process.pid).children(recursive=True)
        question = [{"role": "user", "content": "What's my dog's name?"}]
        async with plain_client(headers={"authorization": "Bearer demo-key"}) as client:
            answer = await client.post(
                f"{base_url[1]}/chat/completions", json={"model": MODEL, "messages": question}, timeout=LONGEST_S
            )
        assert "Biscuit" in answer.text
    finally:
        process.send_signal(signal.SIGINT)
        code = await ended(process, folder, 110)
    assert code == 0
    _, alive = psutil.wait_procs(family, timeout=LONGEST_S)
    assert not alive
    assert leftovers(folder) == []
