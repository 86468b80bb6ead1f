"""A browser to look at memories."""

import os
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio

if TYPE_CHECKING:
    from playwright.async_api import Browser

FULL = os.environ.get("MEMPROXY_TEST_PAGE") == "1"
"""`make test-page`: every view in every state, width and colour."""

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def browser() -> AsyncIterator["Browser"]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is here (Debian: apt-get install --no-install-recommends chromium)")
    api = pytest.importorskip("playwright.async_api", reason="Playwright is not installed (the dev extra has it)")
    async with api.async_playwright() as playwright:
        running = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
        yield running
        await running.close()
