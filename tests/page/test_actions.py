"""What people do on the page: search, look at a memory and change it, and all the rest, in a real browser before the
real proxy. It is asked about, done through the API, and taken back where that can be.
"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import pytest_asyncio

from tests.isolation.browser import page_server
from tests.page.conftest import FULL
from tests.page.looking import Visit, memory_route, visiting
from tests.page.people import client_of, done, fill_three, said
from tests.support.answers import Answer, Received, completion, text_of
from tests.support.folders import Folders
from tests.support.proxy import Proxy, memproxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

if TYPE_CHECKING:
    from playwright.async_api import Browser

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def home(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    """The module's proxy; each test has users of its own, who come without a key."""
    with folders.new("home") as folder:
        async with running_proxy(shared_upstream.base_url, folder) as proxy:
            yield proxy


async def stored(proxy: Proxy, user: str, content: str, **fields: Any) -> dict[str, Any]:
    """A memory of this user, who names no key."""
    async with proxy.client(None) as client:
        answer = await client.post("/v1/memory", json={"content": content, "user_id": user, **fields})
        assert answer.status_code == 201, answer.text
        return dict(answer.json())


async def kept(proxy: Proxy, user: str, **query: str) -> list[dict[str, Any]]:
    async with client_of(proxy, user) as client:
        return list((await done(client, "GET", "/v1/memory", params=query))["data"])


async def confirm(visit: Visit, name: str) -> None:
    """Say yes in the dialog that is open, and wait until it is closed."""
    await visit.page.locator("dialog").get_by_role("button", name=name).click()
    await visit.page.wait_for_selector("dialog", state="detached")


async def test_a_search_shows_the_ranking_with_its_signals(browser: "Browser", home: Proxy) -> None:
    await stored(home, "ann", "The spare key lies under the blue flowerpot.", category="home")
    await stored(home, "ann", "Ann's favourite tea is rooibos.")
    async with visiting(browser, home.root_url, "search", identity={"user": "ann"}) as visit:
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
    async with visiting(browser, home.root_url, memory_route(memory), identity={"user": "bob"}) as visit:
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
    async with visiting(browser, home.root_url, memory_route(memory), identity={"user": "cyd"}, refusals=True) as visit:
        await home.call("PATCH", f"/v1/memory/{memory['id']}?user_id=cyd", None, json={"content": "Cyd has two cats."})
        await visit.page.get_by_role("button", name="Edit").click()
        await visit.page.get_by_label("What it says").fill("Cyd has three cats.")
        await visit.page.get_by_role("button", name="Save").click()
        await visit.page.wait_for_selector("dialog .problem:not([hidden])")
    assert [one["content"] for one in await kept(home, "cyd")] == ["Cyd has two cats."]


async def test_forgetting_is_asked_about_and_done(browser: "Browser", home: Proxy) -> None:
    memory = await stored(home, "dan", "Dan's old phone number ends with 77.")
    async with visiting(browser, home.root_url, "search", identity={"user": "dan"}) as visit:
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
    async with visiting(browser, home.root_url, memory_route(memory), identity={"user": "eve"}) as visit:
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
    await home.call("POST", "/v1/memory", "sk-page", json={"content": "Only this key sees it."})
    async with visiting(browser, home.root_url, "search", refusals=True) as visit:
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


async def test_what_happens_is_shown_as_it_happens(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "live") as client, visiting(browser, home.root_url, identity={"user": "live"}) as visit:
        await done(client, "POST", "/v1/memory", json={"content": "It was there before."})
        await visit.open("live")
        await visit.until("It was there before.", "main")
        await done(client, "POST", "/v1/memory", json={"content": "It comes while one looks."})
        await visit.until("It comes while one looks.", "[role=log] li:first-child")
        await visit.go("search")
        await visit.until("It comes while one looks.", ".card")


async def test_an_open_stream_does_not_hold_up_the_end(shared_upstream: ScriptedUpstream, tmp_path: Path) -> None:
    changes = {"server": {"shutdown_grace_s": 60.0}}
    async with running_proxy(shared_upstream.base_url, tmp_path, changes) as proxy, proxy.client(None) as client:
        headers = {"accept": "text/event-stream"}
        async with client.stream("GET", "/v1/memory/activity", headers=headers) as answer:
            lines = answer.aiter_lines()
            await anext(lines)
            assert await proxy.stop() == 0  # within 15 s
            assert [line async for line in lines if line.startswith("data")] == []


