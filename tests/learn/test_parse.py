"""Answers of extraction models, as they come."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Kind
from memproxy.errors import ModelUnreadable
from memproxy.learn.parse import MOST_CANDIDATES, parse

DOG = {"kind": "semantic", "content": "User has a dog named Biscuit"}
TEXT = DOG["content"]

READABLE = {
    "facts as text": {"facts": [TEXT]},
    "by kind": {"semantic": [TEXT], "episodic": []},
    "memory and memory_type": [{"memory": TEXT, "memory_type": "SEMANTIC"}],
    "junk between": {"candidates": [DOG, 7, None, {"content": ""}, {"content": "dog"}]},
}
"""Answers without evidence; `test_garbage` has those with it, and those that cannot be read."""


@pytest.mark.parametrize("name", READABLE)
def test_a_readable_answer_gives_its_candidates(name: str) -> None:
    assert [(one.kind, one.content) for one in parse(json.dumps(READABLE[name])).candidates] == [(Kind.SEMANTIC, TEXT)]


@pytest.mark.parametrize("text", ['{"candidates": []}', "{}", "[]", "```json\n[]\n```", '{"memories": null}'])
def test_an_empty_answer_is_nothing_to_learn(text: str) -> None:
    assert parse(text).candidates == []


@pytest.mark.parametrize(
    ("value", "share"),
    [("0.9", 0.9), ("90%", 0.9), (9, 0.9), (90, 0.9), ("high", 0.9), (None, 0.8), ("?", 0.8), (True, 0.8), (-1, 0.0)],
)
def test_shares_are_read_in_any_form(value: Any, share: float) -> None:
    (one,) = parse(json.dumps([{**DOG, "confidence": value}])).candidates
    assert one.confidence == pytest.approx(share)


def test_odd_values_of_optional_fields_are_left_out() -> None:
    odd = {
        "tags": "a, b",
        "entities": 5,
        "valid_from": "next week",
        "subject": "null",
        "object": 12,
        "evidence": ["", 3],
    }
    (one,) = parse(json.dumps([{**DOG, **odd}])).candidates
    assert one.tags == ("a", "b")
    assert (one.entities, one.valid_from, one.subject, one.object, one.evidence) == ((), None, None, "12", ())


def test_an_endless_answer_is_bounded() -> None:
    many = json.dumps([{"content": f"User said thing number {number}"} for number in range(5000)])
    assert len(parse(many).candidates) <= MOST_CANDIDATES
    (one,) = parse(json.dumps([{"content": "User said " + "very " * 5000}])).candidates
    assert len(one.content) <= 2000


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except ModelUnreadable:
        return


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*DOG, "candidates"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(json_values, st.integers(0, 200))
def test_any_json_whole_or_cut_is_read_or_refused(value: Any, cut: int) -> None:
    try:
        parse(json.dumps(value)[: cut + 1])
    except ModelUnreadable:
        return
