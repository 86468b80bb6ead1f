"""What must hold, on random sequences: one active statement per slot, no history lost, intervals that do not overlap.

Once on the pure functions alone, and, less often, through the journal, a real state and a real store.
"""

import asyncio
import itertools
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memproxy.core.facts import (
    Operation,
    begins,
    decide,
    last_said_at,
    place,
    repeat,
    segment,
    stated_before,
    take_back,
)
from memproxy.core.memory import Memory
from memproxy.core.slots import slot_name
from memproxy.learn.nearby import is_trace
from tests.learn.rig import ANN, NOON, Rig, fact, rig
from tests.support.folders import Folders


class Said(NamedTuple):
    """One thing said about the rent: a value, or None to take it back; the minute; whether it says since when; and
    which of several of that minute it is.
    """

    value: int | None
    minute: int
    since: int | None
    place: int = 0

    @property
    def turn(self) -> str:
        return f"turn{self.minute}.{self.place}"

    @property
    def at(self) -> datetime:
        return NOON + timedelta(minutes=self.minute)


values = st.one_of(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3), st.none())
saying = st.builds(Said, values, st.integers(0, 30), st.one_of(st.none(), st.none(), st.integers(0, 30)))
sayings = st.lists(saying, max_size=20, unique_by=lambda said: said.minute)
"""In any order of arrival: histories are imported late, and in pieces."""


def rent(name: str, said: Said) -> Memory:
    memory = fact(
        name,
        content=f"User's rent is {said.value}",
        subject="user",
        predicate="rent",
        object=str(said.value),
        turn_ids=[said.turn],
        valid_from=said.at - timedelta(minutes=said.since or 0),
        metadata={"said_at": said.at.isoformat()},
    )
    return msgspec.structs.replace(memory, slot=slot_name(memory))


class Book:
    """What is known of the rent, in memory: the pure functions carried out as reconciliation does."""

    def __init__(self, told: Sequence[Said] = ()) -> None:
        self.known: dict[str, Memory] = {}
        self.told: dict[str, str] = {}
        for said in told:
            self.hear(said)

    @property
    def active(self) -> list[Memory]:
        return [memory for memory in self.known.values() if memory.active]

    def hear(self, said: Said) -> None:
        if said.value is None:
            for memory in self.active:
                if last_said_at(memory) <= said.at:
                    self.change({memory.id: take_back(memory, said.turn, said.at, now=NOON)})
            return
        candidate = rent(f"m{len(self.known)}", said)
        chain = self.chain(candidate)
        decision = decide(candidate, chain=chain, neighbours=[])
        if decision.operation is Operation.DUPLICATE and decision.target is not None:
            self.change(repeat(decision.target, candidate, self.whole(decision.target), now=NOON))
            self.told[candidate.turn_ids[0]] = decision.target.id
            return
        effects = place(candidate, chain, now=NOON)
        self.change(effects.changes)
        assert effects.new is not None
        self.known[candidate.id] = effects.new
        self.told[candidate.turn_ids[0]] = candidate.id

    def chain(self, candidate: Memory) -> list[Memory]:
        again = stated_before(candidate, [memory for memory in self.known.values() if not memory.active])
        if again is not None:
            return self.whole(again)
        end = segment(candidate, list(self.known.values()))
        last = end or next(iter(self.active), None)
        return chain_of(self.known, last) if last is not None else []

    def whole(self, memory: Memory) -> list[Memory]:
        while memory.superseded_by is not None:
            memory = self.known[memory.superseded_by]
        return chain_of(self.known, memory)

    def change(self, changes: dict[str, dict[str, Any]]) -> None:
        for name, fields in changes.items():
            self.known[name] = msgspec.structs.replace(self.known[name], **fields)


def check(memories: Sequence[Memory]) -> None:
    """One is active, both directions of the chain agree, and what one chain says does not overlap."""
    known = {memory.id: memory for memory in memories}
    assert sum(memory.active for memory in memories) <= 1
    for memory in memories:
        if memory.superseded_by is not None:
            assert not memory.active
            assert known[memory.superseded_by].supersedes == memory.id
        if memory.supersedes is not None:
            assert known[memory.supersedes].superseded_by == memory.id
        if not memory.active:
            assert memory.valid_to is not None
            assert memory.valid_to >= begins(memory)
    for last in memories:
        if last.superseded_by is None:
            for earlier, later in itertools.combinations(chain_of(known, last), 2):
                assert earlier.valid_to is not None
                empty = earlier.valid_to == begins(earlier) or later.valid_to == begins(later)
                assert empty or earlier.valid_to <= begins(later)


def chain_of(known: dict[str, Memory], last: Memory) -> list[Memory]:
    found = [last]
    while found[-1].supersedes is not None:
        found.append(known[found[-1].supersedes])
    return found[::-1]


@given(st.lists(saying, max_size=25))
def test_any_sequence_leaves_one_active_and_the_whole_history(told: Sequence[Said]) -> None:
    book = Book()
    told = [said._replace(place=place) for place, said in enumerate(told)]
    for said in told:
        book.hear(said)
        check(list(book.known.values()))
    assert set(book.told) == {said.turn for said in told if said.value is not None}
    for turn, name in book.told.items():
        assert turn in book.known[name].turn_ids


@given(sayings)
def test_reading_it_all_again_changes_nothing(told: Sequence[Said]) -> None:
    book = Book(told)
    before = dict(book.known)
    for said in told:
        if said.value is not None:
            book.hear(said)
    assert book.known == before


dated = st.builds(Said, st.integers(0, 3), st.integers(0, 60), st.none())


@given(st.lists(dated, min_size=1, unique_by=lambda said: said.minute))
def test_what_was_said_last_is_active_whatever_came_first(told: Sequence[Said]) -> None:
    book = Book(told)
    (active,) = book.active
    latest = max(told, key=lambda said: said.minute)
    assert active.object == str(latest.value)
    assert last_said_at(active) == latest.at


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(saying, min_size=2, max_size=6, unique_by=lambda said: said.minute))
def test_the_store_and_the_register_hold_it_too(folders: Folders, told: Sequence[Said]) -> None:
    async def through_the_store() -> None:
        with folders.new() as folder:
            async with rig(folder, every_turns=1000) as r:
                for said in told:
                    await _tell(r, said)
                facts = [fact for fact in await r.facts() if not is_trace(fact)]
                check(facts)
                active = [fact.id for fact in facts if fact.active]
                assert list((await r.state.slots(ANN, ["user|rent|"])).values()) == active
                rents = {turn.id for turn in await r.turns() if "rent is" in turn.content}
                assert {name for one in facts for name in one.turn_ids} == rents
                await r.plan(upserts=[])
                assert [fact for fact in await r.facts() if not is_trace(fact)] == facts

    asyncio.run(through_the_store())


async def _tell(r: Rig, said: Said) -> None:
    if said.value is None:
        text = f"Forget my rent, I said at {said.minute}"
        request = {"intent": "forget", "content": "the user's rent", "subject": "user", "predicate": "rent"}
        await r.teach(text, request | {"evidence": text}, at=said.at)
        return
    since = {"valid_from": (said.at - timedelta(minutes=said.since)).isoformat()} if said.since else {}
    text = f"At {said.minute} my rent is {said.value}00"
    triple = {"subject": "user", "predicate": "rent", "object": f"{said.value}00", "evidence": text}
    await r.teach(text, {"content": f"User's rent is {said.value}00", **triple, **since}, at=said.at)