async def test_what_is_quarantined_is_confirmed_or_rejected(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "review") as client:
        ids = []
        for content in ("The flight leaves at nine.", "The moon is made of cheese."):
            ids.append((await done(client, "POST", "/v1/memory", json={"content": content}))["id"])
            await done(client, "PATCH", f"/v1/memory/{ids[-1]}", json={"quarantined": True})
    async with visiting(browser, home.root_url, "review", identity={"user": "review"}) as visit:
        flight = visit.page.locator(".card", has_text="flight")
        await flight.get_by_role("button", name="Confirm").click()
        await flight.wait_for(state="detached")
        assert [one["id"] for one in await kept(home, "review", quarantined="false")] == ids[:1]
        await visit.page.get_by_role("button", name="Undo", exact=True).click()
        await flight.wait_for()
        assert await kept(home, "review", quarantined="false") == []
        moon = visit.page.locator(".card", has_text="moon")
        await moon.get_by_role("button", name="Reject").click()
        await confirm(visit, "Reject")
        await moon.wait_for(state="detached")
    assert [one["id"] for one in await kept(home, "review")] == ids[:1]


async def test_why_leads_from_a_request_to_what_it_was_told(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "why") as client:
        held = await fill_three(client)
    async with visiting(browser, home.root_url, "why", identity={"user": "why"}) as visit:
        await visit.page.get_by_role("link", name="Where does Ann live?").click()
        await visit.until("What it was told")
        assert "Ann lives in Bern." in await visit.text()
        await visit.page.get_by_role("link", name="Ann lives in Bern.").first.click()
        await visit.until("Who was told it")
        assert "Where does Ann live?" in await visit.text()
        assert "Ann lives in Rome." in await visit.text("[aria-labelledby=history]")
        await visit.go("why")
        await visit.page.get_by_text("Open a request by its id").click()
        await visit.page.get_by_label("Request id").fill(held["request"])
        await visit.page.get_by_role("button", name="Open").click()
        await visit.until("Why this answer")
        await visit.go("why")
        await visit.page.get_by_text("What would a question be given?").click()
        await visit.page.get_by_label("Question").fill("Where does Ann live now?")
        await visit.page.get_by_role("button", name="Try").click()
        await visit.until("<recalled-memory", "pre")
        considered = visit.page.get_by_role("row", name="Ann lives in Bern.")
        assert "yes" in await considered.inner_text()
        assert "is the floor, 0." in await visit.text(".trial")


async def test_a_request_that_was_not_searched_for_shows_what_was_asked(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "skipped") as client:
        request = await said(client, "s1", "Good morning!")
        await eventually(lambda: _has_turns(home, "skipped", 2), what="the turns are indexed")
    async with visiting(browser, home.root_url, "why", identity={"user": "skipped"}) as visit:
        await visit.page.get_by_role("link", name="Good morning!").click()
        await visit.shown(f"why/{request}")
        assert "Good morning!" in await visit.text(".statement")
        assert "skipped: greeting" in await visit.text(".statement")


@pytest.mark.parametrize("kind", ["semantic", "turn"])
async def test_what_is_wrong_is_corrected_and_the_correction_taken_back(
    browser: "Browser", home: Proxy, kind: str
) -> None:
    user = f"wrong-{kind}"
    async with client_of(home, user) as client:
        if kind == "turn":
            await done(client, "POST", "/v1/memory/turns", json={"session_id": "s" * 200, "messages": [
                {"role": "user", "content": "My budget is $10,000."}]})  # fmt: skip
        else:
            await done(client, "POST", "/v1/memory", json={"content": "My budget is $10,000."})
    (memory,) = await kept(home, user)
    async with visiting(browser, home.root_url, memory_route(memory), identity={"user": user}) as visit:
        await visit.page.get_by_role("button", name="Wrong", exact=True).click()
        await visit.page.get_by_label("What is right instead?").fill("My budget is $12,000.")
        await confirm(visit, "Correct it")
        await visit.until("$12,000", ".statement")
        assert "$10,000" in await visit.text("[aria-labelledby=history]")
        await visit.page.get_by_role("button", name="Undo", exact=True).click()
        await visit.until("$10,000", ".statement")
    (now,) = await kept(home, user)
    assert (now["id"], now["active"], now["superseded_by"]) == (memory["id"], True, None)


