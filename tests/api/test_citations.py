"""Short ids: what a block cites (`m:1a2b3c4d`) is read, edited, judged and forgotten by."""

import re
from typing import Any

import httpx
import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

UUIDS = [f"1a2b3c4d-{number:04d}-4000-8000-000000000000" for number in range(2)]


async def say(api: Api, *ids: str, session: str = "s", **fields: Any) -> None:
    messages = [{"role": "user", "content": f"The word of {name} is said in {session}.", "id": name} for name in ids]
    await api.say(session, *messages, **fields)


async def read(api: Api, name: str, **query: Any) -> httpx.Response:
    return await api.call("GET", f"/v1/memory/{name}", params=query)


def code(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


async def test_what_a_block_cites_is_read_edited_judged_told_of_and_forgotten(api: Api) -> None:
    memory = await api.store("The user's budget for the kitchen is 8,000 euros.")
    recalled = (
        await api.call("POST", "/v1/memory/recall", json={"query": "What is my budget for the kitchen?"})
    ).json()
    (cited,) = re.findall(r"\[(m:[^\]]+)\]", recalled["context"])
    assert re.fullmatch("m:[0-9a-f]{8}", cited), "eight digits of the id tell memories apart, its beginning does not"
    assert (await read(api, cited)).json()["id"] == memory["id"]
    edited = await api.call("PATCH", f"/v1/memory/{cited}", json={"tags": ["kitchen"]})
    assert (edited.status_code, edited.json()["id"], edited.json()["tags"]) == (200, memory["id"], ["kitchen"])
    history = (await api.call("GET", f"/v1/memory/{cited}/history")).json()["data"]
    assert [one["id"] for one in history] == [memory["id"]]
    judged = await api.call("POST", "/v1/memory/feedback", json={"memory_id": cited, "signal": "helpful"})
    assert (judged.status_code, judged.json()["memory_ids"]) == (201, [memory["id"]])
    assert (await api.call("DELETE", f"/v1/memory/{cited}")).json()["deleted"] == 1
    assert code(await read(api, cited)) == (404, "not_found")
    assert (await read(api, memory["id"])).status_code == 404


async def test_a_block_of_an_earlier_version_still_leads_to_its_memory(api: Api) -> None:
    memory = await api.store("The user's boat is called Heron.")
    cited = f"m:{memory['id'].replace('_', '')[:8]}"
    assert cited.startswith("m:mem")
    assert (await read(api, cited)).json()["id"] == memory["id"]


async def test_a_short_id_of_several_is_refused_and_more_of_it_is_not(api: Api) -> None:
    await say(api, *UUIDS)
    several = await read(api, "m:1a2b3c4d")
    assert code(several) == (409, "ambiguous_id")
    assert all(name in several.json()["error"]["message"] for name in UUIDS)
    assert code(await api.call("DELETE", "/v1/memory/m:1a2b3c4d")) == (409, "ambiguous_id")
    for more in ("1a2b3c4d0001", "1a2b3c4d-0001", UUIDS[1]):
        assert (await read(api, f"m:{more}")).json()["id"] == UUIDS[1]


@pytest.mark.parametrize("cited", ["m:1a2b3c4", "m:1a", "m:", "1a2b3c4d", "m:1a2b3c4d9"])
async def test_nothing_shorter_and_nothing_else_leads_to_a_memory(api: Api, cited: str) -> None:
    await say(api, UUIDS[0])
    assert code(await read(api, cited)) == (404, "not_found")


async def test_an_id_that_is_short_itself_is_cited_by_the_whole_of_it(api: Api) -> None:
    await say(api, "D1", "D10")
    assert (await read(api, "m:D1")).json()["id"] == "D1"
    await api.call("DELETE", "/v1/memory/m:D1")
    assert code(await read(api, "m:D1")) == (404, "not_found"), "never D10, whoever forgets it twice"


async def test_one_id_in_two_sessions_is_one_short_id_and_the_session_decides(api: Api) -> None:
    for session in ("one", "two"):
        await say(api, UUIDS[0], session=session)
    for session in ("one", "two"):
        assert (await read(api, "m:1a2b3c4d", session_id=session)).json()["session_id"] == session
    assert code(await read(api, "m:1a2b3c4d", session_id="three")) == (404, "not_found")


async def test_what_others_have_neither_is_found_nor_makes_a_short_id_ambiguous(api: Api) -> None:
    await say(api, UUIDS[0], user_id="ann")
    assert code(await read(api, "m:1a2b3c4d", user_id="ben")) == (404, "not_found")
    await say(api, UUIDS[1], user_id="ben")
    assert (await read(api, "m:1a2b3c4d", user_id="ben")).json()["id"] == UUIDS[1]
    assert (await read(api, "m:1a2b3c4d", user_id="ann")).json()["id"] == UUIDS[0]


async def test_an_id_that_looks_like_a_citation_is_that_memory(api: Api) -> None:
    await say(api, "m:1a2b3c4d", UUIDS[0])
    assert (await read(api, "m:1a2b3c4d")).json()["id"] == "m:1a2b3c4d"
