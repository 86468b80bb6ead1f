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
LINES = {"content-type": "application/x-ndjson"}
MANY = 5_000

LISTS: list[tuple[str, dict[str, Any], str]] = [
    *(
        ("/v1/memory/search", {"query": "x", name: [""] * MANY}, f"{name}.0")
        for name in ("project_id", "agent_id", "session_id", "kind", "category", "tag", "entity", "wing", "room")
    ),
    ("/v1/memory/search", {"query": "x", "active": [""] * MANY}, "active.0"),
    ("/v1/memory/recall", {"query": "x", "messages": [{}] * 2_000}, "messages.0.role"),
    ("/v1/memory/turns", {"messages": [{"role": "user"}] * 2_000}, "messages.0.content"),
    ("/v1/memory", {"content": "x", "tags": [""] * MANY}, "tags.0"),
    ("/v1/memory", {"content": "x", "entities": [1] * MANY}, "entities.0"),
    ("/v1/memory", {"content": "x", "relations": [{}] * MANY}, "relations.0.subject"),
]


@pytest.mark.parametrize(("path", "body", "param"), LISTS)
async def test_of_many_wrong_values_the_first_is_told_and_no_other_is_looked_at(
    api: Api, path: str, body: dict[str, Any], param: str
) -> None:
    """A report of each of some millions took the engine away for a minute, until it was ended."""
    answer = await api.call("POST", path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, param)
    wrong = error["message"].partition("besides this one: ")[2].rstrip(").")
    assert int(wrong or 0) < 5, "only fields of the first one"


@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/v1/memory"), ("PATCH", "/v1/memory/x"), ("PUT", "/v1/memory/settings")]
)
async def test_a_json_body_has_a_bound_of_its_own_far_below_that_of_chat(api: Api, method: str, path: str) -> None:
    body = b'{"content": "' + b"x" * MOST_JSON_BYTES + b'"}'
    for more in ({}, {"idempotency-key": "one"}):
        answer = await api.call(method, path, content=body, headers=JSON | more)
        assert answer.status_code == 413
        assert str(MOST_JSON_BYTES) in answer.json()["error"]["message"]


async def test_a_body_of_very_many_fields_or_objects_is_refused(api: Api) -> None:
    names = json.dumps({"query": "x", **dict.fromkeys(map(str, range(MOST_NAMES)), 0)})
    objects = json.dumps({"query": "x", "kind": [{}] * MOST_NAMES})
    for body in (names, objects):
        answer = await api.call("POST", "/v1/memory/search", content=body.encode(), headers=JSON)
        assert answer.status_code == 400
        assert str(MOST_NAMES) in answer.json()["error"]["message"]


async def test_the_largest_conversation_of_one_call_is_taken(api: Api) -> None:
    messages = [{"role": "user", "content": [{"type": "text", "text": f"number {n}"}] * 5} for n in range(2_000)]
    answer = await api.call("POST", "/v1/memory/recall", json={"query": "Which number?", "messages": messages})
    assert answer.status_code == 200, answer.text


async def test_metadata_is_measured_before_it_is_looked_through(api: Api) -> None:
    answer = await api.call("POST", "/v1/memory", json={"content": "x", "metadata": {"a": [2**70, *[1] * 20_000]}})
    assert "18446744073709551616" not in answer.text
    assert answer.status_code == 400
    large = await api.call("POST", "/v1/memory", json={"content": "x", "metadata": {"a": ["\u0000", *[1] * 20_000]}})
    assert "larger" in large.json()["error"]["message"]


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
    answer = await api.call("POST", "/v1/memory/import", content=file.encode(), headers=LINES)
    told = answer.json()
    assert (told["imported"], told["rejected"]) == (2, 3)
    assert [one["line"] for one in told["errors"]] == [2, 3, 4]
    assert str(MOST_JSON_BYTES) in told["errors"][0]["message"]
    assert str(MOST_NAMES) in told["errors"][1]["message"]


async def test_a_timeline_is_looked_for_beside_the_loop(api: Api) -> None:
    relations = [{"subject": f"Tower {n}", "predicate": "stands in", "object": f"Place {n}"} for n in range(100)]
    own = {"subject": "Ann", "predicate": "likes", "object": "towers", "relations": relations}
    memory = {"content": "The tower.", "created_at": "2026-01-01T00:00:00Z", **own}
    lines = "".join(json.dumps({"memory": {"id": f"m{n}", **memory}}) + "\n" for n in range(150))
    answer = await api.call("POST", "/v1/memory/import", content=lines.encode(), headers=LINES)
    assert answer.json()["imported"] == 150

    begun = time.thread_time()
    answer = await api.call("GET", "/v1/memory/entities/Tower%207/timeline?limit=200")
    on_the_loop = time.thread_time() - begun
    assert len(answer.json()["data"]) == 150
    stored = await api.engine.backends().store.page(Scope(tenant=api.tenant, user="default"), MemoryFilter(), limit=200)
    begun = time.thread_time()
    for one in stored.memories:
        assert len(edges(one)) == 101
    assert on_the_loop < (time.thread_time() - begun), "reading the relations alone takes longer"
