"""What ranking makes of a memory is kept beside the store's copy of it: used again, never for another text, and gone
with it.
"""

import gc

import pytest

from memproxy.ports import HybridQuery, MemoryFilter, Notes
from memproxy.recall.reading import Reading
from memproxy.stores.owner_index import SEARCHES
from tests.recall.making import ANN, Bench, fact, turn

QUERY = "Where is the harbour?"


async def reading(it: Bench) -> Reading:
    """What is kept beside the one memory that there is."""
    await it.recall.search(ANN, QUERY, limit=5, where=MemoryFilter())
    (found,) = await it.store.search(ANN, HybridQuery(bm25=it.lexical.encode_query(QUERY), limit=5))
    assert isinstance(found.notes.derived, Reading)
    return found.notes.derived


async def test_what_was_made_of_a_memory_is_used_again(it: Bench) -> None:
    await it.put(turn("The harbour lies to the east.", id="m"))
    assert await reading(it) is await reading(it)


async def test_a_changed_text_is_read_anew_at_once(it: Bench) -> None:
    await it.put(fact("The harbour lies to the east.", id="m"))
    (before,) = await it.recall.search(ANN, QUERY, limit=5, where=MemoryFilter())
    await it.store.set_fields(ANN, {"m": {"content": "The station lies to the east."}})
    (after,) = await it.recall.search(ANN, QUERY, limit=5, where=MemoryFilter())
    assert (before.signals["coverage"] > 0, after.signals["coverage"]) == (True, 0)
    await it.put(fact("The harbour lies to the west.", id="m"))
    assert (await reading(it)).surface == "The harbour lies to the west."


@pytest.mark.parametrize("where", [MemoryFilter(), MemoryFilter(ids=("m",))])
async def test_nothing_is_left_of_what_was_made_of_an_erased_memory(it: Bench, where: MemoryFilter) -> None:
    await it.put(fact("The harbour lies to the east.", id="m"))
    made = await reading(it)
    assert keepers(made) == 1
    await it.store.delete(ANN, where)
    assert keepers(made) == 0


async def test_a_memory_is_read_before_it_is_found_and_nothing_is_left_of_it_when_it_is_erased(it: Bench) -> None:
    await it.put(turn("The harbour lies to the east.", id="m"))
    await it.put(turn("Bread is baked in the morning.", id="n"))
    for _ in range(SEARCHES):
        await it.store.search(ANN, HybridQuery(bm25=it.lexical.encode_query(QUERY), limit=5))
    await it.store.settle()
    (found,) = await it.store.search(ANN, HybridQuery(bm25=it.lexical.encode_query("bread"), limit=5))
    made = found.notes.derived
    assert isinstance(made, Reading)
    assert made.letters
    del found
    assert keepers(made) == 1
    await it.store.delete(ANN, MemoryFilter())
    assert keepers(made) == 0


def keepers(made: Reading) -> int:
    """How many hold what was made of a memory."""
    gc.collect()
    return sum(isinstance(one, Notes) for one in gc.get_referrers(made))
