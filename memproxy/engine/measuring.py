"""How ready the engine's parts are once they are open: looked at again and again, so that what is said stays true."""

import asyncio
import logging
from collections.abc import Collection, MutableMapping

from memproxy.errors import MemoryUnavailable, StateUnavailable, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import MemoryStore, StateStore
from memproxy.recall.pipeline import Recall

log = logging.getLogger(__name__)

READY = "ready"
LOADING = "loading"
MEASURE_EVERY_S = 10.0


class Measuring:
    """Keeps what the engine says of its store and state, and the store's gauge, true.

    Args:
        parts: What is said of each part; changed here.
        opened: The parts that are open: others are not asked.
        state: Asked whether it answers.
        store: Asked how many points it has.
        recall: Prepared anew each time.
    """

    def __init__(
        self,
        parts: MutableMapping[str, str],
        opened: Collection[str],
        *,
        state: StateStore,
        store: MemoryStore,
        recall: Recall,
    ) -> None:
        self._parts = parts
        self._opened = opened
        self._state = state
        self._store = store
        self._recall = recall

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            await self._recall.prepare()
            await asyncio.sleep(MEASURE_EVERY_S)
            if "store" in self._opened:
                await self._measure_store()
            if "state" in self._opened:
                await self._measure_state()

    async def _measure_store(self) -> None:
        try:
            metrics().store_points.set(await self._store.points())
        except StoreUnavailable as error:
            self._note_outage("store", error)
        else:
            self._parts["store"] = READY

    async def _measure_state(self) -> None:
        try:
            await self._state.queue_sizes()
        except StateUnavailable as error:
            self._note_outage("state", error)
        else:
            self._parts["state"] = READY

    def _note_outage(self, part: str, error: MemoryUnavailable) -> None:
        if self._parts[part] == READY:
            log.warning("the %s does not answer any more: %s", part, error.message)
        self._parts[part] = f"degraded: {error.message}"
