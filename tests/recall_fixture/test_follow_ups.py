"""Follow-ups, by words alone and with the real model: what was said before helps where it is needed, and does not hide
what is asked where it is not.
"""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.recall.making import Bench, asking, bench, fact
from tests.recall_fixture.cases import CASES, FollowUp
from tests.recall_fixture.conftest import loaded
from tests.support.folders import Folders

pytestmark = pytest.mark.asyncio(loop_scope="module")

MOST_MISSED = {"words": {"Who was it?", "And his allergy?"}, "model": {"And his allergy?"}}
""" "Who" has no word of a vet, and "allergy" is no form of "allergic" for the stemmer."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def side(by: str, folders: Folders) -> AsyncIterator[tuple[str, Bench]]:
    """A store that the tests only ask."""
    async with loaded(by, folders) as embedder, bench(embedder=embedder) as known:
        await known.put(*(fact(text, id=str(place), session_id="earlier") for place, text in enumerate(CASES.known)))
        yield by, known


async def injected(known: Bench, probe: FollowUp) -> list[str]:
    answer = await known.recall.recall(asking(*probe.said, probe.asked))
    return [citation.memory_id for citation in answer.citations]


async def test_follow_ups_find_what_they_are_after_whatever_was_said_before(side: tuple[str, Bench]) -> None:
    name, known = side
    probes = (*CASES.leaning, *CASES.complete, *CASES.between)
    missed = {probe.asked for probe in probes if str(probe.answer) not in await injected(known, probe)}
    assert missed <= MOST_MISSED[name]


async def test_a_complete_question_has_its_answer_first(side: tuple[str, Bench]) -> None:
    _, known = side
    first = {probe.asked: await injected(known, probe) for probe in CASES.complete}
    assert {asked: ids[:1] for asked, ids in first.items()} == {one.asked: [str(one.answer)] for one in CASES.complete}


async def test_without_what_was_said_before_a_vague_question_brings_nothing(side: tuple[str, Bench]) -> None:
    _, known = side
    alone = [
        await injected(known, FollowUp(said=(), asked=probe.asked, answer=probe.answer)) for probe in CASES.leaning
    ]
    assert alone == [[]] * len(CASES.leaning)
