"""A question may be asked as often as one likes: its answer is found the last time as it was the first time."""

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from memproxy.core.memory import Memory, Trust
from memproxy.models.embed import FastembedEmbedder
from memproxy.ports import Embedder, Passage
from memproxy.settings import EmbeddingSettings
from tests.recall.making import NOW, asking, bench, fact, turn
from tests.support.model import WITH_AND_WITHOUT, ready
from tests.support.shared import MODEL_PATH

KNOWN = [
    ("I work as a nurse at the Charite.", "User works as a nurse at the Charite", "Where do I work?"),
    ("My sister Anna lives in Lyon.", "User's sister Anna lives in Lyon", "Where does my sister live?"),
    ("My dog is called Bruno, a beagle.", "User's dog is called Bruno, a beagle", "What is the name of my dog?"),
    ("My dentist is Dr Okafor.", "User's dentist is Dr Okafor", "Who is my dentist?"),
    ("My favourite tea is genmaicha.", "User's favourite tea is genmaicha", "What is my favourite tea?"),
]
"""What was told, the fact of it, and the question."""

ANSWERS = [
    ("You work at the Charite as a nurse.", "At the Charite, as a nurse."),
    ("Your sister Anna lives in Lyon.", "Anna, your sister, lives in Lyon, France."),
    ("Your dog is called Bruno.", "Bruno!"),
    ("Your dentist is Dr Okafor.", "Dr Okafor."),
    ("Your favourite tea is genmaicha.", "Genmaicha."),
]
"""What an assistant answers by turns."""

ASKED_AT = (0, 1, 9, 69)
"""How often it was asked before."""


def told(number: int) -> list[Memory]:
    said, known, _ = KNOWN[number]
    where = {"session_id": f"told{number}"}
    return [
        turn(said, id=f"told{number}", **where),
        turn("Thanks, noted.", id=f"noted{number}", trust=Trust.ASSISTANT, **where),
        fact(known, id=f"fact{number}", turn_ids=[f"told{number}"], **where),
    ]


def asked(number: int, time: int) -> list[Memory]:
    """The question and its answer in a conversation of their own."""
    where = {"session_id": f"asked{number}-{time}", "created_at": NOW - timedelta(hours=100 - time)}
    return [
        turn(KNOWN[number][2], id=f"q{number}-{time}", **where),
        turn(ANSWERS[number][time % 2], id=f"a{number}-{time}", trust=Trust.ASSISTANT, **where),
    ]


class Remembering(FastembedEmbedder):
    """The real model, which reads each text once."""

    def __init__(self, cache: Path) -> None:
        super().__init__(EmbeddingSettings(model_path=MODEL_PATH), cache)
        self._read: dict[str, Passage] = {}

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        new = [text for text in dict.fromkeys(texts) if text not in self._read]
        self._read |= dict(zip(new, await super().embed_passages(new), strict=True))
        return [self._read[text] for text in texts]


@pytest.fixture(params=WITH_AND_WITHOUT)
async def embedder(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Embedder | None]:
    if request.param == "words":
        yield None
        return
    async with ready(Remembering(tmp_path / "cache")) as made:
        yield made


async def test_a_fact_is_injected_however_often_it_was_asked_for(embedder: Embedder | None) -> None:
    scores: dict[int, list[float]] = {}
    async with bench(embedder=embedder) as shop:
        for number in range(len(KNOWN)):
            await shop.put(*told(number))
        for time in range(max(ASKED_AT) + 1):
            if time in ASKED_AT:
                for number, (_, known, question) in enumerate(KNOWN):
                    answer = await shop.recall.recall(asking(question))
                    assert known in answer.context, (question, time)
                    (score,) = (one["score"] for one in answer.candidates if one["memory_id"] == f"fact{number}")
                    scores.setdefault(number, []).append(score)
            for number in range(len(KNOWN)):
                await shop.put(*asked(number, time))
    for asks in scores.values():
        assert min(asks) > asks[0] - 0.08  # the candidates become more: a little is the ranking's own


async def test_what_was_said_sixty_times_is_given_once(embedder: Embedder | None) -> None:
    async with bench(embedder=embedder) as shop:
        said = "I like tea in the morning."
        days = (timedelta(days=number) for number in range(60))
        await shop.put(
            *(turn(said, id=f"t{day.days}", session_id=f"s{day.days}", created_at=NOW - day) for day in days)
        )
        answer = await shop.recall.recall(asking("What do I like in the morning?"))
        assert [one.snippet for one in answer.citations] == [said]
