"""A program as a user runs it, its output in ``output.txt`` of a folder of its own."""

import signal
import subprocess
from pathlib import Path

from tests.support.proxy import environment
from tests.support.waiting import eventually


def started(folder: Path, *command: str, columns: int) -> subprocess.Popen[bytes]:
    """Start it on a terminal of this width, in a session of its own."""
    with (folder / "output.txt").open("wb") as output:
        return subprocess.Popen(
            command,
            env={**environment(folder), "TMPDIR": str(folder), "COLUMNS": str(columns)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            # a shell that runs the tests in the background lets its children ignore Ctrl-C
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
        )


def output_of(folder: Path) -> str:
    return (folder / "output.txt").read_text(encoding="utf-8")


def leftovers(folder: Path) -> list[str]:
    """Temporary folders that it left behind."""
    return [path.name for path in folder.iterdir() if path.name.startswith("memproxy-")]


async def ended(process: subprocess.Popen[bytes], folder: Path, within_s: float) -> int:
    """Wait for its end; its exit code."""
    try:
        await eventually(lambda: process.poll() is not None, within_s, what=lambda: f"the end of\n{output_of(folder)}")
    finally:
        process.kill()
        process.wait()
    return process.returncode
