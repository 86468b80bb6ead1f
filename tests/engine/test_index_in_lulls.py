"""Indexing waits for recalls, but not for ever."""

import asyncio

from memproxy.engine.engine import IndexInLulls
from tests.support.waiting import LONGEST_S


async def test_what_was_asked_for_during_a_recall_is_done_once_after_it() -> None:
    done: list[bool] = []
    asked = asyncio.Event()

    def work() -> None:
        done.append(recalling)
        asked.set()

    indexing, recalling = IndexInLulls(work), True
    with indexing.recalling():
        indexing.soon()
        indexing.soon()
        assert done == []
    recalling = False
    async with asyncio.timeout(LONGEST_S):
        await asked.wait()
    assert done == [False]


async def test_recalls_without_a_pause_do_not_keep_it_back_for_ever() -> None:
    asked = asyncio.Event()
    indexing = IndexInLulls(asked.set)
    with indexing.recalling():
        indexing.soon()
        async with asyncio.timeout(LONGEST_S):
            await asked.wait()


async def test_where_nobody_recalls_it_is_done_at_once_and_again_each_time() -> None:
    done: list[None] = []
    indexing = IndexInLulls(lambda: done.append(None))
    indexing.soon()
    indexing.soon()
    assert len(done) == 2
