"""Every view, with no memories, three, hostile ones and very many: shown whole, in both colours, at any width, by the
rules of accessibility, and without a word of the browser's. Pictures are below ``build/page`` (``make test-page``).
"""

import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.page.conftest import FULL
from tests.page.looking import Scheme, Visit, visiting
from tests.page.people import (
    HOSTILE,
    MANY,
    NOBODY,
    SCRIPT,
    THREE,
    client_of,
    fill_hostile,
    fill_many,
    fill_three,
    routes,
)
from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURES = Path(__file__).resolve().parents[2] / "build" / "page"
WIDTHS = (320, 360, 768, 1920)
SCHEMES: tuple[Scheme, ...] = ("light", "dark")
FIRST_VIEW_S = 1.0
"""Within this the first view of 50,000 memories is to be read."""

Homes = tuple[Proxy, dict[str, dict[str, str]]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def homes(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Homes]:
    """A proxy with users who have nothing, three memories, and hostile ones; what each has."""
    with folders.new("views") as folder:
        changes = {"experiment": {"holdout": 0.001}}  # the statistics have both arms
        async with running_proxy(shared_upstream.base_url, folder, changes) as proxy:
            async with client_of(proxy, THREE) as three, client_of(proxy, HOSTILE) as hostile:
                held = {NOBODY: {}, THREE: await fill_three(three), HOSTILE: await fill_hostile(hostile)}
            yield proxy, held


async def accessible(visit: Visit) -> None:
    """Fail on what accessibility's rules call serious or worse."""
    axe = pytest.importorskip("axe_playwright_python.async_playwright").Axe()
    found: dict[str, Any] = (await axe.run(visit.page)).response
    serious = [
        (one["id"], one["help"], [node["html"][:200] for node in one["nodes"][:3]])
        for one in found["violations"]
        if one["impact"] in {"serious", "critical"}
    ]
    assert not serious, serious


async def looked_at(visit: Visit, route: str, picture: str, *, axe: bool) -> None:
    """The view that is open, at each width."""
    for width in WIDTHS:
        await visit.page.set_viewport_size({"width": width, "height": 900})
        assert await visit.overflow() <= 0, (route, width)
        if FULL:
            name = re.sub(r"\W+", "-", f"{picture}-{route}"[:60])
            PICTURES.mkdir(parents=True, exist_ok=True)
            await visit.page.screenshot(path=PICTURES / f"{name}-{width}.png")
    if axe:
        await accessible(visit)


@pytest.mark.parametrize("scheme", SCHEMES if FULL else SCHEMES[:1])
@pytest.mark.parametrize("user", [NOBODY, THREE, HOSTILE] if FULL else [THREE, HOSTILE])
async def test_every_view_is_shown(browser: "Browser", homes: Homes, user: str, scheme: Scheme) -> None:
    proxy, held = homes
    async with visiting(browser, proxy.root_url, "search", identity={"user": user}, scheme=scheme) as visit:
        for route in routes(held[user]):
            await visit.go(route)
            text = await visit.text()
            assert "That did not work" not in text, (route, text)
            assert "undefined" not in text, (route, text)
            assert "null" not in text, (route, text)
            assert route != "statistics" or "Does memory help?" in text
            await looked_at(visit, route, f"{user}-{scheme}", axe=FULL or user == THREE)
        assert await visit.page.evaluate("window.owned") is None


async def test_hostile_text_is_read_as_it_was_written(browser: "Browser", homes: Homes) -> None:
    proxy, held = homes
    async with visiting(browser, proxy.root_url, f"memory/{held[HOSTILE]['new']}", identity={"user": HOSTILE}) as visit:
        assert (await visit.text(".statement .content")).strip() == SCRIPT
        await visit.go("search")
        marks = await visit.page.locator(".unseen-mark").all_inner_texts()
        assert {"U+202E", "U+200B", "U+2060", "U+FEFF"} <= set(marks)
        assert await visit.page.locator("main script, main img").count() == 0
        await visit.go(f"memory/{held[HOSTILE]['old']}")
        assert len(await visit.text(".statement .content")) < 5_000
        await visit.page.get_by_role("button", name="Show all 100,000 characters").click()
        assert len(await visit.text(".statement .content")) >= 100_000
        assert await visit.overflow() <= 0


async def test_all_of_it_works_by_keyboard(browser: "Browser", homes: Homes) -> None:
    """From the top of the page to a memory, its dialog and back, without a pointer; the focus is always somewhere."""
    proxy, _ = homes
    async with visiting(browser, proxy.root_url, identity={"user": THREE}) as visit:
        press, page = visit.page.keyboard.press, visit.page
        await visit.open("statistics")
        await page.evaluate("document.body.focus()")
        await press("/")
        await visit.shown("search")
        await page.wait_for_function("() => document.activeElement.type === 'search'")
        await page.keyboard.type("Mia")
        await press("Enter")
        await page.wait_for_selector(".ranking")
        await focused(visit, ".card-text a")
        await press("Enter")
        await visit.shown("memory")
        await focused(visit, ".actions button")
        await press("Enter")
        await page.wait_for_selector("dialog[open]")
        assert await page.evaluate("document.querySelector('dialog').contains(document.activeElement)")
        await press("Escape")
        await page.wait_for_selector("dialog", state="detached")
        assert await page.evaluate("document.activeElement.textContent") == "Edit"
        await page.set_viewport_size({"width": 360, "height": 800})
        await page.locator("#menu").focus()
        await press("Enter")
        await focused(visit, "#nav a[data-view=settings]")
        await press("Enter")
        await visit.shown("settings")


async def focused(visit: Visit, selector: str) -> None:
    """Press Tab until something of this kind has the focus."""
    for _ in range(60):
        await visit.page.keyboard.press("Tab")
        if await visit.page.evaluate("what => document.activeElement.matches(what)", selector):
            return
    raise AssertionError(f"no way to {selector} by Tab")


async def test_the_colours_are_the_systems_unless_chosen(browser: "Browser", homes: Homes) -> None:
    proxy, _ = homes
    paper = "getComputedStyle(document.body).backgroundColor"
    async with visiting(browser, proxy.root_url, "search", scheme="dark") as visit:
        dark = await visit.page.evaluate(paper)
        button = visit.page.locator("#theme")
        await button.click()
        assert "light" in (await button.get_attribute("aria-label") or "")
        light = await visit.page.evaluate(paper)
        assert light != dark
        await visit.page.reload()
        await visit.page.wait_for_selector(".view h1")
        assert await visit.page.evaluate(paper) == light


@pytest.mark.skipif(not FULL, reason="50,000 memories take minutes to store: make test-page")
@pytest.mark.timeout(900)
async def test_fifty_thousand_memories_are_seen_within_a_second(browser: "Browser", homes: Homes) -> None:
    proxy, _ = homes
    async with client_of(proxy, MANY) as client:
        await fill_many(client)
    async with visiting(browser, proxy.root_url, "search", wait_for=".card", identity={"user": MANY}) as visit:
        took = []
        for _ in range(3):
            began = time.perf_counter()
            await visit.page.goto("about:blank")
            await visit.page.goto(f"{proxy.root_url}/memory")
            await visit.page.wait_for_selector(".card")
            took.append(time.perf_counter() - began)
        print(f"first view of 50,000 memories: {', '.join(f'{one:.2f} s' for one in took)}")
        assert min(took) < FIRST_VIEW_S
        for route in [*routes({}), "conversations/week-3", "people/Anna", "palace/anna"]:
            began = time.perf_counter()
            await visit.go(route)
            print(f"{route}: {time.perf_counter() - began:.2f} s")
            await looked_at(visit, route, MANY, axe=False)
        await visit.go("search", wait_for=".card")
        for _ in range(20):
            await visit.page.get_by_role("button", name="Show more").scroll_into_view_if_needed()
            await visit.page.wait_for_timeout(100)
        assert await visit.page.locator(".card").count() > 500
