"""Everything below ``/v1`` that carries no memory: relayed in both directions as it comes."""

import time
from collections.abc import AsyncIterable, Callable

from memproxy.metrics import metrics
from memproxy.relay.connections import AT_ONCE
from memproxy.relay.hangup import Hangups
from memproxy.relay.request import RawHeaders, Request
from memproxy.relay.stream import Tap, relay_body
from memproxy.relay.upstream import Upstream, UpstreamAnswer
from memproxy.tasks import TaskOwner


def _no_tap(_answer: UpstreamAnswer) -> None:
    return None


class Passthrough:
    """Relays a request untouched."""

    def __init__(self, upstream: Upstream, tasks: TaskOwner) -> None:
        self._upstream = upstream
        self._hangups = Hangups(tasks)

    async def stream(self, request: Request, tap: Callable[[UpstreamAnswer], Tap | None] = _no_tap) -> int:
        """Relay a request whose body is not read first (uploads, audio, anything), unless it is short; the status that
        went out. ``tap`` makes what looks at its answer, if anything does.

        Raises:
            UpstreamError: the upstream cannot be reached or broke off.
            BodyTimeout, Overloaded: too many bodies are being sent at once.
            ClientGone: the client left.
        """
        length = _declared_length(request)
        if not _has_body(request):
            request.received_all = True
            return await self._relay(request, None, length, tap)
        if length is not None and length <= AT_ONCE:  # whole, it can be sent again when a connection turns out closed
            return await self._relay(request, await request.body(length), length, tap)
        request.begin_upload()
        return await self._relay(request, request.chunks(), length, tap)

    async def send(self, request: Request, body: bytes, upstream: Upstream) -> int:
        """Relay a request whose body was read, to this upstream.

        Raises:
            UpstreamError: the upstream cannot be reached or broke off.
            ClientGone: the client left.
        """
        return await self._relay(request, body, len(body), _no_tap, upstream)

    async def _relay(
        self,
        request: Request,
        body: bytes | AsyncIterable[bytes] | None,
        length: int | None,
        tap: Callable[[UpstreamAnswer], Tap | None],
        upstream: Upstream | None = None,
    ) -> int:
        began = time.perf_counter()
        upstream = upstream or self._upstream
        headers = upstream.headers_for(request.headers, length)
        with self._hangups.watching(request):
            answer = await upstream.send(request.method, request.raw_path, headers, body)
            try:
                await request.begin(answer.status, [*answer.headers, *_without_scripts(request)])
                await relay_body(request, answer, tap(answer))
            finally:
                answer.close()
                metrics().upstream.observe(time.perf_counter() - began)
        return answer.status


def _without_scripts(request: Request) -> RawHeaders:
    """What keeps an upstream's page from running its script under our origin, should a browser show it. All browsers
    ask for pages so; which page a request is from not all of them say, and none does on plain HTTP but to loopback.
    """
    asked = request.headers.get(b"accept") or ""
    return [(b"content-security-policy", b"sandbox")] if "text/html" in asked else []


def _has_body(request: Request) -> bool:
    return request.headers.get(b"transfer-encoding") is not None or _declared_length(request) not in {None, 0}


def _declared_length(request: Request) -> int | None:
    value = request.headers.get(b"content-length")
    return int(value) if value is not None and value.isdigit() else None
