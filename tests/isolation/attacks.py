"""What somebody tries who wants to see, change or erase what is another's."""

import base64
import json
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests.isolation.bound import bound_to_a_project, key_elsewhere
from tests.isolation.calling import Caller, must
from tests.isolation.operations import LINES, memory_line
from tests.isolation.people import QUESTIONS, Person, forged_tokens
from tests.isolation.raw_paths import kept_upstream, raw_path
from tests.isolation.watching import Leak

Attack = Callable[[Caller, Person, Person], Awaitable[None]]


async def ids(caller: Caller, person: Person, victim: Person) -> None:
    """Another's memory or turn by its id, in every call that takes one."""
    names = [name for name in (*victim.memories, *victim.turns) if name not in person.taken]
    if not names:
        return
    name = caller.random.choice(names)
    tag = [("if-match", caller.random.choice(victim.tags))] if victim.tags and caller.random.random() < 0.3 else []
    calls: list[tuple[str, str, dict[str, Any] | None, list[tuple[str, str]]]] = [
        ("GET", "/v1/memory/ID", None, []),
        ("GET", "/v1/memory/ID/history", None, []),
        ("PATCH", "/v1/memory/ID", {"content": f"taken over by {person.canary}"}, tag),
        ("DELETE", "/v1/memory/ID", None, tag),
        ("POST", "/v1/memory/feedback", {"memory_id": "ID", "signal": "wrong"}, []),
        (
            "POST",
            "/v1/memory/feedback",
            {"memory_id": "ID", "signal": "correction", "text": f"no, {person.canary}"},
            [],
        ),
    ]
    method, path, body, headers = caller.random.choice(calls)
    await caller.pair(f"{method} {path}", person, name, method, path, json=body, headers=headers)


async def receipts(caller: Caller, person: Person, victim: Person) -> None:
    """Another's receipt."""
    if victim.receipts:
        name = caller.random.choice(victim.receipts)
        await caller.pair("GET receipt", person, name, "GET", "/v1/memory/receipts/ID")
        body = {"request_id": "ID", "signal": "wrong"}
        await caller.pair("POST feedback on a receipt", person, name, "POST", "/v1/memory/feedback", json=body)


async def sessions(caller: Caller, person: Person, victim: Person) -> None:
    """Another's session: listed, undone, ended, forgotten, recalled in, and joined."""
    names = [name for name in victim.sessions if victim.canary in name and name not in person.taken]
    if not names:
        return
    name = caller.random.choice(names)
    method, path = caller.random.choice(
        [
            ("GET", "/v1/memory?session_id=ID"),
            ("GET", "/v1/memory/palace?wing=user&room=ID"),
            ("GET", "/v1/memory/activity?session_id=ID"),
            ("DELETE", "/v1/memory/sessions/ID"),
            ("DELETE", "/v1/memory?session_id=ID"),
            ("POST", "/v1/memory/sessions/ID/end"),
            ("POST", "/v1/memory/sessions/ID/mine"),
        ]
    )
    await caller.pair(f"{method} {path}", person, name, method, path)
    body = {"query": caller.random.choice(QUESTIONS), "session_id": name}
    await caller.call("recall in another's session", person, "POST", "/v1/memory/recall", json=body, carried=[name])
    if caller.random.random() < 0.3:
        person.taken.add(name)  # a session of one's own by that name, from here on
        await _ask(caller, person, headers=[("x-memproxy-session", name)])


async def names(caller: Caller, person: Person, victim: Person) -> None:
    """What another calls people and places: entities, wings, tags."""
    told = f"Mr {victim.canary}"
    path = caller.random.choice(
        ["/v1/memory/entities/ID/timeline", "/v1/memory/palace?wing=ID", "/v1/memory?tag=ID", "/v1/memory?entity=ID"]
    )
    await caller.pair(f"GET {path}", person, told, "GET", path)


