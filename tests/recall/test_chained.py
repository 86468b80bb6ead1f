"""Questions of conversations that the upstream keeps, and questions that ask for general knowledge by their vector."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from memproxy.core.gate import UNDECIDED
from memproxy.core.memory import Trust
from memproxy.models.plain import WithoutTokens
from memproxy.recall.prototypes import GENERAL
from memproxy.settings import Settings
from tests.recall.making import DIMENSION, Bench, asking, bench, conversation, fact, turn

PATIENT = {"deadline_ms": 5_000}


class Directions(WithoutTokens):
    """An embedder for which every text is either general or not."""

    name = "test:directions"
    dimension = DIMENSION
    state = "ready"

    async def start(self) -> None:
        """Nothing to load."""

    async def close(self) -> None:
        """Nothing to release."""

    async def embed_query(self, text: str) -> list[float]:
        general = text == "general" or text in GENERAL
        return [float(general), float(not general), *[0.0] * (DIMENSION - 2)]

    async def embed_texts(self, texts: Sequence[str]) -> list[list[list[float]]]:
        return [[await self.embed_query(text)] for text in texts]


async def test_a_vague_question_of_a_chain_is_completed_by_what_was_captured(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await said_before(it)
        vague = asking("How much?")
        alone = await it.recall.recall(vague)
        chained = await it.recall.recall(msgspec.structs.replace(vague, chained=True))
    assert alone.query == "How much?"
    assert {"hawaii", "budget"} <= set(chained.query.lower().split())


async def test_a_clear_question_of_a_chain_is_searched_as_it_is(tmp_path: Path) -> None:
    async with bench(tmp_path) as it:
        await said_before(it)
        clear = "What is the name of my daughter's school?"
        answer = await it.recall.recall(msgspec.structs.replace(asking(clear), chained=True))
    assert answer.query == clear


async def said_before(it: Bench) -> None:
    talk = conversation("I plan my Hawaii vacation.", "Lovely!", "What about the budget for it?")
    talk[1] = msgspec.structs.replace(talk[1], trust=Trust.ASSISTANT)
    other = turn("My cello lesson is on Tuesday.", session_id="s2")
    await it.put(*talk, other, fact("User's budget for the Hawaii vacation is $10,000"))


async def test_a_question_nearest_to_general_examples_is_skipped_only_when_that_is_switched_on(tmp_path: Path) -> None:
    for enabled, result in ((True, "skipped"), (False, "empty")):
        settings = Settings.model_validate({"gate": {"prototypes": enabled}, "recall": PATIENT})
        async with bench(tmp_path / str(enabled), settings=settings, embedder=Directions()) as it:
            await it.recall.prepare()
            answer = await it.recall.recall(msgspec.structs.replace(asking("general"), verdict=UNDECIDED))
            assert (answer.result, answer.reason) == (result, "fact" if enabled else None)
            for kept in (asking("general"), msgspec.structs.replace(asking("personal"), verdict=UNDECIDED)):
                assert (await it.recall.recall(kept)).result == "empty"
