"""Flushes are shared by who can wait, hurried where somebody waits, and pressed where rows wait behind them."""

import asyncio
from pathlib import Path

from memproxy.errors import StoreUnavailable
from memproxy.learn.flush import Flushes
from memproxy.tasks import TaskOwner
from tests.learn.rig import rig
from tests.learn.test_groups import Watched, said
from tests.support.opening import opening
from tests.support.waiting import eventually


class Patient(Watched):
    """Its flushes wait until they are to hurry."""

    def hurry(self) -> None:
        self.may_flush.set()


async def test_a_message_behind_one_that_is_not_flushed_has_the_flush_hurry(tmp_path: Path) -> None:
    store = Patient(tmp_path)
    store.may_flush.clear()
    async with rig(tmp_path, store=store, enabled=False) as r:
        await r.submit(said(1))
        await eventually(lambda: r.has(turns=1), what="the first one is found")
        await r.submit(said(2))
        await eventually(lambda: r.has(turns=2), what="the second one is found")


async def wanted(flushes: Flushes) -> None:
    """Somebody waits."""
    with flushes.waited_for():
        await flushes.flush_soon()


async def test_all_who_come_before_somebody_waits_share_a_flush(tmp_path: Path) -> None:
    async with opening(Watched(tmp_path), None) as store:
        flushes = Flushes(store)
        await asyncio.gather(flushes.flush_soon(), flushes.flush_soon(), wanted(flushes))
        assert store.flushes == 1


async def test_who_comes_while_one_is_under_way_has_another(tmp_path: Path) -> None:
    tasks = TaskOwner("test")
    async with opening(Watched(tmp_path), None) as store:
        store.may_flush.clear()
        flushes = Flushes(store)
        first = tasks.start(wanted(flushes), "first")
        await eventually(lambda: store.flushes == 1, what="the first one is under way")
        second = tasks.start(wanted(flushes), "second")
        await eventually(lambda: store.flushes == 2, what="the second one began")
        store.may_flush.set()
        await asyncio.gather(first, second)


async def test_a_flush_that_failed_failed_for_all_who_shared_it(tmp_path: Path) -> None:
    async with opening(Watched(tmp_path, failing_flushes=1), None) as store:
        flushes = Flushes(store)
        told = await asyncio.gather(flushes.flush_soon(), flushes.flush_soon(), wanted(flushes), return_exceptions=True)
        assert [type(one) for one in told] == [StoreUnavailable] * 3
        await wanted(flushes)
        assert store.flushes == 2


async def test_who_shared_a_flush_whose_caller_left_tries_again(tmp_path: Path) -> None:
    tasks = TaskOwner("test")
    async with opening(Watched(tmp_path), None) as store:
        store.may_flush.clear()
        flushes = Flushes(store)
        works = (flushes.flush_soon(), flushes.flush_soon(), wanted(flushes))
        first, other, last = (tasks.start(work, "flush") for work in works)
        await eventually(lambda: store.flushes > 0, what="it is under way")
        first.cancel()
        store.may_flush.set()
        told = await asyncio.gather(first, other, last, return_exceptions=True)
        assert [type(one) for one in told] == [asyncio.CancelledError, StoreUnavailable, StoreUnavailable]
