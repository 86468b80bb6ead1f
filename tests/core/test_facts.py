"""What a new statement does to what is known: repetitions, changes, corrections, requests to forget."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.facts import Operation, decide, following_edits, only_asks_to_forget, place, reinforce, take_back
from memproxy.core.memory import Kind, Memory, Relation
from memproxy.core.similar import Neighbour, alike, lexical_overlap, repeats, terms
from memproxy.core.slots import slot_name
from tests.learn.rig import NOON, fact
from tests.stores.making import memory

LIVES: dict[str, Any] = {"subject": "user", "predicate": "lives_in", "object": "Bruges"}


def statement(**fields: Any) -> Memory:
    told = {"content": "User lives in Bruges.", "entities": ["Bruges"], "relations": [Relation(**LIVES)], **LIVES}
    return memory("m", **(told | fields))


@pytest.mark.parametrize(
    ("given", "value"),
    [
        ({"content": "User lives in Ghent."}, "Ghent"),
        ({"content": "User lives in Ghent.", "object": "the city of Ghent"}, "the city of Ghent"),
        ({"content": "User has moved to Ghent."}, None),
    ],
)
def test_nothing_beside_the_words_goes_on_saying_what_they_do_not(given: dict[str, Any], value: str | None) -> None:
    after = given | following_edits(statement(), given)
    assert after["object"] == value
    assert [one.object for one in after["relations"]] == ([value] if value else [])
    assert after["entities"] == ([value] if value else [])


def test_what_an_edit_leaves_in_the_words_stays_beside_them() -> None:
    assert following_edits(statement(), {"content": "User lives in Bruges since 2019."}) == {}
    assert following_edits(statement(), {"tags": ["home"]}) == {}
    assert following_edits(statement(kind=Kind.TURN), {"content": "User lives in Ghent."}) == {}


SALARY = "forget what I told you about my salary"


@pytest.mark.parametrize(
    ("text", "quotes", "only"),
    [
        ("Please forget what I told you about my salary.", [SALARY], True),
        ("Thanks! Forget what I told you about my salary", [SALARY], True),
        ("Please, forget  what I told you about my salary, ok?", [SALARY], True),
        ("Forget my salary. Forget my dog, too!", ["Forget my salary.", "Forget my dog, too!"], True),
        ("Forget my salary. Forget my dog.", ["Forget my salary."], False),
        ("Forget what I told you about my salary, I found a flat in Rome", [SALARY], False),
        ("Forget the budget - money is no object", ["Forget the budget - money is no object"], False),
        ("The flat in Rome is mine. Forget what I told you about my salary.", [SALARY], False),
        ("Forget my salary.", [], False),
        ("Forget my salary.", [""], False),
        ("ok", ["ok"], False),
        ("Vergiss meinen Lohn!", ["Vergiss meinen Lohn"], True),
        ("Don’t remember my salary.", ["Don't remember my salary"], True),
        ("I'm not on Instagram anymore", ["I'm not on Instagram anymore"], False),
        ("I've stopped using Facebook.", ["I've stopped using Facebook"], False),
        ("I gave up sugar in my tea.", ["I gave up sugar in my tea"], False),
        ("We no longer have the car.", ["We no longer have the car."], False),
    ],
)
def test_what_only_asks_to_forget(text: str, quotes: list[str], only: bool) -> None:
    assert only_asks_to_forget(text, quotes) is only


def said(name: str, content: str, **fields: Any) -> Memory:
    return fact(name, content=content, **fields)


def near(content: str, cosine: float | None = None, **fields: Any) -> Neighbour:
    return Neighbour(said("known", content, **fields), cosine)


HAWAII = "User's budget for the Hawaii vacation is $10,000"


@pytest.mark.parametrize(
    ("content", "known", "cosine", "operation"),
    [
        ("User's Hawaii vacation budget is $10,000", HAWAII, 0.96, Operation.DUPLICATE),
        ("User's Hawaii vacation budget is $10,000", HAWAII, None, Operation.DUPLICATE),
        ("User's budget for the Hawaii vacation is now $15,000", HAWAII, 0.85, Operation.UPDATE),
        ("User's budget for the Hawaii vacation is $15,000", HAWAII, None, Operation.UPDATE),
        ("User's budget for the Norway vacation is $15,000", HAWAII, 0.86, Operation.COEXIST),
        ("User wants to learn the violin", HAWAII, 0.5, Operation.ADD),
        ("User lives in Rome", "User lives in Berlin", 0.8, Operation.UPDATE),
        ("User lives in Rome", "User lives in Berlin", 0.5, Operation.UPDATE),
        ("User lives in Rome", "User lives in Berlin", None, Operation.UPDATE),
        ("User visited Rome", "User visited Berlin", 0.85, Operation.COEXIST),
        ("User likes Thai food", "User likes Greek food", 0.85, Operation.COEXIST),
        ("User does not eat meat", "User eats meat", 0.93, Operation.UPDATE),
        ("User has a dog named Rex", "User has a dog named Biscuit", 0.92, Operation.COEXIST),
        ("User plays the violin", HAWAII, None, Operation.ADD),
    ],
)
def test_without_a_common_slot_values_decide(
    content: str, known: str, cosine: float | None, operation: Operation
) -> None:
    decision = decide(said("new", content), chain=[], neighbours=[near(known, cosine)])
    assert decision.operation is operation


def test_an_episode_never_replaces_another_and_is_not_compared_with_other_kinds() -> None:
    ran = near("User ran 5 km on Monday", 0.95, kind=Kind.EPISODIC)
    decision = decide(said("new", "User ran 10 km on Monday", kind=Kind.EPISODIC), chain=[], neighbours=[ran])
    assert decision.operation is Operation.COEXIST
    decision = decide(said("new", HAWAII, kind=Kind.EPISODIC), chain=[], neighbours=[near(HAWAII, 1.0)])
    assert decision.operation is Operation.ADD


def test_a_slot_decides_whatever_the_similarity() -> None:
    holder = said("old", "Completely other words, 10 grand", subject="user", predicate="budget", object="$10,000")
    same = said("new", HAWAII, subject="User", predicate="has_budget", object="10000 dollars")
    other = said("new", HAWAII, subject="User", predicate="has_budget", object="$15,000")
    assert decide(same, chain=[holder], neighbours=[]).operation is Operation.DUPLICATE
    assert decide(other, chain=[holder], neighbours=[]).operation is Operation.UPDATE


def test_a_change_of_stance_is_a_change_and_another_aspect_lives_beside_it() -> None:
    love, hate, generics = (
        said(verb, f"User {verb} TypeScript", subject="user", predicate=verb, object="TypeScript", aspect=aspect)
        for verb, aspect in (("loves", None), ("hates", None), ("hates", "generics"))
    )
    assert slot_name(love) == slot_name(hate) != slot_name(generics)
    assert decide(hate, chain=[love], neighbours=[]).operation is Operation.UPDATE


def test_a_turn_repeats_an_old_statement_only_with_the_old_value_alone() -> None:
    old = said("1", HAWAII, object="$10,000")
    new = said("2", HAWAII.replace("10,000", "15,000"), object="$15,000")
    assert repeats("Your budget is $10,000.", old, new)
    assert repeats("with 10000 dollars for Hawaii you can go far", old, new)
    assert not repeats("the budget went from $10,000 to $15,000", old, new)
    assert not repeats("the car costs $10,000", old, new)
    assert not repeats("your budget is fine", old, new)


def test_a_name_in_passing_does_not_repeat_an_old_statement() -> None:
    old = said("1", "User lives in Berlin", object="Berlin")
    new = said("2", "User lives in Rome", object="Rome")
    assert repeats("I live in Berlin with my sister", old, new)
    assert not repeats("Berlin has great museums", old, new)


def test_a_repetition_of_the_same_turn_changes_nothing() -> None:
    known = said("1", HAWAII, turn_ids=["a"], confidence=0.5)
    assert reinforce(known, said("2", HAWAII, turn_ids=["a"]), now=NOON) == {}
    again = reinforce(known, said("2", HAWAII, turn_ids=["b"]), now=NOON)
    assert again["turn_ids"] == ["a", "b"]
    assert again["confidence"] > 0.5


@given(st.text(max_size=80), st.text(max_size=80))
def test_overlap_is_a_share_and_symmetric(one: str, other: str) -> None:
    assert 0 <= lexical_overlap(one, other) <= 1
    assert lexical_overlap(one, other) == lexical_overlap(other, one)


@given(st.text(max_size=80), st.text(max_size=80), st.one_of(st.none(), st.floats(-1, 1)))
def test_any_two_statements_can_be_compared(one: str, other: str, cosine: float | None) -> None:
    decide(said("new", one), chain=[], neighbours=[near(other, cosine)])
    repeats(one, said("1", other), said("2", one))


@pytest.mark.parametrize(("turn", "holds"), [("t2", True), ("t3", False)])
def test_what_a_message_says_holds_in_place_of_what_it_took_back_and_so_does_nothing_else_of_then(
    turn: str, *, holds: bool
) -> None:
    """A plain correction ends what it corrects when it comes, which may be before that is learned."""
    old = said("1", "User's rent is $900", subject="user", predicate="rent", object="$900", turn_ids=["t1"])
    old = msgspec.structs.replace(old, **take_back(old, "t2", NOON, now=NOON))
    new = said("2", "User's rent is $950", subject="user", predicate="rent", object="$950", turn_ids=[turn])
    effects = place(new, [old], now=NOON)
    assert effects.new is not None
    assert (effects.new.active, effects.new.supersedes) == (holds, "1")
    assert effects.changes["1"]["superseded_by"] == "2"


def test_two_statements_from_the_same_words_are_two() -> None:
    quoted = {"turn_ids": ["t1"], "metadata": {"evidence": "I live and work in Berlin"}}
    lives = said("1", "User lives in Berlin", subject="user", predicate="lives_in", object="Berlin", **quoted)
    works = said("2", "User works in Berlin", subject="user", predicate="works_in", object="Berlin", **quoted)
    again = said("3", "User's home is Berlin", subject="user", predicate="lives_in", object="Berlin", **quoted)
    ended = msgspec.structs.replace(lives, active=False)
    assert decide(works, chain=[], neighbours=[Neighbour(lives, 0.8)]).operation is Operation.COEXIST
    assert decide(again, chain=[], neighbours=[Neighbour(ended, 0.4)]).operation is Operation.DUPLICATE


YACHT = "User has a yacht in Monaco harbour"


@pytest.mark.parametrize(
    ("one", "other", "is_alike"),
    [
        (YACHT, YACHT, True),
        (YACHT, "The user owns a yacht moored in Monaco", True),
        (YACHT, "User's yacht is kept in Monaco harbour", True),
        (YACHT, "Monaco harbour: yacht", True),
        (YACHT, "User has a dog named Biscuit", False),
        (YACHT, "User's yacht is 12 metres long", False),
        (YACHT, "User", False),
        (YACHT, "", False),
        ("Budget for Hawaii is $10,000", "Budget for Norway is $5,000", False),
    ],
)
def test_other_words_for_it_are_it_and_what_else_is_told_is_not(one: str, other: str, *, is_alike: bool) -> None:
    assert alike(terms(one), terms(other)) is is_alike
