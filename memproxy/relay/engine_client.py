"""The relay's way to the engine: HTTP over a Unix socket, bounded in time, never in a request's way."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
from yarl import URL

from memproxy.core.breaker import Breaker
from memproxy.core.protocol import (
    CAPTURED_PATH,
    DECIDED_PATH,
    FULL_PATH,
    READY_PATH,
    RECALL_PATH,
    REPLAY_PATH,
    REPLAY_WAIT_S,
    Captured,
    Full,
    RecallAnswer,
    RecallRequest,
    ReplayAsked,
    ReplayTold,
    UpstreamAccess,
)
from memproxy.core.receipt import ReceiptPart
from memproxy.core.scope import Scope
from memproxy.errors import EngineUnavailable
from memproxy.metrics import metrics
from memproxy.relay.engine_connection import EngineConnections, Response
from memproxy.relay.pace import Pace, Run
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

HOP_ALLOWANCE_S = 0.05
"""What the hop may take on top of recall's own deadline before the request goes on without memory."""

LATE_S = 1.0
"""How long after its deadline a recall's answer is still listened for. Nobody uses it, but it tells a busy engine from
a hung one, and until it comes the engine works at it, beside everything else.
"""

FRESH_S = 2.0
"""An engine that answered within this time is taken to live."""

STARTING_S = 15.0
"""How long an engine that never answered, or last while it loaded, is taken to start: its imports take a second, on a
busy machine more.
"""

START_PATIENCE_S = 5.0
"""How long an API call waits for an engine that starts, before it is answered with 503."""

READY_PATIENCE_S = 0.5
"""How long ``/readyz`` waits for the engine's parts: less than the second after which orchestrators by default take a
probe for failed, and a relay that serves chat for dead.
"""

API_TIMEOUT_S = 70.0
"""For API calls: longer than the longest one (``/turns?wait=true`` answers after 55 s)."""

LOADING = "loading"
BUSY = "degraded: it does not say how it is in time"
"""The state of an engine that is there, but does not answer in time: under load, or because it hangs."""

_LOOK_AGAIN_S = 0.1
_NEEDED = ("state", "store")
"""Parts without which no API call can be answered."""

_LATE = RecallAnswer(result="degraded", reason="timeout")
_AWAY = RecallAnswer(result="degraded", reason="engine")
_BUSY = RecallAnswer(result="degraded", reason="busy")
NOT_ASKED = frozenset({_AWAY.reason, _BUSY.reason})
"""Reasons for which the engine was not asked, or did not take the question in."""


def recall_seconds(settings: Settings) -> float:
    """The longest that the engine may take for a recall: its deadline, and the time of the models that it asks."""
    seconds = settings.recall.deadline_ms / 1000
    if settings.rewrite.mode in {"llm", "hyde"}:
        seconds += settings.rewrite.timeout_s
    if settings.recall.rerank == "model":
        seconds += settings.recall.rerank_timeout_s
    return seconds


class NotSent(EngineUnavailable):
    """Nobody listens: nothing of the call was carried out."""


