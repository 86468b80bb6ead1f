"""`memproxy memories`: what an operator sees and forgets of a user, with a server and without one."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memproxy.commands import app
from memproxy.commands.installation import installation
from tests.house.test_cli_upkeep import served, settings

pytestmark = pytest.mark.usefixtures("home")

ESCAPE = "\N{ESCAPE}[2J"


async def memories(*arguments: str, typed: str | None = None) -> Any:
    """The command in a thread: it has a loop of its own."""
    return await asyncio.to_thread(CliRunner().invoke, app, ["memories", *arguments], input=typed)


async def read(*arguments: str) -> Any:
    done = await memories(*arguments, "--json")
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


async def told(*contents: str, tenant: str | None = None, user: str = "ann", **fields: Any) -> list[str]:
    """Store memories; their ids."""
    async with installation(settings(enabled=False)) as here:
        stored = [
            await here.call("POST", "/v1/memory", tenant=tenant, user=user, json={"content": one, **fields})
            for one in contents
        ]
    return [one["id"] for one in stored]


async def audited() -> list[tuple[str, str]]:
    done = await asyncio.to_thread(CliRunner().invoke, app, ["audit", "--json"])
    return [(entry["by"], entry["action"]) for entry in json.loads(done.stdout)["data"]]


async def test_what_is_held_on_a_user_is_listed_and_nothing_of_others() -> None:
    await told("Ann likes tea.", "Ann has a dog.")
    await told("Bob likes coffee.", user="bob")
    await told("Ann of acme likes water.", tenant="acme")
    lines = (await memories("list", "--user", "ann")).stdout.splitlines()
    assert len(lines) == 2
    assert {"Ann likes tea." in line or "Ann has a dog." in line for line in lines} == {True}
    found = await read("list", "--user", "ann", "--tenant", "acme")
    assert [one["content"] for one in found["data"]] == ["Ann of acme likes water."]
    assert await audited() == [("command line", "user.list")] * 2


async def test_a_list_says_that_there_is_more_and_all_of_it_can_be_had() -> None:
    async with installation(settings(enabled=False)) as here:
        said = [{"role": "user", "content": f"number {number}"} for number in range(250)]
        await here.call("POST", "/v1/memory/turns", user="ann", json={"session_id": "s1", "messages": said})
    short = await memories("list", "--user", "ann", "--limit", "3")
    assert (len(short.stdout.splitlines()), "--limit 0 lists all" in short.stderr) == (3, True)
    everything = await read("list", "--user", "ann", "--limit", "0", "--kind", "turn", "--session", "s1")
    assert (len({one["id"] for one in everything["data"]}), everything["more"]) == (250, False)


async def test_a_search_prints_score_kind_date_and_text_best_first() -> None:
    await told("Ann likes green tea.", "Ann has a dog.", valid_from="2026-03-04T00:00:00Z")
    best = (await memories("search", "tea", "--user", "ann")).stdout.splitlines()[0]
    score, kind, date, *text = best.split()
    assert 0 <= float(score) <= 1
    assert (kind, date, " ".join(text[:4])) == ("semantic", "2026-03-04", "Ann likes green tea.")
    found = await read("search", "tea", "--user", "ann", "--limit", "1")
    assert [one["memory"]["content"] for one in found["data"]] == ["Ann likes green tea."]
    assert "signals" in found["data"][0]


async def test_one_memory_is_shown_with_its_history_and_the_messages_it_comes_from() -> None:
    async with installation(settings()) as here:
        for number, text in enumerate(("I live in Berlin.", "I live in Hamburg now.")):
            body = {
                "session_id": "s1",
                "messages": [{"role": "user", "content": text}],
                "timestamp": f"2026-0{number + 1}-01T00:00:00Z",
            }
            await here.call("POST", "/v1/memory/turns", user="ann", json=body)
            await here.call("POST", "/v1/memory/sessions/s1/mine?wait=true", user="ann")
    facts = (await read("list", "--user", "ann", "--kind", "semantic"))["data"]
    now = next(one for one in facts if one["active"])
    shown = await read("show", now["id"], "--user", "ann")
    assert shown["memory"]["id"] == now["id"]
    assert [one["active"] for one in shown["history"]] == [False, True]
    assert [one["content"] for one in shown["sources"]] == ["I live in Hamburg now."]
    sheet = (await memories("show", now["id"], "--user", "ann")).stdout
    assert sheet.splitlines()[0] == now["content"]
    assert "History, oldest first:" in sheet
    assert "user: I live in Hamburg now." in sheet
    assert (await memories("forget", shown["sources"][0]["id"], "--user", "ann", "--yes")).exit_code == 0
    assert (await memories("show", now["id"], "--user", "ann")).exit_code == 1, "it was learned from that alone"


async def test_what_is_not_there_or_somebody_elses_is_not_shown() -> None:
    (of_bob,) = await told("Bob likes coffee.", user="bob")
    for memory_id in (of_bob, "mem_none", ".."):
        refused = await memories("show", memory_id, "--user", "ann")
        assert (refused.exit_code, refused.stdout) == (1, "")
    assert ("command line", "memory.read") not in await audited()


async def test_what_a_terminal_would_obey_is_not_printed() -> None:
    (memory_id,) = await told(f"Ann likes{ESCAPE} tea.\nAnd\tcake.")
    for command in (["list"], ["search", "tea"], ["show", memory_id]):
        printed = (await memories(*command, "--user", "ann")).stdout
        assert "\N{ESCAPE}" not in printed
        assert "tea. And cake." in printed


@pytest.mark.parametrize("command", [("list",), ("search", "tea")])
async def test_nothing_found_is_said_on_standard_error_and_ends_with_1(command: tuple[str, ...]) -> None:
    done = await memories(*command, "--user", "nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "Nothing was found of user 'nobody' of tenant anonymous" in done.stderr
    assert "--tenant" in done.stderr
    assert "memproxy keys hash" not in (await memories(*command, "--user", "nobody", "--tenant", "acme")).stderr


async def test_memories_are_forgotten_by_id_or_all_of_a_user() -> None:
    first, second, third = await told("one", "two", "three")
    refused = await memories("forget", first, "--user", "ann", typed="y\n")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert (await memories("forget", first, "--user", "bob", "--yes")).exit_code == 1
    assert await read("forget", first, second, "--user", "ann", "--yes") == {"deleted": 2}
    assert [one["id"] for one in (await read("list", "--user", "ann"))["data"]] == [third]
    assert "1 memories forgotten" in (await memories("forget", "--user", "ann", "--yes")).stdout
    assert (await memories("list", "--user", "ann")).exit_code == 1
    assert (await memories("forget", "--user", "ann", "--yes")).exit_code == 1, "there was nothing"
    assert {("command line", "memory.forget"), ("command line", "user.erase")} <= set(await audited())


async def test_an_id_that_is_not_there_keeps_no_other_from_being_forgotten_and_both_are_told() -> None:
    first, second, third = await told("one", "two", "three")
    done = await memories("forget", first, "nobodys", second, "--user", "ann", "--yes")
    assert done.exit_code == 1
    assert str(done.exception) == "No memory has the id 'nobodys'; 2 memories were forgotten."
    assert [one["id"] for one in (await read("list", "--user", "ann"))["data"]] == [third]


@pytest.mark.parametrize("command", ["show", "forget"])
async def test_an_id_that_would_lead_to_another_call_is_bad_usage(command: str) -> None:
    for name in ("stats", "export", ""):
        assert (await memories(command, name, "--user", "ann")).exit_code == 2


async def test_with_a_server_running_all_of_it_goes_through_its_api(home: Path) -> None:
    async with served(home):
        (memory_id,) = await told("Ann likes tea.")
        assert (await read("list", "--user", "ann"))["data"][0]["id"] == memory_id
        assert (await read("search", "tea", "--user", "ann"))["data"][0]["memory"]["id"] == memory_id
        assert (await read("show", memory_id, "--user", "ann"))["memory"]["content"] == "Ann likes tea."
        assert await read("forget", memory_id, "--user", "ann", "--yes") == {"deleted": 1}
        assert (await memories("list", "--user", "ann")).exit_code == 1
        actions = [action for _, action in await audited()]
        assert actions[1:] == ["memory.forget", "memory.read", "user.search", "user.list"]
