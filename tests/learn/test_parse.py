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
WHOLE = json.dumps({"candidates": [DOG]})

READABLE = {
    "as asked": WHOLE,
    "fenced": f"```json\n{WHOLE}\n```",
    "fence left open": f"```json\n{WHOLE}",
    "prose around": f"Sure! Here are the memories:\n\n{WHOLE}\n\nLet me know if you need more.",
    "brackets in the prose": f"I found [1] fact {{see below}}: {WHOLE}",
    "thinking first": f"<think>The user has {{maybe}} a dog.</think>{WHOLE}",
    "trailing commas": '{"candidates": [{"content": "User has a dog named Biscuit",},],}',
    "cut short": WHOLE[:-2] + ', {"kind": "semantic", "content": "User has a c',
    "cut short after a comma": WHOLE[:-2] + ",",
    "single quotes": str({"candidates": [{**DOG, "aspect": None}]}),
    "single quotes and null": "{'candidates': [{'content': 'User has a dog named Biscuit', 'aspect': null}]}",
    "top-level list": json.dumps([DOG]),
    "one object alone": json.dumps(DOG),
    "memories": json.dumps({"memories": [DOG]}),
    "facts as text": json.dumps({"facts": ["User has a dog named Biscuit"]}),
    "data in data": json.dumps({"data": {"items": [DOG]}}),
    "by kind": json.dumps({"semantic": ["User has a dog named Biscuit"], "episodic": []}),
    "memory and memory_type": json.dumps([{"memory": "User has a dog named Biscuit", "memory_type": "SEMANTIC"}]),
    "capitals": json.dumps({"candidates": [{"Content": "User has a dog named Biscuit", "Kind": "Semantic"}]}),
    "unknown kind": json.dumps({"candidates": [{**DOG, "kind": "preference"}]}),
    "newlines in text": '{"candidates": [{"content": "User has a dog named Biscuit", "evidence": "a\nb"}]}',
    "junk between": json.dumps({"candidates": [DOG, 7, None, {"content": ""}, {"content": "dog"}]}),
}


@pytest.mark.parametrize("name", READABLE)
def test_a_readable_answer_gives_its_candidates(name: str) -> None:
    assert [(one.kind, one.content) for one in parse(READABLE[name]).candidates] == [
        (Kind.SEMANTIC, "User has a dog named Biscuit")
    ]


@pytest.mark.parametrize("text", ['{"candidates": []}', "{}", "[]", "```json\n[]\n```", '{"memories": null}'])
def test_an_empty_answer_is_nothing_to_learn(text: str) -> None:
    assert parse(text).candidates == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "I could not find anything to remember.",
        "null",
        "42",
        '"text"',
        '{"candidates": [{"kind": "semantic", "content": "User has a d',
        '{"error": "context length exceeded"}',
        '{"candidates": 3}',
        '{"candidates": [{"content": ""}]}',
        '["travel", "hawaii"]',
        "[1, 2, 3]",
        "<html><body>502 Bad Gateway</body></html>",
        "[[[[[[[[[[",
        "{" * 10_000,
    ],
)
def test_an_unreadable_answer_is_an_error_not_nothing(text: str) -> None:
    with pytest.raises(ModelUnreadable):
        parse(text)


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
