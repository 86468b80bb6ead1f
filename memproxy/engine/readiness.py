"""How ready the engine's parts are: they open one after another, and are then looked at again and again."""

import asyncio
import logging
from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Protocol, runtime_checkable

from memproxy.errors import StateUnavailable, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import MemoryStore, MetaStore
from memproxy.recall.pipeline import Recall
from memproxy.tasks import happens

log = logging.getLogger(__name__)

PROBE = "written_last"
"""Key in the state's facts that is written to see whether it can be: a full disk can still be read from."""

READY = "ready"
LOADING = "loading"
REFUSED = "refused"
DEGRADED = "degraded"
MEASURE_EVERY_S = 10.0
LOOK_AGAIN_S = 1.0
"""How often a part that is away, or that a recall could not reach, is looked at."""
LOADING_LOOK_S = 0.2
"""How often to look whether the embedder has loaded: recalls are not whole before `Recall.prepare` has used it."""


@runtime_checkable
class OnOurDisk(Protocol):
    """A store whose files are on a disk of this machine."""

    async def check_room(self) -> None:
        """See that there is room for memories. Raises `errors.StoreUnavailable`."""


class Readiness:
    """The state of the three parts that open in the background: ``ready``, ``loading``, ``degraded: why`` or
    ``refused: why``. A part that was opened once stays open, however degraded it is later.
    """

    def __init__(self, *, state: MetaStore, store: MemoryStore, recall: Recall) -> None:
        self.parts = {"state": LOADING, "store": LOADING, "worker": LOADING}
        self._opened: set[str] = set()
        self._state = state
        self._store = store
        self._recall = recall
        self._doubted = asyncio.Event()

    def is_open(self, part: str) -> bool:
        return part in self._opened

    def require(self, *parts: str) -> None:
        """Return if these parts (state, store) are open; else `StateUnavailable` or `StoreUnavailable` says why."""
        for part in parts:
            if part not in self._opened and part == "state":
                raise StateUnavailable(f"The state is not open ({self.parts['state']}). Try again in a moment.")
            if part not in self._opened:
                raise StoreUnavailable(f"The memory store is not open ({self.parts['store']}). Try again in a moment.")

    def note_open(self, part: str) -> None:
        if self.parts[part] != LOADING:
            log.info("the %s is open now", part)
        self.parts[part] = READY
        self._opened.add(part)

    def note_failure(self, part: str, reason: str) -> None:
        """An attempt to open the part failed; the parts that open after it wait."""
        degraded = f"{DEGRADED}: {reason}"
        if self.parts[part] != degraded:
            log.warning("the %s cannot be opened, memory is off until it can: %s", part, reason)
        self.parts[part] = degraded
        for other, state in self.parts.items():
            if state == LOADING:
                self.parts[other] = _waits_for(part)

    def note_refusal(self, reason: str) -> None:
        """The store was built for another embedder, and is not used."""
        self.parts["store"] = f"{REFUSED}: {reason}"
        self.parts["worker"] = f"{DEGRADED}: the store is refused; the journal keeps what comes"
        log.critical("memory stays OFF, chat goes on without it: %s", reason)

    def note_fault(self) -> None:
        """A fault of ours ended the start: nothing is loading any more."""
        for part, state in self.parts.items():
            if state == LOADING:
                self.parts[part] = f"{DEGRADED}: its start failed; the log says why"

    def note_recall(self, trouble: str | None) -> None:
        """A recall is over, perhaps degraded for this reason: after trouble with the store it is looked at soon."""
        if trouble in {"store", "cache"}:
            self._doubted.set()

    async def keep_true(self) -> None:
        """Look at the open parts until cancelled."""
        while True:
            prepared = await self._recall.prepare()
            self._doubted.clear()
            await asyncio.sleep(LOOK_AGAIN_S if prepared else LOADING_LOOK_S)
            if prepared and all(self.parts[part] == READY for part in self._opened):
                await happens(self._doubted, MEASURE_EVERY_S - LOOK_AGAIN_S)
            await self.look()

    async def look(self) -> None:
        if "store" in self._opened:
            await self._look_at("store", self._check_store())
        if "state" in self._opened:
            await self._look_at("state", self._state.set_meta(PROBE, datetime.now(UTC).isoformat()))
        if "worker" in self._opened:  # it needs the other two
            away = [part for part in ("state", "store") if self.parts[part] != READY]
            self.parts["worker"] = _waits_for(away[0]) if away else READY

    async def _look_at(self, part: str, check: Awaitable[None]) -> None:
        try:
            await check
        except (StoreUnavailable, StateUnavailable) as error:
            if self.parts[part] == READY:
                log.warning("the %s is degraded: %s", part, error.message)
            self.parts[part] = f"{DEGRADED}: {error.message}"
        else:
            self.parts[part] = READY

    async def _check_store(self) -> None:
        metrics().store_points.set(await self._store.points())
        if isinstance(self._store, OnOurDisk):
            await self._store.check_room()  # a full disk can be read from, but keeps nothing new


def _waits_for(part: str) -> str:
    return f"{DEGRADED}: it waits for the {part}"