class EngineClient:
    """Calls the engine. ``notices`` go to it without an answer."""

    def __init__(self, socket: Path, *, deadline_s: float, start_patience_s: float = START_PATIENCE_S) -> None:
        self._socket = socket
        self._deadline_s = deadline_s + HOP_ALLOWANCE_S
        self._start_patience_s = start_patience_s
        self._connections = EngineConnections(socket)
        self._session: aiohttp.ClientSession | None = None
        self._breaker = Breaker()
        self._pace = Pace(deadline_s)
        self._answered_at = -FRESH_S
        self._opened_at = 0.0
        self._ever_answered = self._loaded = False
        self.notices = Notices(self._connections, self._breaker)
        self._encode = msgspec.json.Encoder()
        self._answers = msgspec.json.Decoder(RecallAnswer)
        self._fulls = msgspec.json.Decoder(Full)
        self._replays = msgspec.json.Decoder(ReplayTold)

    async def open(self) -> None:
        """Make the pool."""
        self._opened_at = time.monotonic()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path=str(self._socket), limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Let notices finish, close the connections."""
        await self.notices.close()
        self._connections.close()
        if self._session is not None:
            await self._session.close()

    @property
    def load(self) -> int:
        """Recalls that are under way, or wait for their turn."""
        return self._pace.load

    @property
    def is_there(self) -> bool:
        """Whether the engine is worth a call, as far as is known."""
        return not self._breaker.open

    async def is_ready(self) -> bool:
        """Whether it can answer an API call now."""
        if self._loaded and time.monotonic() - self._answered_at < FRESH_S:
            return True
        return (await self.readiness())["engine"] == "ready" and self._loaded

    async def recall(self, request: RecallRequest, until: float | None = None) -> RecallAnswer:
        """Ask for the block; whatever goes wrong is answered as ``degraded`` with its reason. A recall that the engine
        would not answer in time (``until``, by the monotonic clock) is not sent, so that it can answer the rest:
        ``busy``.
        """
        if not self._breaker.may_try():
            return _AWAY
        if until is None:
            until = time.monotonic() + self._deadline_s
        if (run := await self._pace.enter(until - HOP_ALLOWANCE_S - time.monotonic())) is None:
            return _BUSY
        return await self._ask(request, run, until)

    async def _ask(self, request: RecallRequest, run: Run, until: float) -> RecallAnswer:
        """Send a recall that has its turn, and wait for the answer ``until`` then."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[RecallAnswer] = loop.create_future()
        ended = False

        def resolve(recalled: RecallAnswer) -> None:
            if not answer.done():
                answer.set_result(recalled)

        def on_end(result: Response | OSError) -> None:
            nonlocal ended
            ended = True
            resolve(self._learn(run, result))

        def give_up() -> None:
            if not ended:  # else the connection may serve another call by now
                connection.cut_off(TimeoutError())

        try:
            connection = await self._connections.ask(RECALL_PATH, self._encode.encode(request), on_end)
        except OSError as error:
            on_end(error)
            return await answer
        except asyncio.CancelledError:
            self._pace.end(run, answered=False)
            raise
        late = loop.call_later(max(0.0, until - time.monotonic()), resolve, _LATE)
        try:
            return await answer
        finally:
            late.cancel()
            if not ended:
                loop.call_later(max(0.0, run.began + self._deadline_s + LATE_S - time.monotonic()), give_up)

    def _learn(self, run: Run, result: Response | OSError) -> RecallAnswer:
        """What a recall that is over answers; breaker and pace learn from it."""
        if isinstance(result, TimeoutError):
            self._pace.end(run, answered=True)  # not by this time
            if self._answered_at < run.began:
                self._breaker.note_failure()
            return _LATE
        try:
            if isinstance(result, OSError):
                raise result
            self._answered_at = time.monotonic()
            if result.status != 200:
                raise EngineUnavailable(f"The engine answered recall with {result.status}.")
            answer = self._answers.decode(result.body)
        except (OSError, msgspec.DecodeError, EngineUnavailable) as error:
            self._breaker.note_failure(refused=_is_refused(error))
            log.debug("recall failed, the request goes on without memory: %r", error)  # the handler warns, seldom
            return _AWAY
        finally:
            self._pace.end(run, answered=isinstance(result, Response) and result.status == 200)
        self._breaker.note_success()
        return answer

    async def full(self, scope: Scope) -> str | None:
        """Whose quota of memories is full: ``user``, ``tenant``, or nobody's as far as is known."""
        if not self._breaker.may_try():
            return None
        began = time.monotonic()
        try:
            response = await self._connections.call(FULL_PATH, self._encode.encode(scope), within_s=self._deadline_s)
            self._breaker.note_success()
            return self._fulls.decode(response.body).whose if response.status == 200 else None
        except (OSError, msgspec.DecodeError) as error:
            if isinstance(error, OSError) and (not isinstance(error, TimeoutError) or self._answered_at < began):
                self._breaker.note_failure(refused=_is_refused(error))
            metrics().internal_errors.labels(where="relay.full").inc()
            log.warning("quotas of memories cannot be asked for (%s), turns come in", type(error).__name__)
            return None

    async def replay(self, asked: ReplayAsked) -> ReplayTold:
        """The last messages of a session; whatever goes wrong is answered as its reason."""
        if not self._breaker.may_try():
            return ReplayTold(reason="engine")
        began = time.monotonic()
        try:
            within_s = REPLAY_WAIT_S + self._deadline_s
            response = await self._connections.call(REPLAY_PATH, self._encode.encode(asked), within_s=within_s)
            if response.status != 200:
                raise EngineUnavailable(f"The engine answered a replay with {response.status}.")
            told = self._replays.decode(response.body)
        except (OSError, msgspec.DecodeError, EngineUnavailable) as error:
            late = isinstance(error, TimeoutError)
            if not late or self._answered_at < began:
                self._breaker.note_failure(refused=_is_refused(error))
            metrics().internal_errors.labels(where="relay.replay").inc()
            log.debug("a session is not replayed: %r", error)
            return ReplayTold(reason="timeout" if late else "engine")
        self._breaker.note_success()
        return told

    async def readiness(self) -> dict[str, str]:
        """The state of each of the engine's parts; ``{"engine": "degraded: …"}`` when it does not answer within
        `READY_PATIENCE_S`, or ``loading`` while it starts for the first time.
        """
        patience = aiohttp.ClientTimeout(total=READY_PATIENCE_S)
        try:
            async with self._pool.get(_url(READY_PATH), timeout=patience) as response:
                parts = msgspec.json.decode(await response.read(), type=dict[str, str])
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
            return {"engine": self._silence(error)}
        self._answered_at, self._ever_answered = time.monotonic(), True
        self._loaded = not any(parts.get(part) == LOADING for part in _NEEDED)
        return {"engine": "ready", **parts}

    def _silence(self, error: Exception) -> str:
        """The state of an engine that does not answer."""
        now, no_socket = time.monotonic(), isinstance(error, aiohttp.ClientConnectorError)
        if no_socket and not self._ever_answered and now - self._opened_at < STARTING_S:
            return LOADING
        if isinstance(error, TimeoutError):
            # while it opens a large store it may be silent for a while, too
            starts = not self._loaded and now - max(self._opened_at, self._answered_at) < STARTING_S
            return LOADING if starts else BUSY
        return f"degraded: it does not answer ({type(error).__name__})"

    async def api(
        self, method: str, raw_path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, list[tuple[bytes, bytes]], AsyncIterator[bytes]]:
        """Pass an API request on; its answer's status, headers and body.

        Raises:
            EngineUnavailable: the engine does not answer.
        """
        if not self._loaded or time.monotonic() - self._answered_at >= FRESH_S:
            await self._wait_until_ready()
        try:
            response = await self._pool.request(
                method, _url(raw_path), headers=headers, data=body, timeout=aiohttp.ClientTimeout(total=API_TIMEOUT_S)
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            kind = NotSent if isinstance(error, aiohttp.ClientConnectorError) else EngineUnavailable
            raise kind(
                "The memory engine does not answer just now; chat goes on without it. Try again in a moment."
            ) from error
        self._answered_at = time.monotonic()
        return response.status, list(response.raw_headers), _body(response)

    async def _wait_until_ready(self) -> None:
        """Before an API call, which may take long: an engine that starts or is busy is waited for a while.

        Raises:
            EngineUnavailable: it is not ready.
        """
        until = time.monotonic() + self._start_patience_s
        while True:
            parts = await self.readiness()
            loading = LOADING in {parts["engine"], *(parts.get(part) for part in _NEEDED)}
            if not (loading or parts["engine"] == BUSY) or time.monotonic() >= until:
                break
            await asyncio.sleep(_LOOK_AGAIN_S)
        if parts["engine"] != "ready":
            raise EngineUnavailable(f"The memory engine is {parts['engine']}; chat goes on without it. Try again soon.")

    @property
    def _pool(self) -> aiohttp.ClientSession:
        assert self._session is not None, "open() comes first"  # noqa: S101 - a programming error, not an input
        return self._session


def _is_refused(error: Exception) -> bool:
    """Whether there was nobody to connect to."""
    return isinstance(error, ConnectionRefusedError | FileNotFoundError)


async def _body(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        while True:
            try:
                chunk = await response.content.readany()
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                raise EngineUnavailable(
                    "The memory engine ended in the middle of its answer. Try again in a moment."
                ) from error
            if not chunk:
                return
            yield chunk


def _url(raw_path: str) -> URL:
    return URL("http://engine" + raw_path, encoded=True)


NOTICE_S = 2.0
"""How long a notice may take."""

GATHER_S = 0.02
"""How long the notice of a new turn waits for others: the engine looks at turns in a lull of recalls (30 ms) anyway,
and a notice for each would come just when the next request's recall does.
"""

APART_S = 0.1
"""The time between two notices: under a load the engine takes turns up many at a time, which costs each less."""

MOST_DECIDED = 1_000
"""Parts of receipts that may wait for the engine (some 1 MB); those beyond are dropped and counted."""

DECIDED_AT_ONCE = 100

CLOSE_S = 1.0
"""How long notices may take at the end: the engine ends after the relays, and finds the turns itself at its start."""


class Notices:
    """Tells the engine, in the background, of new turns and of decisions; what comes together goes together. A notice
    that gets lost costs little: the turn is in the journal, and a decision is a receipt's only.
    """

    def __init__(self, connections: EngineConnections, breaker: Breaker) -> None:
        """``breaker`` says whether the engine is there; notices leave it as it is."""
        self._connections = connections
        self._breaker = breaker
        self._tasks = TaskOwner("relay.notices")
        self._decided: list[ReceiptPart] = []
        self._captured: dict[tuple[str, UpstreamAccess | None], Captured] = {}
        self._sent_at = 0.0
        self._encode = msgspec.json.Encoder()

    async def close(self) -> None:
        """Send those that wait, within `CLOSE_S`."""
        await self._tasks.drain(CLOSE_S)

    def captured(self, captured: Captured) -> None:
        """The journal has a new row, which the engine would find anyway, later."""
        if self._breaker.open:
            return
        if not self._captured:
            self._tasks.start(self._send_gathered(), "captured")
        same = (captured.scope.tenant, captured.access)
        self._captured.pop(same, None)  # the engine keeps the last notice
        self._captured[same] = captured

    async def _send_gathered(self) -> None:
        await asyncio.sleep(max(GATHER_S, self._sent_at + APART_S - time.monotonic()))
        self._sent_at = time.monotonic()
        gathered, self._captured = self._captured, {}
        for captured in gathered.values():
            await self._send_captured(captured)

    def lend(self, captured: Captured) -> None:
        """How a request reaches its model that the engine is asked for just now."""
        if not self._breaker.open:
            self._tasks.start(self._send_captured(captured), "lend")

    async def _send_captured(self, captured: Captured) -> None:
        try:
            await self._connections.call(CAPTURED_PATH, self._encode.encode(captured), within_s=NOTICE_S)
        except OSError as error:
            metrics().internal_errors.labels(where="relay.captured").inc()
            log.debug("the engine was not told of a new turn (%s); it polls the journal", type(error).__name__)

    def decided(self, part: ReceiptPart) -> None:
        """The relay's part of a receipt."""
        if self._breaker.open or len(self._decided) >= MOST_DECIDED:
            metrics().receipts_dropped.labels(reason="relay").inc()
            return
        self._decided.append(part)
        if len(self._decided) == 1:
            self._tasks.start(self._send_decided(), "decided")

    async def _send_decided(self) -> None:
        while self._decided:
            batch = self._decided[:DECIDED_AT_ONCE]
            try:
                await self._connections.call(DECIDED_PATH, self._encode.encode(batch), within_s=NOTICE_S)
            except OSError as error:
                metrics().receipts_dropped.labels(reason="relay").inc(len(batch))
                log.debug("the engine was not told of %d receipts (%s)", len(batch), type(error).__name__)
            finally:
                del self._decided[: len(batch)]
