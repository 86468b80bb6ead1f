"""Makes the pictures of the memory page in docs/pictures, from the running product: `python -m tests.page.pictures`.

It needs Chromium (`make test-page` says how to get it). Run it when the page looks otherwise than its pictures.
"""

import asyncio
import io
import sys
import tempfile
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.async_api import async_playwright

from tests.docs_check import ROOT
from tests.page.conftest import ARGUMENTS, CHROMIUM
from tests.page.looking import Visit, visiting
from tests.page.people import client_of, done, said
from tests.support.answers import completion
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import scripted_upstream

FOLDER = ROOT / "docs" / "pictures"
USER = "ann"
COLOURS = 48
FACTS = (
    ("I live in Rome.", "Ann lives in Rome.", "home", "lives in", "Rome"),
    (
        "My budget for the Hawaii vacation is $10,000.",
        "Ann's budget for Hawaii is $10,000.",
        "trip",
        "budget",
        "$10,000",
    ),
    ("My sister Mia is a vegetarian.", "Mia, Ann's sister, is a vegetarian.", "mia", "diet", "vegetarian"),
    ("We moved to Bern.", "Ann lives in Bern.", "home", "lives in", "Bern"),
)
"""What is said; the fact in it, its category, predicate and object."""

ASKED = "What is my budget for the trip with my sister?"


async def remembered(proxy: Proxy) -> dict[str, str]:
    """Somebody's memories, one of which took another's place, and a request that was given some; where they are."""
    client = client_of(proxy, USER)
    for number, (words, content, category, predicate, value) in enumerate(FACTS[:3]):
        await done(client, "POST", "/v1/memory/turns", json={"session_id": f"day-{number}", "messages": [
            {"role": "user", "content": words}, {"role": "assistant", "content": "Noted."}]})  # fmt: skip
        subject = "Mia" if category == "mia" else "Ann"
        fields = {"content": content, "category": category, "subject": subject, "predicate": predicate, "object": value}
        relation = {"subject": subject, "predicate": predicate, "object": value}
        last = await done(client, "POST", "/v1/memory", json={**fields, "relations": [relation], "entities": [subject]})
        if number == 0:
            rome = last["id"]
    sister = {"subject": "Ann", "predicate": "sister", "object": "Mia"}
    await done(client, "PATCH", f"/v1/memory/{last['id']}", json={"relations": [relation, sister]})
    correction = {"memory_id": rome, "signal": "correction", "text": FACTS[3][1]}
    bern = (await done(client, "POST", "/v1/memory/feedback", json=correction))["memory_ids"][0]
    request = await said(client, "day-5", ASKED)
    await client.aclose()
    return {"search": "search?q=budget+for+Hawaii", "memory": f"memory/{bern}", "why": f"why/{quote(request, safe='')}",
            "people": "people/Ann"}  # fmt: skip


async def taken(visit: Visit, name: str, route: str) -> None:
    """One picture, in few colours: all of them together are to stay small."""
    await visit.open(route)
    await visit.page.wait_for_load_state("networkidle")
    if name == "why":
        await visit.page.get_by_role("heading", name="What it was told").scroll_into_view_if_needed()
        await visit.page.mouse.wheel(0, 600)
    drawn = Image.open(io.BytesIO(await visit.page.screenshot()))
    drawn.convert("RGB").quantize(COLOURS).save(FOLDER / f"page-{name}.png", optimize=True)


async def main() -> int:
    """Write the pictures; 1 where there is no browser."""
    if CHROMIUM is None:
        sys.stderr.write("No Chromium is here. Debian: apt-get install --no-install-recommends chromium\n")
        return 1
    with tempfile.TemporaryDirectory() as home:
        async with scripted_upstream() as upstream, running_proxy(upstream.base_url, Path(home) / "home") as proxy:
            upstream.default = lambda _received: completion("Your budget is $10,000.")
            routes = await remembered(proxy)
            async with async_playwright() as playwright:
                browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=list(ARGUMENTS))
                for name, route in routes.items():
                    async with visiting(browser, proxy.root_url, width=1000, identity={"user": USER}) as visit:
                        await taken(visit, name, route)
                await browser.close()
    sizes = {path.name: path.stat().st_size for path in sorted(FOLDER.glob("page-*.png"))}
    sys.stdout.writelines(f"{name}: {size:,} bytes\n" for name, size in sizes.items())
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
