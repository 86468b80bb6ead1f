"""Names of slots and comparable values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Kind
from memproxy.core.slots import (
    denies_another,
    has_many,
    numbers,
    predicate_name,
    same_value,
    slot_name,
    slot_value,
    subject_name,
    value_name,
)
from tests.learn.rig import fact

USER = ("user", "The user", "User's", "I", "me", "USER", "the User’s")
WIFE = ("wife", "my wife", "the user's wife", "User’s wife", "the wife of the user")


@pytest.mark.parametrize(("subject", "name"), [*((one, "user") for one in USER), *((one, "wife") for one in WIFE)])
def test_the_user_and_people_of_the_user_have_one_name(subject: str, name: str) -> None:
    assert subject_name(subject) == name


@pytest.mark.parametrize("predicate", ["has_budget", "budget", "hasBudget", "has-budget", "current budget", "Budgets"])
def test_a_predicate_has_one_name_however_it_is_spelled(predicate: str) -> None:
    assert predicate_name(predicate) == ("budget", True)


@pytest.mark.parametrize(
    ("predicate", "name", "affirms"),
    [
        ("likes", "feel_about", True),
        ("hates", "feel_about", False),
        ("doesn't like", "feel_about", False),
        ("no_longer_has_dog", "dog", False),
        ("is", "is", True),
    ],
)
def test_negation_and_liking_are_told_from_the_question(predicate: str, name: str, affirms: bool) -> None:
    assert predicate_name(predicate) == (name, affirms)


MANY = """
    has_dog has_cat has_pet owns owns_pet dog_name name_of_the_cat sister_name has_sister has_son has_children
    has_friend colleague teammate roommate speaks language programming_languages hobby interested_in skill
    allergic_to allergy food_allergies dietary_restrictions takes_medication diagnosed_with suffers_from
    has_condition plays instrument plays_sport works_on works_on_project working_with uses uses_tool goal wants
    plans_to preference prefers knows studies teaches volunteers_at member_of collects avoids reads has_read
    watched visited visited_in_2020 has_been_to traveled_to attended bought drinks eats cooks subscribed_to follows
    likes hates is has is_a worked_at lived_in moved_from graduated_from event experience project habit
    responsible_for afraid_of worried_about runs
""".split()  # noqa: SIM905
ONE = """
    works_at works_for employer employed_by workplace company works_as job_title occupation profession role salary
    manager boss lives_in moved_to resides_in home_city address phone phone_number has_phone email car has_car
    drives car_lease laptop married_to wife has_husband spouse girlfriend dating partner marital_status
    relationship_status mother age birthday born_in name preferred_name nationality timezone diet blood_type height
    weight shoe_size commute work_arrangement works_from project_deadline trip_budget budget_for_hawaii_vacation
    rent favorite_tool favorite_color event_date wedding_date flight_to_rome hotel_in_maui number_of_dogs dentist
    landlord gym bank database deployment_target editor operating_system answer_language takes_coffee
    health_insurance is_from is_in
