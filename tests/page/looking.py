"""A person at the page: opens a view, reads it, does things; what a browser complains of fails the test."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

from tests.support.waiting import LONGEST_S

if TYPE_CHECKING:
    from playwright.async_api import Browser, ConsoleMessage, Page

Scheme = Literal["light", "dark"]
PATIENCE_MS = 1_000 * LONGEST_S

_REFUSED = re.compile(r"Failed to load resource: the server responded with a status of 4\d\d")
"""What a browser notes when a call is refused, which some tests are about."""


@dataclass
class Visit:
    """One tab."""

    page: "Page"
    root_url: str
    complaints: list[str] = field(default_factory=list)
    """What the browser said: errors of scripts, refused content, violations of the page's rules."""

    async def open(self, route: str, *, wait_for: str = ".view h1") -> None:
        """Open a view as if its address was typed, and wait until it is there."""
        await self.page.goto(f"{self.root_url}/memory")
        await self.page.evaluate("to => { location.hash = to }", f"#/{route}")
        await self.shown(route, wait_for)

    async def go(self, route: str, *, wait_for: str = ".view h1") -> None:
        """Go on to another view in the open page."""
        await self.page.evaluate("to => { location.hash = to }", f"#/{route}")
        await self.shown(route, wait_for)

    async def shown(self, route: str, wait_for: str = ".view h1") -> None:
        """Wait until this view is the one that is shown."""
        name = re.split(r"[/?]", route)[0]
        await self.page.wait_for_selector(f"main[data-view={name}] {wait_for}", timeout=PATIENCE_MS)

    async def text(self, selector: str = "main") -> str:
        """What is to be read there."""
        return await self.page.inner_text(selector)

    async def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        script = "document.documentElement.scrollWidth - window.innerWidth"
        return int(await self.page.evaluate(script))

    async def until(self, text: str, selector: str = "body") -> None:
        """Wait until a text is to be read."""
        await self.page.locator(selector, has_text=text).first.wait_for(timeout=PATIENCE_MS)


@asynccontextmanager
async def visiting(
    browser: "Browser",
    root_url: str,
    route: str | None = None,
    *,
    wait_for: str = ".view h1",
    width: int = 1280,
    scheme: Scheme = "light",
    identity: dict[str, str] | None = None,
    refusals: bool = False,
) -> AsyncIterator[Visit]:
    """A tab of a browser without a past, with a view if a ``route`` names one. ``identity`` is what was typed into the
    page's sign-in; ``refusals``: calls that are refused are no complaint.
    """
    context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, locale="en-GB")
    context.set_default_timeout(PATIENCE_MS)
    page = await context.new_page()
    visit = Visit(page, root_url)

    def noted(message: "ConsoleMessage") -> None:
        if message.type in {"error", "warning"} and not (refusals and _REFUSED.match(message.text)):
            visit.complaints.append(f"{message.type}: {message.text}")

    page.on("console", noted)
    page.on("pageerror", lambda error: visit.complaints.append(f"fault: {error}"))
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (e) => console.error('refused by the policy: ' + e.blockedURI))"
    )
    if identity is not None:
        stored = json.dumps(json.dumps(identity))
        await page.add_init_script(
            f"if (location.origin !== 'null') sessionStorage.setItem('memproxy.identity', {stored})"
        )
    try:
        if route is not None:
            await visit.open(route, wait_for=wait_for)
        yield visit
        assert not visit.complaints, visit.complaints
    finally:
        await context.close()


def memory_route(memory: dict[str, Any]) -> str:
    session = f"?session={quote(memory['session_id'], safe='')}" if memory["kind"] == "turn" else ""
    return f"memory/{quote(memory['id'], safe='')}{session}"
