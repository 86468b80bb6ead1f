"""ETag, If-None-Match and If-Match: an editor changes only the version that he knows."""

import asyncio
from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def stored(api: Api, content: str = "likes tea") -> tuple[str, str]:
    """A memory's id and its version."""
    name = (await api.store(content))["id"]
    tag = (await api.ask("GET", name)).headers["etag"]
    assert tag.startswith('"')
    return name, tag


async def test_a_memory_that_is_known_is_not_sent_again(api: Api) -> None:
    name, tag = await stored(api)
    again = await api.ask("GET", name, headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    edited = await api.ask("PATCH", name, json={"tags": ["drinks"]})
    assert edited.headers["etag"] != tag
    changed = await api.ask("GET", name, headers={"if-none-match": tag})
    assert (changed.status_code, changed.headers["etag"]) == (200, edited.headers["etag"])


async def test_a_list_and_a_history_that_are_known_are_not_sent_again(api: Api) -> None:
    name, _ = await stored(api)
    for path in ("", f"{name}/history"):
        known = {"if-none-match": (await api.ask("GET", path)).headers["etag"]}
        assert await api.status("GET", path, headers=known) == 304
        await api.edit(name, tags=[f"after {path}"])
        assert await api.status("GET", path, headers=known) == 200


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_another_version_is_neither_edited_nor_forgotten(api: Api, method: str) -> None:
    name, tag = await stored(api)
    body: dict[str, Any] = {"json": {"content": "likes coffee"}} if method == "PATCH" else {}
    await api.edit(name, tags=["meanwhile"])
    assert await api.code(method, name, headers={"if-match": tag}, **body) == (412, "precondition_failed")
    now = await api.ask("GET", name)
    assert now.json()["content"] == "likes tea"
    await api.ok(method, name, headers={"if-match": f'"other", {now.headers["etag"]}'}, **body)


async def test_any_version_matches_a_star_and_nonsense_is_refused(api: Api) -> None:
    name, _ = await stored(api)
    edit, star = {"tags": ["a"]}, {"if-match": "*"}
    await api.ok("PATCH", name, json=edit, headers=star)
    for wrong in ("tea", '"open', '"a" "b"', "", ","):
        refused = await api.refused("PATCH", name, json=edit, headers={"if-match": wrong})
        assert refused == (400, "if-match"), wrong
    assert await api.status("PATCH", "none", json=edit, headers=star) == 404


async def test_of_editors_of_one_version_exactly_one_succeeds(api: Api) -> None:
    name, tag = await stored(api)
    edits = (api.ask("PATCH", name, json={"content": f"likes {n}"}, headers={"if-match": tag}) for n in range(8))
    answers = await asyncio.gather(*edits)
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    (winner,) = [answer.json()["content"] for answer in answers if answer.status_code == 200]
    assert (await api.get(name))["content"] == winner


async def test_being_recalled_does_not_change_the_version(api: Api) -> None:
    name, tag = await stored(api, "The sourdough starter is called Clint Yeastwood")
    await api.recall("What is my sourdough starter called?")
    await api.ok("PATCH", name, json={"tags": ["a"]}, headers={"if-match": tag})
