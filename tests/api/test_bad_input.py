from pathlib import Path
from typing import Any

import pytest

from memproxy.settings import ServerSettings, Settings
from tests.support.engine import Api, make_engine, serve_engine

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON_CALLS = [
    ("POST", "/v1/memory"),
    ("PATCH", "/v1/memory/x"),
    ("POST", "/v1/memory/turns"),
    ("POST", "/v1/memory/search"),
    ("POST", "/v1/memory/recall"),
]
NOT_JSON: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b'"text"',
    b"null",
    b'{"content": NaN}',
    b'{"content": "x", "confidence": 1e400}',
    b'{"content": "x", "metadata": {"a": -1e400}}',
    b'{"content": "\\ud800"}',
    b'{"content": "\xff"}',
    b'\xef\xbb\xbf{"content": "x"}',
    b'{"content": "x", "metadata": ' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}",
    b"[" * 1_000_000,
]


async def refused(api: Api, method: str, path: str, param: str | None = None, **arguments: Any) -> None:
    answer = await api.call(method, path, **arguments)
    assert answer.status_code == 400, (method, path, arguments, answer.text)
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert set(error) == {"message", "type", "param", "code"}
    if param is not None:
        assert error["param"] == param
        assert param in error["message"]


@pytest.mark.parametrize(("method", "path"), JSON_CALLS)
async def test_a_body_that_is_not_a_json_object_is_refused(api: Api, method: str, path: str) -> None:
    for body in NOT_JSON:
        await refused(api, method, path, content=body, headers={"content-type": "application/json"})


@pytest.mark.parametrize(("method", "path"), JSON_CALLS)
async def test_other_content_types_are_refused(api: Api, method: str, path: str) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        answer = await api.call(method, path, content=b'{"content": "x"}', headers={"content-type": content_type})
        assert answer.status_code == 415, content_type
    assert (await api.call(method, path, content=b"{}")).status_code == 415
    assert await api.page() == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"content":"x","user_id":"ann","user_id":"ben"}', "user_id"),
        (b'{"content":"x","metadata":{"a":[{"b":1,"b":1e3}]}}', "b"),
    ],
)
async def test_a_name_that_is_given_twice_is_refused(api: Api, body: bytes, param: str) -> None:
    await refused(api, "POST", "/v1/memory", param, content=body, headers={"content-type": "application/json"})


