"""Every call of the memory API by who is bound to a project, to a user, or stands in an agent, about what is another's.

One real server; the owner stores one of everything where the caller may not look, and the table below asks for it by id
and for the same that is not there. The answers must be the same, hold nothing of it, and leave it as it is: so calls
share what is stored, but for those that leave the caller something of his own with a name of it.
"""

import json
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio

from memproxy.api.openapi import describe
from memproxy.core.memory import short_id
from tests.isolation.operations import LINES, memory_line
from tests.isolation.people import new_cheap_key
from tests.support.folders import Folders
from tests.support.proxy import running_proxy
from tests.support.upstream import scripted_upstream
from tests.support.waiting import eventually

WORD = "quincemarmalade"
BINDINGS = ("project", "user", "agent")
BOUND = ("project", "user")
"""What a key can be bound to. Who names an agent by header may import for all of the user."""

_CHANGING = re.compile(r'"(?:access_count|last_accessed_at|updated_at)":("[^"]*"|\d+|null),?')
_UNIQUE = re.compile(r"(?:mem|req|ses|api)_[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
_POINTER = re.compile(r"W-\d+/R-\d+")
_WAITING = re.compile(r'"queues":\{("\w+":\{[^{}]*\},?)+\},')
"""A user's own queue, which is another at another moment."""

_MILLISECONDS = re.compile(r'"(\w+)":\d+\.\d+')
_NOT_COMPARED = ((_UNIQUE, "ID"), (_TIME, "TIME"), (_MILLISECONDS, r'"\1":0'), (_POINTER, "PLACE"), (_WAITING, ""))


@dataclass(frozen=True)
class Ask:
    """A call; names in braces stand for what is another's. ``lines`` names what an import brings under its id, and what
    a ``keeping`` call says is kept, as the caller's own.
    """

    method: str
    path: str
    body: Mapping[str, Any] | None = None
    lines: str = ""
    bindings: tuple[str, ...] = BINDINGS
    keeping: bool = False


MEMORY = ("{fact}", "{turn}", "{cited}")
CALLS = (
    *(Ask("GET", f"/v1/memory/{name}") for name in MEMORY),
    *(Ask("GET", f"/v1/memory/{name}/history") for name in MEMORY),
    Ask("GET", "/v1/memory/{turn}?session_id={session}"),
    *(Ask("PATCH", f"/v1/memory/{name}", {"tags": ["mine"]}) for name in MEMORY),
    Ask("PATCH", "/v1/memory/{fact}", {"content": "taken over"}),
    Ask("PATCH", "/v1/memory/{fact}", {"project_id": "apollo", "agent_id": "coder"}),
    *(Ask("DELETE", f"/v1/memory/{name}") for name in MEMORY),
    Ask("POST", "/v1/memory/feedback", {"memory_id": "{fact}", "signal": "wrong"}),
    Ask("POST", "/v1/memory/feedback", {"memory_id": "{turn}", "signal": "correction", "text": "no"}),
    Ask("POST", "/v1/memory/feedback", {"request_id": "{receipt}", "signal": "wrong"}),
    Ask("GET", "/v1/memory/receipts/{receipt}"),
    Ask("GET", "/v1/memory/receipts?limit=2"),
    Ask("GET", "/v1/memory/receipts?session_id={session}"),
    Ask("GET", "/v1/memory/receipts?memory_id={fact}"),
    Ask("GET", "/v1/memory/sessions"),
    Ask("GET", "/v1/memory/sessions?limit=1"),
    Ask("GET", "/v1/memory?session_id={session}"),
    Ask("GET", "/v1/memory?room={session}&tag={word}&entity={word}&category={word}"),
    Ask("GET", "/v1/memory?project_id=zeus&project_id=apollo&agent_id=planner&agent_id=coder&tag={word}"),
    Ask("GET", "/v1/memory/palace?wing={word}"),
    Ask("GET", "/v1/memory/palace?wing=user&room={session}"),
    Ask("GET", "/v1/memory/palace?limit=1"),
    Ask("GET", "/v1/memory/entities?prefix={word}"),
    Ask("GET", "/v1/memory/entities/{word}/timeline"),
    Ask("GET", "/v1/memory/categories"),
    Ask("GET", "/v1/memory/activity"),
    Ask("GET", "/v1/memory/activity?session_id={session}"),
    Ask("POST", "/v1/memory/activity/retry"),
    Ask("GET", "/v1/memory/stats"),
    Ask("GET", "/v1/memory/settings"),
    Ask("GET", "/v1/memory/audit"),
    Ask("GET", "/v1/memory/export"),
    Ask("GET", "/v1/memory/export?vectors=true&limit=1"),
    Ask("POST", "/v1/memory/search", {"query": "{word}", "limit": 200, "explain": True}),
    Ask("POST", "/v1/memory/search", {"query": "what is it?", "session_id": "{session}"}),
    Ask("POST", "/v1/memory/recall", {"query": "What is my {word} code?", "session_id": "{session}", "explain": True}),
    Ask("POST", "/v1/memory/prune", {"dry_run": True}),
    Ask("POST", "/v1/memory/import?dry_run=true", lines="{fact}", bindings=BOUND),
    Ask("POST", "/v1/memory/import?dry_run=true", lines="{turn}", bindings=BOUND),
    Ask("POST", "/v1/memory/import", lines="{fact}", bindings=BOUND, keeping=True),
    Ask("POST", "/v1/memory/import", lines="{turn}", bindings=BOUND, keeping=True),
    Ask(
        "POST",
        "/v1/memory/turns",
        {"session_id": "{session}", "messages": [{"role": "user", "content": "I said so", "id": "{turn}"}]},
        keeping=True,
    ),
    Ask(
        "POST",
        "/v1/memory/turns",
        {"session_id": "{session}", "messages": [{"role": "user", "content": "My {word} code is here"}]},
        keeping=True,
    ),
    Ask("POST", "/v1/memory", {"content": "mine", "session_id": "{session}"}, keeping=True),
    Ask("POST", "/v1/memory/sessions/{session}/end?wait=true", keeping=True),
    Ask("POST", "/v1/memory/sessions/{session}/mine?wait=true", keeping=True),
    Ask("DELETE", "/v1/memory/sessions/{session}", keeping=True),
    Ask("DELETE", "/v1/memory?session_id={session}", keeping=True),
    Ask("PUT", "/v1/memory/settings", {"mode": "read", "agent_id": "somebody"}),
    # of all of a user's projects, and refused to a key for one
    Ask("POST", "/v1/memory/dream", {"dry_run": True}, bindings=BOUND),
    Ask("GET", "/v1/memory/dreams", bindings=BOUND),
    Ask("GET", "/v1/memory/dreams/{word}", bindings=BOUND),
    Ask("POST", "/v1/memory/dreams/{word}/undo", bindings=BOUND),
    Ask("POST", "/v1/memory/reflect", {"query": "{word}"}),
    Ask("GET", "/v1/memory/conflicts"),
    Ask("POST", "/v1/memory/conflicts/{word}", {"keep": "both"}),
    # agents of one user hand these to each other
    Ask("GET", "/v1/memory/working/{key}", bindings=BOUND),
    Ask("GET", "/v1/memory/working?prefix=session/&tag={word}", bindings=BOUND),
    Ask("POST", "/v1/memory/working/search", {"query": "{word}"}, bindings=BOUND),
    Ask("PUT", "/v1/memory/working/{key}", {"data": "mine", "ttl_s": 3600}, bindings=BOUND, keeping=True),
    Ask("DELETE", "/v1/memory/working/{key}", bindings=BOUND),
)
"""Every call of ``/openapi.json`` is among these or in `WITHOUT`."""

WITHOUT = {("DELETE", "/v1/memory/users/{id}")}
"""It erases the caller's whole user; who may call it is in tests/api/test_isolation.py."""


@dataclass(frozen=True)
class Server:
    """The server, its keys, and the names of what its people stored, by who asks for it."""

    client: httpx.AsyncClient
    keys: Mapping[str, str]
    stored: dict[str, dict[str, str]]

    def as_owner(self, binding: str) -> dict[str, str]:
        """Who stores what the caller may not see: in another project, as another user, to another agent."""
        headers = {"authorization": f"Bearer {self.keys[f'owner-{binding}']}"}
        return headers | {"project": {"x-memproxy-project": "zeus"}, "agent": {"x-memproxy-agent": "planner"}}.get(
            binding, {}
        )

    def as_caller(self, binding: str) -> dict[str, str]:
        """Who asks."""
        agent = {"x-memproxy-agent": "coder"} if binding == "agent" else {}
        return {"authorization": f"Bearer {self.keys[binding]}"} | agent


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(folders: Folders) -> AsyncIterator[Server]:
    entries: list[dict[str, Any]] = []
    permissions = ["chat", "memory:read", "memory:write"]
    bound = {
        "owner-project": {"user": "ann"},
        "project": {"user": "ann", "project": "apollo"},
        "owner-user": {"user": "ben"},
        "user": {"user": "bob"},
        "owner-agent": {"user": "cat"},
        "agent": {"user": "cat"},
    }
    keys = {
        name: new_cheap_key(entries, tenant="acme", permissions=permissions, **fields) for name, fields in bound.items()
    }
    config = {
        "auth": {"mode": "keys", "keys": entries},
        "upstream": {"api_key": "sk-of-the-operator"},
        "learn": {"mode": "verbatim", "every_turns": 200, "idle_s": 3600},
        "retention": {"max_per_user": 10_000},
    }
    with folders.new("bindings") as folder:
        async with (
            scripted_upstream() as upstream,
            running_proxy(upstream.base_url, folder, config, memory=False) as proxy,
            proxy.client(None) as client,
        ):
            served = Server(client, keys, {})
            await eventually(lambda: _answers(served), what="memory answers")
            yield served


async def _answers(server: Server) -> bool:
    return (await server.client.get("/v1/memory", headers=server.as_owner("user"))).status_code == 200


async def _names(server: Server, binding: str, number: int) -> dict[str, str]:
    """Names of one of everything, of the owner."""
    ask = CALLS[number]
    if ask.keeping:
        return await _stored(server, binding, f"{WORD}{binding}{number}")
    if binding not in server.stored:
        server.stored[binding] = await _stored(server, binding, f"{WORD}{binding}")
    return server.stored[binding]


async def _stored(server: Server, binding: str, word: str) -> dict[str, str]:
    owner = server.as_owner(binding)
    session, turn = f"s-{word}", f"D-{word}:1"
    fact = {"content": f"The {word} code is 17", "tags": [word], "entities": [word], "category": word, "subject": word}
    kept = await server.client.post("/v1/memory", headers=owner, json={**fact, "session_id": session})
    assert kept.status_code == 201, kept.text
    said = [
        {"role": "user", "content": f"My {word} code is here", "id": turn},
        {"role": "user", "content": f"My {word} code is here"},
    ]
    told = await server.client.post("/v1/memory/turns", headers=owner, json={"session_id": session, "messages": said})
    assert told.status_code == 201, told.text
    chat = {"model": "m", "messages": [{"role": "user", "content": f"What is my {word} code?"}]}
    asked = await server.client.post("/v1/chat/completions", headers=owner | {"x-memproxy-memory": "read"}, json=chat)
    assert asked.status_code == 200, asked.text
    receipt = asked.headers["x-memproxy-request-id"]
    key = f"session/{session}/notes"
    entry = {"data": f"The {word} code is 17", "tags": [word], "ttl_s": 3600}
    put = await server.client.put(f"/v1/memory/working/{key}", headers=owner, json=entry)
    assert put.status_code == 201, put.text
    name = kept.json()["id"]
    named = {"fact": name, "cited": f"m:{short_id(name)}", "turn": turn}
    return {**named, "key": key, "session": session, "receipt": receipt, "word": word}


def _nobodys(names: Mapping[str, str]) -> dict[str, str]:
    word = names["word"].replace(WORD, "pearmarmalade")
    swapped = {name: value.replace(names["word"], word) for name, value in names.items()}
    return swapped | {
        name: value[:-4] + "0000" for name, value in names.items() if name in {"fact", "cited", "receipt"}
    }


def _filled(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text


async def _asked(server: Server, binding: str, ask: Ask, names: Mapping[str, str]) -> httpx.Response:
    arguments: dict[str, Any] = {}
    if ask.body is not None:
        arguments["json"] = json.loads(_filled(json.dumps(ask.body), names))
    if ask.lines:
        place = {"project": {"project_id": "apollo"}, "agent": {"agent_id": "coder"}}.get(binding, {})
        turn = {"kind": "turn", "session_id": names["session"], "metadata": {"role": "user"}}
        more = place | (turn if ask.lines == "{turn}" else {})
        line = memory_line(_filled(ask.lines, names), "planted", updated_at="2099-01-01T00:00:00Z", **more)
        arguments |= {"content": line}
    headers = server.as_caller(binding) | (dict(LINES) if ask.lines else {})
    return await server.client.request(ask.method, _filled(ask.path, names), headers=headers, **arguments)


def _comparable(response: httpx.Response, names: Mapping[str, str]) -> tuple[int, str]:
    text = response.text
    for name, value in names.items():
        text = text.replace(value, f"<{name}>")
    for pattern, stands in _NOT_COMPARED:
        text = pattern.sub(stands, text)
    return response.status_code, text


async def _owned(server: Server, binding: str, names: Mapping[str, str]) -> list[str]:
    """Everything of that number that the owner has, as the owner reads it."""
    listed = await server.client.get("/v1/memory/export", headers=server.as_owner(binding))
    assert listed.status_code == 200, listed.text
    working = await server.client.get(f"/v1/memory/working/{names['key']}", headers=server.as_owner(binding))
    assert working.status_code == 200, working.text
    lines = [*listed.text.splitlines(), working.text]
    return sorted(_CHANGING.sub("", line) for line in lines if names["word"] in line)


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("binding", BINDINGS)
@pytest.mark.parametrize("number", range(len(CALLS)), ids=lambda one: f"{CALLS[one].method} {CALLS[one].path}")
async def test_what_is_anothers_is_answered_as_what_is_not_there_and_stays(
    server: Server, binding: str, number: int
) -> None:
    ask = CALLS[number]
    if binding not in ask.bindings:
        return
    names = await _names(server, binding, number)
    nothing, before = _nobodys(names), await _owned(server, binding, names)
    assert len(before) >= 4
    theirs = await _asked(server, binding, ask, names)
    nobodys = await _asked(server, binding, ask, nothing)
    assert theirs.status_code < 500
    assert _comparable(theirs, names) == _comparable(nobodys, nothing)
    sent = _filled(f"{ask.path} {json.dumps(ask.body)} {ask.lines}", names)
    told = theirs.text
    for value in names.values():
        told = told if value not in sent else told.replace(value, "")
    assert WORD not in told
    assert names["fact"] not in told
    assert await _owned(server, binding, names) == before


def test_the_table_has_every_call() -> None:
    described = {
        (method.upper(), path)
        for path, methods in describe()["paths"].items()
        for method in methods
        if path.startswith("/v1/memory") and method in {"get", "put", "post", "patch", "delete"}
    }
    missing = {
        (method, path)
        for method, path in described - WITHOUT
        if not any(ask.method == method and _matches(path, ask.path.partition("?")[0]) for ask in CALLS)
    }
    assert not missing


def _matches(template: str, path: str) -> bool:
    parts, given = template.split("/"), path.split("/")
    return len(parts) == len(given) and all(
        one == other or (one.startswith("{") and other.startswith("{")) for one, other in zip(parts, given, strict=True)
    )
