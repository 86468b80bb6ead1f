"""A right correction comes out right: its own sentence is stored, and exactly what it replaces ends."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memproxy.core.facts import says_exactly, statement_named
from memproxy.core.memory import Kind
from memproxy.core.scope import Scope
from memproxy.learn.candidates import Intent
from memproxy.learn.rules.statements import ROWS
from tests.learn.corrections import CORRECTIONS, Correction
from tests.learn.rig import Rig, fact, rig
from tests.learn.rules_rig import said as read_by_rules
from tests.support.folders import Folders

WAYS = [(one, False) for one in CORRECTIONS] + [(one, True) for one in CORRECTIONS if len(one.extracted) > 1]
"""Each in order, and turned round where it extracts several statements."""


@pytest.mark.parametrize("named", [False, True], ids=["bare", "named"])
@pytest.mark.parametrize(
    ("correction", "turned"), WAYS, ids=lambda one: one.name if isinstance(one, Correction) else ""
)
async def test_a_right_correction_ends_exactly_what_it_replaces_and_stands_as_it_is(
    tmp_path: Path, correction: Correction, turned: bool, named: bool
) -> None:
    extracted = correction.extracted[::-1] if turned else correction.extracted
    async with rig(tmp_path, every_turns=1000) as r:
        for said, told in correction.told:
            await r.teach(said, *(one.candidate(named=named) for one in told))
        await r.teach(correction.then, *(one.candidate(named=named) for one in extracted))
        await check(r, correction)


async def test_a_correction_that_is_read_again_changes_nothing(tmp_path: Path) -> None:
    correction = CORRECTIONS[0]
    async with rig(tmp_path, every_turns=1000) as r:
        for said, told in correction.told:
            await r.teach(said, *(one.candidate(named=False) for one in told))
        candidates = [one.candidate(named=False) for one in correction.extracted]
        await r.teach(correction.then, *candidates)
        await r.mined(*candidates)
        await check(r, correction)


async def check(r: Rig, correction: Correction) -> None:
    facts = await r.facts()
    assert {one.content for one in facts if one.active} == correction.after
    assert {one.content for one in facts if not one.active} == correction.ended
    by_id = {one.id: one for one in facts}
    for said in correction.extracted:
        if said.replaces:
            old = next(one for one in facts if one.content == said.replaces)
            assert old.superseded_by is not None
            assert by_id[old.superseded_by].content == said.content


@pytest.mark.parametrize(
    ("replaces", "is_named"),
    [
        ("User shares an office with Pia.", True),
        ("  user shares an  office with pia ", True),
        ("User shares her office with Pia", True),
        ("User shares an office with Mia.", False),
        ("User does not share an office with Pia.", False),
        ("Pia", False),
        ("the office", False),
    ],
)
def test_what_is_replaced_is_named_word_for_word_or_nearly_so(replaces: str, is_named: bool) -> None:
    known = [fact("office", content="User shares an office with Pia."), fact("pia", content="Pia brews good coffee.")]
    named = statement_named(replaces, known)
    assert (named is not None and named.id == "office") is is_named
    assert says_exactly(known[0], "user shares an office with Pia")


CONTENTS = (
    "User shares an office with Pia.",
    "User has the office to herself.",
    "User's colleague Pia works in Lyon.",
    "User's budget for Hawaii is $10,000.",
    "User's budget for Hawaii is $15,000.",
    "It is $15,000 now.",
    "User is vegetarian.",
    "User eats meat again, but no pork.",
    "User has a dog named Biscuit.",
    "His name is Buddy.",
)
OBJECTS = ("Pia", "nobody", "Lyon", "$10,000", "$15,000", "15,000", "Biscuit", "Buddy", None)
PREDICATES = ("shares_office_with", "works_in", "budget_for_hawaii", "diet", "has_dog", None)

candidates = st.fixed_dictionaries(
    {
        "content": st.sampled_from(CONTENTS),
        "intent": st.sampled_from(("state", "correct", "correct", "forget")),
        "subject": st.sampled_from(("user", "Pia", None)),
        "predicate": st.sampled_from(PREDICATES),
        "object": st.sampled_from(OBJECTS),
        "replaces": st.sampled_from((*CONTENTS, *OBJECTS, "the budget", "something else")),
    }
)
answers = st.lists(st.lists(candidates, min_size=1, max_size=3), min_size=1, max_size=4)
SAID = " ".join(CONTENTS)


@given(conversations=st.lists(answers, min_size=1, max_size=3))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_fact_says_word_for_word_what_a_candidate_said(folders: Folders, conversations: list[Any]) -> None:
    async def talk() -> None:
        with folders.new() as folder:
            async with rig(folder, every_turns=1000) as r:
                for number, told in enumerate(conversations):
                    user = Scope(tenant="acme", user=f"user{number}", session="s1")
                    for place, found in enumerate(told):
                        quoted = [{**one, "evidence": one["content"]} for one in found]
                        await r.teach(f"{place}: {SAID}", *quoted, scope=user)
                    facts = [one for one in await r.facts(user) if one.kind is not Kind.EPISODIC]
                    assert {one.content for one in facts} <= {one["content"] for found in told for one in found}

    asyncio.run(talk())


SENTENCES = [
    re.compile(re.sub(r"\\{\w+\\}", "(.+)", re.escape(f"{row.content}.")), re.IGNORECASE)
    for row in ROWS
    if not row.content.startswith("{")
]
TOLD = (
    "My budget is 10k.",
    "My rent is $900 a month.",
    "I live in Berlin.",
    "I work at Siemens.",
    "My manager is Kathrin Berg.",
    "We have two dogs, Nacho and Pepper.",
    "I have three cats.",
)
CHANGED = (
    "Actually my budget is 15k.",
    "No, it's $950 now.",
    "Correction: it's Katarzyna, not Kathrin.",
    "Sorry, it's Bergmann, not Berg.",
    "I live in Lyon, not Berlin.",
    "No, 4 cats.",
    "We switched from Siemens to Bosch.",
    "The budget is now 20k.",
    "Make it 30k.",
)
WRITTEN = ("User's budget for the new kitchen is 10k.", "User's colleague Pia works in Berlin.", "User rents for $900.")


@given(told=st.lists(st.sampled_from(TOLD), max_size=4), then=st.lists(st.sampled_from(CHANGED), max_size=3))
def test_a_rule_says_nothing_but_its_own_sentence_with_words_of_the_user(told: list[str], then: list[str]) -> None:
    values = ("10k", "Berlin", "$900")
    known = [
        fact(f"f{n}", content=content, subject="user", predicate=f"told_{n}", object=value)
        for n, (content, value) in enumerate(zip(WRITTEN, values, strict=True))
    ]
    said = " ".join((*told, *then)).casefold()
    for candidate in read_by_rules(*(("user", text) for text in (*told, *then)), known=known):
        if candidate.intent is Intent.FORGET:
            continue
        assert any(one.fullmatch(candidate.content) for one in SENTENCES) or candidate.content.startswith("User has ")
        assert (candidate.object or "").casefold() in said