""".split()  # noqa: SIM905


@pytest.mark.parametrize("predicate", [*MANY, *ONE])
def test_predicates_with_many_answers_are_known_and_others_have_one(predicate: str) -> None:
    assert has_many(predicate_name(predicate)[0]) is (predicate in MANY)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("works_at", "employer"),
        ("works for", "employed by"),
        ("lives_in", "moved_to"),
        ("residence", "home_city"),
        ("works_as", "occupation"),
        ("wife", "married_to"),
        ("girlfriend", "is dating"),
        ("relationship_status", "marital_status"),
    ],
)
def test_predicates_that_ask_the_same_are_one(first: str, second: str) -> None:
    assert predicate_name(first) == predicate_name(second)


@pytest.mark.parametrize(
    ("ended", "by"), [("girlfriend", "broke_up_with"), ("wife", "divorced_from"), ("works_at", "laid_off_from")]
)
def test_what_says_that_something_ended_denies_it_in_its_slot(ended: str, by: str) -> None:
    known = fact("1", subject="user", predicate=ended, object="Sam")
    over = fact("2", subject="user", predicate=by, object="Sam")
    assert slot_name(known) == slot_name(over)
    assert not same_value(slot_value(known), slot_value(over))
    assert not denies_another(over, known)
    assert denies_another(fact("3", subject="user", predicate=by, object="Tom"), known)


def test_what_names_no_other_value_denies_any() -> None:
    golf = fact("1", subject="user", predicate="has_car", object="VW Golf")
    assert not denies_another(fact("2", subject="user", predicate="has_no_car", object="a car"), golf)
    assert denies_another(fact("3", subject="user", predicate="no longer has car", object="Fiat"), golf)


ONE_AMOUNT = ("$10,000", "10000 dollars", "10k USD", "US$10,000.00", "$10 thousand", "10000")


@pytest.mark.parametrize("value", [*ONE_AMOUNT, "$15,000", "€10,000", "$10,000 per day", "$1,000"])
def test_one_amount_is_one_value_however_written_and_another_is_another(value: str) -> None:
    assert same_value(value_name(value), value_name("$10,000")) is (value in ONE_AMOUNT)


def test_items_of_a_list_have_slots_of_their_own() -> None:
    biscuit = fact("1", subject="user", predicate="has_dog", object="Biscuit")
    rex = fact("2", subject="The user", predicate="has dog", object="Rex")
    assert slot_name(biscuit) != slot_name(rex)


def test_a_project_and_an_aspect_are_part_of_the_slot() -> None:
    plain = fact("1", subject="user", predicate="budget", object="1")
    slots = {
        slot_name(plain),
        slot_name(fact("2", subject="user", predicate="budget", object="1", project_id="x")),
        slot_name(fact("3", subject="user", predicate="budget", object="1", aspect="food")),
    }
    assert len(slots) == 3


def test_turns_and_bare_statements_have_no_slot() -> None:
    assert slot_name(fact("1")) is None
    assert slot_name(fact("2", kind=Kind.TURN, subject="user", predicate="budget")) is None


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_can_be_named(subject: str, value: str) -> None:
    slot_name(fact("1", subject=subject, predicate=value, object=value, aspect=subject))
    assert same_value(value_name(value), value_name(value))


@given(st.integers(min_value=0, max_value=10**12))
def test_thousands_separators_do_not_matter(number: int) -> None:
    assert numbers(f"about {number:,} of them") == numbers(str(number)) == {str(number)}


def test_a_million_digits_are_no_number() -> None:
    assert numbers("1" * 1_000_001) == frozenset()


def test_an_opinion_has_one_slot_however_it_is_put() -> None:
    liked = fact("1", subject="user", predicate="likes", object="TypeScript generics", aspect="generics")
    annoyed = fact("2", subject="TypeScript", predicate="annoys", object="user", aspect="generics")
    thinks = fact("3", subject="user", predicate="opinion_of", object="TypeScript", aspect="generics", stance="mixed")
    finds = fact("4", subject="User", predicate="finds", object="TypeScript", aspect="generics", stance="negative")
    assert len({slot_name(one) for one in (liked, annoyed, thinks, finds)}) == 1
    assert [slot_value(one)[0] for one in (liked, annoyed, thinks, finds)] == ["+", "-", "~", "-"]


def test_a_thing_is_judged_by_aspect() -> None:
    bad = fact("1", subject="TypeScript", predicate="generics", object="annoying", aspect="generics", stance="negative")
    good = fact("2", subject="TypeScript", predicate="has", object="nice ones", aspect="generics", stance="positive")
    assert slot_name(bad) == slot_name(good)
    assert not same_value(slot_value(bad), slot_value(good))


def test_names_with_marks_are_told_apart() -> None:
    slots = {slot_name(fact("1", subject="user", predicate="likes", object=name)) for name in ("C", "C++", "C#")}
    assert len(slots) == 3