async def cursors(caller: Caller, person: Person, victim: Person) -> None:
    """Another's place in a list: one goes on from there in one's own list, or is told that it is no cursor."""
    if not victim.cursors:
        return
    path, _, cursor = caller.random.choice(victim.cursors).partition(" ")
    if path in {"/v1/memory", "/v1/memory/export"}:
        moment, place = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        # the place beside it: both leave out the same of one's own memories of that very moment (that of an import)
        beside = str(uuid.UUID(int=uuid.UUID(place).int ^ 1))
        other = base64.urlsafe_b64encode(json.dumps([moment, beside], separators=(",", ":")).encode())

        async def ask(place: str) -> httpx.Response:
            return await caller.call("another's cursor", person, "GET", path, params={"cursor": place, "limit": 5})

        await caller.compare("another's cursor", ask, (cursor, other.decode().rstrip("=")))
    wrong = caller.random.choice(["/v1/memory", "/v1/memory/palace", "/v1/memory/entities", "/v1/memory/export"])
    must(await caller.call("another's cursor anywhere", person, "GET", wrong, params={"cursor": cursor}), 200, 400)


async def _ask(caller: Caller, person: Person, **more: Any) -> None:
    text = f"{caller.random.choice(QUESTIONS)} (sender-{person.number}-of-this-message)"
    body = {"model": "test-model", "messages": [{"role": "user", "content": text}], **more.pop("fields", {})}
    must(await caller.call("forged chat", person, "POST", "/v1/chat/completions", json=body, **more), 200, 400, 403)


async def fields(caller: Caller, person: Person, victim: Person) -> None:
    """Another's name where a body may name somebody; one's own key and header say who it is."""
    name = victim.user if victim.tenant == person.tenant else f"{victim.tenant}/{victim.user}"
    forged: dict[str, Any] = caller.random.choice(
        [
            {"user": name},
            {"metadata": {"user_id": name}},
            {"safety_identifier": name},
            {"memory_context": {"user_id": name, "session_id": "session-1"}},
            {"memory_context": {"tenant": victim.tenant, "user_id": person.user}},
        ]
    )
    mine = [("x-memproxy-user", person.user), ("authorization", f"Bearer {person.key}")]
    await _ask(caller, person, fields=forged, instead=mine)
    if name == person.user:
        return
    method, path, body = caller.random.choice(
        [
            ("GET", f"/v1/memory?user_id={name}", None),
            ("GET", f"/v1/memory/export?user_id={name}", None),
            ("POST", "/v1/memory/search", {"query": caller.random.choice(QUESTIONS), "user_id": name}),
            ("POST", "/v1/memory/recall", {"query": caller.random.choice(QUESTIONS), "user_id": name}),
            ("POST", "/v1/memory", {"content": f"planted by {person.canary}", "user_id": name}),
            ("DELETE", f"/v1/memory?user_id={name}", None),
            ("DELETE", f"/v1/memory/users/{name.replace('/', '%2F')}", None),
            ("PUT", "/v1/memory/settings", {"user_id": name, "mode": "off"}),
            ("POST", "/v1/memory/prune", {"user_id": name, "dry_run": False}),
        ]
    )
    arguments: dict[str, Any] = {} if body is None else {"json": body}
    must(await caller.call("another's name", person, method, path, instead=mine, **arguments), 400, 403, 404)


