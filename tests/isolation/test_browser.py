"""A page of another place in a real browser: it reads nothing, plants nothing and erases nothing."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.isolation.browser import Findings, PageServer, needs_browser, opened, page_server, report_of
from tests.support.folders import Folders
from tests.support.proxy import Proxy, base_config, merged, running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream

pytestmark = [
    needs_browser,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(240),
]

SECRET = "tangerine-4711"


@dataclass(frozen=True)
class Home:
    """A person's own proxy, reached without a key, with one memory in it."""

    proxy: Proxy
    upstream: ScriptedUpstream
    memory_id: str
    friend: PageServer
    """Serves the page whose origin the proxy was told to trust."""

    async def holds(self) -> list[Any]:
        """Everything that the person can see."""
        async with self.proxy.client(None) as client:
            lists = [await client.get(path) for path in ("/v1/memory", "/v1/memory/settings", "/v1/memory/export")]
            assert [one.status_code for one in lists] == [200, 200, 200]
            return [one.text for one in lists]


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
        async with (
            scripted_upstream() as upstream,
            running_proxy(upstream.base_url, folder, changes) as proxy,
        ):
            yield Home(proxy, upstream, await settled(proxy), friend)


async def told(server: PageServer, address: str, folder: Path) -> Findings:
    """What the page at this address found."""
    with opened(address, folder / "profile"):
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
    home: Home, stranger: PageServer, name: str, tmp_path: Path
) -> None:
    before = await home.holds()
    home.upstream.reset()
    stranger.fill(home.proxy.root_url, f"http://{name}:{stranger.port}/report", here=home.memory_id)
    found = await told(stranger, f"http://{name}:{stranger.port}/page", tmp_path)
    assert_nothing_was_read([one for one in found if not one["what"].startswith("the page")])
    assert_what_is_there_looks_like_what_is_not(found, home.memory_id)
    assert home.upstream.received == []
    assert await home.holds() == before


async def test_a_page_whose_name_comes_to_mean_this_machine_does_nothing(
    stranger: PageServer, tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    """DNS rebinding as the browser sees it: the page's own origin is answered by the proxy all of a sudden."""
    with page_server() as first:
        port, name = first.port, f"http://rebound.example:{first.port}"
        first.fill(name, f"http://127.0.0.1:{stranger.port}/report", here="mem_" + "a" * 32, wait=True)
        with opened(f"{name}/page", tmp_path / "profile"):
            assert await asyncio.to_thread(first.asked.wait, 60), "the browser did not open the page"
            first.shutdown()
            first.server_close()
            config = merged(base_config(upstream.base_url, port), {})
            proxy = Proxy(tmp_path / "home", config)
            await proxy.start()
            try:
                await settled(proxy)
                found = await asyncio.to_thread(report_of, stranger)
                async with proxy.client(None) as client:
                    kept = (await client.get("/v1/memory")).json()["data"]
            finally:
                await proxy.stop()
    assert [one["content"] for one in kept] == [f"My vault code is {SECRET}"]
    assert upstream.received == []
    assert all(SECRET not in one["text"] for one in found)
    statuses = {one["outcome"] for one in found if one["outcome"].startswith("status")}
    assert statuses == {"status 403"}, found


async def test_the_same_page_does_all_of_it_where_it_is_trusted(home: Home, tmp_path: Path) -> None:
    """What the page tries is what works, wherever the proxy lets it."""
    home.friend.fill(home.proxy.root_url, f"{home.friend.origin}/report", here=home.memory_id)
    found = await told(home.friend, f"{home.friend.origin}/page", tmp_path)
    read = {one["what"] for one in found if SECRET in one["text"]}
    assert {"GET /v1/memory", "GET /v1/memory/export"} <= read
    outcomes = {one["what"]: one["outcome"] for one in found}
    assert outcomes["POST /v1/memory JSON"] == "status 201"
    assert outcomes["DELETE user"] == "status 200"
    assert not any(SECRET in text for text in await home.holds())
