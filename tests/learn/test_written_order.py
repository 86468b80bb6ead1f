"""What the API writes or imports lands where its dates say, in whatever order it comes."""

import itertools
from datetime import timedelta
from typing import Any

import pytest

from memproxy.core.memory import Memory, Source
from tests.learn.rig import ANN, NOON, Rig, fact
from tests.learn.test_invariants import check

LIVES: dict[str, Any] = {"subject": "user", "predicate": "lives_in"}
LONG_AGO = NOON - timedelta(days=1500)


def lives(name: str, place: str, **fields: Any) -> Memory:
    return fact(name, content=f"User lives in {place}", object=place, source=Source.API, **LIVES, **fields)


async def by_place(r: Rig) -> dict[str, Memory]:
    facts = await r.facts()
    check(facts)
    return {str(one.object): one for one in facts}


@pytest.mark.parametrize("known", ["written", "learned"])
async def test_a_statement_of_an_earlier_time_goes_into_the_history_of_an_undated_one(r: Rig, known: str) -> None:
    if known == "written":
        await r.plan(upserts=[lives("w1", "Berlin")])
    else:
        await r.teach("I live in Berlin", {"content": "User lives in Berlin", "object": "Berlin", **LIVES})
    r.clock.advance(3600)
    await r.plan(upserts=[lives("w2", "Rome", valid_from=LONG_AGO, created_at=r.clock.now())])
    found = await by_place(r)
    assert (found["Berlin"].active, found["Rome"].active) == (True, False)
    assert found["Rome"].superseded_by == found["Berlin"].id
    assert found["Berlin"].supersedes == "w2"
    assert (found["Rome"].valid_from, found["Rome"].valid_to) == (LONG_AGO, NOON)
    assert await r.state.slots(ANN, [str(found["Berlin"].slot)]) == {found["Berlin"].slot: found["Berlin"].id}


async def test_a_history_may_come_in_any_order(r: Rig) -> None:
    await r.plan(upserts=[lives("now", "Berlin")])
    for days, place in ((700, "Rome"), (1500, "Oslo"), (1000, "Bern")):
        r.clock.advance(60)
        written = lives(place, place, valid_from=NOON - timedelta(days=days), created_at=r.clock.now())
        await r.plan(upserts=[written])
    found = await by_place(r)
    order = ["Oslo", "Bern", "Rome", "Berlin"]
    assert [found[place].active for place in order] == [False, False, False, True]
    ends = [(found[one].valid_to, found[two].valid_from or NOON) for one, two in itertools.pairwise(order)]
    assert all(end == begin for end, begin in ends)


async def test_a_newer_beginning_and_none_at_all_take_over(r: Rig) -> None:
    await r.plan(upserts=[lives("w1", "Berlin", valid_from=LONG_AGO)])
    r.clock.advance(60)
    await r.plan(upserts=[lives("w2", "Rome", valid_from=NOON - timedelta(days=1), created_at=r.clock.now())])
    assert (await by_place(r))["Rome"].active
    r.clock.advance(60)
    await r.plan(upserts=[lives("w3", "Oslo", created_at=r.clock.now())])
    found = await by_place(r)
    assert [found[place].active for place in ("Berlin", "Rome", "Oslo")] == [False, False, True]


async def test_what_the_user_says_still_corrects_what_was_said_before_whatever_time_it_speaks_of(r: Rig) -> None:
    await r.teach("I live in Berlin", {"content": "User lives in Berlin", "object": "Berlin", **LIVES})
    since = {"valid_from": LONG_AGO.isoformat()}
    said = "Actually I have lived in Rome for years"
    await r.teach(said, {"content": "User lives in Rome", "object": "Rome", **LIVES, **since})
    assert (await by_place(r))["Rome"].active
