"""Writes what recall did into receipts, after the answers: no request waits for it, and trouble costs the receipt."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any

from memproxy.core.protocol import RecallAnswer, RecallRequest
from memproxy.core.receipt import Cited, Recalled, ReceiptPart
from memproxy.core.redact import redact
from memproxy.errors import StateUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Clock, ReceiptStore
from memproxy.recall.recall_answer import Judgement
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner, happens

log = logging.getLogger(__name__)

MOST_WAITING = 2_000
MOST_OF_A_TENANT = 500
"""Receipts that may wait to be written (some 10 MB), in all and of one tenant; those beyond are dropped and counted."""

GATHER_S = 0.2
"""How long the first receipt waits for others, so that one commit serves them all."""

BATCH = 20
"""Receipts of one commit: few enough that a journal commit is not kept waiting (2 ms)."""

LEFT_OUT_SHOWN = 20
"""Candidates kept of those that were not injected, the best first."""

GRACE_S = 5.0
"""Longest wait at the end for what is to be written."""

_Waiting = tuple[str, Callable[[], ReceiptPart]]
"""A receipt that waits: its tenant, and what makes it when it is written."""


class ReceiptKeeper:
    """Queues the recalls that were answered and the relay's decisions, and writes their receipts soon."""

    def __init__(self, state: ReceiptStore, clock: Clock, settings: Settings) -> None:
        self._state = state
        self._clock = clock
        self._redact = frozenset[str](settings.privacy.redact)
        self._tasks = TaskOwner("engine.receipts")
        self._waiting: list[_Waiting] = []
        self._tenants: Counter[str] = Counter()
        self._writer: asyncio.Task[None] | None = None
        self._flush_now = asyncio.Event()

    def note(self, request: RecallRequest, answer: RecallAnswer) -> None:
        """Queue the receipt of an answer, with an explanation of its candidates; returns at once."""
        explained = answer.explained(LEFT_OUT_SHOWN) if isinstance(answer, Judgement) else answer
        self._add(request.scope.tenant, partial(self._part, request.asked_at or self._clock.now(), request, explained))

    def note_parts(self, parts: Sequence[ReceiptPart]) -> None:
        """Queue these parts of receipts; returns at once."""
        for part in parts:
            self._add(part.scope.tenant, partial(_itself, part))

    def _add(self, tenant: str, make_part: Callable[[], ReceiptPart]) -> None:
        if len(self._waiting) >= MOST_WAITING or self._tenants[tenant] >= MOST_OF_A_TENANT:
            metrics().receipts_dropped.labels(reason="full").inc()
            return
        self._waiting.append((tenant, make_part))
        self._tenants[tenant] += 1
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.start(self._write(), "write")

    async def written(self) -> None:
        """Returns when all that was noted so far is written (or dropped)."""
        self._flush_now.set()
        if self._writer is not None:
            await asyncio.wait({self._writer})

    async def close(self) -> None:
        self._flush_now.set()
        await self._tasks.drain(GRACE_S)

    async def _write(self) -> None:
        await happens(self._flush_now, GATHER_S)  # others may have come meanwhile
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH], self._waiting[BATCH:]
            self._tenants -= Counter(tenant for tenant, _ in batch)
            try:
                await self._state.note_receipts([make_part() for _, make_part in batch])
            except StateUnavailable as error:
                metrics().receipts_dropped.labels(reason="state").inc(len(batch))
                log.warning("%d receipts are not written: %s", len(batch), error.message)
        self._flush_now.clear()

    def _part(self, at: datetime, request: RecallRequest, answer: RecallAnswer) -> ReceiptPart:
        recalled = Recalled(
            result=answer.result,
            reason=answer.reason,
            verdict=request.verdict,
            query=redact(answer.query, self._redact),
            floor=answer.floor,
            tokens=answer.tokens,
            memories=[
                Cited(memory_id=line.memory_id, turn_id=line.turn_id, score=round(line.score, 4))
                for line in answer.citations
            ],
            candidates=_shown_candidates(answer.candidates),
            timings=answer.timings,
            notes=answer.notes,
        )
        return ReceiptPart(request_id=request.request_id, scope=request.scope, at=at, recalled=recalled)


def _itself(part: ReceiptPart) -> ReceiptPart:
    return part


def _shown_candidates(candidates: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every injected candidate, and the best of the others, in their order."""
    left_out = (candidate["memory_id"] for candidate in candidates if not candidate["injected"])
    best_left_out = set(islice(left_out, LEFT_OUT_SHOWN))
    return [candidate for candidate in candidates if candidate["injected"] or candidate["memory_id"] in best_left_out]
