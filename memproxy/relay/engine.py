"""The relay's way to the engine: HTTP over a Unix socket, bounded in time, never in a request's way."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from pathlib import Path

import aiohttp
import msgspec
from yarl import URL

from memproxy.core.protocol import (
    FULL_PATH,
    READY_PATH,
    RECALL_PATH,
    Full,
    RecallAnswer,
    RecallRequest,
)
from memproxy.core.scope import Scope
from memproxy.errors import EngineUnavailable
from memproxy.metrics import metrics
from memproxy.relay.breaker import Breaker
from memproxy.relay.hop import Answered, Connection, Hop
from memproxy.relay.notices import Notices
from memproxy.relay.pace import Pace, Run
from memproxy.settings import Settings

log = logging.getLogger(__name__)

HOP_ALLOWANCE_S = 0.05
"""What the hop may take on top of recall's own deadline before the request goes on without memory."""

LOADING = "loading"

LATE_S = 1.0
"""So long after its deadline a recall's answer is still listened for. Nobody uses it, but it tells a busy engine from a
hung one, and until it came the engine works at it, beside all that it is asked meanwhile.
"""

API_TIMEOUT_S = 70.0
"""For API calls: longer than the longest one (``/turns?wait=true`` answers after 55 s)."""


FRESH_S = 2.0
"""Heard from within this time, the engine is taken to live."""


def recall_seconds(settings: Settings) -> float:
    """The longest that the engine may take for a recall: its deadline, and the time of the models that it asks."""
    seconds = settings.recall.deadline_ms / 1000
    if settings.rewrite.mode in {"llm", "hyde"}:
        seconds += settings.rewrite.timeout_s
    if settings.recall.rerank == "model":
        seconds += settings.recall.rerank_timeout_s
    return seconds


STARTING_S = 15.0
"""An engine that was never heard of, or last while it loaded, is taken to start for so long: it imports for a second,
on a busy machine more.
"""

START_PATIENCE_S = 5.0
"""How long an API call waits for an engine that starts, before it is answered with 503."""

READY_PATIENCE_S = 0.5
"""How long ``/readyz`` waits for the engine to say how it is: less than the second after which orchestrators by default
take a probe for failed, and a relay that serves chat for dead.
"""

BUSY = "degraded: it does not say how it is in time"
"""What is said of an engine that is there, but did not answer by then: under load, or because it hangs."""

_LOOK_AGAIN_S = 0.1
_NEEDED = ("state", "store")
"""Parts without which no API call can be answered."""


_LATE = RecallAnswer(result="degraded", reason="timeout")
_AWAY = RecallAnswer(result="degraded", reason="engine")
_BUSY = RecallAnswer(result="degraded", reason="busy")
NOT_ASKED = frozenset({_AWAY.reason, _BUSY.reason})
"""Reasons for which the engine was not asked, or did not take it in."""


class Asked:
    """One recall that is under way, and its request, which waits until the deadline or until its client leaves."""

    __slots__ = ("answer", "over", "run")

    def __init__(self, run: Run) -> None:
        self.run = run
        self.over = False
        self.answer: asyncio.Future[RecallAnswer] = asyncio.get_running_loop().create_future()

    def tell(self, answer: RecallAnswer) -> None:
        """The request goes on with this answer, if it still waits."""
        if not self.answer.done():
            self.answer.set_result(answer)


