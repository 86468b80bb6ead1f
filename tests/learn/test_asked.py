"""A message in which the extracting model finds nothing told is not recalled, unless it plainly tells something."""

from pathlib import Path

from memproxy.core.memory import ASKED, Kind
from memproxy.core.telling import LEAST, PLAINLY, telling
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import HybridQuery, MemoryFilter
from tests.learn.rig import ANN, PATIENCE_S, Rig, opened_rig, rig

r = opened_rig(every_turns=1)

ASKS = "My dog whines at three again, what else could it be?"
TELLS = "I moved to Porto with my dog in May, any tips for the first week?"


SOMETHING = ("I work at Acme.", {"content": "User works at Acme", "evidence": "I work at Acme"})


async def candidates(r: Rig, *, telling: bool = True) -> set[str]:
    """Messages about the dog that a search finds."""
    where = MemoryFilter(kinds=(Kind.TURN,), telling=telling)
    query = HybridQuery(bm25=Bm25Encoder().encode_query("dog"), limit=9, where=where)
    return {hit.memory.content for hit in await r.store.search(ANN, query) if "dog" in hit.memory.content}


async def test_what_a_model_finds_nothing_told_in_is_found_where_it_is_looked_for_and_not_recalled(r: Rig) -> None:
    assert LEAST < telling(ASKS) < PLAINLY < telling(TELLS)
    await r.teach(*SOMETHING)
    await r.teach(ASKS)
    await r.teach(TELLS)
    assert await candidates(r) == {TELLS}
    assert await candidates(r, telling=False) == {ASKS, TELLS}
    assert {turn.content: turn.metadata.get(ASKED) for turn in await r.turns()} == {
        SOMETHING[0]: None,
        ASKS: True,
        TELLS: None,
    }


async def test_a_model_that_finds_nothing_in_anything_hides_nothing(r: Rig) -> None:
    await r.teach(ASKS)
    await r.teach("My dog is brown.")
    assert await candidates(r) == {ASKS, "My dog is brown."}


async def test_a_model_that_overlooks_a_plain_statement_is_not_believed_about_what_was_said_beside_it(r: Rig) -> None:
    await r.teach(*SOMETHING)
    await r.teach([ASKS, TELLS])
    assert await candidates(r) == {ASKS, TELLS}


async def test_what_another_reading_finds_told_is_recalled_again(r: Rig) -> None:
    await r.teach(*SOMETHING)
    await r.teach(ASKS)
    assert await candidates(r) == set()
    await r.mined("User's dog whines at three in the morning")
    assert await candidates(r) == {ASKS}


async def test_a_message_stays_where_a_model_names_what_it_does_not_hold(r: Rig) -> None:
    await r.teach(ASKS, {"content": "User has a cat", "evidence": "I have a cat"})
    assert await r.facts() == []
    assert await candidates(r) == {ASKS}


async def test_rules_that_find_nothing_leave_a_message_as_it_is(tmp_path: Path) -> None:
    async with rig(tmp_path, mode="verbatim") as r:
        await r.learn(ASKS)
        assert await candidates(r) == {ASKS}


async def test_what_was_learned_before_is_recalled_although_a_reading_with_later_messages_names_it_no_more(
    r: Rig,
) -> None:
    await r.teach(ASKS, "User's dog whines at three in the morning")
    r.server.answers.append({"candidates": []})
    await r.state.note_turns(ANN, count=1, at=r.clock.now())
    assert await r.worker.learned(ANN, PATIENCE_S)
    assert await candidates(r) == {ASKS}
