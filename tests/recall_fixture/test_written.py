"""What a model wrote of the user is found by the user's own questions."""

from datetime import timedelta

import msgspec
import pytest

from memproxy.core.memory import Kind
from memproxy.core.scope import Scope
from tests.recall.making import ANN, NOW, Bench, asking, fact
from tests.recall_fixture.cases import CASES

pytestmark = pytest.mark.asyncio(loop_scope="module")

LEAST_GIVEN = {"words": 5, "model": 5}
"""Of 8 questions: those whose answer is given. "Who is my manager?" and "User reports to Helen" are far apart."""


async def block(known: Bench, question: str, user: str = ANN.user) -> str:
    """What is injected for a question of this user's."""
    request = asking(question, scope=Scope(tenant=ANN.tenant, user=user, session="new"))
    return (await known.recall.recall(request)).context


async def test_facts_in_the_third_person_answer_their_user(side: tuple[str, Bench]) -> None:
    name, known = side
    facts = [
        fact(
            one.text,
            predicate=one.predicate or None,
            subject="user" if one.predicate else None,
            created_at=NOW - timedelta(days=60 - place),
        )
        for place, one in enumerate(CASES.written)
    ]
    kinds = [Kind.PROCEDURAL if one.steps else Kind.SEMANTIC for one in CASES.written]
    made = [msgspec.structs.replace(one, kind=kind) for one, kind in zip(facts, kinds, strict=True)]
    await known.put(*made, scope=ANN)
    asked = [one for one in CASES.written if one.asked]
    missed = [one.asked for one in asked if one.answer not in await block(known, one.asked)]
    assert len(asked) - len(missed) >= LEAST_GIVEN[name], missed
