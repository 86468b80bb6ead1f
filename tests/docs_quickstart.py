"""Pastes docs/quickstart.md line by line into an empty machine: `python -m tests.docs_quickstart`.

The machine is a fresh clone of this repository in a temporary folder, with a home folder and an environment of its own;
the provider is a scripted upstream. Packages come from wherever pip is set up for (some minutes, 450 MB).
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.docs_blocks import blocks_of
from tests.docs_check import ROOT
from tests.support.proxy import KEY, free_port
from tests.support.upstream import scripted_upstream
from tests.support.waiting import eventually

PAGE = ROOT / "docs" / "quickstart.md"
LONGEST_S = 900


class Machine:
    """Somewhere with nothing but this repository: a shell's variables last from one line to the next."""

    def __init__(self, folder: Path, upstream: str) -> None:
        self._home, self.folder, self._port = folder / "home", folder / "memproxy", free_port()
        self._home.mkdir()
        self._variables = folder / "variables"
        self._variables.touch()
        kept = {
            name: os.environ[name] for name in os.environ.keys() & {"PATH", "LANG", "PIP_INDEX_URL", "PIP_CONFIG_FILE"}
        }
        kept |= {"HOME": str(self._home), "OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": upstream}
        patient = {"MEMPROXY__RECALL__DEADLINE_MS": "2000"}  # a busy machine is no fault of the page
        self._environment = {**kept, **patient, "MEMPROXY__SERVER__PORT": str(self._port)}
        self._server: subprocess.Popen[bytes] | None = None

    async def paste(self, line: str) -> str:
        """What a line prints; a server that it starts goes on."""
        line = line.replace("127.0.0.1:8484", f"127.0.0.1:{self._port}")
        if " serve " in line:
            self._server = subprocess.Popen(line.split(), cwd=self.folder, env=self._environment)
            await eventually(self._ready, LONGEST_S, what="a server that is ready")
            return ""
        if line.endswith(" --serve"):
            return await asyncio.to_thread(self._until_it_serves, line)
        after = f"code=$?; declare -p REQUEST MEMORY > {self._variables} 2>/dev/null; exit $code"
        kept = f"set -a; . {self._variables}; set +a; {line}\n{after}"
        done = await asyncio.to_thread(
            subprocess.run,
            ["bash", "-c", kept],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            timeout=LONGEST_S,
        )
        if done.returncode or b'"error"' in done.stdout:
            raise SystemExit(f"{line}\n{done.stdout.decode()}\n{done.stderr.decode()}")
        return done.stdout.decode()

    def _until_it_serves(self, line: str) -> str:
        """What the demo prints until it goes on; it is ended then."""
        demo = subprocess.Popen(line.split(), cwd=self.folder, env=self._environment, stdout=subprocess.PIPE, text=True)
        printed = ""
        with demo:
            for told in demo.stdout or ():
                printed += told
                if "the memory page:" in told:
                    demo.send_signal(signal.SIGINT)
        if demo.returncode or "the memory page:" not in printed:
            raise SystemExit(f"{line} ended with {demo.returncode}\n{printed}")
        return printed

    async def _ready(self) -> bool:
        assert self._server is not None
        assert self._server.poll() is None, "the server ended"
        asked = ["curl", "--silent", f"http://127.0.0.1:{self._port}/readyz"]
        done = await asyncio.to_thread(subprocess.run, asked, capture_output=True, check=False)
        parts = json.loads(done.stdout or b"{}").get("parts")
        return parts is not None and not any(state.startswith("loading") for state in parts.values())

    def stop(self) -> None:
        if self._server is not None:
            self._server.terminate()
            self._server.wait(60)


async def main() -> int:
    """1 when a line fails, or what was said is not given to the second conversation."""
    with tempfile.TemporaryDirectory(prefix="memproxy-quickstart-") as name:
        folder = Path(name)
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(folder / "memproxy")], check=True)
        async with scripted_upstream() as upstream:
            machine = Machine(folder, upstream.base_url)
            printed = ""
            try:
                for block in blocks_of(PAGE):
                    for line in block.lines if block.language == "bash" else ():
                        began = time.monotonic()
                        printed += await machine.paste(line)
                        sys.stdout.write(f"{time.monotonic() - began:6.1f} s  {line.splitlines()[0][:100]}\n")
            finally:
                machine.stop()
    given = "x-memproxy-recall: injected" in printed.lower()
    erased = '"deleted"' in printed
    sys.stdout.write(f"the second conversation was given memory: {given}; the user was erased: {erased}\n")
    return 0 if given and erased else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
