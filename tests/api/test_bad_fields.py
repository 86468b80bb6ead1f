"""Every field of every call, as `/openapi.json` names them, with what no field may hold."""

import json
import re
from typing import Any

import httpx
import pytest

from memproxy.api.calls import Operation
from memproxy.api.openapi import OPERATIONS
from memproxy.core.dream import COMPATIBLE_WITH, CONFLICTS_WITH, DREAMS, MERGED_INTO
from memproxy.core.facts import LAST_SAID, PENDING, RETRACTED_AT, RETRACTED_BY, SAID, STATED_END
from memproxy.core.forget_all import ALL_FORGOTTEN_BY
from memproxy.core.memory_feedback import CORRECTS, FEEDBACK
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import PERMISSIONS
from memproxy.learn.outdated import ENDED_BY
from memproxy.learn.pending import CHANGES
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

DEEP = '{"a":' * 2_000 + "1" + "}" * 2_000
NEVER = {
    "huge number": "1e400",
    "minus huge number": "-1e400",
    "not a number": "NaN",
    "lone surrogate": '"\\ud800"',
    "lone surrogate within": '"a\\udfffb"',
    "nul": '"a\\u0000b"',
    "deep": DEEP,
}
"""JSON texts that no field takes."""

DUBIOUS = ["null", "true", '""', '" "', "-1", "0", "1.5", "1e6", str(2**64), "[]", "{}", "[null]", '[{"a": 1}]', '"x"']
DUBIOUS += [json.dumps("x" * 200_000), json.dumps(["x"] * 3_000)]
"""JSON texts that some fields take."""

BASE: dict[str, dict[str, Any]] = {
    "NewMemory": {"content": "x"},
    "MemoryEdit": {"tags": ["a"]},
    "NewTurns": {"messages": [{"role": "user", "content": "hello"}]},
    "SearchBody": {"query": "hello"},
    "RecallBody": {"query": "hello"},
    "FeedbackBody": {"memory_id": "x", "signal": "wrong"},
}
"""The least that a body must have."""

WITH_BODY = [one for one in OPERATIONS if one.body is not None]
WITH_QUERY = [one for one in OPERATIONS if one.query.model_fields]
QUERIES = [
    "\x00",
    "a\x00b",
    "\x7f",
    "",
    " ",
    "-1",
    "0",
    "1e400",
    "9" * 400,
    "x" * 20_000,
    "\ufffe",
    "e30",
    "../..",
    "%",
]


def path_of(operation: Operation) -> str:
    """Its path, with an id that nothing has."""
    return re.sub(r"{\w+}", "none", operation.path)


def everything(api: Api) -> Identity:
    return Identity(tenant=api.tenant, default_user="default", permissions=frozenset(PERMISSIONS))


def named(operation: Operation) -> str:
    return f"{operation.method} {operation.path}"


async def send(api: Api, operation: Operation, body: str) -> httpx.Response:
    content, headers = body.encode("utf-8", "surrogatepass"), {"content-type": "application/json"}
    method, path = operation.method, path_of(operation)
    return await api.call(method, path, identity=everything(api), content=content, headers=headers)


def assert_shaped(answer: httpx.Response, what: object) -> None:
    """No fault of ours, and an error as OpenAI's."""
    assert answer.status_code < 500, (what, answer.text)
    if answer.status_code >= 400:
        assert set(answer.json()["error"]) == {"message", "type", "param", "code"}, what


@pytest.mark.parametrize("operation", WITH_BODY, ids=named)
async def test_no_field_of_a_body_takes_what_none_may_hold(api: Api, operation: Operation) -> None:
    assert operation.body is not None
    base = BASE.get(operation.body.__name__, {})
    for field in operation.body.model_fields:
        others = {name: value for name, value in base.items() if name != field}
        start = json.dumps(others)[:-1] + (", " if others else "")
        for what, text in NEVER.items():
            answer = await send(api, operation, f"{start}{json.dumps(field)}: {text}}}")
            assert answer.status_code == 400, (field, what, answer.text)
            assert_shaped(answer, (field, what))
        for text in DUBIOUS:
            assert_shaped(await send(api, operation, f"{start}{json.dumps(field)}: {text}}}"), (field, text[:40]))


