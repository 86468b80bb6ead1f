"""Liveness, readiness and metrics."""

import asyncio
import contextlib
import hmac
import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from memproxy import metrics as all_metrics
from memproxy.auth.identity import who_is_remembered
from memproxy.errors import MethodNotAllowed, NotFound, StateUnavailable, Unauthenticated
from memproxy.ports import JournalStore, SharedServer
from memproxy.relay.capture import CaptureJournal
from memproxy.relay.engines import Engines
from memproxy.relay.request import Request
from memproxy.relay.upstream import Upstream
from memproxy.settings import Settings

_JSON = [(b"content-type", b"application/json")]
_READING = ("GET", "HEAD")

STATES = ("ready", "loading", "degraded", "refused", "off", "draining", "unknown")
"""The words that the state of a part begins with; ``unknown``: who would say it is away."""

LOOK_S = 0.5
"""How long a scrape waits for the state to tell how old its queue is."""

Page = Callable[["Health", Request], Awaitable[int]]


@dataclass(kw_only=True, eq=False)
class Health:
    """Answers ``/healthz``, ``/readyz`` and ``/metrics``. ``disks`` are folders, by their name in the metrics, on whose
    disks there must be room. ``serving``: whether chat can be relayed, false while starting and while draining.
    """

    engine: Engines
    journal: CaptureJournal
    state: JournalStore
    settings: Settings
    upstream: Upstream
    disks: Mapping[str, Path]
    shared: SharedServer | None = None
    serving: bool = False
    _parts_seen: set[str] = field(default_factory=set)

    async def answer(self, request: Request, page: Page) -> int:
        """One of the three pages; they are only read."""
        if request.method in _READING:
            return await page(self, request)
        error = MethodNotAllowed(f"{request.path} is only read: use GET.")
        allowed = (b"allow", ", ".join(_READING).encode())
        await request.answer(error.status, [*_JSON, allowed], msgspec.json.encode(error.body()))
        return error.status

    async def healthz(self, request: Request) -> int:
        return await _json(request, 200, {"status": "ok"})

    async def readyz(self, request: Request) -> int:
        """200 while chat can be relayed, whatever memory does; each part's state beside it."""
        parts = await self._parts()
        status = _status(parts.values()) if self.serving else "draining"
        remembered = who_is_remembered(self.settings.auth, self.settings.server)
        body = {"status": status, "parts": parts, "memory_for": remembered}
        return await _json(request, 200 if self.serving else 503, body)

    async def _parts(self) -> dict[str, str]:
        parts = {"relay": "ready" if self.serving else "draining", **await self.engine.readiness()}
        if (upstream := self.upstream.state) is not None:
            parts["upstream"] = upstream
        if self.shared is not None and parts.get("cache", "ready") == "ready":
            parts["cache"] = self.shared.state  # each process has a connection of its own
        trouble = await self.journal.trouble()
        if trouble is not None and not parts.get("state", "").startswith("degraded"):
            parts["state"] = f"degraded: {trouble}"  # else the engine says why, which may be more than "not open"
        return parts

    async def metrics(self, request: Request) -> int:
        """The Prometheus text of all processes.

        Raises:
            NotFound: metrics are switched off.
            Unauthenticated: a token is configured and this request does not have it.
        """
        if not self.settings.telemetry.metrics:
            raise NotFound("Metrics are switched off (telemetry.metrics).")
        sent = (request.headers.get(b"authorization") or "").removeprefix("Bearer ")
        token = self.settings.telemetry.metrics_token
        if token is not None and not hmac.compare_digest(sent.encode(), token.get_secret_value().encode()):
            raise Unauthenticated("/metrics needs the token of telemetry.metrics_token as `Authorization: Bearer …`.")
        await self._measure()
        headers = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
        await request.answer(200, headers, all_metrics.render())
        return 200

    async def _measure(self) -> None:
        """Set the gauges of what is looked at when somebody asks: a relay knows it also while the engine is away."""
        parts, gauges = await self._parts(), all_metrics.metrics()
        self._parts_seen.update(parts)
        for part in self._parts_seen:
            word = parts.get(part, "unknown").partition(":")[0]
            for state in STATES:
                gauges.part_state.labels(part, state).set(state == (word if word in STATES else "unknown"))
        for disk, folder in self.disks.items():
            with contextlib.suppress(OSError):  # a folder that is gone has no room to tell of; /readyz says so
                gauges.disk_free.labels(disk).set(shutil.disk_usage(folder).free)
        with contextlib.suppress(StateUnavailable, TimeoutError):  # the state's part says so
            async with asyncio.timeout(LOOK_S):
                for lane, age_s in (await self.state.queue_ages(datetime.now(UTC))).items():
                    gauges.learn_oldest.labels(lane).set(age_s)


def _status(states: Iterable[str]) -> str:
    """``ready``, or ``loading`` when nothing worse is the matter, else ``degraded``."""
    unready = [state for state in states if not state.startswith(("ready", "off"))]
    if not unready:
        return "ready"
    return "loading" if all(state.startswith("loading") for state in unready) else "degraded"


async def _json(request: Request, status: int, body: object) -> int:
    await request.answer(status, _JSON, msgspec.json.encode(body))
    return status