async def headers(caller: Caller, person: Person, victim: Person) -> None:
    """Headers that would say who one is, if they were believed; twice, or the proxy's own."""
    inside = {"tenant": victim.tenant, "named_user": victim.user, "default_user": victim.user}
    forged = caller.random.choice(
        [
            [("x-memproxy-internal-identity", json.dumps(inside))],
            [("X-MEMPROXY-INTERNAL-IDENTITY", json.dumps(inside)), ("x-memproxy-tenant", victim.tenant)],
            [("x-forwarded-user", victim.user), ("x-user-id", victim.user), ("cookie", f"user={victim.user}")],
            [("x-memproxy-agent", f"agent of {victim.user}"), ("x-memproxy-project", "project-1")],
            [("connection", "authorization, x-memproxy-user")],
        ]
    )
    path = caller.random.choice(["/v1/memory", "/v1/memory/export", "/v1/memory/activity", "/v1/memory/palace"])
    must(await caller.call("forged headers", person, "GET", path, headers=forged), 200)
    body = {"query": caller.random.choice(QUESTIONS)}
    must(await caller.call("forged headers", person, "POST", "/v1/memory/search", headers=forged, json=body), 200)
    if victim.user != person.user:
        twice = [*caller.proof(person), ("x-memproxy-user", person.user), ("x-memproxy-user", victim.user)]
        must(await caller.call("a user named twice", person, "GET", path, instead=twice), 400)
    if victim.key != person.key:
        both = [*caller.proof(person), ("authorization", f"Bearer {victim.key}")]
        must(await caller.call("two keys", person, "GET", path, instead=both), 401)
        name = caller.random.choice(["api-key", "x-api-key"])
        must(await caller.call("two keys", person, "GET", path, instead=[(name, person.key), (name, victim.key)]), 401)
        # the Bearer token says who it is, whatever else is sent
        beside = [*caller.proof(person), ("api-key", victim.key), ("x-api-key", victim.key)]
        must(await caller.call("a key beside", person, "GET", path, instead=beside), 200)


async def keys(caller: Caller, person: Person, victim: Person) -> None:
    """Keys and tokens that are nobody's, or that only look like another's."""
    path = caller.random.choice(["/v1/memory", "/v1/memory/export", "/v1/memory/stats"])
    mode = caller.world.mode
    if mode == "jwt":
        forged = caller.random.choice(forged_tokens(victim, person))
    elif mode == "keys":
        forged = victim.key[:-43] + person.key[-43:]
    else:
        forged = victim.key.upper()
    named = [("authorization", f"Bearer {forged}"), ("x-memproxy-user", victim.user)]
    response = await caller.call("a forged key", person, "GET", path, instead=named)
    if mode != "passthrough" or person.user in {victim.user}:
        must(response, 200 if mode == "passthrough" else 401)
    body = {"model": "m", "messages": [{"role": "user", "content": caller.random.choice(QUESTIONS)}]}
    chat = await caller.call("a forged key", person, "POST", "/v1/chat/completions", instead=named, json=body)
    if chat.headers.get("x-memproxy-memories", "0") != "0":
        raise Leak(f"a forged key was given memories: {chat.headers}")


async def planting(caller: Caller, person: Person, victim: Person) -> None:
    """Import and ingest under another's ids and name: it becomes one's own or nothing, and theirs stays as it is."""
    own = f"Mine is {person.canary}."
    if victim.memories:
        name = caller.random.choice(list(victim.memories))
        person.taken.add(name)
        lines = memory_line(name, own) + memory_line(f"{name}-b", own, supersedes=name, superseded_by=name)
        if caller.world.mode != "passthrough" and victim.user != person.user:
            lines += memory_line(f"{name}-c", own, user_id=victim.user)
        told = await caller.call(
            "planted import", person, "POST", "/v1/memory/import", headers=list(LINES.items()), content=lines
        )
        must(told, 200, 202)
        await caller.call("planted history", person, "GET", f"/v1/memory/{name}-b/history", carried=[name])
    if victim.turns:
        name = caller.random.choice(victim.turns)
        person.taken.add(name)
        body = {"session_id": "session-1", "messages": [{"role": "user", "content": own, "id": name}]}
        await caller.call("planted turn", person, "POST", "/v1/memory/turns", json=body, carried=[name])
        await caller.call("forget planted", person, "DELETE", f"/v1/memory/{name}", carried=[name])