async def test_relations_are_walked_in_the_graph(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "graph") as client:
        await fill_three(client)
    async with visiting(browser, home.root_url, "people", identity={"user": "graph"}) as visit:
        await visit.page.get_by_role("link", name="Ann").first.click()
        await visit.page.wait_for_selector(".graph a")
        assert await visit.page.locator(".graph .gone").count() == 1
        await visit.page.locator(".graph a", has_text="Mia").focus()
        await visit.page.keyboard.press("Enter")
        await visit.page.wait_for_function("() => document.querySelector('h1')?.textContent === 'Mia'")
        await visit.page.go_back()
        await visit.page.wait_for_function("() => document.querySelector('h1')?.textContent === 'Ann'")
        await visit.page.get_by_label("As it was on").fill("2023-05-01")
        await visit.until("No relation held then")


async def test_a_conversation_is_undone(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "undo") as client:
        await said(client, "holiday", "We booked the blue house.")
        await said(client, "work", "The report is due on Monday.")
        await eventually(lambda: _has_turns(home, "undo", 4), what="the turns are indexed")
    async with visiting(browser, home.root_url, "conversations", identity={"user": "undo"}) as visit:
        await visit.page.locator(".card", has_text="holiday").get_by_role("link").click()
        await visit.until("We booked the blue house.")
        await visit.page.get_by_role("button", name="Undo", exact=True).click()
        await confirm(visit, "Undo it")
        await visit.until("work", ".card")
        assert "holiday" not in await visit.text()
    assert {one["session_id"] for one in await kept(home, "undo")} == {"work"}


async def _has_turns(proxy: Proxy, user: str, count: int) -> bool:
    return len(await kept(proxy, user, kind="turn")) == count


async def test_settings_are_saved_and_taken_back(browser: "Browser", home: Proxy) -> None:
    async with (
        client_of(home, "settings") as client,
        visiting(browser, home.root_url, identity={"user": "settings"}) as visit,
    ):

        async def chosen() -> dict[str, Any]:
            own = (await done(client, "GET", "/v1/memory/settings"))["chosen"]
            return {name: value for name, value in own.items() if value is not None}

        by_api = {"compress_above_tokens": 0, "memory_tools": "inject"}
        await done(client, "PUT", "/v1/memory/settings", json=by_api)
        await visit.open("settings")
        await visit.page.get_by_label("Memory", exact=True).select_option("read")
        await visit.page.get_by_label("Histories are compressed above").fill("9000")
        await visit.page.get_by_role("button", name="Save").click()
        await visit.until("Saved.", "#toasts")
        assert await chosen() == {"mode": "read", "compress_above_tokens": 9000, "memory_tools": "inject"}
        await visit.page.get_by_role("button", name="Undo", exact=True).click()
        await visit.until("As it was before.", "#toasts")
        assert await chosen() == by_api


async def test_working_memory_is_deleted_and_comes_back(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "scratch") as client:
        await done(client, "PUT", "/v1/memory/working/session/a/notes", json={"data": {"found": 3}, "ttl_s": 600})
        async with visiting(browser, home.root_url, "working", identity={"user": "scratch"}) as visit:
            await visit.page.get_by_role("link", name="session/a/notes").click()
            await visit.until('"found": 3')
            await visit.page.get_by_role("button", name="Delete").click()
            await confirm(visit, "Delete")
            await visit.until("Nothing is in working memory")
            await visit.page.get_by_role("button", name="Undo", exact=True).click()
            await visit.until("session/a/notes", ".card")
        assert (await done(client, "GET", "/v1/memory/working/session/a/notes"))["data"] == {"found": 3}


