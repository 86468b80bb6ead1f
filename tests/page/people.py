"""Whose memories the page is looked at with: nobody's, three, what somebody hostile wrote, and very many."""

import json
import random
from typing import Any
from urllib.parse import quote

import httpx

from tests.support.proxy import Proxy

NOBODY, THREE, HOSTILE, MANY = "nobody", "three", "hostile", "many"

SCRIPT = "<script>window.owned = 1</script><img src=x onerror='window.owned = 2'>"
ATTACKS = (
    SCRIPT,
    "\u202eesrever \u2066isolated\u2069 \u200bzero\u200d\u2060width\ufeff \u202dforced",
    "\u05e9\u05dc\u05d5\u05dd (\u05e2\u05d5\u05dc\u05dd) \u0645\u0631\u062d\u0628\u0627 [1]",
    "javascript:window.owned=3 \u201clook-alike\u201d \uff02quotes\uff02 '\"`${window.owned=4}`",
    "W" * 100_000,
)
"""A script, text that turns direction, unseen characters, quotes that look alike, one line of 100 kB."""


def client_of(proxy: Proxy, user: str) -> httpx.AsyncClient:
    """Calls as this user, who sends no key."""
    return proxy.client(None, **{"x-memproxy-user": user})


async def done(client: httpx.AsyncClient, method: str, path: str, **arguments: Any) -> Any:
    """A call that must succeed."""
    answer = await client.request(method, path, **arguments)
    assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text[:300]}"
    return answer.json()


async def said(client: httpx.AsyncClient, session: str, text: str) -> str:
    """A chat request; its id."""
    answer = await client.post(
        "/v1/chat/completions",
        json={"model": "scripted", "messages": [{"role": "user", "content": text}]},
        headers={"x-memproxy-session": session},
    )
    assert answer.status_code == 200, answer.text
    return answer.headers["x-memproxy-request-id"]


async def fill_three(client: httpx.AsyncClient) -> dict[str, str]:
    """Three memories, one of which took another's place, a conversation, an entry of working memory; where they are."""
    rome = await done(client, "POST", "/v1/memory", json={"content": "Ann lives in Rome.", "category": "home"})
    correction = {"memory_id": rome["id"], "signal": "correction", "text": "Ann lives in Bern."}
    bern = (await done(client, "POST", "/v1/memory/feedback", json=correction))["memory_ids"][0]
    relations = [
        {"subject": "Ann", "predicate": "sister", "object": "Mia"},
        {"subject": "Ann", "predicate": "works at", "object": "the harbour", "valid_to": "2024-01-01T00:00:00Z"},
    ]
    fields = {"content": "Mia is Ann's sister.", "entities": ["Ann", "Mia"], "relations": relations, "subject": "Ann"}
    mia = await done(client, "POST", "/v1/memory", json=fields)
    withheld = await done(client, "POST", "/v1/memory", json={"content": "Ann was born on the moon."})
    await done(client, "PATCH", f"/v1/memory/{withheld['id']}", json={"quarantined": True})
    await done(client, "PUT", "/v1/memory/working/session/s1/notes", json={"data": {"found": 3}, "ttl_s": 3600})
    request = await said(client, "s1", "Where does Ann live?")
    return {"old": rome["id"], "new": bern, "mia": mia["id"], "withheld": withheld["id"], "request": request}


async def fill_hostile(client: httpx.AsyncClient) -> dict[str, str]:
    """The attacks in every field that somebody can write."""
    names = []
    for number, attack in enumerate(ATTACKS):
        short = attack[:180]
        fields = {
            "content": attack[:100_000],
            "category": short,
            "tags": [short],
            "entities": [short],
            "subject": short,
            "predicate": short,
            "object": short,
            "aspect": short,
            "stance": short,
            "relations": [{"subject": short, "predicate": short, "object": f"{short} {number}"}],
            "metadata": {short: short},
            "session_id": short,
            "project_id": None,
        }
        names.append((await done(client, "POST", "/v1/memory", json=fields))["id"])
        await done(client, "PATCH", f"/v1/memory/{names[-1]}", json={"quarantined": number % 2 == 1})
        messages = [{"role": "user", "content": attack, "name": short}]
        await done(client, "POST", "/v1/memory/turns", json={"session_id": short, "messages": messages})
        entry = {"data": {short: attack}, "category": short, "tags": [short], "ttl_s": 3600}
        await done(client, "PUT", f"/v1/memory/working/session/hostile{number}", json=entry)
        correction = {"memory_id": names[-1], "signal": "helpful", "text": short}
        await done(client, "POST", "/v1/memory/feedback", json=correction)
    request = await said(client, "hostile", f"My name is {SCRIPT} and what do you know?")
    return {"new": names[0], "old": names[4], "request": request, "session": ATTACKS[0][:180], "name": ATTACKS[0][:180]}


async def fill_many(client: httpx.AsyncClient, sessions: int = 50) -> None:
    """A thousand memories a session: messages, and a tenth of them facts."""
    chance = random.Random(7)
    names = ["Anna", "Boris", "Chen", "Dora", "Emil", "Fatima", "Goran", "Hana"]
    things = ["river", "garden", "budget", "ticket", "doctor", "coffee", "market", "letter", "engine", "harbour"]
    for session in range(sessions):
        messages = [
            {
                "role": "assistant" if number % 2 else "user",
                "content": f"{chance.choice(names)} said in week {session}, note {number}: the {chance.choice(things)} "
                f"by the {chance.choice(things)} is ready.",
            }
            for number in range(900)
        ]
        turns = {"session_id": f"week-{session}", "messages": messages, "timestamp": "2025-03-01T10:00:00Z"}
        await done(client, "POST", "/v1/memory/turns", json=turns, timeout=300)
        at = "2025-06-01T10:00:00Z"
        lines = []
        for number in range(100):
            name, thing = chance.choice(names), chance.choice(things)
            fact = {"id": f"fact-{session}-{number}", "user_id": MANY, "kind": "semantic", "category": thing}
            fact |= {"subject": name, "predicate": f"keeps {session} {number}", "object": thing}
            fact |= {"content": f"{name} keeps the {thing} {number}.", "created_at": at, "updated_at": at}
            lines.append(json.dumps({"memory": fact}))
        headers = {"content-type": "application/x-ndjson"}
        await done(client, "POST", "/v1/memory/import", content="\n".join(lines), headers=headers, timeout=300)


def routes(held: dict[str, str]) -> list[str]:
    """Every view; those of one thing where there is one."""
    always = ["search", "search?q=where+does+Ann+live", "palace", "conversations", "people", "working", "why", "live"]
    found = [*always, "statistics", "review", "dreams", "settings"]
    if "new" in held:
        found += [f"memory/{held['new']}", f"memory/{held['old']}", f"why/{quote(held['request'], safe='')}"]
        session, name = quote(held.get("session", "s1"), safe=""), quote(held.get("name", "Ann"), safe="")
        found += [f"conversations/{session}", f"people/{name}", f"palace/{name.lower()}"]
        found += [] if "session" in held else ["working/session%2Fs1%2Fnotes"]
    return found
