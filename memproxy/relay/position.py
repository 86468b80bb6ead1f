"""Where blocks go in a request. ``auto`` is late, where caches want it, until an upstream's template refuses that.

What a refusal teaches holds for the tenant whose request it was: an upstream's words can be brought about on purpose (a
validator quotes what it refuses), and another tenant's prompt cache must not suffer from them.
"""

import asyncio
import logging

import msgspec

from memproxy.core.bounded import BoundedCache
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import MetaStore
from memproxy.tasks import TaskOwner
from memproxy.wire.chat import Position

log = logging.getLogger(__name__)

REMEMBERED_BYTES = 1024 * 1024
"""For what was learned: some 2,000 models of tenants; what was not used for longest is forgotten first."""

MOST_OF_A_TENANT = 16
"""Models of one tenant, so that who makes up names displaces his own alone."""

_META_KEY = "inject.system_first.tenants"
_LEARNED = msgspec.json.Decoder(list[tuple[str, list[tuple[str, str]]]])


class Positions:
    """Knows the position for each tenant's upstream and model; what was learned is noted in the state for the next
    start.
    """

    def __init__(self, configured: Position, state: MetaStore, tasks: TaskOwner) -> None:
        self._configured = configured
        self._state = state
        self._tasks = tasks
        self._system_first: BoundedCache[str, list[tuple[str, str]]] = BoundedCache(REMEMBERED_BYTES)
        self._writing = asyncio.Lock()

    def of(self, tenant: str, upstream: str, model: str | None) -> Position:
        """The position for a request to this model; ``upstream`` is its host and path, without a key."""
        if self._configured != "auto":
            return self._configured
        return "system" if (upstream, model or "") in (self._system_first.get(tenant) or ()) else "before_last_user"

    def refused(self, tenant: str, upstream: str, model: str | None) -> None:
        """This model's template wants system text first: from now on this tenant's requests have it there."""
        pair = (upstream, model or "")
        known = self._system_first.get(tenant) or []
        if self._configured != "auto" or pair in known:
            return
        log.info("model %r at %s takes system text at the beginning only; blocks go there now", pair[1], pair[0])
        self._system_first.put(tenant, [*known, pair][-MOST_OF_A_TENANT:])
        self._tasks.start(self._note(), "note position")

    async def load(self) -> None:
        """Read what was learned before; the state must be open.

        Raises:
            StateUnavailable: it does not answer.
        """
        for tenant, pairs in await self._stored():
            known = self._system_first.get(tenant) or []
            before = [pair for pair in pairs if pair not in known]
            self._system_first.put(tenant, [*before, *known][-MOST_OF_A_TENANT:])

    async def _stored(self) -> list[tuple[str, list[tuple[str, str]]]]:
        stored = await self._state.get_meta(_META_KEY)
        try:
            return _LEARNED.decode(stored) if stored else []
        except msgspec.MsgspecError:
            log.warning("what was learned of upstreams' templates cannot be read and is learned again")
            return []

    async def _note(self) -> None:
        async with self._writing:
            try:
                await self.load()  # another relay may have learned something meanwhile
                learned = [(tenant, self._system_first.get(tenant)) for tenant in list(self._system_first)]
                await self._state.set_meta(_META_KEY, msgspec.json.encode(learned).decode())
            except StateUnavailable as error:
                metrics().internal_errors.labels(where="relay.position").inc()
                log.warning("a model's position could not be noted, a restart learns it again: %s", error.message)
