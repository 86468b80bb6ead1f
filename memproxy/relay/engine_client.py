"""The relay's way to the engine: HTTP over kept connections of its Unix socket, bounded in time, never in a request's
way.

A request waits for its recall, and aiohttp's client takes a good part of that time: tasks, timers, streams and headers
that a call between two processes of ours has no use for. What waits here is a future, and the parser is C.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar, cast

import aiohttp
import httptools
import msgspec
from yarl import URL

from memproxy.core import protocol
from memproxy.core.breaker import Breaker
from memproxy.core.protocol import Captured, Full, RecallAnswer, RecallRequest, ReplayAsked, ReplayTold, UpstreamAccess
from memproxy.core.receipt import ReceiptPart
from memproxy.core.scope import Scope
from memproxy.errors import EngineUnavailable
from memproxy.metrics import metrics
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner

KEPT_S = 15.0
"""A connection that was idle for longer is not used again: the engine closes them after 75 s, maybe at that moment."""

CONNECT_S = 0.2
"""Connecting a Unix socket takes no time unless its queue is full."""


class Response(NamedTuple):
    """A whole answer."""

    status: int
    body: bytes


OnEnd = Callable[[Response | OSError], None]
"""Called exactly once, with the response, whatever its status, or the transport error."""


class EngineConnections:
    """The kept connections. Each call that is under way has one of its own."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()

    async def ask(self, path: str, body: bytes, on_end: OnEnd) -> "Connection":
        """Send ``body`` by `POST`; ``on_end`` is called when the call is over, also if the caller has left by then. The
        returned connection can cut the call off. Raises `OSError` without a connection; ``on_end`` is not called then.
        """
        connection = self._take_idle() or await self._connected()
        head = f"POST {path} HTTP/1.1\r\nhost: engine\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        connection.send(b"%s\r\n\r\n%s" % (head.encode("ascii"), body), on_end)
        return connection

    async def call(self, path: str, body: bytes, *, within_s: float) -> Response:
        """`ask`, and wait for the answer; raises `OSError` where there is none, `TimeoutError` if not by then."""
        response: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def on_end(result: Response | OSError) -> None:
            if response.done():
                return
            if isinstance(result, OSError):
                response.set_exception(result)
            else:
                response.set_result(result)

        async with asyncio.timeout(within_s):
            connection = await self.ask(path, body, on_end)
            try:
                return await response
            except asyncio.CancelledError:
                connection.cut_off(TimeoutError())
                raise

    def close(self) -> None:
        """Close all connections. Calls under way end without their ``on_end``."""
        for connection in list(self._all):
            connection.close()

    def keep(self, connection: "Connection") -> None:
        connection.idle_since = time.monotonic()
        self._idle.append(connection)

    def drop(self, connection: "Connection") -> None:
        self._all.discard(connection)
        with contextlib.suppress(ValueError):
            self._idle.remove(connection)

    def _take_idle(self) -> "Connection | None":
        """The most recently used idle connection: the others grow too old, and the engine closes them."""
        if not self._idle:
            return None
        connection = self._idle.pop()
        if time.monotonic() - connection.idle_since <= KEPT_S:
            return connection
        connection.cut_off(TimeoutError())
        return None

    async def _connected(self) -> "Connection":
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(CONNECT_S):
            _, connection = await loop.create_unix_connection(lambda: Connection(self), self._socket)
        self._all.add(connection)
        return connection


class Connection(asyncio.Protocol):
    """One connection, and the call that is under way on it. The parser calls what begins with ``on_``."""

    def __init__(self, pool: EngineConnections) -> None:
        self.idle_since = 0.0
        self._pool = pool
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._on_end: OnEnd | None = None
        self._parts: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def send(self, request: bytes, on_end: OnEnd) -> None:
        self._on_end = on_end
        self._parts.clear()
        if self._transport is not None:
            self._transport.write(request)

    def cut_off(self, error: OSError) -> None:
        """Close it; a call that is under way ends with this error."""
        self._close()
        self._end(error)

    def close(self) -> None:
        """Close it; the call's end is not reported."""
        self._on_end = None
        self._close()

    def _close(self) -> None:
        self._pool.drop(self)
        if self._transport is not None:
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.drop(self)
        self._end(exc if isinstance(exc, OSError) else ConnectionResetError("the engine closed the connection"))

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.cut_off(ConnectionAbortedError(f"the engine's answer is no HTTP: {error}"))

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        response = Response(self._parser.get_status_code(), b"".join(self._parts))
        if self._on_end is None or not self._parser.should_keep_alive():
            self._close()
        else:
            self._pool.keep(self)
        self._end(response)

    def _end(self, result: Response | OSError) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end(result)


