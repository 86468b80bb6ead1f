"""What the engine is told behind the answers: of new turns, and what receipts say. Nobody waits for it."""

import asyncio
import logging
from time import monotonic

import msgspec

from memproxy.core.protocol import CAPTURED_PATH, DECIDED_PATH, Captured, UpstreamAccess
from memproxy.core.receipt import ReceiptPart
from memproxy.metrics import metrics
from memproxy.relay.breaker import Breaker
from memproxy.relay.hop import Hop
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

NOTICE_S = 2.0
"""For telling the engine of a new turn."""

NOTICE_GATHER_S = 0.02
"""How long the notice of a new turn waits for others: the engine looks at turns in a lull of recalls (30 ms) anyway,
and a notice for each comes just when the next request's recall does.
"""

NOTICES_APART_S = 0.1
"""So long after the last notice the next one goes: under a load the engine takes turns up many at a time, which costs
each less, and has fewer notices to read.
"""

MOST_DECIDED = 1_000
"""Parts of receipts that may wait for the engine (some 1 MB); those beyond are dropped and counted."""

DECIDED_AT_ONCE = 100

CLOSE_S = 1.0
"""At the end they may take so long: the engine ends after the relays, and finds the turns itself when it starts."""


class Notices:
    """Sends them, those together that come together. What does not get through is in the journal, or is a receipt's."""

    def __init__(self, hop: Hop, breaker: Breaker) -> None:
        """``breaker`` says whether the engine is there; they leave it as it is."""
        self._hop = hop
        self._breaker = breaker
        self._tasks = TaskOwner("relay.notices")
        self._decided: list[ReceiptPart] = []
        self._captured: dict[tuple[str, UpstreamAccess | None], Captured] = {}
        self._sent = 0.0
        self._encode = msgspec.json.Encoder()

    async def close(self) -> None:
        """Send those that wait, within `CLOSE_S`."""
        await self._tasks.drain(CLOSE_S)

    def captured(self, captured: Captured) -> None:
        """Tell the engine, in the background, that the journal has a new row. It would find it anyway, later. Notices
        that come together and say the same go as one.
        """
        if self._breaker.open:
            return
        if not self._captured:
            self._tasks.start(self._send_gathered(), "captured")
        same = (captured.scope.tenant, captured.access)
        self._captured.pop(same, None)  # the engine keeps what it is told last
        self._captured[same] = captured

    async def _send_gathered(self) -> None:
        await asyncio.sleep(max(NOTICE_GATHER_S, self._sent + NOTICES_APART_S - monotonic()))
        self._sent = monotonic()
        gathered, self._captured = self._captured, {}
        for captured in gathered.values():
            await self._send_captured(captured)

    def lend(self, captured: Captured) -> None:
        """Tell the engine, in the background, how a request reaches its model that it is asked for just now."""
        if not self._breaker.open:
            self._tasks.start(self._send_captured(captured), "lend")

    async def _send_captured(self, captured: Captured) -> None:
        try:
            await self._hop.call(CAPTURED_PATH, self._encode.encode(captured), within_s=NOTICE_S)
        except OSError as error:
            metrics().internal_errors.labels(where="relay.captured").inc()
            log.debug("the engine was not told of a new turn (%s); it polls the journal", type(error).__name__)

    def decided(self, part: ReceiptPart) -> None:
        """Tell the engine, in the background, what a receipt says; several that come together go together."""
        if self._breaker.open or len(self._decided) >= MOST_DECIDED:
            metrics().receipts_dropped.labels(reason="relay").inc()
            return
        self._decided.append(part)
        if len(self._decided) == 1:
            self._tasks.start(self._send_decided(), "decided")

    async def _send_decided(self) -> None:
        while self._decided:
            some = self._decided[:DECIDED_AT_ONCE]
            try:
                await self._hop.call(DECIDED_PATH, self._encode.encode(some), within_s=NOTICE_S)
            except OSError as error:
                metrics().receipts_dropped.labels(reason="relay").inc(len(some))
                log.debug("the engine was not told of %d receipts (%s)", len(some), type(error).__name__)
            finally:
                del self._decided[: len(some)]
