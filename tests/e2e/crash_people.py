"""People who talk through a proxy that is killed over and over, and what each of them saw the end of."""

import asyncio
import random
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import httpx

from memproxy.core.scope import Scope
from memproxy.core.turn import Message, make_turns
from memproxy.demo.model_server import quoted_messages
from memproxy.learn.candidates import Window
from memproxy.learn.rules import reader
from memproxy.tasks import TaskOwner
from tests.e2e.talk import chat
from tests.support.answers import DONE, Received, text_of
from tests.support.proxy import Proxy

TOPICS = ("kitchen", "garden")
"""What each person has a budget for, that changes over and over: two slots with a long history."""

MESSAGES_OF_A_SESSION = 12
_PERSONS_WORDS = ("My", " is ")


@dataclass(frozen=True)
class Said:
    """One message and what became of its answer. ``slot`` names what it states, ``value`` what it states of it."""

    user: str
    session: str
    slot: str
    value: str
    streamed: bool
    ended: bool = False

    @property
    def text(self) -> str:
        return f"{_PERSONS_WORDS[0]} {self.slot}{_PERSONS_WORDS[1]}{self.value}."


@dataclass
class People:
    """Everything that was said, and what is learned of it: by the scripted model, or by the rules."""

    said: list[Said] = field(default_factory=list)
    extracted: set[tuple[str, str]] = field(default_factory=set)
    """Slot and value."""
    extractions: int = 0
    extracting: asyncio.Event = field(default_factory=asyncio.Event)
    """Set whenever an extraction is answered: what follows is its plan, and the plan's application."""
    amounts: int = 0
    verbatim: bool = False
    """The rules read what is said, and no model is asked."""

    def facts(self, said: Said) -> list[tuple[str, str]]:
        """Predicate and object of all that a message states, as whoever reads it names them."""
        return read_by_rules(said.text) if self.verbatim else [(said.slot, said.value)]

    def budget(self, topic: str) -> str:
        """The predicate of one of the two budgets."""
        ((predicate, _),) = self.facts(Said("", "", f"{topic} budget", "$1", streamed=False))
        return predicate

    def extract(self, received: Received) -> dict[str, Any]:
        """The model's part: one fact for each new message of a person."""
        prompt = "\n".join(text_of(message) for message in received.messages if message.get("role") == "user")
        found = [fact for message in quoted_messages(prompt) if (fact := _fact(message["text"])) is not None]
        self.extractions += 1
        self.extracted |= {(fact["predicate"], fact["object"]) for fact in found}
        self.extracting.set()
        return {"candidates": found}

    def next_message(self, user: str, number: int, chance: random.Random) -> Said:
        """A correction of one of the two budgets, or something new."""
        session, streamed = f"{user}-{number // MESSAGES_OF_A_SESSION}", chance.random() < 0.5
        if chance.random() < 0.4:
            self.amounts += 1
            slot, value = f"{chance.choice(TOPICS)} budget", f"${100_000 + self.amounts}"
        else:
            one, other, value = (f"zq{uuid.uuid4().hex[:12]}" for _ in range(3))
            # what the rules cannot name they may take for a change of what was said before
            slot = f"favorite {one}" if self.verbatim else f"{one} {other}"
        return Said(user, session, slot, value, streamed)

    @property
    def ended(self) -> list[Said]:
        """What was said of which the answer ended at the client."""
        return [one for one in self.said if one.ended]


def read_by_rules(text: str) -> list[tuple[str, str]]:
    """Predicate and object of all that the rules read in a message alone."""
    said = make_turns(Scope(tenant="", user=""), [Message(role="user", content=text)], now=datetime.now(UTC))
    found = reader.read(Window(turns=said, new_ids=frozenset(turn.id for turn in said))).grounded
    return [(one.candidate.predicate or "", one.candidate.object or "") for one in found]


def _fact(message: str) -> dict[str, Any] | None:
    begin, middle = _PERSONS_WORDS
    slot, found, value = message.removeprefix(begin).strip().rpartition(middle)
    if not found:
        return None
    value = value.rstrip(".")
    return {
        "kind": "semantic",
        "content": f"The user's {slot} is {value}",
        "subject": "user",
        "predicate": slot,
        "object": value,
        "confidence": 0.9,
        "evidence": message,
    }


@asynccontextmanager
async def talking(
    proxy: Proxy, people: People, *, users: int, pause_s: float, chance: random.Random
) -> AsyncIterator[None]:
    """Some people who talk until the block ends, each one message after the other, ``pause_s`` apart at the longest."""
    stop, owner = asyncio.Event(), TaskOwner("people")
    seeds = [chance.randrange(2**32) for _ in range(users)]
    tasks = [
        owner.start(_talk(proxy, people, f"user{number}", pause_s, random.Random(seed), stop), f"user{number}")
        for number, seed in enumerate(seeds)
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def _talk(
    proxy: Proxy, people: People, user: str, pause_s: float, chance: random.Random, stop: asyncio.Event
) -> None:
    number = 0
    async with proxy.client() as client:
        while not stop.is_set():
            people.said.append(await _say(client, people.next_message(user, number, chance)))
            number += 1
            await asyncio.sleep(chance.uniform(0, pause_s))


async def _say(client: httpx.AsyncClient, said: Said) -> Said:
    """Say it once. What breaks is never said again: it may be stored or not, but not twice."""
    headers = {"x-memproxy-user": said.user, "x-memproxy-session": said.session}
    try:
        answer = await chat(client, said.text, headers=headers, **({"stream": True} if said.streamed else {}))
    except httpx.TransportError:
        return said
    whole = answer.body.endswith(DONE) if said.streamed else True  # httpx refuses a body that ends too early
    return Said(said.user, said.session, said.slot, said.value, said.streamed, ended=answer.status == 200 and whole)
