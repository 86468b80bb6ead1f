"""``omit=null``: memories without the fields that have no value, wherever they are answered."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

OMIT = {"omit": "null"}
EDGE = {"subject": "user", "predicate": "owns", "object": "boat"}


async def stored(api: Api) -> dict[str, Any]:
    return await api.store(
        "The user's boat is called Heron.", relations=[EDGE], metadata={"note": None}, category="things/boat"
    )


def memories(data: Any) -> Iterator[dict[str, Any]]:
    if isinstance(data, dict) and {"id", "content", "kind"} <= data.keys():
        yield data
    elif isinstance(data, dict | list):
        for one in data.values() if isinstance(data, dict) else data:
            yield from memories(one)


async def test_every_call_that_answers_memories_leaves_nulls_out_when_asked_to(api: Api) -> None:
    whole = await stored(api)
    name = whole["id"]
    calls: list[tuple[str, str, dict[str, str], Any]] = [
        ("POST", "/v1/memory", {}, {"content": "The user's dog is called Rex."}),
        ("GET", "/v1/memory", {}, None),
        ("GET", f"/v1/memory/{name}", {}, None),
        ("PATCH", f"/v1/memory/{name}", {}, {"tags": ["boat"]}),
        ("PATCH", f"/v1/memory/{name}", {}, {"tags": ["boat"]}),
        ("GET", f"/v1/memory/{name}/history", {}, None),
        ("POST", "/v1/memory/search", {}, {"query": "boat"}),
        ("POST", "/v1/memory/feedback", {}, {"memory_id": name, "signal": "helpful"}),
        ("GET", "/v1/memory/palace", {"wing": whole["wing"], "room": whole["room"], "closet": whole["closet"]}, None),
    ]
    for method, path, query, body in calls:
        sent = {"json": body} if body is not None else {}
        answer = await api.call(method, path, params={**query, **OMIT}, **sent)
        assert answer.status_code in {200, 201}, answer.text
        found = list(memories(answer.json()))
        assert found, path
        assert all(value is not None for one in found for value in one.values()), path
    answer = await api.call("POST", "/v1/memory/search", json={"query": "boat", **OMIT})
    assert "expires_at" not in answer.json()["data"][0]["memory"]


async def test_what_is_left_out_is_null_and_nothing_else(api: Api) -> None:
    whole = await stored(api)
    less = (await api.call("GET", f"/v1/memory/{whole['id']}", params=OMIT)).json()
    assert less["relations"] == [EDGE]
    assert less["metadata"] == {"note": None}, "it is the caller's own"
    assert less | {"relations": whole["relations"]} == {
        name: value for name, value in whole.items() if value is not None
    }
    assert {"tags", "access_count", "quarantined"} <= less.keys(), "empty, 0 and false are values"


async def test_another_value_is_refused_and_named(api: Api) -> None:
    answer = await api.call("GET", "/v1/memory", params={"omit": "empty"})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "omit")


async def test_an_export_without_nulls_is_imported_as_the_same(api: Api) -> None:
    whole = await stored(api)
    lines = (await api.call("GET", "/v1/memory/export", params=OMIT)).text
    assert all(None not in one.values() for one in memories([json.loads(line) for line in lines.splitlines()]))
    await api.call("DELETE", f"/v1/memory/{whole['id']}")
    taken = await api.call(
        "POST", "/v1/memory/import", content=lines.encode(), headers={"content-type": "application/x-ndjson"}
    )
    assert (taken.status_code, taken.json()["imported"]) == (200, 1)
    again = (await api.call("GET", f"/v1/memory/{whole['id']}")).json()
    assert again | {"pointer": whole["pointer"]} == whole, "the number of a place is never given again"
