"""A real headless Chromium that opens pages of other places."""

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.threaded import QuietHandler, ThreadedServer, serving

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in _NAMES if (found := shutil.which(name))), None)

needs_browser = pytest.mark.skipif(
    BROWSER is None, reason="no Chromium is here (Debian: apt-get install chromium-headless-shell)"
)

_PAGE = Path(__file__).with_name("page.html")
_LONGEST_S = 100.0

Findings = list[dict[str, str]]


class PageServer(ThreadedServer):
    """Serves one page, and takes what it reports."""

    def __init__(self) -> None:
        super().__init__(_Handler)
        self.page = b""
        self.elsewhere = ""
        """Where `/elsewhere` leads."""
        self.reports: queue.Queue[Findings] = queue.Queue()
        self.asked = threading.Event()
        """Somebody has the page, and its script runs."""

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    def fill(self, target: str, report: str, *, here: str, wait: bool = False) -> None:
        """Make the page one that attacks ``target``, where a memory of the id ``here`` is, and tells ``report``."""
        missing = here[:-6] + "".join("0" if char != "0" else "1" for char in here[-6:])
        text = _PAGE.read_text("utf-8")
        said = {"TARGET": target, "REPORT": report, "HERE": here, "MISSING": missing, "WAIT": str(wait).lower()}
        for name, value in said.items():
            text = text.replace(f"%{name}%", value)
        self.page = text.encode()


class _Handler(QuietHandler):
    server: PageServer

    def do_GET(self) -> None:  # noqa: N802 - as the base class names it
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("location", self.server.elsewhere)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        if self.path == "/shown":
            self.server.reports.put([{"what": "a page", "outcome": "shown without its script", "text": ""}])
        if not self.path.startswith("/page"):
            self.server.asked.set()
            self.answer({"this is": "still the page's own server"}, 404)
            return
        self.send_response(200)
        self.send_header("content-type", "text/html; charset=utf-8")
        self.send_header("content-length", str(len(self.server.page)))
        self.end_headers()
        self.wfile.write(self.server.page)

    def do_POST(self) -> None:  # noqa: N802 - as the base class names it
        found: Any = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.reports.put(found)
        self.answer({})


@contextmanager
def page_server() -> Iterator[PageServer]:
    """A page's own server."""
    with serving(PageServer()) as server:
        yield server


@contextmanager
def opened(address: str, profile: Path) -> Iterator[None]:
    """The page at this address, open in a browser for which every name below ``example`` is this machine."""
    assert BROWSER is not None
    process = subprocess.Popen(
        [
            BROWSER,
            "--no-sandbox",
            "--headless",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--no-proxy-server",
            "--remote-debugging-port=0",
            "--host-resolver-rules=MAP *.example 127.0.0.1",
            f"--user-data-dir={profile}",
            address,
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    for child in children:
        if child.is_running():
            child.kill()
    psutil.wait_procs(children, timeout=10)
    process.wait(10)


def report_of(server: PageServer) -> Findings:
    """What the page tells, when it is done.

    Raises:
        AssertionError: it tells nothing in time.
    """
    try:
        return server.reports.get(timeout=_LONGEST_S)
    except queue.Empty:
        raise AssertionError(f"the page told nothing within {_LONGEST_S:.0f} s") from None
