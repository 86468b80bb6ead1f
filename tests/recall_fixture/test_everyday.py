"""What is asked without the words of what was told is found, and what has the words alone does not stand for it."""

from datetime import timedelta

import pytest

from memproxy.core.memory import Trust
from memproxy.core.scope import Scope
from tests.recall.making import NOW, Bench, asking, turn
from tests.recall_fixture.cases import CASES, Case

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAST_GIVEN = {"words": 12, "model": 15}
"""Of 19 questions: those whose answer is given, all of it."""

MOST_MISLED = 0
"""Of all: those for which what only has their words is given."""


async def block(known: Bench, user: str, case: Case) -> str:
    """What is injected for the question of a user who told this among other things, a session a day."""
    days = dict[int, list[str]]()
    for ago, text in (*CASES.unrelated, *case.told):
        days.setdefault(ago, []).append(text)
    for ago, texts in days.items():
        said = [
            turn(
                text.removeprefix("> "),
                id=f"{user}-{ago}-{place}",
                user_id=user,
                session_id=f"s{ago}",
                created_at=NOW - timedelta(days=ago) + timedelta(seconds=place),
                trust=Trust.ASSISTANT if text.startswith("> ") else Trust.USER,
            )
            for place, text in enumerate(texts)
        ]
        await known.put(*said, scope=Scope(tenant="acme", user=user, session=f"s{ago}"))
    request = asking(*case.earlier, case.asked, scope=Scope(tenant="acme", user=user, session="new"))
    return (await known.recall.recall(request)).context


async def test_what_is_asked_without_the_words_of_what_was_told_is_given(side: tuple[str, Bench]) -> None:
    name, known = side
    blocks = [await block(known, f"u{place}", case) for place, case in enumerate(CASES.everyday)]
    missed = [
        case.asked
        for case, given in zip(CASES.everyday, blocks, strict=True)
        if not all(answer in given for answer in case.answers)
    ]
    misled = [case.asked for case, given in zip(CASES.everyday, blocks, strict=True) if case.misleads in given]
    assert len(CASES.everyday) - len(missed) >= LEAST_GIVEN[name], missed
    assert len(misled) <= MOST_MISLED, misled
