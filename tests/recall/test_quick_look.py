"""Whether a text may have any of many wordings is seen by a quick look first, which misses none of them."""

import re
from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memproxy.recall import changes, constraints, days, levels, matters, newer, somebody
from memproxy.recall.asking import BEGINS, AnyCase
from memproxy.recall.matter_people import PEOPLE
from memproxy.recall.matter_things import THINGS

WORDINGS = [
    re.sub(r"\\d(?:\+|\{\d,?\})?", "12", part.replace("~ ", " of "))
    for line in (PEOPLE + THINGS).splitlines()
    if line.startswith(("? ", "! "))
    for part in line[2:].split("; ")
]
BEGUN = {
    **{f"changes.{name}": getattr(changes, name) for name in ("_CHANGE", "_PLAN", "_INSTEAD", "_ENDED", "_CURRENT")},
    **{f"newer.{name}": getattr(newer, name) for name in ("_PAST", "_WAS")},
    **{f"constraints.{name}": getattr(constraints, name) for name in ("_ADVICE", "_PAST", "_TECHNIQUE")},
    **{f"constraints.{name}": getattr(constraints, name) for name in ("_KIN_WORD", "_BEARER")},
}
"""The patterns that look first whether a word begins, by name."""

ANY_CASE = [
    one
    for module in (constraints, levels, somebody)
    for value in vars(module).values()
    for one in (value.values() if isinstance(value, Mapping) else [value])
    if isinstance(one, AnyCase)
]
"""The patterns that look through small letters where they can."""

DAYS = (days._WEEKEND, *(pattern for pattern, _ in days._IN_ENGLISH))

# the words that stand in the patterns themselves, those of any letters with some
OWN_WORDS = sorted({
    word
    for pattern in (*BEGUN.values(), *ANY_CASE, *DAYS)
    for word in re.findall(r"[a-zà-ÿœ' ]{2,}|[\u4e00-\u9fff]+", pattern.pattern)
})  # fmt: skip
WORDS = st.sampled_from([*OWN_WORDS, "Anna", "User", "I", "my", "我的", "s", "了", "第一", "kollegen妈", "ex-wife"])
GAPS = st.sampled_from([" ", " ", "", "'", "-", ", ", "？", "_", "\n"])


@st.composite
def texts(draw: st.DrawFn, words: st.SearchStrategy[str]) -> str:
    """Words beside each other or run together, some in capitals, with any letters where the tables leave them open."""
    said = ""
    for word in draw(st.lists(words, min_size=1, max_size=6)):
        said += word.replace("*", draw(st.sampled_from(["", "s", "妈", "xyz"]))) + draw(GAPS)
    return said.upper() if draw(st.integers(0, 5)) == 0 else said


def asked_by_every_pattern(query: str) -> frozenset[str]:
    low = matters._lower(query)
    return frozenset(name for name, matter in matters._MATTERS.items() if matter.asked.search(low))


@settings(max_examples=150, deadline=None)
@given(texts(st.sampled_from(WORDINGS) | WORDS))
def test_no_matter_that_is_asked_for_is_missed(query: str) -> None:
    assert matters.asked_about(query).names == asked_by_every_pattern(query)


def test_no_wording_of_a_matter_is_missed() -> None:
    found = 0
    for wording in WORDINGS:
        for query in (f"so {wording.replace('*', '')} now", f"L'{wording.replace('*', 'st')}?", f"我{wording}"):
            expected = asked_by_every_pattern(query)
            assert matters.asked_about(query).names == expected, query
            found += bool(expected)
    assert found > len(WORDINGS)


@pytest.mark.parametrize("name", BEGUN)
def test_a_pattern_that_looks_at_beginnings_does_so(name: str) -> None:
    assert BEGUN[name].pattern.startswith((BEGINS, constraints._KIN_BEGINS))


@settings(max_examples=150, deadline=None)
@given(texts(WORDS), st.integers(0, 3))
@example("我的Kollege很好", 0)
def test_where_words_begin_is_all_that_there_is_to_be_found(text: str, begin: int) -> None:
    for name, pattern in BEGUN.items():
        plain = pattern.pattern.removeprefix(constraints._KIN_BEGINS).removeprefix(BEGINS)
        found, expected = (
            [(match.span(), match.lastgroup) for match in one.finditer(text, begin)]
            for one in (pattern, re.compile(plain, pattern.flags))
        )
        assert found == expected, name


@settings(max_examples=60, deadline=None)
@given(texts(WORDS))
@example("May I drink that? I have an ALLERGY")
@example("What can't I eat?")
@example("Was vertrage ich nicht?")
@example("Was war letzte Woche, l'an dernier?")
def test_in_small_letters_the_same_is_found(text: str) -> None:
    for pattern in ANY_CASE:
        plain = re.compile(pattern.pattern, pattern.flags)
        assert [one.span() for one in pattern.finditer(text)] == [one.span() for one in plain.finditer(text)]
        assert (pattern.search(text) is None) == (plain.search(text) is None), pattern.pattern
    low = text.lower()
    for named in DAYS:
        assert named.search(low) is None or any(part in low for part in days._IN_EACH)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDINGS), min_size=1, max_size=6), texts(st.sampled_from(WORDINGS) | WORDS))
def test_wordings_by_their_first_letters_find_the_same(parts: list[str], text: str) -> None:
    bounded = "|".join(
        part.replace("*", r"\w*").replace("~ ", r"(?: \S+){0,3} ") for part in parts if max(part) < "\u2e80"
    )
    other = [re.escape(part) for part in parts if max(part) >= "\u2e80"]
    plain = re.compile("|".join([*([rf"\b(?:{bounded})\b"] if bounded else []), *other]))
    low = f"{text} {parts[0].replace('*', 's')}".lower()
    found = matters._pattern(parts).finditer(low)
    assert [one.span() for one in found] == [one.span() for one in plain.finditer(low)]
