"""Bodies that are made to keep the engine busy: it answers one process for everybody, so they are refused soon."""

import json
import time
from typing import Any

import pytest

from memproxy.api.http import MOST_JSON_BYTES, MOST_NAMES
from memproxy.core.entities import edges
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"content-type": "application/json"}
MANY = 5_000

LISTS: list[tuple[str, dict[str, Any], str]] = [
    *(
        ("search", {"query": "x", name: [""] * MANY}, f"{name}.0")
        for name in (
            "project_id", "agent_id", "session_id", "kind", "category", "tag", "entity", "wing", "room", "active"
        )
    ),
    ("recall", {"query": "x", "messages": [{}] * 2_000}, "messages.0.role"),
    ("turns", {"messages": [{"role": "user"}] * 2_000}, "messages.0.content"),
    ("", {"content": "x", "tags": [""] * MANY}, "tags.0"),
    ("", {"content": "x", "entities": [1] * MANY}, "entities.0"),
    ("", {"content": "x", "relations": [{}] * MANY}, "relations.0.subject"),
]  # fmt: skip


@pytest.mark.parametrize(("path", "body", "param"), LISTS)
async def test_of_many_wrong_values_the_first_is_told_and_no_other_is_looked_at(
    api: Api, path: str, body: dict[str, Any], param: str
) -> None:
    """A report of each of some millions took the engine away for a minute, until it was ended."""
    error = (await api.ok("POST", path, status=400, json=body))["error"]
    assert error["param"] == param
    wrong = error["message"].partition("besides this one: ")[2].rstrip(").")
    assert int(wrong or 0) < 5, "only fields of the first one"


@pytest.mark.parametrize(("method", "path"), [("POST", ""), ("PATCH", "x"), ("PUT", "settings")])
async def test_a_json_body_has_a_bound_of_its_own_far_below_that_of_chat(api: Api, method: str, path: str) -> None:
    body = b'{"content": "' + b"x" * MOST_JSON_BYTES + b'"}'
    for more in ({}, {"idempotency-key": "one"}):
        told = await api.ok(method, path, status=413, content=body, headers=JSON | more)
        assert str(MOST_JSON_BYTES) in told["error"]["message"]


async def test_a_body_of_very_many_fields_or_objects_is_refused(api: Api) -> None:
    bodies: tuple[dict[str, Any], ...] = (dict.fromkeys(map(str, range(MOST_NAMES)), 0), {"kind": [{}] * MOST_NAMES})
    for fields in bodies:
        told = await api.post("search", status=400, query="x", **fields)
        assert str(MOST_NAMES) in told["error"]["message"]


async def test_the_largest_conversation_of_one_call_is_taken(api: Api) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": f"number {n}"}] * 5} for n in range(2_000)]
    await api.recall("Which number?", messages=messages)


async def test_metadata_is_measured_before_it_is_looked_through(api: Api) -> None:
    for first in (2**70, "\u0000"):
        told = await api.post(status=400, content="x", metadata={"a": [first, *[1] * 20_000]})
        assert "larger" in told["error"]["message"]
        assert "18446744073709551616" not in str(told)


async def test_a_line_of_an_import_is_bounded_and_the_others_are_taken(api: Api) -> None:
    def line(name: str, **fields: Any) -> str:
        memory = {"id": name, "content": "The gate is green.", "created_at": "2026-01-01T00:00:00Z", **fields}
        return json.dumps({"memory": memory}) + "\n"

    file = (
        line("one")
        + line("long", subject="x" * MOST_JSON_BYTES)
        + line("wide", **dict.fromkeys(map(str, range(MOST_NAMES)), 0))
        + line("deep", metadata={"a": json.loads("[" * 900 + "]" * 900)})
        + line("two")
    )
    told = await api.bring(file.encode())
    assert (told["imported"], told["rejected"]) == (2, 3)
    assert [one["line"] for one in told["errors"]] == [2, 3, 4]
    assert str(MOST_JSON_BYTES) in told["errors"][0]["message"]
    assert str(MOST_NAMES) in told["errors"][1]["message"]


async def test_a_timeline_is_looked_for_beside_the_loop(api: Api) -> None:
    relations = [{"subject": f"Tower {n}", "predicate": "stands in", "object": f"Place {n}"} for n in range(100)]
    own = {"subject": "Ann", "predicate": "likes", "object": "towers", "relations": relations}
    memory = {"content": "The tower.", "created_at": "2026-01-01T00:00:00Z", **own}
    lines = "".join(json.dumps({"memory": {"id": f"m{n}", **memory}}) + "\n" for n in range(150))
    assert (await api.bring(lines.encode()))["imported"] == 150

    begun = time.thread_time()
    found = await api.data("entities/Tower%207/timeline", limit=200)
    on_the_loop = time.thread_time() - begun
    assert len(found) == 150
    stored = await api.engine.backends().store.page(Scope(tenant=api.tenant, user="default"), MemoryFilter(), limit=200)
    begun = time.thread_time()
    for one in stored.memories:
        assert len(edges(one)) == 101
    assert on_the_loop < (time.thread_time() - begun), "reading the relations alone takes longer"
