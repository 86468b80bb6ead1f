"""Where blocks go in a request. ``auto`` is late, where caches want it, until an upstream's template refuses that."""

import asyncio
import logging
from collections import OrderedDict

import msgspec

from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import StateStore
from memproxy.tasks import TaskOwner
from memproxy.wire.chat import Position

log = logging.getLogger(__name__)

MOST_REMEMBERED = 500
"""Pairs of upstream and model; the one that was learned first is forgotten first."""

_META_KEY = "inject.system_first"
_PAIRS = msgspec.json.Decoder(list[tuple[str, str]])


class Positions:
    """Knows the position for each upstream and model; what was learned is noted in the state for the next start."""

    def __init__(self, configured: Position, state: StateStore, tasks: TaskOwner) -> None:
        self._configured = configured
        self._state = state
        self._tasks = tasks
        self._system_first: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._writing = asyncio.Lock()

    def of(self, upstream: str, model: str | None) -> Position:
        """The position for a request to this model; ``upstream`` is its host and path, without a key."""
        if self._configured != "auto":
            return self._configured
        return "system" if (upstream, model or "") in self._system_first else "before_last_user"

    def refused(self, upstream: str, model: str | None) -> None:
        """This model's template wants system text first: from now on it gets it there."""
        pair = (upstream, model or "")
        if self._configured != "auto" or pair in self._system_first:
            return
        log.info("model %r at %s takes system text at the beginning only; blocks go there now", pair[1], pair[0])
        self._add([pair])
        self._tasks.start(self._note(), "note position")

    async def load(self) -> None:
        """Read what was learned before; the state must be open.

        Raises:
            StateUnavailable: it does not answer.
        """
        self._add(await self._stored())

    async def _stored(self) -> list[tuple[str, str]]:
        stored = await self._state.get_meta(_META_KEY)
        try:
            return _PAIRS.decode(stored) if stored else []
        except msgspec.MsgspecError:
            log.warning("what was learned of upstreams' templates cannot be read and is learned again")
            return []

    async def _note(self) -> None:
        async with self._writing:
            try:
                self._add(await self._stored())  # another relay may have learned something meanwhile
                await self._state.set_meta(_META_KEY, msgspec.json.encode(list(self._system_first)).decode())
            except StateUnavailable as error:
                metrics().internal_errors.labels(where="relay.position").inc()
                log.warning("a model's position could not be noted, a restart learns it again: %s", error.message)

    def _add(self, pairs: list[tuple[str, str]]) -> None:
        self._system_first.update(dict.fromkeys(pairs))
        while len(self._system_first) > MOST_REMEMBERED:
            self._system_first.popitem(last=False)
