"""What people do all day: talk, store, read, search, edit, forget, take along and bring back."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import httpx

from tests.isolation.calling import Caller, decided, must
from tests.isolation.people import QUESTIONS, Person
from tests.isolation.watching import Leak

Operation = Callable[[Caller, Person], Awaitable[None]]

_KEPT = 30
"""Of each kind so many ids are remembered."""

LINES = {"content-type": "application/x-ndjson"}


def keep(names: list[str], name: str | None) -> None:
    """Remember an id, and forget the oldest."""
    if name:
        names.append(name)
        del names[:-_KEPT]


def session_of(caller: Caller, person: Person) -> str:
    """A session: one that everybody calls so, or one that is named by what only this person says."""
    number = caller.random.randrange(3)
    name = f"session-{number}" if caller.random.random() < 0.5 else f"s-{person.canary}-{number}"
    if name not in person.sessions:
        keep(person.sessions, name)
    return name


def _marked(person: Person, text: str) -> str:
    return f"{text} (sender-{person.number}-of-this-message)"


async def chat(caller: Caller, person: Person) -> None:
    """Say or ask something: streamed or not, in a named session or in a conversation known by its prefix."""
    random = caller.random
    text = _marked(person, person.says(random) if random.random() < 0.5 else random.choice(QUESTIONS))
    headers: list[tuple[str, str]] = []
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    if random.random() < 0.5:
        headers.append(("x-memproxy-session", session_of(caller, person)))
    else:
        person.said = [*person.said, text] if len(person.said) < 4 else [text]
        messages = []
        for said in person.said:
            messages += [{"role": "user", "content": said}, {"role": "assistant", "content": "Noted."}]
        messages.pop()
    body = {"model": "test-model", "messages": messages, "stream": random.random() < 0.4}
    response = must(await caller.call("chat", person, "POST", "/v1/chat/completions", headers=headers, json=body), 200)
    keep(person.receipts, response.headers.get("x-memproxy-request-id"))
    caller.watch.counts[f"recall {response.headers['x-memproxy-recall']}"] += 1


async def respond(caller: Caller, person: Person) -> None:
    """The same by `/v1/responses`, going on from an earlier response at times."""
    random = caller.random
    text = _marked(person, person.says(random) if random.random() < 0.5 else random.choice(QUESTIONS))
    body: dict[str, Any] = {"model": "test-model", "input": text}
    if person.responses and random.random() < 0.6:
        body["previous_response_id"] = random.choice(person.responses)
    response = must(await caller.call("responses", person, "POST", "/v1/responses", json=body), 200)
    name = response.json()["id"]
    keep(person.responses, name)
    # his own, so that the upstream is asked, which keeps nothing
    must(await caller.call("own response", person, "GET", f"/v1/responses/{name}", carried=[name]), 404)
    keep(person.receipts, response.headers.get("x-memproxy-request-id"))


async def store(caller: Caller, person: Person) -> None:
    """Store a memory with everything that names something."""
    random = caller.random
    content = person.says(random)
    body: dict[str, Any] = {"content": content}
    if random.random() < 0.6:
        body |= {"subject": "user", "predicate": "knows", "object": f"Mr {person.canary}", "category": "people/all"}
        body |= {"entities": [f"Mr {person.canary}"], "tags": ["shared", f"t-{person.canary}"]}
    if random.random() < 0.4:
        body["session_id"] = session_of(caller, person)
    headers = [("idempotency-key", f"key-{random.randrange(5)}")] if random.random() < 0.2 else []
    response = await caller.call("store", person, "POST", "/v1/memory", headers=headers, json=body)
    if response.status_code == 201:
        memory = response.json()
        if not response.headers.get("idempotency-replayed"):
            person.memories[memory["id"]] = memory["content"]
        keep(person.tags, response.headers.get("etag"))
    else:
        must(response, 202, 409, 422)


async def tell(caller: Caller, person: Person) -> None:
    """Ingest turns, some under ids that everybody uses."""
    random = caller.random
    said: list[dict[str, Any]] = [
        {"role": "user", "content": person.says(random)},
        {"role": "assistant", "content": f"I noted {person.canary}."},
    ]
    if random.random() < 0.5:
        said[0]["id"] = (
            f"D{random.randrange(3)}:1" if random.random() < 0.3 else f"d-{person.canary}-{len(person.turns)}"
        )
    body = {"session_id": session_of(caller, person), "messages": said}
    told = must(await caller.call("turns", person, "POST", "/v1/memory/turns", json=body), 201, 202).json()
    for name in told["turn_ids"]:
        if not name.startswith("D"):
            keep(person.turns, name)


async def read(caller: Caller, person: Person) -> None:
    """Read one's own memory back: nobody else may have changed or erased it."""
    if not person.memories:
        return
    name = caller.random.choice(list(person.memories))
    response = decided(await caller.call("read", person, "GET", f"/v1/memory/{name}"))
    if response.status_code != 200 or response.json()["content"] != person.memories[name]:
        raise Leak(f"a memory of {person.user} of {person.tenant} is not what it was: {response.text[:300]}")
    caller.watch.counts["own memories intact"] += 1
    await caller.call("history", person, "GET", f"/v1/memory/{name}/history")


