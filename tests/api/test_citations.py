"""Short ids: what a block cites (`m:1a2b3c4d`) is read, edited, judged and forgotten by."""

import re
from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

UUIDS = [f"1a2b3c4d-{number:04d}-4000-8000-000000000000" for number in range(2)]
MISSING, AMBIGUOUS = (404, "not_found"), (409, "ambiguous_id")


async def say(api: Api, *ids: str, session: str = "s", **fields: Any) -> None:
    messages = [{"role": "user", "content": f"The word of {name} is said in {session}.", "id": name} for name in ids]
    await api.say(session, *messages, **fields)


async def test_what_a_block_cites_is_read_edited_judged_told_of_and_forgotten(api: Api) -> None:
    memory = await api.store("The user's budget for the kitchen is 8,000 euros.")
    (cited,) = re.findall(r"\[(m:[^\]]+)\]", await api.context("What is my budget for the kitchen?"))
    assert re.fullmatch("m:[0-9a-f]{8}", cited), "eight digits of the id tell memories apart, its beginning does not"
    assert (await api.get(cited))["id"] == memory["id"]
    edited = await api.edit(cited, tags=["kitchen"])
    assert (edited["id"], edited["tags"]) == (memory["id"], ["kitchen"])
    assert await api.history(cited) == [memory["id"]]
    assert (await api.judge("helpful", memory_id=cited))["memory_ids"] == [memory["id"]]
    assert await api.delete(cited) == 1
    assert await api.code("GET", cited) == MISSING
    assert await api.status("GET", memory["id"]) == 404


async def test_a_block_of_an_earlier_version_still_leads_to_its_memory(api: Api) -> None:
    memory = await api.store("The user's boat is called Heron.")
    cited = f"m:{memory['id'].replace('_', '')[:8]}"
    assert cited.startswith("m:mem")
    assert (await api.get(cited))["id"] == memory["id"]


async def test_a_short_id_of_several_is_refused_and_more_of_it_is_not(api: Api) -> None:
    await say(api, *UUIDS)
    several = await api.ask("GET", "m:1a2b3c4d")
    assert all(name in several.json()["error"]["message"] for name in UUIDS)
    for method in ("GET", "DELETE"):
        assert await api.code(method, "m:1a2b3c4d") == AMBIGUOUS
    for more in ("1a2b3c4d0001", "1a2b3c4d-0001", UUIDS[1]):
        assert (await api.get(f"m:{more}"))["id"] == UUIDS[1]


@pytest.mark.parametrize("cited", ["m:1a2b3c4", "m:1a", "m:", "1a2b3c4d", "m:1a2b3c4d9"])
async def test_nothing_shorter_and_nothing_else_leads_to_a_memory(api: Api, cited: str) -> None:
    await say(api, UUIDS[0])
    assert await api.code("GET", cited) == MISSING


async def test_an_id_that_is_short_itself_is_cited_by_the_whole_of_it(api: Api) -> None:
    await say(api, "D1", "D10")
    assert (await api.get("m:D1"))["id"] == "D1"
    await api.delete("m:D1")
    assert await api.code("GET", "m:D1") == MISSING, "never D10, whoever forgets it twice"


async def test_one_id_in_two_sessions_is_one_short_id_and_the_session_decides(api: Api) -> None:
    for session in ("one", "two"):
        await say(api, UUIDS[0], session=session)
    for session in ("one", "two"):
        assert (await api.get("m:1a2b3c4d", session_id=session))["session_id"] == session
    assert await api.code("GET", "m:1a2b3c4d?session_id=three") == MISSING


async def test_what_others_have_neither_is_found_nor_makes_a_short_id_ambiguous(api: Api) -> None:
    await say(api, UUIDS[0], user_id="ann")
    assert await api.code("GET", "m:1a2b3c4d?user_id=ben") == MISSING
    await say(api, UUIDS[1], user_id="ben")
    for name, user in zip(UUIDS, ("ann", "ben"), strict=True):
        assert (await api.get("m:1a2b3c4d", user_id=user))["id"] == name


async def test_an_id_that_looks_like_a_citation_is_that_memory(api: Api) -> None:
    await say(api, "m:1a2b3c4d", UUIDS[0])
    assert (await api.get("m:1a2b3c4d"))["id"] == "m:1a2b3c4d"
