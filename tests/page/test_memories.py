"""Search, a memory, and what is done with it, in a real browser before the real proxy."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.page.looking import memory_route, visiting
from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def home(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    with folders.new("page") as folder:
        async with running_proxy(shared_upstream.base_url, folder) as proxy:
            yield proxy


async def stored(proxy: Proxy, user: str, content: str, **fields: Any) -> dict[str, Any]:
    """A memory of this user, who names no key."""
    async with proxy.client(None) as client:
        answer = await client.post("/v1/memory", json={"content": content, "user_id": user, **fields})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())


async def kept(proxy: Proxy, user: str) -> list[dict[str, Any]]:
    async with proxy.client(None) as client:
        return list((await client.get("/v1/memory", params={"user_id": user})).json()["data"])


async def test_a_search_shows_the_ranking_with_its_signals(browser: "Browser", home: Proxy) -> None:
    await stored(home, "ann", "The spare key lies under the blue flowerpot.", category="home")
    await stored(home, "ann", "Ann's favourite tea is rooibos.")
    async with visiting(browser, home.root_url, identity={"user": "ann"}) as visit:
        await visit.open("search")
        assert await visit.page.locator(".card").count() == 2
        await visit.page.get_by_role("searchbox").fill("where is the spare key")
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_selector(".ranking")
        first = visit.page.locator(".card").first
        assert "flowerpot" in await first.inner_text()
        names = await first.locator(".signal dt").all_inner_texts()
        assert names[0] == "score"
        assert "bm25" in names
        widths = await first.locator(".fill").evaluate_all(
            "bars => bars.map((one) => one.getBoundingClientRect().width)"
        )
        assert all(width > 0 for width in widths)


async def test_an_edit_is_made_and_taken_back(browser: "Browser", home: Proxy) -> None:
    memory = await stored(home, "bob", "Bob lives in Rome.", category="home", tags=["city"])
    async with visiting(browser, home.root_url, identity={"user": "bob"}) as visit:
        await visit.open(memory_route(memory))
        await visit.page.get_by_role("button", name="Edit").click()
        await visit.page.get_by_label("What it says").fill("Bob lives in Bern.")
        await visit.page.get_by_label("Tags").fill("city, swiss")
        await visit.page.get_by_role("button", name="Save").click()
        await visit.until("Bob lives in Bern.", ".statement")
        (changed,) = await kept(home, "bob")
        assert (changed["content"], changed["tags"], changed["category"]) == (
            "Bob lives in Bern.",
            ["city", "swiss"],
            "home",
        )
        await visit.page.get_by_role("button", name="Undo").click()
        await visit.until("Bob lives in Rome.", ".statement")
    (back,) = await kept(home, "bob")
    assert (back["content"], back["tags"]) == ("Bob lives in Rome.", ["city"])


async def test_an_edit_of_what_somebody_else_changed_meanwhile_is_refused(browser: "Browser", home: Proxy) -> None:
    memory = await stored(home, "cyd", "Cyd has one cat.")
    async with visiting(browser, home.root_url, identity={"user": "cyd"}, refusals=True) as visit:
        await visit.open(memory_route(memory))
        async with home.client(None) as client:
            await client.patch(f"/v1/memory/{memory['id']}?user_id=cyd", json={"content": "Cyd has two cats."})
        await visit.page.get_by_role("button", name="Edit").click()
        await visit.page.get_by_label("What it says").fill("Cyd has three cats.")
        await visit.page.get_by_role("button", name="Save").click()
        await visit.page.wait_for_selector("dialog .problem:not([hidden])")
    assert [one["content"] for one in await kept(home, "cyd")] == ["Cyd has two cats."]


async def test_forgetting_is_asked_about_and_done(browser: "Browser", home: Proxy) -> None:
    memory = await stored(home, "dan", "Dan's old phone number ends with 77.")
    async with visiting(browser, home.root_url, identity={"user": "dan"}) as visit:
        await visit.open("search")
        await visit.go(memory_route(memory))
        await visit.page.get_by_role("button", name="Forget").click()
        await visit.page.get_by_role("button", name="Cancel").click()
        assert len(await kept(home, "dan")) == 1
        await visit.page.get_by_role("button", name="Forget").click()
        await visit.page.locator("dialog").get_by_role("button", name="Forget").click()
        await visit.until("Nothing is remembered yet")
    assert await kept(home, "dan") == []


async def test_what_is_wrong_is_withheld_until_it_is_right_after_all(browser: "Browser", home: Proxy) -> None:
    memory = await stored(home, "eve", "Eve is allergic to nuts.")
    async with visiting(browser, home.root_url, identity={"user": "eve"}) as visit:
        await visit.open(memory_route(memory))
        await visit.page.get_by_role("button", name="Wrong").click()
        await visit.page.get_by_role("button", name="Withhold it").click()
        await visit.until("withheld", ".statement")
        assert (await kept(home, "eve"))[0]["quarantined"]
        await visit.page.get_by_role("button", name="Undo").click()
        await visit.until("Wrong", ".actions")
        assert not (await kept(home, "eve"))[0]["quarantined"]
        await visit.page.get_by_role("button", name="Wrong").click()
        await visit.page.get_by_label("What is right instead?").fill("Eve is allergic to milk.")
        await visit.page.get_by_role("button", name="Correct it").click()
        await visit.until("Eve is allergic to milk.", ".statement")
        await visit.until("How it changed")
    assert {one["content"]: one["active"] for one in await kept(home, "eve")} == {
        "Eve is allergic to nuts.": False,
        "Eve is allergic to milk.": True,
    }


async def test_a_key_is_typed_in_and_stays_in_its_tab(browser: "Browser", home: Proxy) -> None:
    async with home.client("sk-page") as client:
        await client.post("/v1/memory", json={"content": "Only this key sees it."})
    async with visiting(browser, home.root_url, refusals=True) as visit:
        await visit.open("search")
        await visit.until("Nothing is remembered yet")
        await visit.page.locator("#who").click()
        await visit.page.get_by_label("Key", exact=True).fill("sk-page")
        await visit.page.get_by_role("button", name="Open").click()
        await visit.until("Only this key sees it.")
        kept_in = await visit.page.evaluate(
            "[JSON.stringify(sessionStorage), JSON.stringify(localStorage), document.cookie]"
        )
        assert "sk-page" in kept_in[0]
        assert "sk-page" not in kept_in[1] + kept_in[2] + visit.page.url
