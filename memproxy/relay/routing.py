"""The relay: a plain ASGI callable that routes, bounds, refuses and counts; how its parts open and close in order."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential

from memproxy.auth.browser import BrowserGuard
from memproxy.auth.experiment import Experiment
from memproxy.errors import (
    AuthUnavailable,
    BodyTimeout,
    BodyTooLarge,
    ConfigError,
    MemoryUnavailable,
    MemproxyError,
    NotBuilt,
    NotFound,
    Overloaded,
    RequestError,
    StateUnavailable,
    TooManyRequests,
    Unauthenticated,
)
from memproxy.logs import LogLimit
from memproxy.metrics import child, metrics
from memproxy.ports import SharedServer, StateStore
from memproxy.relay.admission import Admission
from memproxy.relay.bodies import BodyWork
from memproxy.relay.capture import CaptureJournal
from memproxy.relay.engines import Engines
from memproxy.relay.handler import MemoryHandler
from memproxy.relay.health import Health
from memproxy.relay.intake import Intake
from memproxy.relay.memory_api import MemoryApi
from memproxy.relay.passthrough import FetchedResponses, Passthrough
from memproxy.relay.refusal import Positions
from memproxy.relay.request import AsgiScope, ClientGone, Receive, Request, Send
from memproxy.relay.request_trace import CLIENT_GONE
from memproxy.relay.upstream import Upstream
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner, happens
from memproxy.wire.format import CHAT, RESPONSES

log = logging.getLogger(__name__)

_FAILING = frozenset({502, 503, 504})
"""Our own answers that are logged: the upstream or an identity provider is away, or there is no room."""

RETRY_AFTER_S = 1
"""Seconds that a client should wait after it met a limit."""

OPEN_PATIENCE_S = 1.0
"""How long serving waits for the journal: it opens in milliseconds, unless something is wrong with it."""

NOTES_S = 1.0
"""How long sessions and blocks of the last answers may take to be written at the end."""

_WITH_MEMORY = {wire.name: wire for wire in (CHAT, RESPONSES)}
_ADMITTED = frozenset({*_WITH_MEMORY, "relayed"})
_MEMORY_PATHS = {"/v1/chat/completions": CHAT.name, "/v1/responses": RESPONSES.name}
_HEALTH = {"healthz": Health.healthz, "readyz": Health.readyz, "metrics": Health.metrics}


@dataclass(frozen=True, kw_only=True, slots=True)
class Handlers:
    """What answers requests, and who may ask. Reloaded settings make new ones; a request ends with those it had."""

    chat: MemoryHandler
    fetched: FetchedResponses
    memory_api: MemoryApi
    guard: BrowserGuard
    admission: Admission
    max_concurrent_requests: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What a relay is made of; nothing of it is open yet. ``tasks`` owns those of the parts that have no owner;
    ``shared`` is the server of what may be forgotten, where there is one.
    """

    state: StateStore
    engine: Engines
    upstream: Upstream
    journal: CaptureJournal
    positions: Positions
    passthrough: Passthrough
    health: Health
    intake: Intake
    work: BodyWork
    tasks: TaskOwner
    experiment: Experiment
    shared: SharedServer | None = None


