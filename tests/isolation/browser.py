"""A real headless Chromium that opens pages of other places."""

import json
import queue
import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.support.threaded import QuietHandler, ThreadedServer, serving
from tests.support.waiting import eventually

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
    with serving(PageServer()) as server:
        yield server


class Browser:
    """One Chromium for the tests of a module, in which each page has a context of its own: what one of them kept (a
    cache, connections, cookies) no other one sees.
    """

    def __init__(self, line: aiohttp.ClientWebSocketResponse) -> None:
        self._line = line
        self._asked = 0

    @asynccontextmanager
    async def opened(self, address: str) -> AsyncIterator[None]:
        """The page at this address, open as if somebody had typed it, until the end of the block."""
        context = (await self._ask("Target.createBrowserContext"))["browserContextId"]
        try:
            await self._ask("Target.createTarget", url=address, browserContextId=context)
            yield
        finally:
            await self._ask("Target.disposeBrowserContext", browserContextId=context)

    async def _ask(self, method: str, **params: str) -> dict[str, Any]:
        self._asked += 1
        await self._line.send_json({"id": self._asked, "method": method, "params": params})
        while (answer := await self._line.receive_json()).get("id") != self._asked:
            pass  # what else it tells
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result


@asynccontextmanager
async def running_browser(profile: Path) -> AsyncIterator[Browser]:
    """A browser for which every name below ``example`` is this machine."""
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
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    said = profile / "DevToolsActivePort"
    try:
        await eventually(lambda: said.exists() and said.read_text().count("\n"), _LONGEST_S, what="it says its port")
        port, path = said.read_text().split()
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=0) as line,
        ):
            yield Browser(line)
    finally:
        _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.kill()
    for child in children:
        if child.is_running():
            child.kill()
    psutil.wait_procs(children, timeout=_LONGEST_S)
    process.wait(_LONGEST_S)


def report_of(server: PageServer) -> Findings:
    """What the page tells, when it is done.

    Raises:
        AssertionError: it tells nothing in time.
    """
    try:
        return server.reports.get(timeout=_LONGEST_S)
    except queue.Empty:
        raise AssertionError(f"the page told nothing within {_LONGEST_S:.0f} s") from None