async def test_everything_is_taken_along_erased_and_brought_back(
    browser: "Browser", home: Proxy, tmp_path: Path
) -> None:
    async with client_of(home, "mover") as client:
        for content in ("One thing.", "Another thing."):
            await done(client, "POST", "/v1/memory", json={"content": content})
    async with visiting(browser, home.root_url, "settings", identity={"user": "mover"}, refusals=True) as visit:
        async with visit.page.expect_download() as begun:
            await visit.page.get_by_role("button", name="Export").click()
        file = tmp_path / "export.jsonl"
        await (await begun.value).save_as(file)
        await visit.page.get_by_role("button", name="Erase").click()
        await visit.page.get_by_label("Type the user's name").fill("somebody else")
        await visit.page.get_by_role("button", name="Erase for good").click()
        await visit.until("That is not the name.", "dialog")
        assert len(await kept(home, "mover")) == 2
        await visit.page.get_by_label("Type the user's name").fill("mover")
        await confirm(visit, "Erase for good")
        await visit.until("Nothing is remembered yet")
        assert await kept(home, "mover") == []
        await visit.go("settings")
        await visit.page.get_by_role("button", name="Import").click()
        await visit.page.get_by_label("File").set_input_files(file)
        await visit.until("2 memories would be new", "dialog")
        assert await kept(home, "mover") == []
        await confirm(visit, "Import")
        await visit.until("Imported: 2 memories", "#toasts")
    assert {one["content"] for one in await kept(home, "mover")} == {"One thing.", "Another thing."}


ATTACK = """<!doctype html><title>Elsewhere</title><script>
async function tried(what) { try { return await what(); } catch (error) { return `refused: ${error.message}`; } }
window.attack = async (target) => ({
  read: await tried(async () => (await fetch(`${target}/v1/memory`)).text()),
  page: await tried(async () => (await fetch(`${target}/memory`)).text()),
  module: await tried(async () => Object.keys(await import(`${target}/memory/api.js`))),
  planted: await tried(async () => (await fetch(`${target}/v1/memory`, {method: "POST", mode: "no-cors",
    headers: {"content-type": "text/plain"}, body: '{"content": "planted"}'})).type),
  live: await tried(async () => (await fetch(`${target}/v1/memory/activity`,
    {headers: {accept: "text/event-stream"}})).text()),
  framed: await new Promise((done) => {
    const frame = document.createElement("iframe");
    frame.onload = () => { try { done(String(frame.contentDocument?.body?.textContent)); } catch { done("refused"); } };
    frame.src = `${target}/memory`;
    document.body.append(frame);
  }),
});
</script><body></body>"""


async def test_a_page_of_another_origin_reads_and_plants_nothing(browser: "Browser", home: Proxy) -> None:
    async with home.client(None) as client:
        await done(client, "POST", "/v1/memory", json={"content": "nobody's business"})
        before = (await done(client, "GET", "/v1/memory"))["data"]
        with page_server() as server:
            server.page = ATTACK.encode()
            context = await browser.new_context()
            page = await context.new_page()
            await page.goto(f"{server.origin}/page")
            found = await page.evaluate("target => window.attack(target)", home.root_url)
            await context.close()
        assert (await done(client, "GET", "/v1/memory"))["data"] == before
    assert "business" not in str(found)
    for what in ("read", "page", "module", "live"):
        assert str(found[what]).startswith("refused"), (what, found)
    assert found["planted"] == "opaque"
    assert found["framed"] in {"refused", "undefined", "null", ""}, found


