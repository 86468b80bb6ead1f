"""`memproxy top`: what a running server does, once for scripts, live at a terminal; what is said where none runs."""

import asyncio
import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from memproxy.commands.top import Scrape, quantiles
from tests.e2e.talk import chat, say
from tests.support.folders import Folders
from tests.support.proxy import Proxy, environment, free_port, memproxy, running_proxy
from tests.support.upstream import scripted_upstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
TOKEN = "a-token-for-metrics"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(folders: Folders) -> AsyncIterator[Proxy]:
    settings = {"telemetry": {"metrics_token": TOKEN}}
    with folders.new("home") as home:
        async with scripted_upstream() as upstream, running_proxy(upstream.base_url, home, settings) as proxy:
            async with proxy.client() as client:
                for said in ("I live in Bern.", "Where do I live?", "hello"):
                    assert (await chat(client, said)).status == 200

            async def are_counted() -> bool:
                return bool(json.loads((await top(proxy, "--json")).stdout)["store_points"])

            # it does now and then
            await eventually(are_counted, what="the engine has looked how many points there are")
            yield proxy


async def top(proxy: Proxy, *arguments: str) -> Any:
    return await asyncio.to_thread(memproxy, proxy.home, "top", "--config", str(proxy.config_file), *arguments)


async def test_a_script_gets_what_the_server_says_as_one_line_of_json(server: Proxy) -> None:
    done = await top(server, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["url"], told["status"]) == (server.root_url, "ready")
    assert told["requests"]["chat 200"]["total"] >= 3
    assert told["recall"]["skipped greeting"] == {"total": 1}
    assert told["recall"]["injected"]["total"] >= 1
    assert told["overhead_ms"]["p50"] <= told["overhead_ms"]["p95"] <= told["overhead_ms"]["p99"]
    assert told["queue"]["index"]["parked"] == 0
    assert told["parts"]["store"] == "ready"
    assert told["store_points"] > 0


async def test_away_from_a_terminal_it_looks_once_and_is_read_by_people(server: Proxy) -> None:
    for arguments in ((), ("--once",)):
        done = await top(server, *arguments)
        assert done.returncode == 0, done.stderr
        shown = done.stdout.splitlines()
        assert shown[0].startswith("memproxy ")
        assert shown[0].endswith(f" at {server.root_url}: ready")
        assert any(line.startswith("overhead") and " ms" in line for line in shown)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"telemetry": {}}, "asks for a token: give the configuration that has telemetry.metrics_token (--config)."),
        ({"server": {"port": 1}}, "Start `memproxy serve`, or name the address of the one that runs with --url."),
        ({"server": {"host": "::1", "port": 1}}, "http://[::1]:1 (ConnectError)"),
    ],
)
async def test_what_is_in_the_way_is_said_in_a_line(server: Proxy, tmp_path: Path, changed: Any, said: str) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({**server.config, **changed}))
    done = memproxy(tmp_path, "top", "--once", "--config", str(file))  # where no server runs: the configured one
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert said in done.stderr


async def test_the_server_of_an_installation_is_found_wherever_its_command_line_had_it_listen(
    server: Proxy, tmp_path: Path
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({**server.config, "server": {"port": 1}}))
    done = memproxy(server.home, "top", "--json", "--config", str(file))
    assert json.loads(done.stdout)["url"] == server.root_url


async def test_what_is_no_memproxy_is_said(server: Proxy) -> None:
    async with scripted_upstream() as other:
        done = await top(server, "--once", "--url", other.base_url)
    assert done.returncode == 1
    assert "is no memproxy" in done.stderr or "serves no metrics" in done.stderr
    done = await top(server, "--once", "--url", f"http://127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert "No server answers at" in done.stderr


async def test_at_a_terminal_it_goes_on_until_ctrl_c_and_ends_cleanly(server: Proxy) -> None:
    ours, its = pty.openpty()
    command = [sys.executable, "-m", "memproxy", "top", "--interval", "0.5", "--config", str(server.config_file)]
    watched = {**environment(server.home), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=subprocess.PIPE, env=watched)
    os.close(its)
    os.set_blocking(ours, False)
    shown = b""

    def sees(word: bytes) -> bool:
        nonlocal shown
        with contextlib.suppress(OSError):  # nothing new, or it has ended
            shown += os.read(ours, 65536)
        return word in shown

    await eventually(lambda: sees(b"chat 200"), what=lambda: f"it shows requests: {shown!r}")
    shown = b""
    assert (await say(server, "Where do I live?")).status == 200
    await eventually(lambda: sees(b"/s)"), what=lambda: f"and what came since: {shown!r}")
    process.send_signal(signal.SIGINT)
    await eventually(lambda: sees(b"\0") or process.poll() is not None, what="it ends")
    assert process.returncode == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    process.stderr.close()
    os.close(ours)


async def test_quantiles_are_those_of_what_came_between_two_looks() -> None:
    def look(counts: dict[str, float]) -> Scrape:
        return Scrape(time.monotonic(), {"x_bucket": {(("le", le),): value for le, value in counts.items()}}, "", {})

    before = look({"0.1": 100, "1.0": 100, "+Inf": 100})
    now = look({"0.1": 100, "1.0": 200, "+Inf": 200})
    assert quantiles(now, before, "x") == {"p50": 550.0, "p95": 955.0, "p99": 991.0}
    assert quantiles(now, now, "x") == {"p50": None, "p95": None, "p99": None}
    assert quantiles(look({}), None, "x") == {"p50": None, "p95": None, "p99": None}
    assert quantiles(look({"0.1": 0, "+Inf": 5}), None, "x")["p99"] == 100.0
