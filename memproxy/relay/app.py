"""The relay: a plain ASGI callable that routes, bounds, refuses and counts. What a route does is elsewhere."""

import asyncio
import contextlib
import logging
import time
from dataclasses import dataclass

from memproxy.auth import BrowserGuard
from memproxy.errors import MemproxyError, NotBuilt, NotFound, Overloaded, RequestError
from memproxy.logs import Seldom
from memproxy.metrics import metrics
from memproxy.relay import counted
from memproxy.relay.admission import Admission
from memproxy.relay.fetched import FetchedResponses
from memproxy.relay.handler import ChatHandler
from memproxy.relay.health import Health
from memproxy.relay.intake import Intake
from memproxy.relay.memory_api import MemoryApi
from memproxy.relay.passthrough import Passthrough
from memproxy.relay.request import AsgiScope, ClientGone, Receive, Request, Send
from memproxy.wire.errors import error_response
from memproxy.wire.format import CHAT, RESPONSES

log = logging.getLogger(__name__)

_FAILING = frozenset({502, 503, 504})
"""Answers of ours that an operator must hear of: the upstream or an identity provider is away, or there is no room."""

CLIENT_CLOSED = 499
"""Status in our metrics for a request whose client left (nginx's convention)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Handlers:
    """What answers requests, and who may ask: made anew when the configuration is reloaded. A request that has begun
    ends with those that it began with.
    """

    chat: ChatHandler
    fetched: FetchedResponses
    memory_api: MemoryApi
    guard: BrowserGuard
    admission: Admission
    max_concurrent_requests: int


class Relay:
    """Process one."""

    def __init__(self, *, handlers: Handlers, passthrough: Passthrough, health: Health, intake: Intake) -> None:
        self.handlers = handlers
        self._passthrough = passthrough
        self._health = health
        self._intake = intake
        self._running = 0
        self._idle = asyncio.Event()
        self._draining = False
        self._failing = Seldom()

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """One ASGI connection."""
        if scope["type"] == "http":
            await self._request(Request(scope, receive, send, self._intake))

    async def drain(self, grace_s: float) -> None:
        """Refuse new requests, say so in ``/readyz``, and wait for open ones to end, ``grace_s`` seconds at most."""
        self._draining = True
        self._health.serving = False
        if self._running:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), grace_s)

    async def _request(self, request: Request) -> None:
        self._running += 1
        self._idle.clear()
        began, route, handlers = time.perf_counter(), _route(request), self.handlers
        try:
            if not request.has_host:
                raise RequestError("HTTP/1.1 requests need a Host header.", param="Host")
            is_health = route in _HEALTH
            is_page = is_health or MemoryApi.is_page(request.path)
            handlers.guard.check(request.headers, is_page=is_page, is_health=is_health)
            _tell_pages(request, handlers.guard)
            status = await self._dispatch(route, request, handlers)
        except ClientGone:
            status = CLIENT_CLOSED
        except asyncio.CancelledError:
            # Only the server's end cancels a request; it closes the connection when we return.
            log.warning("a request was cut off at shutdown (route %s)", route)
            status = CLIENT_CLOSED
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
        counted.requests(route, status).inc()
        if log.isEnabledFor(logging.DEBUG):
            _tell(request, route, status, (time.perf_counter() - began) * 1000)

    async def _dispatch(self, route: str, request: Request, to: Handlers) -> int:
        if route in _HEALTH:
            return await self._health.answer(request, _HEALTH[route])
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
            return await to.memory_api.handle(request)
        if route == "relayed":
            relayed = to.fetched.handle if to.fetched.claims(request) else self._passthrough.stream
            return await relayed(request)
        raise NotFound(
            f"Nothing is served at {request.path[:200]}. The API is below /v1/, and no path has `.` or `..` in it."
        )


def _tell_pages(request: Request, guard: BrowserGuard) -> None:
    headers = request.headers
    if request.method == "OPTIONS":
        request.for_pages = guard.preflight_headers(headers)
    elif headers.get(b"origin") is not None:
        request.for_pages = guard.cors_headers(headers)


_WITH_MEMORY = {wire.name: wire for wire in (CHAT, RESPONSES)}
_ADMITTED = frozenset({*_WITH_MEMORY, "relayed"})
_MEMORY_PATHS = {"/v1/chat/completions": CHAT.name, "/v1/responses": RESPONSES.name}
_HEALTH = {"healthz": Health.healthz, "readyz": Health.readyz, "metrics": Health.metrics}


def _route(request: Request) -> str:
    """Where a request goes, by the path as it was sent.

    What another server may read as another path goes nowhere: dot segments, and other spellings of the memory API's
    paths, which would tell the upstream what is meant for us.
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


def _tell(request: Request, route: str, status: int, took_ms: float) -> None:
    """One line for a request, of nothing that its client wrote."""
    said = dict(request.told)
    recall, _, reason = said.get(b"x-memproxy-recall", b"").decode().partition("; reason=")
    fields: dict[str, object] = {"request": request.request_id, "route": route, "status": status}
    if recall:
        fields |= {"recall": recall, "reason": reason or None, "memories": int(said[b"x-memproxy-memories"])}
    fields["ms"] = round(took_ms, 1)
    words = " ".join(f"{name}={value}" for name, value in fields.items() if value is not None)
    log.debug("request: %s", words, extra={"fields": fields})


async def _refuse(request: Request, error: MemproxyError) -> int:
    """Answer with an error of ours.

    When an answer has begun it is left unfinished: the server then closes the connection, so that nobody takes a part
    for the whole, as the upstream's own client would see it.
    """
    if request.started_answer:
        log.warning("an answer broke off: %s", error.message)
        return error.status
    status, headers, body = error_response(error)
    await request.answer(status, headers, body)
    return status
