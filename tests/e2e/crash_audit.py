"""What must be true after any number of kills, asked of the memory API and read from the state's file."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.e2e.crash_people import TOPICS, People, Said
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

Memory = dict[str, Any]


@dataclass
class Audit:
    """What was found; empty ``faults`` mean that nothing was lost, doubled or contradicted."""

    faults: list[str] = field(default_factory=list)
    turns: int = 0
    facts: int = 0
    parked: int = 0
    refused: int = 0

    def expect(self, true: bool, fault: str) -> None:
        """Note a fault unless so."""
        if not true:
            self.faults.append(fault)


@contextmanager
def _state(proxy: Proxy) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(proxy.home / "state.db", timeout=10)) as db:
        yield db


def number(proxy: Proxy, question: str) -> int:
    """The first value of a query of the state's file."""
    with _state(proxy) as db:
        return int(db.execute(question).fetchone()[0])


def unfinished(proxy: Proxy) -> int:
    """Rows that are still to be done, and sessions that are still to be learned from."""
    rows = number(proxy, "SELECT count(*) FROM journal WHERE state != 'parked'")
    return rows + number(proxy, "SELECT count(*) FROM progress WHERE unlearned > 0")


async def drained(proxy: Proxy, deadline_s: float) -> None:
    """Wait until the journal is empty and nothing is left to learn."""

    def done() -> bool:
        return unfinished(proxy) == 0

    await eventually(done, deadline_s, what=lambda: f"{unfinished(proxy)} left to do\n{proxy.log[-3000:]}")


async def audit(proxy: Proxy, people: People) -> Audit:
    """Compare all that is stored with all that was said."""
    found = Audit()
    found.parked = number(proxy, "SELECT count(*) FROM journal WHERE state = 'parked'")
    found.refused = number(proxy, "SELECT ifnull(sum(rows), 0) FROM refused")
    found.expect(not found.parked, f"{found.parked} rows are parked")
    found.expect(not found.refused, f"{found.refused} rows were refused")
    for user in sorted({said.user for said in people.said}):
        memories = await _all_of(proxy, user)
        said = [one for one in people.said if one.user == user]
        turns = [memory for memory in memories if memory["kind"] == "turn"]
        _turns(found, said, turns)
        _facts(found, said, people, [memory for memory in memories if memory["kind"] == "semantic"], turns)
        _slots(found, proxy, user, memories)
    return found


async def _all_of(proxy: Proxy, user: str) -> list[Memory]:
    memories: list[Memory] = []
    cursor: str | None = None
    async with proxy.client() as client:
        while True:
            query = {"user_id": user, "limit": "200", **({"cursor": cursor} if cursor else {})}
            answer = await client.get("/v1/memory", params=query)
            assert answer.status_code == 200, answer.text
            memories += answer.json()["data"]
            if (cursor := answer.json()["next_cursor"]) is None:
                return memories


def _turns(found: Audit, said: list[Said], turns: list[Memory]) -> None:
    """Each message and its answer once if the answer ended, once or not at all if it broke."""
    stored = Counter((turn["session_id"], turn["metadata"]["role"], turn["content"]) for turn in turns)
    found.turns += len(turns)
    for one in said:
        mine = stored.pop((one.session, "user", one.text), 0)
        answers = stored.pop((one.session, "assistant", f"You said: {one.text}"), 0)
        wanted = {(1, 1)} if one.ended else {(0, 0), (1, 1)}
        found.expect((mine, answers) in wanted, f"turns stored {mine} and {answers} times: {one}")
    found.expect(not stored, f"turns that nobody said: {list(stored)[:5]}")


def _facts(found: Audit, said: list[Said], people: People, facts: list[Memory], turns: list[Memory]) -> None:
    """Each extraction's result is there once, and each message's facts: a turn that is stored is learned from."""
    stored = Counter((fact["predicate"], fact["object"]) for fact in facts)
    kept = {(turn["session_id"], turn["content"]) for turn in turns if turn["metadata"]["role"] == "user"}
    found.facts += len(facts)
    for one in said:
        read = people.facts(one)
        found.expect(bool(read), f"nothing is read in: {one}")
        for fact in read:
            times = stored.pop(fact, 0)
            learned = one.ended or (one.session, one.text) in kept or fact in people.extracted
            found.expect(times == 1 if learned else times == 0, f"fact stored {times} times, learned {learned}: {one}")
    found.expect(not stored, f"facts that nobody said: {list(stored)[:5]}")
    for topic in TOPICS:
        _history(found, topic, [fact for fact in facts if fact["predicate"] == people.budget(topic)])


def _history(found: Audit, topic: str, facts: list[Memory]) -> None:
    """One active value, the newest, and no other without what replaced it."""
    if not facts:
        return
    active = [fact["object"] for fact in facts if fact["active"]]
    newest = max(facts, key=lambda fact: str(fact["valid_from"]))["object"]
    found.expect(active == [newest], f"{topic}: active {active}, the newest is {newest}, {len(facts)} in all")
    open_ended = [fact["object"] for fact in facts if not fact["active"] and not fact["superseded_by"]]
    found.expect(not open_ended, f"{topic}: superseded by nothing: {open_ended}")


def _slots(found: Audit, proxy: Proxy, user: str, memories: list[Memory]) -> None:
    """The register names memories that are there and active."""
    active = {memory["id"] for memory in memories if memory["active"]}
    with _state(proxy) as db:
        held = [str(holder) for (holder,) in db.execute("SELECT holder FROM slots WHERE user = ?", (user,))]
    found.expect(set(held) <= active, f"{user}: slots held by what is not active: {set(held) - active}")
    found.expect(len(held) == len(set(held)), f"{user}: one memory holds several slots")
