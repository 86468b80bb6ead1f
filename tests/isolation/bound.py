"""What keys of one project try on what other projects of the same user have, and idempotency keys taken elsewhere."""

import uuid
from typing import Any

from tests.isolation.calling import Caller, Pairs, must
from tests.isolation.operations import LINES, memory_line
from tests.isolation.people import Person
from tests.isolation.watching import Leak


def _bound(caller: Caller, person: Person) -> Pairs | None:
    """The proof of this person's key (token) for one project; None where none can be bound."""
    key = caller.world.bound.get(person.number)
    return None if key is None else [("authorization", f"Bearer {key}")]


async def _theirs(caller: Caller, person: Person) -> dict[str, Any] | None:
    """A memory that the person stores in another project, in a session of its own: undoing a session takes what has no
    project, too, and the person's memories are looked for in the end. None when it was queued.
    """
    session = f"zeus-{uuid.uuid4().hex}"
    body = {"content": person.says(caller.random), "project_id": "zeus", "session_id": session}
    stored = must(await caller.call("store in a project", person, "POST", "/v1/memory", json=body), 201, 202, 429)
    memory: dict[str, Any] | None = stored.json() if stored.status_code == 201 else None
    return memory


async def bound_to_a_project(caller: Caller, person: Person, _victim: Person) -> None:
    """A key of one project reads, moves, replaces, undoes and counts nothing of another one of the same user."""
    proof = _bound(caller, person)
    if proof is None or (theirs := await _theirs(caller, person)) is None:
        return
    name, session = theirs["id"], theirs["session_id"]
    line, more = f"planted-{uuid.uuid4().hex}", {"project_id": "apollo", "updated_at": "2099-01-01T00:00:00Z"}
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("PATCH", f"/v1/memory/{name}", {"json": {"project_id": "apollo"}}),
        ("PATCH", f"/v1/memory/{name}", {"json": {"content": "taken over"}}),
        ("POST", "/v1/memory/import", {"content": memory_line(name, line, **more)}),
        ("POST", "/v1/memory/import?dry_run=true", {"content": memory_line(name, line, **more)}),
        ("DELETE", f"/v1/memory/sessions/{session}", {}),
        ("DELETE", f"/v1/memory?session_id={session}", {}),
        ("POST", "/v1/memory/feedback", {"json": {"memory_id": name, "signal": "wrong"}}),
        ("POST", "/v1/memory/prune", {"json": {"dry_run": True}}),
        ("GET", "/v1/memory/activity", {}),
    ]
    method, path, arguments = caller.random.choice(calls)
    headers = list(LINES.items()) if "content" in arguments else []
    answer = await caller.call("a project's key", person, method, path, instead=proof, headers=headers, **arguments)
    must(answer, 200, 202, 404)
    told = answer.json()
    if path.startswith("/v1/memory/import") and answer.status_code == 200 and told["imported"] != 1:
        raise Leak(f"an import by a project's key tells of what is not its own: {answer.text[:300]}")
    if name in answer.text.replace(path, "") and answer.status_code != 404:
        raise Leak(f"{method} {path} names what is another project's: {answer.text[:300]}")
    left = must(await caller.call("what was aimed at", person, "GET", f"/v1/memory/{name}"), 200).json()
    if any(left[field] != theirs[field] for field in ("content", "project_id", "session_id", "active")):
        raise Leak(f"{method} {path} by a project's key changed what is another's: {left}")
    caller.watch.counts["a project's key changed nothing"] += 1


async def key_elsewhere(caller: Caller, person: Person, _victim: Person) -> None:
    """An idempotency key used again with another project, agent, session or ``If-Match``: refused, and nothing told."""
    key, body = ("idempotency-key", f"once-{uuid.uuid4().hex}"), {"content": person.says(caller.random)}
    places: list[list[tuple[str, str]]] = [
        [("x-memproxy-project", "apollo")],
        [("x-memproxy-project", "zeus")],
        [("x-memproxy-agent", "coder")],
        [("x-memproxy-session", "session-1")],
        [("if-match", '"some-version"')],
    ]
    first, other = caller.random.sample(places, 2)
    made = await caller.call("a key's first call", person, "POST", "/v1/memory", headers=[key, *first], json=body)
    if must(made, 201, 202, 429).status_code != 201:
        return
    again = await caller.call("a key elsewhere", person, "POST", "/v1/memory", headers=[key, *other], json=body)
    if must(again, 422).headers.get("idempotency-replayed") or made.json()["id"] in again.text:
        raise Leak(f"an idempotency key is answered elsewhere: {again.text[:300]}")
    caller.watch.counts["idempotency keys refused elsewhere"] += 1
