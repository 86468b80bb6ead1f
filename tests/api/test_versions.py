"""ETag, If-None-Match and If-Match: an editor changes only the version that he knows."""

import asyncio
from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_memory_that_is_known_is_not_sent_again(api: Api) -> None:
    memory = await api.store("likes tea")
    path = f"/v1/memory/{memory['id']}"
    first = await api.call("GET", path)
    tag = first.headers["etag"]
    assert tag.startswith('"')
    again = await api.call("GET", path, headers={"if-none-match": tag})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    edited = await api.call("PATCH", path, json={"tags": ["drinks"]})
    assert edited.headers["etag"] != tag
    changed = await api.call("GET", path, headers={"if-none-match": tag})
    assert (changed.status_code, changed.headers["etag"]) == (200, edited.headers["etag"])


async def test_a_list_and_a_history_that_are_known_are_not_sent_again(api: Api) -> None:
    memory = await api.store("likes tea")
    for path in ("/v1/memory", f"/v1/memory/{memory['id']}/history"):
        tag = (await api.call("GET", path)).headers["etag"]
        assert (await api.call("GET", path, headers={"if-none-match": tag})).status_code == 304
        await api.call("PATCH", f"/v1/memory/{memory['id']}", json={"tags": [path]})
        assert (await api.call("GET", path, headers={"if-none-match": tag})).status_code == 200


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_another_version_is_neither_edited_nor_forgotten(api: Api, method: str) -> None:
    memory = await api.store("likes tea")
    path = f"/v1/memory/{memory['id']}"
    tag = (await api.call("GET", path)).headers["etag"]
    body: dict[str, Any] = {"json": {"content": "likes coffee"}} if method == "PATCH" else {}
    await api.call("PATCH", path, json={"tags": ["meanwhile"]})
    refused = await api.call(method, path, headers={"if-match": tag}, **body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (412, "precondition_failed")
    assert (await api.call("GET", path)).json()["content"] == "likes tea"
    now = (await api.call("GET", path)).headers["etag"]
    both = {"if-match": f'"other", {now}'}
    assert (await api.call(method, path, headers=both, **body)).status_code == 200


async def test_any_version_matches_a_star_and_nonsense_is_refused(api: Api) -> None:
    memory = await api.store("likes tea")
    path = f"/v1/memory/{memory['id']}"
    assert (await api.call("PATCH", path, json={"tags": ["a"]}, headers={"if-match": "*"})).status_code == 200
    for wrong in ("tea", '"open', '"a" "b"', "", ","):
        refused = await api.call("PATCH", path, json={"tags": ["b"]}, headers={"if-match": wrong})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "if-match"), wrong
    missing = await api.call("PATCH", "/v1/memory/none", json={"tags": ["a"]}, headers={"if-match": "*"})
    assert missing.status_code == 404


async def test_of_editors_of_one_version_exactly_one_succeeds(api: Api) -> None:
    memory = await api.store("likes tea")
    path = f"/v1/memory/{memory['id']}"
    tag = (await api.call("GET", path)).headers["etag"]
    edits = (api.call("PATCH", path, json={"content": f"likes {n}"}, headers={"if-match": tag}) for n in range(8))
    answers = await asyncio.gather(*edits)
    assert sorted(answer.status_code for answer in answers) == [200] + [412] * 7
    (winner,) = [answer.json()["content"] for answer in answers if answer.status_code == 200]
    assert (await api.call("GET", path)).json()["content"] == winner


async def test_being_recalled_does_not_change_the_version(api: Api) -> None:
    memory = await api.store("The sourdough starter is called Clint Yeastwood")
    path = f"/v1/memory/{memory['id']}"
    tag = (await api.call("GET", path)).headers["etag"]
    await api.call("POST", "/v1/memory/recall", json={"query": "What is my sourdough starter called?"})
    assert (await api.call("PATCH", path, json={"tags": ["a"]}, headers={"if-match": tag})).status_code == 200
