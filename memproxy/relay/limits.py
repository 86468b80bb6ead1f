"""What the limits mean for a chat request. Memory is an enhancement: only a chat rate that the operator set refuses
one; above every other limit it goes on without memory, and the header says so.
"""

import logging
from time import monotonic

from memproxy.auth.limits import MEMORIES, TURNS, Rates
from memproxy.core.bounded import BoundedCache
from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable, TooManyRequests
from memproxy.metrics import metrics
from memproxy.relay.engine import EngineClient
from memproxy.wire.request import RequestBody

log = logging.getLogger(__name__)

FULL_SECONDS = 5.0
"""How long an answer about a memory quota counts: as long may turns still come in above it."""

_KNOWN_BYTES = 4 * 1024 * 1024


class ChatLimits:
    """Asked by the chat handler and the decider. Trouble in counting refuses nothing."""

    def __init__(self, rates: Rates, engine: EngineClient, *, bounds_memories: bool) -> None:
        self._rates = rates
        self._engine = engine
        self._bounds_memories = bounds_memories
        self._full: BoundedCache[tuple[str, str], tuple[float, str | None]] = BoundedCache(_KNOWN_BYTES)

    @property
    def bounds_chat(self) -> bool:
        """Whether chat requests themselves are limited."""
        return self._rates.bounds_chat

    async def admit(self, tenant: str, user: str | None) -> None:
        """Count a chat request.

        Raises:
            TooManyRequests: over ``limits.….chat_per_minute``.
        """
        try:
            await self._rates.chat(tenant, user)
        except StateUnavailable as error:
            _uncounted(error)

    async def refused(self, scope: Scope, chat: RequestBody) -> str | None:
        """Why this request's turns may not be kept: the limit's name, or None. Turns that may be are counted: what is
        said anew, and the answer.
        """
        if self._bounds_memories and (reason := await self._filled(scope)) is not None:
            return reason
        if not self._rates.bounds_turns:
            return None
        try:
            await self._rates.turns(scope, len(chat.new_messages()) + 1)
        except TooManyRequests:
            return TURNS
        except StateUnavailable as error:
            _uncounted(error)
        return None

    async def _filled(self, scope: Scope) -> str | None:
        """Whose memory quota is full, as the engine said lately."""
        known = self._full.get(scope.owner)
        if known is not None and monotonic() - known[0] < FULL_SECONDS:
            whose = known[1]
        else:
            whose = await self._engine.full(scope)
            self._full.put(scope.owner, (monotonic(), whose))
        if whose is None:
            return None
        metrics().limits_reached.labels(limit=MEMORIES, of=whose).inc()
        return MEMORIES


def _uncounted(error: StateUnavailable) -> None:
    metrics().internal_errors.labels(where="relay.limits").inc()
    log.warning("limits cannot be counted, requests go on: %s", error.message)