async def test_json_with_a_suffix_or_a_charset_is_taken(api: Api) -> None:
    for content_type in ("application/json; charset=utf-8", "application/vnd.memory+json", "APPLICATION/JSON"):
        answer = await api.call(
            "POST", "/v1/memory", content=b'{"content":"x"}', headers={"content-type": content_type}
        )
        assert answer.status_code == 201, content_type


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "content"),
        ({"content": None}, "content"),
        ({"content": 5}, "content"),
        ({"content": ""}, "content"),
        ({"content": "  \n"}, "content"),
        ({"content": "a\x00b"}, "content"),
        ({"content": "x" * 100_001}, "content"),
        ({"content": "x", "unknown": 1}, "unknown"),
        ({"content": "x", "id": "mine"}, "id"),
        ({"content": "x", "kind": "turn"}, "kind"),
        ({"content": "x", "kind": "fact"}, "kind"),
        ({"content": "x", "kind": 7}, "kind"),
        ({"content": "x", "tags": "one"}, "tags"),
        ({"content": "x", "tags": [1]}, "tags.0"),
        ({"content": "x", "tags": ["t"] * 101}, "tags"),
        ({"content": "x", "category": "c" * 201}, "category"),
        ({"content": "x", "category": "a\x00"}, "category"),
        ({"content": "x", "confidence": 1.1}, "confidence"),
        ({"content": "x", "confidence": -0.1}, "confidence"),
        ({"content": "x", "confidence": "0.5"}, "confidence"),
        ({"content": "x", "confidence": True}, "confidence"),
        ({"content": "x", "importance": 10**400}, "importance"),
        ({"content": "x", "trust": "god"}, "trust"),
        ({"content": "x", "valid_from": "soon"}, "valid_from"),
        ({"content": "x", "valid_from": "2024-01-02T00:00:00Z", "valid_to": "2024-01-01T00:00:00Z"}, "valid_to"),
        ({"content": "x", "expires_at": []}, "expires_at"),
        ({"content": "x", "metadata": []}, "metadata"),
        ({"content": "x", "metadata": {"a": "x" * 20_000}}, "metadata"),
        ({"content": "x", "metadata": {"a": 2**80}}, "metadata"),
        ({"content": "x", "metadata": {"a\x00": 1}}, "metadata"),
        ({"content": "x", "metadata": {"a": ["b\x00"]}}, "metadata"),
        ({"content": "x", "metadata": {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}}, "metadata"),
        ({"content": "x", "relations": {}}, "relations"),
        ({"content": "x", "relations": [{"subject": "a"}]}, "relations.0.predicate"),
        ({"content": "x", "user_id": ""}, "user_id"),
        ({"content": "x", "user_id": "u" * 257}, "user_id"),
        ({"content": "x", "user_id": "a\nb"}, "user_id"),
        ({"content": "x", "user_id": 3}, "user_id"),
        ({"content": "x", "session_id": "\x7f"}, "session_id"),
    ],
)
async def test_a_memory_with_a_wrong_field_is_refused_and_the_field_named(
    api: Api, body: dict[str, Any], param: str
) -> None:
    await refused(api, "POST", "/v1/memory", param, json=body)
    assert await api.page() == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"content": None}, "content"),
        ({"tags": None}, "tags"),
        ({"kind": "turn"}, "kind"),
        ({"turn_ids": []}, "turn_ids"),
        ({"active": False}, "active"),
        ({"content": "x" * 100_001}, "content"),
        ({"user_id": "somebody", "content": "x"}, None),
    ],
)
async def test_a_wrong_edit_is_refused_and_changes_nothing(api: Api, body: dict[str, Any], param: str | None) -> None:
    memory = await api.store("as it was")
    answer = await api.call("PATCH", f"/v1/memory/{memory['id']}", json=body)
    assert answer.status_code == (404 if param is None else 400)
    assert answer.json()["error"]["param"] == (param or "id")
    assert (await api.call("GET", f"/v1/memory/{memory['id']}")).json() == memory


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [{}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user", "content": ""}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": "a\x00"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url", "text": "x"}]}]}, "messages.0.content"),
        ({"messages": [{"role": "assistant", "content": None, "tool_calls": []}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": "x", "id": 1}]}, "messages.0.id"),
        ({"messages": [{"role": "user", "content": "x", "id": "a\x00"}]}, "messages.0.id"),
        ({"messages": [{"role": "user", "content": "x", "timestamp": "later"}]}, "messages.0.timestamp"),
        ({"messages": [{"role": "user", "content": "x", "timestamp": 1e300}]}, "messages.0.timestamp"),
        ({"messages": [{"role": "user", "content": "x", "foo": 1}]}, "messages.0.foo"),
        ({"messages": [{"role": "user", "content": "x"}], "metadata": {"role": "system"}}, "metadata"),
        ({"messages": [{"role": "user", "content": "x"}] * 2_001}, "messages"),
    ],
)
async def test_wrong_turns_are_refused_whole(api: Api, body: dict[str, Any], param: str) -> None:
    await refused(api, "POST", "/v1/memory/turns", param, json={"session_id": "s1", **body})
    assert await api.page() == []


@pytest.mark.parametrize("path", ["/v1/memory/search", "/v1/memory/recall"])
async def test_a_wrong_query_is_refused(api: Api, path: str) -> None:
    for query in (None, "", "   ", 5, "a\x00", "x" * 10_001, ["a"]):
        await refused(api, "POST", path, "query", json={"query": query})


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "-1"}, "limit"),
        ({"limit": "201"}, "limit"),
        ({"limit": "1e400"}, "limit"),
        ({"limit": "9" * 5_000}, "limit"),
        ({"limit": ["1", "2"]}, "limit"),
        ({"cursor": "nonsense"}, "cursor"),
        ({"cursor": "x" * 3_000}, "cursor"),
        ({"kind": "other"}, "kind"),
        ({"active": "maybe"}, "active"),
        ({"tag": ["a", ""]}, "tag.1"),
        ({"as_of": "then"}, "as_of"),
        ({"as_of": "20230508"}, "as_of"),
        ({"user_id": "a\x00"}, "user_id"),
        ({"user_id": ["a", "b"]}, "user_id"),
        ({"unknown": "1"}, "unknown"),
    ],
)
async def test_a_wrong_list_query_is_refused(api: Api, query: dict[str, Any], param: str | None) -> None:
    await refused(api, "GET", "/v1/memory", param, params=query)


async def test_numbers_of_a_search_are_checked(api: Api) -> None:
    await refused(api, "POST", "/v1/memory/search", "as_of", json={"query": "x", "as_of": "20230508"})
    for limit in (0, -1, 201, 1.5, True, "5", 10**30):
        await refused(api, "POST", "/v1/memory/search", "limit", json={"query": "x", "limit": limit})
    for tokens in (-1, 1.5, 10**30):
        await refused(api, "POST", "/v1/memory/recall", "max_tokens", json={"query": "x y z", "max_tokens": tokens})


async def test_odd_ids_are_simply_not_found(api: Api) -> None:
    for name in ("%00", "%FF", "..%2F..", "x" * 5_000, "%F0%9F%98%80", "a%20b", "'%22%3B--"):
        for method in ("GET", "DELETE"):
            answer = await api.call(method, f"/v1/memory/{name}")
            assert answer.status_code == 404, (method, name)


async def test_a_body_over_the_limit_is_413(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, settings=Settings(server=ServerSettings(max_body_bytes=1_000)))
    async with serve_engine(engine) as api:
        answer = await api.call("POST", "/v1/memory", json={"content": "x" * 2_000})
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
