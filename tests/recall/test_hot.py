"""The best memories of each user, kept for minutes: for a recall whose store is away, and for a session's beginning."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from memproxy.core.changes import Change, ChangeNotices, What
from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter
from memproxy.recall.hot import Hot, HotInProcess
from memproxy.recall.pipeline import Recall
from memproxy.settings import Settings
from tests.recall.making import ANN, LIMITS, NOW, Bench, FixedClock, asking, bench, fact, turn
from tests.support.waiting import eventually

BUDGET = "User's budget for the Hawaii vacation is $10,000"
QUESTION = "What's my budget for the Hawaii vacation?"
BEN = Scope(tenant="acme", user="ben", session="s1")


class Kept(Bench):
    """A bench whose recall has hot memories."""

    hot: Hot
    changes: ChangeNotices

    async def keeps(self, scope: Scope = ANN) -> list[Memory]:
        """Have the scope's memories kept, as a recall does, and answer them."""
        self.hot.refresh_later(scope)
        return await eventually(lambda: self.hot.memories(scope), what="they are kept")


@asynccontextmanager
async def kept(**sections: Any) -> AsyncIterator[Kept]:
    settings = Settings.model_validate({**sections, "recall": {"deadline_ms": 60_000, **sections.get("recall", {})}})
    async with bench(settings=settings) as it:
        one = Kept(it.store, it.embedder, settings)
        one.changes = ChangeNotices()
        one.hot = Hot(
            HotInProcess(ttl_s=settings.cache.ttl_s),
            store=it.store,
            settings=settings,
            clock=FixedClock(),
            changes=one.changes,
        )
        one.recall = Recall(
            settings=settings, store=it.store, embedder=it.embedder, lexical=it.lexical, clock=FixedClock(), hot=one.hot
        )
        yield one
        await one.hot.close()


async def test_a_recall_whose_store_is_away_is_given_hot_memories_and_says_so() -> None:
    async with kept() as it:
        await it.put(fact(BUDGET), fact("User speaks Catalan"), turn("I saw a heron by the canal."))
        await it.keeps()
        before = await it.recall.recall(asking(QUESTION))
        await it.store.close()
        answer = await it.recall.recall(asking(QUESTION))
        assert (before.result, answer.result, answer.reason) == ("injected", "degraded", "cache")
        assert answer.context == before.context
        heron = await it.recall.recall(asking("Which bird did I see by the canal?"))
        assert "heron" in heron.context
        nothing = await it.recall.recall(asking("What is my locker code?"))
        assert (nothing.result, nothing.reason, nothing.context) == ("degraded", "store", "")


async def test_nobody_is_given_what_is_anothers_or_of_another_project() -> None:
    async with kept() as it:
        elsewhere = msgspec.structs.replace(ANN, project="elsewhere")
        await it.put(fact(BUDGET, project_id="trips"), fact("User speaks Catalan"))
        await it.put(fact("User has a boat", user_id="ben"), scope=BEN)
        await it.keeps()
        assert [one.content for one in await it.keeps(elsewhere)] == ["User speaks Catalan"]
        assert [one.content for one in await it.keeps(BEN)] == ["User has a boat"]
        await it.store.close()
        for scope in (BEN, elsewhere, msgspec.structs.replace(ANN, tenant="globex")):
            answer = await it.recall.recall(asking(QUESTION, scope=scope))
            assert (answer.reason, answer.context) == ("store", "")


async def test_the_best_are_kept_by_confidence_recency_and_retrievals() -> None:
    old = NOW - timedelta(days=30)
    async with kept(cache={"per_agent": 3}) as it:
        await it.put(
            fact("sure", confidence=1.0, updated_at=old),  # .40
            fact("asked for", confidence=0.5, access_count=10, updated_at=old),  # .20 + .25
            fact("new", confidence=0.5),  # .20 + .35
            fact("doubtful", confidence=0.6, access_count=1, updated_at=old),  # .24 + .025
            fact("over", active=False, confidence=1.0),
            turn("I said it long ago.", updated_at=old),  # .20
        )
        assert [one.content for one in await it.keeps()] == ["new", "asked for", "sure"]


async def test_what_is_written_is_kept_soon_and_what_is_deleted_or_changed_not_for_a_moment() -> None:
    async with kept() as it:
        await it.put(fact(BUDGET, id="budget"), fact("User speaks Catalan", id="catalan"))
        await it.keeps()
        await it.put(turn("My locker code is 4471."))
        assert len(await it.hot.memories(ANN)) == 2, "a turn makes nothing wrong that is kept"
        await eventually(lambda: _holds(it, "4471"), what="the turn is kept")
        await it.store.delete(ANN, MemoryFilter(ids=("budget",)))
        assert not await _holds(it, BUDGET)
        await eventually(lambda: _holds(it, "Catalan"), what="the others are kept again")
        assert not await _holds(it, BUDGET)
        await it.store.set_fields(ANN, {"catalan": {"active": False}})
        assert not await _holds(it, "Catalan")


async def test_what_another_process_has_changed_is_not_given_any_more() -> None:
    async with kept() as it:
        await it.put(fact(BUDGET))
        for change in (Change(*ANN.owner, What.REPLACED), None):
            await it.keeps()
            it.changes.tell(change)
            await asyncio.sleep(0)
            assert not await it.hot.memories(ANN)


async def _holds(it: Kept, text: str) -> bool:
    return any(text in one.content for one in await it.hot.memories(ANN))


async def test_while_a_deletion_waits_nothing_of_its_user_is_given() -> None:
    async with kept() as it:
        await it.put(fact(BUDGET))
        await it.keeps()
        await it.hot.hold(ANN, 7)
        it.hot.refresh_later(ANN)
        it.hot.refresh_later(BEN)
        await it.put(fact("User has a boat", user_id="ben"), scope=BEN)
        await eventually(lambda: it.hot.memories(BEN), what="whoever comes later is read")
        assert not await it.hot.memories(ANN)
        it.hot.release(7)
        assert not await it.hot.memories(ANN), "what was kept before is forgotten, and was not read again"
        assert await it.keeps()


async def test_a_session_begins_with_its_facts_though_the_store_is_not_asked() -> None:
    poem = msgspec.structs.replace(asking("Write a poem about autumn leaves"), first_turn=True)
    async with kept(recall={"first_turn_facts": 2}, cache={"per_agent": 1}) as it:
        await it.put(
            fact("User is allergic to nuts", id="nuts", importance=0.9),
            fact("User's name is Ann", id="name", importance=0.8),
            fact("User once saw a heron", id="heron", importance=0.1, access_count=10),
        )
        await it.keeps()
        facts = await it.hot.facts(ANN, LIMITS, 2)
        assert facts is not None
        assert [one.memory.id for one in facts] == ["nuts", "name"], "also those that are not among the best"
        assert [one.memory_id for one in (await it.recall.recall(poem)).citations] == ["nuts", "name"]