AT_ONCE = 16.0
"""Concurrent recalls at the start: an engine that needs 3 to 7 ms for each answers as many in time."""

MOST_AT_ONCE = 1_000.0

NEWEST = 0.1
"""The weight of the newest answer in the moving average of their times."""

LESS = 0.8
"""The number of concurrent recalls is multiplied by this after a late answer."""


class Run(NamedTuple):
    """A recall that was sent at ``began``; ``full``: as many as allowed were under way, so it tells about the limit."""

    began: float
    full: bool


class Pace:
    """How many recalls are sent to the engine at once: as many as it answers in time, which their answers tell.

    The others wait for their turn, if it comes early enough to be answered in time as well: refused at once they would
    leave the engine idle between two rounds.

    As with TCP's window: each round of answers in time makes room for one more, a late one takes a part away, once for
    all that were sent before. There is always room for one: nothing else would tell that times are better.
    """

    def __init__(self, deadline_s: float, *, at_once: float = AT_ONCE) -> None:
        """An answer within ``deadline_s`` is in time; ``at_once`` is the first number of concurrent recalls."""
        self._in_time_s = deadline_s
        self._at_once = max(1.0, at_once)
        self._running = 0
        self._shrunk_at = 0.0
        self._usual_s = 0.0
        self._waiting: dict[asyncio.Future[Run | None], None] = {}

    @property
    def admits(self) -> bool:
        return self._running < int(self._at_once)

    @property
    def load(self) -> int:
        """Recalls that are under way, or wait for their turn."""
        return self._running + len(self._waiting)

    async def enter(self, within_s: float) -> Run | None:
        """Begin a recall, when it is its turn, that must be answered within this time; None where it would be late."""
        if self.admits and not self._waiting:
            return self.begin()
        if self._usual_s * (1 + (len(self._waiting) + 1) / int(self._at_once)) > within_s:
            return None  # at the usual pace the answer would be too late
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Run | None] = loop.create_future()
        self._waiting[turn] = None
        late = loop.call_later(max(0.0, within_s - self._usual_s), _give_up, turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled() and (run := turn.result()) is not None:
                self.end(run, answered=False)
            raise
        finally:
            late.cancel()
            self._waiting.pop(turn, None)

    def begin(self) -> Run:
        self._running += 1
        return Run(began=time.monotonic(), full=not self.admits)

    def end(self, run: Run, *, answered: bool) -> None:
        """A recall is over. The pace learns from answers, however late, and from recalls given up without one."""
        self._running -= 1
        if answered:
            self._learn(run.began, full=run.full)
        while self._waiting and self.admits:
            turn = next(iter(self._waiting))
            del self._waiting[turn]
            if not turn.done():
                turn.set_result(self.begin())

    def _learn(self, began: float, *, full: bool) -> None:
        now = time.monotonic()
        took = now - began
        self._usual_s += NEWEST * (took - self._usual_s) if self._usual_s else took
        if took > self._in_time_s:
            if began >= self._shrunk_at:
                self._at_once, self._shrunk_at = max(1.0, self._at_once * LESS), now
        elif full:
            self._at_once = min(MOST_AT_ONCE, self._at_once + 1 / self._at_once)


def _give_up(turn: asyncio.Future[Run | None]) -> None:
    """It is too late for its turn."""
    if not turn.done():
        turn.set_result(None)


log = logging.getLogger(__name__)

HOP_ALLOWANCE_S = 0.05
"""Time for the way to the engine on top of recall's own deadline, before the request goes on without memory."""

LATE_S = 1.0
"""How long after its deadline a recall's answer is still awaited. It is not used, but it tells a busy engine from a
hung one, and until it comes the engine is still working on it.
"""

FRESH_S = 2.0
"""An engine that answered within this time is taken to live."""

STARTING_S = 15.0
"""How long an engine that never answered, or last while it loaded, is taken to start; imports take a second or more."""

START_PATIENCE_S = 5.0
"""How long an API call waits for an engine that starts, before it is answered with 503."""

READY_PATIENCE_S = 0.5
"""How long ``/readyz`` waits for the engine's parts: less than the second after which orchestrators by default take a
probe for failed, and a relay that serves chat for dead.
"""

API_TIMEOUT_S = 70.0
"""How long an API call waits for its answer (``/turns?wait=true`` comes after 55 s), and for each further part of it.
All of it may take longer: an export has as many lines as its user has memories.
"""

LOADING = "loading"
BUSY = "degraded: it does not say how it is in time"
"""The state of an engine that is there, but does not answer in time: under load, or because it hangs."""

_LOOK_AGAIN_S = 0.1
_NEEDED = ("state", "store")
"""Parts without which no API call can be answered."""

_encode = msgspec.json.Encoder().encode
_RECALLED = msgspec.json.Decoder(RecallAnswer)
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
    if settings.recall.rerank != "none":
        seconds += settings.recall.rerank_timeout_s
    return seconds


Answered = TypeVar("Answered", Full, ReplayTold)


class NotSent(EngineUnavailable):
    """Nobody listens: nothing of the call was carried out."""


class EngineClient:
    """Calls the engine. ``notices`` go to it without an answer."""

    def __init__(
        self,
        socket: Path,
        *,
        deadline_s: float,
        start_patience_s: float = START_PATIENCE_S,
        api_timeout_s: float = API_TIMEOUT_S,
    ) -> None:
        self._socket = socket
        self._api_timeout_s = api_timeout_s
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

    async def open(self) -> None:
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
        would not answer in time (``until``, by the monotonic clock) is not sent, so that it can answer others:
        ``busy``.
        """
        if not self._breaker.may_try():
            return _AWAY
        until = until or time.monotonic() + self._deadline_s
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
            connection = await self._connections.ask(protocol.RECALL_PATH, _encode(request), on_end)
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
            answer = _RECALLED.decode(result.body)
        except (OSError, msgspec.DecodeError, EngineUnavailable) as error:
            self._breaker.note_failure(refused=_is_refused(error))
            log.debug("recall failed, the request goes on without memory: %r", error)  # the handler warns, seldom
            return _AWAY
        finally:
            self._pace.end(run, answered=isinstance(result, Response) and result.status == 200)
        self._breaker.note_success()
        return answer

    async def full(self, scope: Scope) -> Full | None:
        """Whose quota of memories is full; None where the engine does not say."""
        try:
            return await self._fetch(protocol.FULL_PATH, scope, Full, self._deadline_s)
        except EngineUnavailable:
            return None
        except (OSError, msgspec.DecodeError) as error:
            metrics().internal_errors.labels(where="relay.full").inc()
            log.warning("quotas of memories cannot be asked for (%s), turns come in", type(error).__name__)
            return None

    async def replay(self, request: ReplayAsked) -> ReplayTold:
        """The last messages of a session; whatever goes wrong is answered as its reason."""
        try:
            return await self._fetch(
                protocol.REPLAY_PATH, request, ReplayTold, protocol.REPLAY_WAIT_S + self._deadline_s
            )
        except NotSent:
            return ReplayTold(reason="engine")
        except (OSError, msgspec.DecodeError, EngineUnavailable) as error:
            metrics().internal_errors.labels(where="relay.replay").inc()
            log.debug("a session is not replayed: %r", error)
            return ReplayTold(reason="timeout" if isinstance(error, TimeoutError) else "engine")

    async def _fetch(self, path: str, request: msgspec.Struct, kind: type[Answered], within_s: float) -> Answered:
        """What the engine answers; the breaker learns from it. Raises `NotSent` where it was not there lately and is
        not asked; `OSError`, `EngineUnavailable` or `DecodeError` without an answer, or for another than a success.
        """
        if not self._breaker.may_try():
            raise NotSent("The engine does not answer.")
        began = time.monotonic()
        try:
            response = await self._connections.call(path, _encode(request), within_s=within_s)
        except OSError as error:
            if not isinstance(error, TimeoutError) or self._answered_at < began:
                self._breaker.note_failure(refused=_is_refused(error))
            raise
        self._breaker.note_success()
        if response.status != 200:
            raise EngineUnavailable(f"The engine answered {path} with {response.status}.")
        return msgspec.json.decode(response.body, type=kind)

    async def readiness(self) -> dict[str, str]:
        """The state of each of the engine's parts; ``{"engine": "degraded: …"}`` when it does not answer within
        `READY_PATIENCE_S`, or ``loading`` while it starts for the first time.
        """
        patience = aiohttp.ClientTimeout(total=READY_PATIENCE_S)
        try:
            async with self._pool.get(_url(protocol.READY_PATH), timeout=patience) as response:
                parts = msgspec.json.decode(await response.read(), type=dict[str, str])
        except (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError) as error:
            return {"engine": self._silence(error)}
        self._answered_at, self._ever_answered = time.monotonic(), True
        self._loaded = not any(parts.get(part) == LOADING for part in _NEEDED)
        return {"engine": "ready", **parts}

    def _silence(self, error: Exception) -> str:
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
        """Pass an API request on; the answer's status, headers and body. `EngineUnavailable` where the engine gives
        none.
        """
        if not self._loaded or time.monotonic() - self._answered_at >= FRESH_S:
            await self._wait_until_ready()
        try:
            patience = aiohttp.ClientTimeout(total=None, sock_read=self._api_timeout_s)
            async with asyncio.timeout(self._api_timeout_s):
                response = await self._pool.request(
                    method, _url(raw_path), headers=headers, data=body, timeout=patience
                )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            kind = NotSent if isinstance(error, aiohttp.ClientConnectorError) else EngineUnavailable
            raise kind(
                "The memory engine does not answer just now; chat goes on without it. Try again in a moment."
            ) from error
        self._answered_at = time.monotonic()
        return response.status, list(response.raw_headers), _body(response)

    async def _wait_until_ready(self) -> None:
        """Before an API call: wait a while for an engine that starts or is busy; `EngineUnavailable` if it is not ready
        then.
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
"""Most parts of receipts that wait for the engine (some 1 MB); more are dropped and counted."""

DECIDED_AT_ONCE = 100

CLOSE_S = 1.0
"""How long notices may take at the end: the engine ends after the relays, and finds the turns itself at its start."""


class Notices:
    """Tells the engine, in the background and in batches, of new turns and of decisions. A notice that gets lost costs
    little: the turn is in the journal, and a decision is a receipt's only.
    """

    def __init__(self, connections: EngineConnections, breaker: Breaker) -> None:
        """``breaker`` says whether the engine is there; notices leave it as it is."""
        self._connections = connections
        self._breaker = breaker
        self._tasks = TaskOwner("relay.notices")
        self._decided: list[ReceiptPart] = []
        self._captured: dict[tuple[str, UpstreamAccess | None], Captured] = {}
        self._sent_at = 0.0

    async def close(self) -> None:
        """Send waiting notices, within `CLOSE_S`."""
        await self._tasks.drain(CLOSE_S)

    def notify(self, captured: Captured) -> None:
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

    def share_access(self, captured: Captured) -> None:
        """Tell the engine how the current request reaches its model."""
        if not self._breaker.open:
            self._tasks.start(self._send_captured(captured), "lend")

    async def _send_captured(self, captured: Captured) -> None:
        try:
            await self._connections.call(protocol.CAPTURED_PATH, _encode(captured), within_s=NOTICE_S)
        except OSError as error:
            metrics().internal_errors.labels(where="relay.captured").inc()
            log.debug("the engine was not told of a new turn (%s); it polls the journal", type(error).__name__)

    def report(self, part: ReceiptPart) -> None:
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
                await self._connections.call(protocol.DECIDED_PATH, _encode(batch), within_s=NOTICE_S)
            except OSError as error:
                metrics().receipts_dropped.labels(reason="relay").inc(len(batch))
                log.debug("the engine was not told of %d receipts (%s)", len(batch), type(error).__name__)
            finally:
                del self._decided[: len(batch)]