async def search(caller: Caller, person: Person) -> None:
    """Search and recall in words that everybody's memories hold."""
    random = caller.random
    query = random.choice(QUESTIONS)
    body: dict[str, Any] = {"query": query, "limit": random.choice([1, 10, 200]), "explain": random.random() < 0.5}
    await caller.call("search", person, "POST", "/v1/memory/search", json=body)
    session = session_of(caller, person)
    await caller.call("recall", person, "POST", "/v1/memory/recall", json={"query": query, "session_id": session})


LISTS = (
    "/v1/memory",
    "/v1/memory?limit=2",
    "/v1/memory?tag=shared",
    "/v1/memory?session_id=session-1",
    "/v1/memory?category=people/all&active=true",
    "/v1/memory?wing=user",
    "/v1/memory?omit=null",
    "/v1/memory/sessions?limit=2",
    "/v1/memory/palace",
    "/v1/memory/palace?wing=W-001",
    "/v1/memory/palace?wing=user&room=session-1",
    "/v1/memory/entities?limit=3",
    "/v1/memory/entities/user/timeline",
    "/v1/memory/categories",
    "/v1/memory/activity",
    "/v1/memory/stats",
    "/v1/memory/settings",
    "/v1/memory/export",
    "/v1/memory/export?limit=2",
)


async def look(caller: Caller, person: Person) -> None:
    """Every list there is, and the page after it."""
    path = caller.random.choice(LISTS)
    response = must(await caller.call(f"GET {path}", person, "GET", path), 200)
    cursor = response.headers.get("x-memproxy-next-cursor") or _next(response)
    if cursor is not None:
        keep(person.cursors, f"{path.partition('?')[0]} {cursor}")
        after = f"{path}{'&' if '?' in path else '?'}cursor={cursor}"
        must(await caller.call(f"GET {path} (next page)", person, "GET", after), 200)


def _next(response: httpx.Response) -> str | None:
    if not response.headers["content-type"].startswith("application/json"):
        return None
    cursor: str | None = response.json().get("next_cursor")
    return cursor


async def receipt(caller: Caller, person: Person) -> None:
    """Why something was remembered, and what one thinks of it."""
    if person.receipts:
        name = caller.random.choice(person.receipts)
        await caller.call("receipt", person, "GET", f"/v1/memory/receipts/{name}")
        body = {"request_id": name, "signal": "helpful", "text": f"I, {person.canary}, say so."}
        await caller.call("feedback", person, "POST", "/v1/memory/feedback", json=body)


async def edit(caller: Caller, person: Person) -> None:
    if person.memories:
        name = caller.random.choice(list(person.memories))
        content = f"{person.says(caller.random)} Edited."
        body = {"content": content}
        edited = must(await caller.call("edit", person, "PATCH", f"/v1/memory/{name}", json=body), 200, 202)
        person.memories[name] = content
        if edited.status_code == 202:  # queued: when it is done nobody tells
            del person.memories[name]


async def forget(caller: Caller, person: Person) -> None:
    """Forget one memory, and now and then a session or everything."""
    random = caller.random
    chance = random.random()
    if chance < 0.7 and person.memories:
        name = random.choice(list(person.memories))
        must(await caller.call("forget", person, "DELETE", f"/v1/memory/{name}"), 200, 202)
        del person.memories[name]
    elif chance < 0.9:
        session = session_of(caller, person)
        path = f"/v1/memory/sessions/{session}" if chance < 0.8 else f"/v1/memory?session_id={session}"
        must(await caller.call("forget session", person, "DELETE", path), 200, 202)
        person.memories.clear()  # some went with it: which ones is not what is asked here
    elif chance < 0.93:
        must(await caller.call("forget user", person, "DELETE", f"/v1/memory/users/{person.user}"), 200, 202)
        person.memories.clear()


async def settle(caller: Caller, person: Person) -> None:
    """End a session, choose settings, prune."""
    random = caller.random
    session = session_of(caller, person)
    chance = random.random()
    if chance < 0.5:
        await caller.call("end", person, "POST", f"/v1/memory/sessions/{session}/{random.choice(['end', 'mine'])}")
    elif chance < 0.9:
        body = {"limit": random.randrange(3, 20), "agent_id": random.choice([None, "agent-1"])}
        must(await caller.call("settings", person, "PUT", "/v1/memory/settings", json=body), 200)
    else:
        await caller.call("prune", person, "POST", "/v1/memory/prune", json={"dry_run": True})


async def take_along(caller: Caller, person: Person) -> None:
    """Export everything and import it again: nothing changes."""
    exported = must(await caller.call("export", person, "GET", "/v1/memory/export"), 200)
    lines = exported.content.splitlines(keepends=True)[:40]
    must(
        await caller.call(
            "import", person, "POST", "/v1/memory/import", headers=list(LINES.items()), content=b"".join(lines)
        ),
        200,
        202,
    )


def memory_line(name: str, content: str, **fields: Any) -> bytes:
    memory = {"id": name, "content": content, "created_at": "2024-03-01T10:00:00Z", **fields}
    return json.dumps({"memory": memory}).encode() + b"\n"


OPERATIONS: tuple[tuple[Operation, int], ...] = (
    (chat, 16),
    (respond, 5),
    (store, 12),
    (tell, 10),
    (read, 8),
    (search, 9),
    (look, 12),
    (receipt, 5),
    (edit, 3),
    (forget, 3),
    (settle, 3),
    (take_along, 2),
)
"""What people do, and how often."""