async def chains(caller: Caller, person: Person, victim: Person) -> None:
    """Going on from another's response, or with the beginning of another's conversation."""
    mark = f"(sender-{person.number}-of-this-message)"
    body: dict[str, Any]
    if victim.responses:
        body = {
            "model": "test-model",
            "input": f"{caller.random.choice(QUESTIONS)} {mark}",
            "previous_response_id": caller.random.choice(victim.responses),
        }
        allowed = 200 if caller.world.mode == "passthrough" else 403  # there the upstream knows whose key it is
        must(await caller.call("another's response", person, "POST", "/v1/responses", json=body), allowed)
    question = caller.random.choice(QUESTIONS)
    messages: list[dict[str, Any]] = []
    for said in (question, *caller.random.sample(QUESTIONS, 2)):
        messages += [{"role": "user", "content": said}, {"role": "assistant", "content": "Noted."}]
    messages.append({"role": "user", "content": f"{question} {mark}"})
    body = {"model": "test-model", "messages": messages}
    must(await caller.call("another's prefix", person, "POST", "/v1/chat/completions", json=body), 200)


async def kept(caller: Caller, person: Person, victim: Person) -> None:
    """What the upstream keeps of others under the operator's key: listed, and by its name."""
    if caller.world.mode == "passthrough":
        return
    path = caller.random.choice(
        [
            "/v1/chat/completions",
            "/v1/chat%2Fcompletions",
            "/v1//files",
            "/v1/models/..%2ffiles",
            "/v1/conversations/c/items",
            "/v1/responses",
        ]
    )
    must(await caller.call("what is kept", person, "GET", path), 403, 404)
    if victim.responses:
        name = caller.random.choice(victim.responses)
        calls = [("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")]
        method, more = caller.random.choice(calls)
        await caller.pair(f"{method} another's response", person, name, method, f"/v1/responses/ID{more}")
        refused = await caller.call("another's response", person, method, f"/v1/responses/{name}{more}", carried=[name])
        must(refused, 403)


async def operator(caller: Caller, person: Person, victim: Person) -> None:
    """A key with ``admin`` alone counts and erases, and reads nobody's words; nor does it reach another tenant."""
    key = caller.world.operators.get(victim.tenant)
    if key is None:
        return
    proof = [("authorization", f"Bearer {key}")]
    path = caller.random.choice([f"/v1/memory/stats?user_id={victim.user}", "/v1/memory/audit"])
    seen = await caller.client.request("GET", path, headers=proof)
    # the audit log names sessions and turns by the ids that were asked for, also by who only guessed them
    ids = [f"{form}-{one.canary}-" for one in caller.world.people for form in "sd"]
    caller.watch.answer("operator", None, seen, ids)
    must(seen, 200)
    named = [*proof, ("x-memproxy-user", victim.user)]
    for method, closed in (("GET", "/v1/memory"), ("GET", "/v1/memory/export"), ("GET", "/v1/memory/activity")):
        refused = await caller.client.request(method, closed, headers=named)
        caller.watch.answer("operator reads", None, refused)
        must(refused, 403)


async def ways_in(caller: Caller, person: Person, victim: Person) -> None:
    """Paths that only the relay may ask the engine by."""
    inside = json.dumps({"tenant": victim.tenant, "named_user": victim.user, "default_user": victim.user})
    path = caller.random.choice(
        [
            "/internal/recall",
            "/internal/prune?everybody=true",
            "/v1/memory/../../internal/prune?everybody=true",
            "/v1/memory/..%2F..%2Finternal%2Fbackup",
            "/v1/memory/%2e%2e/%2e%2e/internal/learning",
            "//internal/ready",
        ]
    )
    forged = [("x-memproxy-internal-identity", inside), ("content-type", "application/json")]
    refused = await caller.call("a way in", person, "POST", path, headers=forged, content=b"{}")
    must(refused, 404, 405)


ATTACKS: tuple[tuple[Attack, int], ...] = (
    (ids, 10),
    (receipts, 4),
    (sessions, 7),
    (names, 4),
    (cursors, 3),
    (fields, 6),
    (headers, 5),
    (keys, 3),
    (planting, 3),
    (chains, 3),
    (kept, 3),
    (operator, 2),
    (ways_in, 2),
    (bound_to_a_project, 14),
    (key_elsewhere, 10),
    (raw_path, 8),
    (kept_upstream, 5),
)
"""What attackers try, and how often."""
