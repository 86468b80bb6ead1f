"""Entities: what counts as a name, and what it is taken for."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.entities import Census, EntityType, edges, mentions
from memproxy.core.memory import Kind, Memory, Relation

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def memory(content: str = "something", **fields: Any) -> Memory:
    return Memory(
        id="m", tenant="t", user_id="u", content=content, created_at=NOW, updated_at=NOW,
        **({"kind": Kind.SEMANTIC} | fields),
    )  # fmt: skip


def named(text: str) -> dict[str, str]:
    return {one.name: one.type.value for one in mentions(memory(text, kind=Kind.TURN))}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("I met Anna in Berlin on Monday.", {"Anna": "person", "Berlin": "place", "Monday": "time"}),
        ("We flew to New York with my sister Clara", {"New York": "place", "Clara": "person"}),
        ("She runs the Berlin Marathon in May 2024", {"Berlin Marathon": "event", "May 2024": "time"}),
        ("She works at Google", {"Google": "item"}),
        ("Walking Biscuit this morning!", {"Biscuit": "item"}),
        ("Thanks! Great. What do You think? I do.", {}),
        ("nothing here has capitals", {}),
        ("Suggest 3 books. Compare 2 Hotels.", {"Hotels": "item"}),
        (
            "Visit Paris\n- Compare Lisbon with Porto\n2) Book a room",
            {"Paris": "place", "Lisbon": "item", "Porto": "person"},
        ),
        ("## Plan\n**Explore** the coast. “Enjoy it!”", {}),
        (
            "I saw Anna. Anna Smith is nice, Windows 11 is not",
            {"Anna": "item", "Anna Smith": "item", "Windows 11": "item"},
        ),
        ("New York was cold, May 2024 warm", {"New York": "item", "May 2024": "time"}),
        ("I live in St. Louis, on Main St. near the park", {"St. Louis": "place", "Main St": "item"}),
        ("She lives on the other St. but not in Mt. Vernon", {"Mt. Vernon": "place"}),
        (
            "We saw Dr. Brown and Prof. Lee. St. Mary's is shut",
            {"Dr. Brown": "person", "Prof. Lee": "item", "St. Mary": "item"},
        ),
    ],
)
def test_names_in_a_turn_are_those_written_with_capitals(text: str, names: dict[str, str]) -> None:
    assert named(text) == names


@given(st.text(max_size=300))
def test_any_text_can_be_read(text: str) -> None:
    for one in mentions(memory(text, kind=Kind.TURN)):
        assert one.name.strip()


def test_a_fact_names_what_it_lists_and_what_its_relations_join() -> None:
    found = mentions(
        memory(
            subject="user",
            predicate="lives in",
            object="Springfield",
            entities=["Acme"],
            relations=[Relation(subject="Tom", predicate="brother of", object="Anna")],
        )
    )
    types = {one.name: one.type for one in found}
    assert set(types) == {"Springfield", "Acme", "Tom", "Anna"}
    assert types["Springfield"] is EntityType.PLACE
    assert types["Anna"] is EntityType.PERSON


def test_qualities_and_amounts_are_no_entities() -> None:
    assert mentions(memory(subject="user", predicate="budget", object="10,000 dollars")) == []
    assert mentions(memory(subject="user", predicate="favorite color", object="blue")) == []


def test_a_triple_that_is_listed_again_is_one_relation() -> None:
    again = Relation(subject="Anna", predicate="lives in", object="Berlin", valid_from=NOW)
    (edge,) = edges(memory(subject="anna", predicate="lives_in", object="Berlin", relations=[again]))
    assert edge.valid_from == NOW


def test_the_strongest_evidence_of_all_mentions_decides_the_type() -> None:
    census = Census({"rex": "rex", "dog": "rex", "user": "user"})
    for text in ("I think Rex is at it again", "You know Rex was here", "the dog: my dog Rex sleeps"):
        census.add(memory(text, kind=Kind.TURN))
    census.add(memory(subject="dog", predicate="likes", object="Carrots"))
    found = census.entities()
    assert (found["rex"].count, found["rex"].type, found["rex"].name) == (4, EntityType.PERSON, "Rex")
    assert found["carrots"].count == 1


def test_a_sentences_first_word_belongs_to_a_name_only_if_another_memory_says_so() -> None:
    def counted(*texts: str) -> dict[str, int]:
        census = Census({})
        for text in texts:
            census.add(memory(text, kind=Kind.TURN))
        return {one.name: one.count for one in census.entities().values()}

    assert counted("Anna Smith called me.") == {"Smith": 1}
    assert counted("Anna Smith called me.", "I like Anna Smith") == {"Anna Smith": 2}
    assert counted("Visit Rome for me.", "I like Rome") == {"Rome": 2}
