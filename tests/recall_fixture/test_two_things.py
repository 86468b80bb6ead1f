"""What is said later of another thing hides nothing; what is said later of the same thing stands before it."""

from datetime import timedelta

import pytest

from memproxy.core.scope import Scope
from tests.recall.making import NOW, Bench, asking, turn
from tests.recall_fixture.cases import CASES, Changed

pytestmark = pytest.mark.asyncio(loop_scope="module")

MOST_HIDDEN = {"words": 0, "model": 3}
"""Of 33 questions for what was told first: the later statement shares more of their words than its thing."""

LEAST_CHANGED = {"words": 11, "model": 16}
"""Of 18 changes: those whose new value is given."""

LEAST_FIRST = {"words": 1, "model": 14}
"""Of 18 changes: those whose new value stands before the old one, or without it; words alone do not tell them to be of
one thing.
"""


async def answers(known: Bench, user: str, texts: tuple[str, str], *asked: str) -> list[str]:
    """The blocks for these questions of a user who said these texts, three weeks between them."""
    for place, text in enumerate(texts):
        said = NOW - timedelta(days=30 - 21 * place)
        of_user = {"id": f"{user}-{place}", "user_id": user, "session_id": f"s{place}", "created_at": said}
        await known.put(turn(text, **of_user), scope=Scope(tenant="acme", user=user, session=f"s{place}"))
    scope = Scope(tenant="acme", user=user, session="new")
    return [(await known.recall.recall(asking(question, scope=scope))).context for question in asked]


async def test_what_is_told_later_of_another_thing_does_not_hide_what_is_asked_for(side: tuple[str, Bench]) -> None:
    name, known = side
    hidden, missing = list[str](), list[str]()
    for place, two in enumerate(CASES.two_things):
        first, last = await answers(known, f"u{place}", (two.first, two.last), two.asked_first, two.asked_last)
        hidden += [two.asked_first] if two.first_value not in first else []
        missing += [two.asked_last] if two.last_value not in last else []
    assert len(hidden) <= MOST_HIDDEN[name], hidden
    assert missing == []


async def test_what_is_told_later_of_the_same_thing_stands_before_it(side: tuple[str, Bench]) -> None:
    name, known = side
    blocks = [
        await answers(known, f"c{place}", (one.before, one.after), one.asked)
        for place, one in enumerate(CASES.one_thing)
    ]
    told = [one.asked for one, (block,) in zip(CASES.one_thing, blocks, strict=True) if one.holds in block]
    first = [one.asked for one, (block,) in zip(CASES.one_thing, blocks, strict=True) if stands_first(block, one)]
    assert len(told) >= LEAST_CHANGED[name], told
    assert len(first) >= LEAST_FIRST[name], first


def stands_first(block: str, one: Changed) -> bool:
    """Whether the new value is given, and the old one only behind it."""
    new, old = block.find(one.holds), block.find(one.held)
    return new >= 0 and (old < 0 or new < old)
