"""The people of a fuzz: whose they are, what only they say, and what proves who they are in each mode."""

import base64
import json
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Literal

import jwt

from memproxy.core.proxykey import hashed, new_key

Mode = Literal["passthrough", "keys", "jwt"]
MODES: tuple[Mode, ...] = ("passthrough", "keys", "jwt")

MARK = "zq"
"""How a canary begins: no word of any answer of ours does."""

_SECRET = "a secret of this run only, longer than thirty-two bytes"


@dataclass(eq=False, slots=True)
class Person:
    """One user of one tenant. Names of users, sessions and projects are the same in every tenant, canaries never."""

    number: int
    tenant: str
    user: str
    canary: str
    key: str
    """What is sent as Bearer token: the tenant's own key (passthrough), a key or a token bound to this user."""

    memories: dict[str, str] = field(default_factory=dict)
    """Contents by id of what is stored and must stay as it is until its owner changes it."""

    turns: list[str] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    responses: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    """The messages of a conversation that goes on without a name."""

    taken: set[str] = field(default_factory=set)
    """Ids and session names of others under which this person keeps something of his own: he knows them already."""

    busy: bool = False

    def says(self, random: Random) -> str:
        """Something that everybody says in these words but one."""
        return random.choice(SAYINGS).format(self.canary)


SAYINGS = (
    "My vault code is {}.",
    "I live in {} and I work at the harbour.",
    "My sister is called {} and she plays the violin.",
    "Please remember that my budget for the trip is {} thousand.",
    "I am allergic to {} and I love sailing.",
    "My favourite restaurant is {} near the station.",
)
QUESTIONS = (
    "What is my vault code?",
    "Where do I live and where do I work?",
    "What is my sister called?",
    "What is my budget for the trip?",
    "What am I allergic to?",
    "Which restaurant is my favourite?",
)


@dataclass(frozen=True)
class World:
    """All people of a run, and the configuration of the server that they call."""

    mode: Mode
    people: list[Person]
    operators: dict[str, str]
    """Keys by tenant with ``admin`` alone: they may erase and count, and read nobody's words."""

    config: Mapping[str, Any]
    bound: dict[int, str] = field(default_factory=dict)
    """Keys (tokens) by a person's number that are for that person's project ``apollo`` alone."""

    @property
    def credentials(self) -> list[str]:
        """Everything that proves somebody, which must be found nowhere."""
        return [*{person.key for person in self.people}, *self.operators.values(), *self.bound.values()]

    def owner(self, canary: str) -> Person | None:
        """Whose canary this is."""
        return self._by_canary.get(canary)

    @cached_property
    def _by_canary(self) -> dict[str, Person]:
        return {person.canary: person for person in self.people}


def make_world(mode: Mode, tenants: int, users: int) -> World:
    """So many tenants of so many users each, and the part of the configuration that knows them."""
    entries: list[dict[str, Any]] = []
    people: list[Person] = []
    operators: dict[str, str] = {}
    bound: dict[int, str] = {}
    for tenant in (f"tenant-{number:02d}" for number in range(tenants)):
        shared = f"sk-{secrets.token_hex(16)}"
        for user in (f"person-{number:02d}" for number in range(users)):
            key = shared if mode == "passthrough" else _bound(mode, tenant, user, entries)
            canary = f"{MARK}{secrets.token_hex(8)}"
            if mode != "passthrough":
                bound[len(people)] = _bound(mode, tenant, user, entries, project="apollo")
            people.append(Person(len(people), tenant, user, canary, key))
        if mode == "keys":
            operators[tenant] = new_cheap_key(entries, tenant=tenant, permissions=["admin"])
        elif mode == "jwt":
            operators[tenant] = token({"tenant": tenant, "sub": "operator", "scope": "admin"})
    return World(mode, people, operators, _config(mode, entries), bound)


def _bound(mode: Mode, tenant: str, user: str, entries: list[dict[str, Any]], **project: str) -> str:
    if mode == "jwt":
        return token({"tenant": tenant, "sub": user, **project})
    return new_cheap_key(entries, tenant=tenant, user=user, **project)


def new_cheap_key(entries: list[dict[str, Any]], **fields: Any) -> str:
    """A proxy key whose proof costs little, added to ``auth.keys``."""
    key, key_id = new_key()
    entries.append({"id": key_id, "hash": hashed(key), **fields})
    return key


def token(claims: Mapping[str, Any], secret: str = _SECRET) -> str:
    """A token of an hour."""
    return jwt.encode({"exp": int(time.time()) + 3600, **claims}, secret, algorithm="HS256")


def forged_tokens(victim: Person, mine: Person) -> list[str]:
    """Tokens that name the victim and prove nothing."""
    claims = {"tenant": victim.tenant, "sub": victim.user, "exp": int(time.time()) + 3600}
    body = _part(claims)
    _head, _, signature = mine.key.split(".")
    return [
        f"{_part({'alg': 'none', 'typ': 'JWT'})}.{body}.",
        f"{_part({'alg': 'HS256', 'typ': 'JWT'})}.{body}.{signature}",
        token(claims, secret="another secret, also longer than thirty-two bytes"),
        token({**claims, "exp": int(time.time()) - 3600}),
        f"{_part({'alg': 'HS256', 'typ': 'JWT', 'kid': '../../dev/null', 'jwk': {}})}.{body}.{signature}",
    ]


def _part(value: Mapping[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


def _config(mode: Mode, entries: list[dict[str, Any]]) -> dict[str, Any]:
    auth: dict[str, Any] = {"mode": mode}
    if mode == "keys":
        auth["keys"] = entries
    elif mode == "jwt":
        auth["jwt"] = {"algorithms": ["HS256"], "key": _SECRET, "claims": {"permissions": "scope"}}
    upstream = {} if mode == "passthrough" else {"api_key": "sk-of-the-operator"}
    learn = {"mode": "model" if mode == "passthrough" else "verbatim", "every_turns": 4, "idle_s": 2.0}
    return {"auth": auth, "upstream": upstream, "learn": learn}
