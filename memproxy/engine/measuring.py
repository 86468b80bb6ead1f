"""How ready the engine's parts are once they are open: looked at again and again, so that what is said stays true."""

import asyncio
import contextlib
import logging
from collections.abc import Collection, MutableMapping
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from memproxy.errors import MemoryUnavailable, StateUnavailable, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import MemoryStore, MetaStore
from memproxy.recall.pipeline import Recall

log = logging.getLogger(__name__)

PROBE = "written_last"
"""Key in the state's facts that is written to see whether it can be: a full disk is no trouble to read from."""

READY = "ready"
LOADING = "loading"
REFUSED = "refused"
MEASURE_EVERY_S = 10.0
LOOK_AGAIN_S = 1.0
"""What is away is looked for so often, and so is what a recall could not reach: for as long what is said may be old."""


def others_wait(parts: MutableMapping[str, str], away: str) -> None:
    """What else would be loading has nothing to do until the part that is away is there."""
    for other, state in parts.items():
        if state == LOADING:
            parts[other] = _waits_for(away)


def _waits_for(part: str) -> str:
    return f"degraded: it waits for the {part}"


@runtime_checkable
class OnOurDisk(Protocol):
    """A store whose files are on a disk of this machine."""

    async def check_room(self) -> None:
        """See that there is room for memories. Raises `errors.StoreUnavailable`."""


class Measuring:
    """Keeps what the engine says of its store and state, and the store's gauge, true.

    Args:
        parts: What is said of each part; changed here.
        opened: The parts that are open: others are not asked.
        state: Asked whether it can be written.
        store: Asked how many points it has, and whether its disk has room for more.
        recall: Prepared anew each time.
    """

    def __init__(
        self,
        parts: MutableMapping[str, str],
        opened: Collection[str],
        *,
        state: MetaStore,
        store: MemoryStore,
        recall: Recall,
    ) -> None:
        self._parts = parts
        self._opened = opened
        self._state = state
        self._store = store
        self._recall = recall
        self._doubted = asyncio.Event()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            prepared = await self._recall.prepare()
            await self._pause(whole=prepared)
            await self.look()

    async def look(self) -> None:
        """Look at what is open."""
        if "store" in self._opened:
            await self._measure_store()
        if "state" in self._opened:
            await self._measure_state()
        if "worker" in self._opened:
            self._parts["worker"] = self._worker_state()

    def recalled(self, trouble: str | None) -> None:
        """A recall is over, perhaps with trouble of this name: the store's is looked at soon."""
        if trouble == "store":
            self._doubted.set()

    async def _pause(self, *, whole: bool) -> None:
        self._doubted.clear()
        await asyncio.sleep(LOOK_AGAIN_S)
        if whole and all(self._parts[part] == READY for part in self._opened):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._doubted.wait(), MEASURE_EVERY_S - LOOK_AGAIN_S)

    def _worker_state(self) -> str:
        """It works on what is in the state, for the store."""
        away = [part for part in ("state", "store") if self._parts[part] != READY]
        return _waits_for(away[0]) if away else READY

    async def _measure_store(self) -> None:
        try:
            metrics().store_points.set(await self._store.points())
            if isinstance(self._store, OnOurDisk):
                await self._store.check_room()  # with a full disk all is read, and nothing that is told is kept
        except StoreUnavailable as error:
            self._note_outage("store", error)
        else:
            self._parts["store"] = READY

    async def _measure_state(self) -> None:
        try:
            await self._state.set_meta(PROBE, datetime.now(UTC).isoformat())
        except StateUnavailable as error:
            self._note_outage("state", error)
        else:
            self._parts["state"] = READY

    def _note_outage(self, part: str, error: MemoryUnavailable) -> None:
        if self._parts[part] == READY:
            log.warning("the %s is degraded: %s", part, error.message)
        self._parts[part] = f"degraded: {error.message}"