@pytest.mark.skipif(not FULL, reason="a proxy of its own: make test-page")
async def test_keys_see_and_change_what_they_may(
    browser: "Browser", shared_upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    """``auth.mode: keys``: the shell opens, the data needs a key; one that only reads changes nothing."""
    async with running_proxy(shared_upstream.base_url, tmp_path, {"auth": {"mode": "keys"}}, memory=False) as proxy:
        options = ("--config", str(proxy.config_file), "--tenant", "acme")
        whole = memproxy(tmp_path, "keys", "new", *options, "--user", "ann").stdout.split()
        reads = memproxy(
            tmp_path, "keys", "new", *options, "--user", "ann", "--permission", "memory:read"
        ).stdout.split()
        key, reader = (next(word for word in words if word.startswith("mp")) for words in (whole, reads))
        async with proxy.client(key) as client:
            await eventually(lambda: _answers(client), what="memory answers")
            memory = await done(client, "POST", "/v1/memory", json={"content": "Ann's tea is rooibos."})
        async with visiting(browser, proxy.root_url, "search", refusals=True) as visit:
            await visit.until("Sign in to see memories")
            assert "rooibos" not in await visit.text("body")
            await visit.page.locator("#who").click()
            await visit.page.get_by_label("Key", exact=True).fill("wrong")
            await visit.page.get_by_role("button", name="Open").click()
            await visit.page.wait_for_selector("dialog .problem:not([hidden])")
            await visit.page.get_by_label("Key", exact=True).fill(reader)
            await visit.page.get_by_role("button", name="Open").click()
            await visit.until("rooibos", ".card")
            assert "ann" in await visit.text("#who")
            await visit.go(f"memory/{memory['id']}")
            await visit.page.get_by_role("button", name="Forget").click()
            await visit.page.locator("dialog").get_by_role("button", name="Forget").click()
            await visit.page.wait_for_selector("dialog .problem:not([hidden])")
        async with proxy.client(key) as client:
            assert len((await done(client, "GET", "/v1/memory"))["data"]) == 1


async def _answers(client: Any) -> bool:
    return bool((await client.get("/v1/memory")).status_code == 200)


async def test_a_contradiction_is_settled_by_a_person(browser: "Browser", home: Proxy) -> None:
    async with client_of(home, "settle") as client:
        for city, aspect in (("Rome", None), ("Bern", "address")):
            said_of = {"subject": "Ann", "predicate": "lives in", "object": city, "aspect": aspect}
            await done(client, "POST", "/v1/memory", json={"content": f"Ann lives in {city}.", **said_of})
        for work, aspect in (("carpenter", None), ("pilot", "weekends")):
            said_of = {"subject": "Ann", "predicate": "occupation", "object": work, "aspect": aspect}
            await done(client, "POST", "/v1/memory", json={"content": f"Ann is a {work}.", **said_of})
    async with visiting(browser, home.root_url, "review", wait_for=".panel", identity={"user": "settle"}) as visit:
        where, what = (visit.page.locator(".panel", has_text=one) for one in ("Rome", "carpenter"))
        assert await visit.page.locator(".panel").count() == 2
        await what.get_by_role("button", name="Both hold").click()
        await what.wait_for(state="detached")
        await where.locator(".side", has_text="Bern").get_by_role("button", name="This one holds").click()
        await visit.until("None: where statements differ", "main")
        kept_now = {one["content"]: one["superseded_by"] is None for one in await kept(home, "settle")}
        assert kept_now == {
            "Ann lives in Rome.": False,
            "Ann lives in Bern.": True,
            "Ann is a carpenter.": True,
            "Ann is a pilot.": True,
        }


async def test_what_a_dream_inferred_of_something_private_is_told_once_it_is_allowed(
    browser: "Browser", home: Proxy, model: ScriptedUpstream
) -> None:
    inferred = {
        "text": "User avoids nuts",
        "topic": "food",
        "strength": "strong",
        "shown": [{"number": 1, "quote": "never again with nuts"}],
        "about": ["health"],
    }

    def answer(received: Received) -> Answer:
        asked = text_of(received.messages[0])
        if asked.startswith("You look"):
            return completion(json.dumps({"preferences": [inferred]}))
        return completion("{}" if received.messages[0]["role"] == "system" else "Noted.")

    model.default = answer
    async with client_of(home, "allow") as client:
        await said(client, "lunch", "never again with nuts, I nearly died")
        await eventually(lambda: _has_turns(home, "allow", 2), what="the turns are indexed")

        async def recalled() -> bool:
            question = {"query": "Does the user avoid nuts?"}
            return inferred["text"] in (await done(client, "POST", "/v1/memory/recall", json=question))["context"]

        async with visiting(browser, home.root_url, "dreams", identity={"user": "allow"}) as visit:
            await visit.page.get_by_role("button", name="Run now").click()
            await visit.until("Looked at", "main")
            await eventually(lambda: _is_kept(home, "allow", "User avoids nuts"), what="it is inferred")
            assert not await recalled()
            await visit.go("review", wait_for="#permission")
            await visit.until("waits for permission", ".card .badge")
            await visit.page.get_by_role("button", name="Allow", exact=True).click()
            await visit.page.locator("#permission").wait_for(state="detached")
            assert await recalled()
            await visit.page.get_by_role("button", name="Undo", exact=True).click()
            await visit.page.get_by_role("link", name="User avoids nuts").click()
            await visit.until("no request is told it before you allow it", "main")
            assert not await recalled()
            await visit.page.get_by_role("button", name="Allow", exact=True).click()
            await visit.page.get_by_role("button", name="Allow", exact=True).wait_for(state="detached")
            assert await recalled()


async def _is_kept(proxy: Proxy, user: str, content: str) -> bool:
    return content in {one["content"] for one in await kept(proxy, user)}