class Relay:
    """Process one.

    Start: the pools, the journal if it opens at once, then serving; else it opens meanwhile, for a request does not
    wait for memory.
    Stop: new requests are refused (``/readyz`` says so) while open ones end; then the server closes its connections;
    then commits that are under way end, and the sessions and blocks that follow them, then notices to the engine, the
    pools, and the journal's file last.
    """

    def __init__(self, parts: Parts, settings: Settings, make_handlers: Callable[[Settings], Handlers]) -> None:
        self.parts = parts
        self._make_handlers = make_handlers
        self._handlers = make_handlers(settings)
        self._running = 0
        self._idle = asyncio.Event()
        self._draining = False
        self._failing = LogLimit()
        self._opening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        parts = self.parts
        await parts.upstream.open()
        await parts.engine.open()
        self._opening = parts.tasks.start(self._open_state(), "open state")
        await asyncio.wait({self._opening}, timeout=OPEN_PATIENCE_S)  # a turn that comes before it is open is lost
        if parts.shared is not None:
            await parts.shared.start()
        parts.health.serving = True

    async def _open_state(self) -> None:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type((StateUnavailable, ConfigError)), wait=wait_exponential(min=0.2, max=10)
        ):
            with attempt:
                try:
                    await self.parts.state.open()
                    await self.parts.positions.load()
                except (StateUnavailable, ConfigError) as error:  # the latter: a newer version wrote it
                    log.error("turns are not kept until the state opens: %s", error.message)
                    raise

    async def drain(self, grace_s: float) -> None:
        """Refuse new requests, say so in ``/readyz``, and wait for open ones to end, ``grace_s`` seconds at most."""
        self._draining = True
        self.parts.health.serving = False
        if self._running:
            await happens(self._idle, grace_s)

    async def stop(self) -> None:
        """Close everything, in the order that the class describes."""
        parts = self.parts
        await parts.journal.close()
        if self._opening is not None:
            self._opening.cancel()
        await parts.tasks.drain(NOTES_S)
        await parts.experiment.close()
        await parts.engine.close()
        await parts.upstream.close()
        if parts.shared is not None:
            await parts.shared.close()
        await parts.state.close()
        parts.work.close()

    def take(self, settings: Settings) -> None:
        """Use reloaded settings; on `ConfigError` nothing has changed."""
        self._handlers = self._make_handlers(settings)
        self.parts.health.settings = settings
        self.parts.intake.take(settings.server)

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._request(Request(scope, receive, send, self.parts.intake))

    async def _request(self, request: Request) -> None:
        self._running += 1
        self._idle.clear()
        began, route, handlers = time.perf_counter(), _route(request), self._handlers
        try:
            _check_sender(request, route, handlers.guard)
            status = await self._dispatch(route, request, handlers)
        except ClientGone:
            status = CLIENT_GONE
        except asyncio.CancelledError:
            # Only the server's end cancels a request; it closes the connection when we return.
            log.warning("a request was cut off at shutdown (route %s)", route)
            status = CLIENT_GONE
        except MemproxyError as error:
            if error.status in _FAILING and (count := self._failing.due(type(error).__name__)):
                log.warning("%d requests were answered %d: %s", count, error.status, error.message)
            status = await _refuse(request, error)
        except Exception:
            # The last line of defence: a fault of ours is logged and counted, and the client gets one clear answer.
            metrics().internal_errors.labels(where="relay").inc()
            log.exception("a request failed inside the relay (route %s)", route)
            status = await _refuse(request, MemproxyError("memproxy failed on this request; its log says why."))
        finally:
            request.release()
            self._running -= 1
            if self._running == 0:
                self._idle.set()
        child(metrics().requests, route, str(status)).inc()
        if log.isEnabledFor(logging.DEBUG):
            _log_request(request, route, status, (time.perf_counter() - began) * 1000)

    async def _dispatch(self, route: str, request: Request, to: Handlers) -> int:
        if route in _HEALTH:
            return await self.parts.health.answer(request, _HEALTH[route])
        if self._draining:
            raise Overloaded("memproxy is shutting down. Try again in a moment.", code="draining")
        if self._running > (most := to.max_concurrent_requests):
            raise Overloaded(f"More than {most} requests at once (server.max_concurrent_requests). Try again.")
        if "websocket" in (request.headers.get(b"upgrade") or "").lower():
            raise NotBuilt("Websockets are not relayed. Use the HTTP API.")
        if request.method == "OPTIONS" and request.for_pages and (route == "memory" or to.admission.needs_key):
            await request.answer(204, [], b"")  # a browser asks without a key whether its page may send one
            return 204
        caller = await to.admission.admit(request) if route in _ADMITTED else None
        if route in _WITH_MEMORY:
            return await to.chat.handle(request, _WITH_MEMORY[route], caller)
        if route == "memory":
            return await to.memory_api.handle(request, lambda: self._draining)
        if route == "relayed":
            relay = to.fetched.handle if to.fetched.claims(request) else self.parts.passthrough.stream
            return await relay(request)
        raise NotFound(
            f"Nothing is served at {request.path[:200]}. The API is below /v1/, and no path has `.` or `..` in it."
        )


def _route(request: Request) -> str:
    """Where a request goes, by the path as it was sent. One that another server may read as another path goes nowhere:
    dot segments, and other spellings of the memory API's paths, which would show the upstream what is meant for us.
    """
    path = request.path
    if request.method == "POST" and path in _MEMORY_PATHS:
        return _MEMORY_PATHS[path]
    if (loose := request.loose_path) is None:
        return "none"
    if path.removeprefix("/") in _HEALTH:
        return path.removeprefix("/")
    if MemoryApi.claims(path):
        return "memory"
    return "relayed" if path.startswith("/v1/") and not MemoryApi.claims(loose) else "none"


def _check_sender(request: Request, route: str, guard: BrowserGuard) -> None:
    """Raise `Forbidden` where a foreign web page may have sent the request, `RequestError` without a host."""
    if not request.has_host:
        raise RequestError("HTTP/1.1 requests need a Host header.", param="Host")
    is_health = route in _HEALTH
    guard.check(request.headers, is_page=is_health or MemoryApi.is_page(request.path), is_health=is_health)
    if request.method == "OPTIONS":
        request.for_pages = guard.preflight_headers(request.headers)
    elif request.headers.get(b"origin") is not None:
        request.for_pages = guard.cors_headers(request.headers)


def _log_request(request: Request, route: str, status: int, took_ms: float) -> None:
    """Log one line for a request, without anything that its client wrote."""
    headers = dict(request.memory_headers)
    recall, _, reason = headers.get(b"x-memproxy-recall", b"").decode().partition("; reason=")
    fields: dict[str, object] = {"request": request.request_id, "route": route, "status": status}
    if recall:
        fields |= {"recall": recall, "reason": reason or None, "memories": int(headers[b"x-memproxy-memories"])}
    fields["ms"] = round(took_ms, 1)
    words = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    log.debug("request: %s", words, extra={"fields": fields})


async def _refuse(request: Request, error: MemproxyError) -> int:
    """Answer with an error of ours. An answer that has begun is left unfinished: the server then closes the connection,
    so that nobody takes a part for the whole, as the upstream's own client would see it.
    """
    if request.started_answer:
        log.warning("an answer broke off: %s", error.message)
        return error.status
    status, headers, body = error_response(error)
    if isinstance(error, BodyTooLarge):
        await request.answer_sender(status, headers, body)
    else:
        await request.answer(status, headers, body)
    return status


def error_response(error: MemproxyError) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """Status, headers (names in lower case) and JSON body of an error."""
    body = msgspec.json.encode(error.body())
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if isinstance(error, Overloaded | AuthUnavailable | MemoryUnavailable):
        headers.append((b"retry-after", b"%d" % RETRY_AFTER_S))
    if isinstance(error, TooManyRequests):
        headers.append((b"retry-after", b"%d" % error.retry_after_s))
    if isinstance(error, BodyTimeout):
        headers.append((b"connection", b"close"))
    if isinstance(error, Unauthenticated):
        headers.append((b"www-authenticate", b"Bearer"))
    return error.status, headers, body