class EngineClient:
    """Calls the engine. What it is told without being asked anything goes by ``notices``."""

    def __init__(self, socket: Path, *, deadline_s: float, start_patience_s: float = START_PATIENCE_S) -> None:
        self._socket = socket
        self._deadline_s = deadline_s + HOP_ALLOWANCE_S
        self._hop = Hop(socket)
        self._session: aiohttp.ClientSession | None = None
        self._breaker = Breaker()
        self._pace = Pace(deadline_s)
        self._heard = -FRESH_S
        self._opened = 0.0
        self._start_patience_s = start_patience_s
        self._ever_heard = self._loaded = False
        self.notices = Notices(self._hop, self._breaker)
        self._encode = msgspec.json.Encoder()
        self._answers = msgspec.json.Decoder(RecallAnswer)
        self._fulls = msgspec.json.Decoder(Full)

    async def open(self) -> None:
        """Make the pool."""
        self._opened = time.monotonic()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(path=str(self._socket), limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Let notices finish, close the connections."""
        await self.notices.close()
        self._hop.close()
        if self._session is not None:
            await self._session.close()

    @property
    def _pool(self) -> aiohttp.ClientSession:
        assert self._session is not None, "open() comes first"  # noqa: S101 - a programming error, not an input
        return self._session

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """Ask for the block; whatever goes wrong is answered as ``degraded`` with its reason. What the engine would not
        answer in time is not asked for, so that it can answer the rest: ``busy``.
        """
        if not self._breaker.may_try():
            return _AWAY
        until = time.monotonic() + self._deadline_s
        if (run := await self._pace.enter(self._deadline_s - HOP_ALLOWANCE_S)) is None:
            return _BUSY
        asked = Asked(run)
        try:
            connection = await self._hop.ask(RECALL_PATH, self._encode.encode(request), partial(self._heard_of, asked))
        except OSError as error:
            self._heard_of(asked, error)
            return await asked.answer
        except asyncio.CancelledError:
            self._pace.end(asked.run, answered=False)
            raise
        return await self._waited(asked, connection, until)

    async def _waited(self, asked: Asked, connection: Connection, until: float) -> RecallAnswer:
        loop = asyncio.get_running_loop()
        late = loop.call_later(max(0.0, until - time.monotonic()), asked.tell, _LATE)
        try:
            return await asked.answer
        finally:
            late.cancel()
            if not asked.over:
                left = asked.run.began + self._deadline_s + LATE_S - time.monotonic()
                loop.call_later(max(0.0, left), _give_up, asked, connection)

    def _heard_of(self, asked: Asked, what: Answered | OSError) -> None:
        """A recall is over: learn from it how the engine is, and let the request go on if it still waits."""
        asked.over = True
        asked.tell(self._learned(asked.run, what))

    def _learned(self, run: Run, what: Answered | OSError) -> RecallAnswer:
        if isinstance(what, TimeoutError):
            self._pace.end(run, answered=True)  # not by this time
            if self._heard < run.began:
                self._breaker.failed()
            return _LATE
        try:
            answer = self._read(what)
        except (OSError, msgspec.DecodeError, EngineUnavailable) as error:
            self._breaker.failed(refused=_is_refused(error))
            log.debug("recall failed, the request goes on without memory: %r", error)  # who asked warns, seldom
            return _AWAY
        finally:
            self._pace.end(run, answered=isinstance(what, Answered) and what.status == 200)
        self._breaker.succeeded()
        return answer

    def _read(self, what: Answered | OSError) -> RecallAnswer:
        if isinstance(what, OSError):
            raise what
        self._heard = time.monotonic()
        if what.status != 200:
            raise EngineUnavailable(f"The engine answered recall with {what.status}.")
        return self._answers.decode(what.body)

    async def full(self, scope: Scope) -> str | None:
        """Whose quota of memories is full: ``user``, ``tenant``, or nobody's as far as is known."""
        if not self._breaker.may_try():
            return None
        began = time.monotonic()
        try:
            answered = await self._hop.call(FULL_PATH, self._encode.encode(scope), within_s=self._deadline_s)
            self._breaker.succeeded()
            return self._fulls.decode(answered.body).whose if answered.status == 200 else None
        except (OSError, msgspec.DecodeError) as error:
            if isinstance(error, OSError) and (not isinstance(error, TimeoutError) or self._heard < began):
                self._breaker.failed(refused=_is_refused(error))
            metrics().internal_errors.labels(where="relay.full").inc()
            log.warning("quotas of memories cannot be asked for (%s), turns come in", type(error).__name__)
            return None

    async def _look(self) -> None:
        """Make sure that the engine answers at all before something may wait long for it. One that starts, or has much
        to do, is waited for, `START_PATIENCE_S` at most.

        Raises:
            EngineUnavailable: it does not.
        """
        if self._loaded and time.monotonic() - self._heard < FRESH_S:
            return
        until = time.monotonic() + self._start_patience_s
        parts = await self.readiness()
        while _may_come(parts) and time.monotonic() < until:
            await asyncio.sleep(_LOOK_AGAIN_S)
            parts = await self.readiness()
        if parts["engine"] != "ready":
            raise EngineUnavailable(f"The memory engine is {parts['engine']}; chat goes on without it. Try again soon.")

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
        self._heard, self._ever_heard = time.monotonic(), True
        self._loaded = not any(parts.get(part) == LOADING for part in _NEEDED)
        return {"engine": "ready", **parts}

    def _silence(self, error: Exception) -> str:
        """What an engine that does not answer is taken to be."""
        no_socket = isinstance(error, aiohttp.ClientConnectorError)
        if no_socket and not self._ever_heard and time.monotonic() - self._opened < STARTING_S:
            return LOADING
        if isinstance(error, TimeoutError):
            # while it opens a large store it may be silent for a while, too
            starts = not self._loaded and time.monotonic() - max(self._opened, self._heard) < STARTING_S
            return LOADING if starts else BUSY
        return f"degraded: it does not answer ({type(error).__name__})"

    async def api(
        self, method: str, raw_path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, list[tuple[bytes, bytes]], AsyncIterator[bytes]]:
        """Pass an API request on; its answer's status, headers and body.

        Raises:
            EngineUnavailable: the engine does not answer.
        """
        await self._look()
        try:
            response = await self._pool.request(
                method, _url(raw_path), headers=headers, data=body, timeout=aiohttp.ClientTimeout(total=API_TIMEOUT_S)
            )
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise EngineUnavailable(
                "The memory engine does not answer just now; chat goes on without it. Try again in a moment."
            ) from error
        self._heard = time.monotonic()
        return response.status, list(response.raw_headers), _body(response)


def _is_refused(error: Exception) -> bool:
    """Whether there was nobody to connect to."""
    return isinstance(error, ConnectionRefusedError | FileNotFoundError)


def _give_up(asked: Asked, connection: Connection) -> None:
    """Listen no longer for a late answer; by now the connection may serve another call."""
    if not asked.over:
        connection.cut_off(TimeoutError())


def _may_come(parts: Mapping[str, str]) -> bool:
    """Whether it is worth waiting: the engine is busy, or it, or a part that it cannot do without, is on its way."""
    return parts["engine"] == BUSY or LOADING in {parts["engine"], *(parts.get(part) for part in _NEEDED)}


async def _body(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    async with response:
        while chunk := await _part(response):
            yield chunk


async def _part(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.content.readany()
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise EngineUnavailable(
            "The memory engine ended in the middle of its answer. Try again in a moment."
        ) from error


def _url(raw_path: str) -> URL:
    return URL("http://engine" + raw_path, encoded=True)