@pytest.mark.parametrize("operation", WITH_QUERY, ids=named)
async def test_every_parameter_of_a_query_takes_what_it_may_or_names_itself(api: Api, operation: Operation) -> None:
    everybody = api.by(everything(api))
    for field in operation.query.model_fields:
        for value in (*QUERIES, ["a", "b"], ["a"] * 300):
            answer = await everybody.call(operation.method, path_of(operation), params={field: value})
            assert_shaped(answer, (field, str(value)[:40]))
            if isinstance(value, str) and "\x00" in value:
                assert answer.status_code in {400, 415}, (field, value)


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if "{" in one.path], ids=named)
async def test_every_name_in_a_path_may_be_odd(api: Api, operation: Operation) -> None:
    for odd in ("%00", "%FF%FE", "%ED%A0%80", "x" * 5_000, "..%2f..", "%0d%0aset-cookie:a", "'%22;--", "%25"):
        path = re.sub(r"{\w+}", odd, operation.path)
        answer = await api.call(operation.method, path, identity=everything(api))
        assert_shaped(answer, odd)
        assert "set-cookie" not in answer.headers


async def test_cursors_of_one_list_are_nothing_to_another_or_to_somebody_else(api: Api) -> None:
    for n in range(3):
        for user in ("ann", "ben"):
            await api.store(f"fact {n} about Berlin", user_id=user, category="c", entities=["Berlin"])
    cursor = (await api.get(user_id="ann", limit=1))["next_cursor"]
    theirs = await api.ask("GET", params={"user_id": "ben", "cursor": cursor})
    assert theirs.status_code in {200, 400}
    assert all(one["user_id"] == "ben" for one in theirs.json().get("data", []))
    for path in ("entities", "palace", "entities/Berlin/timeline", "audit"):
        answer = await api.refused("GET", path, identity=everything(api), params={"cursor": cursor})
        assert answer == (400, "cursor"), path


@pytest.mark.parametrize("kind", [{}, [], [["text"]], 1, None, True, "image_url"])
async def test_a_part_of_any_other_type_is_refused(api: Api, kind: object) -> None:
    body = {"messages": [{"role": "user", "content": [{"type": kind, "text": "x"}]}]}
    assert await api.refused("POST", "turns", json=body) == (400, "messages.0.content")


_NOTED = (SAID, LAST_SAID, RETRACTED_AT, STATED_END, RETRACTED_BY, ALL_FORGOTTEN_BY, MERGED_INTO, ENDED_BY)
_BESIDE = (COMPATIBLE_WITH, CONFLICTS_WITH, DREAMS, FEEDBACK, CORRECTS, CHANGES, PENDING)


@pytest.mark.parametrize(
    "value",
    ["noon", "2024-01-01", 7, {"id": 1}, [None, {"a": 1}], [{"id": "d", "at": "noon", "was": {}}]],
    ids=["words", "date", "number", "object", "list", "dream"],
)
async def test_a_callers_own_metadata_under_our_names_holds_up_nothing(api: Api, value: object) -> None:
    """Plans that cannot be made are tried again for minutes, and all that the user asks for waits behind them."""
    noted = dict.fromkeys((*_NOTED, *_BESIDE), value)
    for city in ("B0", "B1"):
        await api.store("Nils plays the piano.", metadata=noted, session_id="s")
        await api.store(f"Ann lives in {city}", subject="Ann", predicate="lives_in", object=city, metadata=noted)
    await api.say("s", "I live in Bern.", metadata=noted)
    told = await api.post("dream")
    assert told["state"] == "done", told
    for method, path in (("POST", f"dreams/{told['id']}/undo"), ("DELETE", "sessions/s"), ("DELETE", "users/default")):
        await api.ok(method, path)
    assert await api.page() == []
