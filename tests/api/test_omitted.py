"""``omit=null``: memories without the fields that have no value, wherever they are answered."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

OMIT: dict[str, Any] = {"omit": "null"}
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
    name = whole["id"]
    place = {level: whole[level] for level in ("wing", "room", "closet")}
    calls: list[tuple[str, str, dict[str, str], Any]] = [
        ("POST", "", {}, {"content": "The user's dog is called Rex."}),
        ("GET", "", {}, None),
        ("GET", name, {}, None),
        ("PATCH", name, {}, {"tags": ["boat"]}),
        ("PATCH", name, {}, {"tags": ["boat"]}),
        ("GET", f"{name}/history", {}, None),
        ("POST", "search", {}, {"query": "boat"}),
        ("POST", "feedback", {}, {"memory_id": name, "signal": "helpful"}),
        ("GET", "palace", place, None),
    ]
    for method, path, query, body in calls:
        sent = {"json": body} if body is not None else {}
        answer = await api.ask(method, path, params={**query, **OMIT}, **sent)
        assert answer.status_code in {200, 201}, answer.text
        found = list(memories(answer.json()))
        assert found, path
        assert all(value is not None for one in found for value in one.values()), path
    (found_boat, *_) = await api.search("boat", **OMIT)
    assert "expires_at" not in found_boat


async def test_what_is_left_out_is_null_and_nothing_else(api: Api) -> None:
    whole = await stored(api)
    less = await api.get(whole["id"], **OMIT)
    assert less["relations"] == [EDGE]
    assert less["metadata"] == {"note": None}, "it is the caller's own"
    there = {name: value for name, value in whole.items() if value is not None}
    assert less | {"relations": whole["relations"]} == there
    assert {"tags", "access_count", "quarantined"} <= less.keys(), "empty, 0 and false are values"


async def test_another_value_is_refused_and_named(api: Api) -> None:
    assert await api.refused("GET", params={"omit": "empty"}) == (400, "omit")


async def test_an_export_without_nulls_is_imported_as_the_same(api: Api) -> None:
    whole = await stored(api)
    lines = (await api.ask("GET", "export", params=OMIT)).text
    assert all(None not in one.values() for one in memories([json.loads(line) for line in lines.splitlines()]))
    await api.delete(whole["id"])
    assert (await api.bring(lines.encode()))["imported"] == 1
    again = await api.get(whole["id"])
    assert again | {"pointer": whole["pointer"]} == whole, "the number of a place is never given again"
