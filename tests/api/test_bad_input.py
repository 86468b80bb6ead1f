from pathlib import Path
from typing import Any

import pytest

from memproxy.settings import ServerSettings, Settings
from tests.support.engine import Api, make_engine, serve_engine

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"content-type": "application/json"}
JSON_CALLS = [("POST", ""), ("PATCH", "x"), ("POST", "turns"), ("POST", "search"), ("POST", "recall")]
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
    answer = await api.ask(method, path, **arguments)
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
        await refused(api, method, path, content=body, headers=JSON)


@pytest.mark.parametrize(("method", "path"), JSON_CALLS)
async def test_other_content_types_are_refused(api: Api, method: str, path: str) -> None:
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        answer = await api.status(method, path, content=b'{"content": "x"}', headers={"content-type": content_type})
        assert answer == 415, content_type
    assert await api.status(method, path, content=b"{}") == 415
    assert await api.page() == []


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"content":"x","user_id":"ann","user_id":"ben"}', "user_id"),
        (b'{"content":"x","metadata":{"a":[{"b":1,"b":1e3}]}}', "b"),
    ],
)
async def test_a_name_that_is_given_twice_is_refused(api: Api, body: bytes, param: str) -> None:
    await refused(api, "POST", "", param, content=body, headers=JSON)


async def test_json_with_a_suffix_or_a_charset_is_taken(api: Api) -> None:
    for content_type in ("application/json; charset=utf-8", "application/vnd.memory+json", "APPLICATION/JSON"):
        headers = {"content-type": content_type}
        assert await api.status("POST", content=b'{"content":"x"}', headers=headers) == 201, content_type


DEEP = {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": {"i": 1}}}}}}}}}
WRONG: dict[str, list[Any]] = {
    "content": [None, 5, "", "  \n", "a\x00b", "x" * 100_001],
    "unknown": [1],
    "id": ["mine"],
    "kind": ["turn", "fact", 7],
    "tags": ["one", ["t"] * 101],
    "category": ["c" * 201, "a\x00"],
    "confidence": [1.1, -0.1, "0.5", True],
    "importance": [10**400],
    "trust": ["god"],
    "valid_from": ["soon"],
    "expires_at": [[]],
    "metadata": [[], {"a": "x" * 20_000}, {"a": 2**80}, {"a\x00": 1}, {"a": ["b\x00"]}, DEEP],
    "relations": [{}],
    "user_id": ["", "u" * 257, "a\nb", 3],
    "session_id": ["\x7f"],
}
"""What no memory may have in a field."""


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "content"),
        ({"content": "x", "tags": [1]}, "tags.0"),
        ({"content": "x", "valid_from": "2024-01-02T00:00:00Z", "valid_to": "2024-01-01T00:00:00Z"}, "valid_to"),
        ({"content": "x", "relations": [{"subject": "a"}]}, "relations.0.predicate"),
        *(({"content": "x", field: value}, field) for field, values in WRONG.items() for value in values),
    ],
)
async def test_a_memory_with_a_wrong_field_is_refused_and_the_field_named(
    api: Api, body: dict[str, Any], param: str
) -> None:
    await refused(api, "POST", "", param, json=body)
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
    assert await api.refused("PATCH", memory["id"], json=body) == ((404, "id") if param is None else (400, param))
    assert await api.get(memory["id"]) == memory


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": {}}, "messages"),
        ({"messages": [{"role": "user", "content": "x"}], "metadata": {"role": "system"}}, "metadata"),
        ({"messages": [{"role": "user", "content": "x"}] * 2_001}, "messages"),
    ],
)
async def test_wrong_turns_are_refused_whole(api: Api, body: dict[str, Any], param: str) -> None:
    await refused(api, "POST", "turns", param, json={"session_id": "s1", **body})
    assert await api.page() == []


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({}, "role"),
        ({"role": "user"}, "content"),
        ({"role": "wizard", "content": "x"}, "role"),
        ({"role": "user", "content": ""}, "content"),
        ({"role": "user", "content": "a\x00"}, "content"),
        ({"role": "user", "content": [{"type": "image_url", "text": "x"}]}, "content"),
        ({"role": "assistant", "content": None, "tool_calls": []}, "content"),
        *(({"role": "user", "content": "x", "id": value}, "id") for value in (1, "a\x00")),
        *(({"role": "user", "content": "x", "timestamp": value}, "timestamp") for value in ("later", 1e300)),
        ({"role": "user", "content": "x", "foo": 1}, "foo"),
    ],
)
async def test_a_wrong_message_is_refused_and_named(api: Api, message: dict[str, Any], field: str) -> None:
    await refused(api, "POST", "turns", f"messages.0.{field}", json={"session_id": "s1", "messages": [message]})
    assert await api.page() == []


@pytest.mark.parametrize("path", ["search", "recall"])
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
    await refused(api, "GET", "", param, params=query)


async def test_numbers_of_a_search_are_checked(api: Api) -> None:
    await refused(api, "POST", "search", "as_of", json={"query": "x", "as_of": "20230508"})
    for limit in (0, -1, 201, 1.5, True, "5", 10**30):
        await refused(api, "POST", "search", "limit", json={"query": "x", "limit": limit})
    for tokens in (-1, 1.5, 10**30):
        await refused(api, "POST", "recall", "max_tokens", json={"query": "x y z", "max_tokens": tokens})


async def test_odd_ids_are_simply_not_found(api: Api) -> None:
    for name in ("%00", "%FF", "..%2F..", "x" * 5_000, "%F0%9F%98%80", "a%20b", "'%22%3B--"):
        for method in ("GET", "DELETE"):
            assert await api.status(method, name) == 404, (method, name)


async def test_names_of_a_query_that_are_not_utf_8_are_refused_and_never_taken_for_one_another(api: Api) -> None:
    await api.store("kept", user_id="M\N{REPLACEMENT CHARACTER}ller")
    assert (await api.call("GET", "/v1/memory?user_id=M%FCller")).status_code == 400
    assert (await api.call("GET", "/v1/memory?user_id=M%EF%BF%BDller")).json()["data"]


async def test_a_body_over_the_limit_is_413(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, settings=Settings(server=ServerSettings(max_body_bytes=1_000)))
    async with serve_engine(engine) as api:
        assert await api.code("POST", json={"content": "x" * 2_000}) == (413, "body_too_large")
