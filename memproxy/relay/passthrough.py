"""Everything below ``/v1`` that carries no memory: relayed in both directions as it comes."""

import re
import time
from collections.abc import AsyncIterable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from memproxy.auth.modes import Authenticator
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError
from memproxy.metrics import metrics
from memproxy.relay.capture import CaptureJournal, Exchange
from memproxy.relay.controls import read_mode, user_named
from memproxy.relay.request import Hangups, RawHeaders, Request
from memproxy.relay.session_lookup import Conversation, Sessions
from memproxy.relay.stream import Copies, Tap, relay_body
from memproxy.relay.upstream import AT_ONCE, Upstream, UpstreamAnswer
from memproxy.wire.answer import Answer
from memproxy.wire.format import RESPONSES
from memproxy.wire.request_body import LONGEST_NAME
from memproxy.wire.responses import background_key, kept_id

_ONE_RESPONSE = re.compile(r"/v1/responses/[^/]+")


MakeTap = Callable[[UpstreamAnswer], Tap | None]
"""Makes the reader of an answer, if it is to be read."""


class Passthrough:
    """Relays a request untouched."""

    def __init__(self, upstream: Upstream, hangups: Hangups) -> None:
        self._upstream = upstream
        self._hangups = hangups

    async def stream(self, request: Request, tap: MakeTap | None = None) -> int:
        """Relay a request whose body is not read first (uploads, audio, anything), unless it is short; the status that
        went out.

        Raises:
            BodyTimeout, Overloaded: too many bodies are being sent at once.
            UpstreamError, ClientGone: as `send`.
        """
        declared = request.headers.get(b"content-length") or ""
        length = int(declared) if declared.isdigit() else None
        if request.headers.get(b"transfer-encoding") is None and not length:
            request.received_all = True
            return await self.send(request, None, length, tap)
        if length is not None and length <= AT_ONCE:  # whole, it can be sent again when a connection turns out closed
            return await self.send(request, await request.body(length), length, tap)
        request.begin_upload()
        return await self.send(request, request.chunks(), length, tap)

    async def send(
        self,
        request: Request,
        body: bytes | AsyncIterable[bytes] | None,
        length: int | None,
        make_tap: MakeTap | None = None,
    ) -> int:
        """Relay a request with this body; the status that went out.

        Raises:
            UpstreamError: the upstream cannot be reached or broke off.
            ClientGone: the client left.
        """
        began = time.perf_counter()
        headers = self._upstream.headers_for(request.headers, length)
        with self._hangups.watching(request):
            answer = await self._upstream.send(request.method, request.raw_path, headers, body)
            try:
                if request.method == "OPTIONS" and request.for_pages and not answer.is_success:
                    await request.answer(204, [], b"")  # the operator allows the page, whatever the upstream says to it
                    return 204
                await request.begin(answer.status, [*answer.headers, *_without_scripts(request)])
                await relay_body(request, answer, make_tap(answer) if make_tap is not None else None)
            finally:
                answer.close()
                metrics().upstream.observe(time.perf_counter() - began)
        return answer.status


def _without_scripts(request: Request) -> RawHeaders:
    """What keeps an upstream's page from running its script under our origin, should a browser show it. All browsers
    ask for pages so; which page a request is from not all of them say, and none does on plain HTTP but to loopback.
    """
    accepted = request.headers.get(b"accept") or ""
    return [(b"content-security-policy", b"sandbox")] if "text/html" in accepted else []


@dataclass(kw_only=True, eq=False)
class FetchedResponses:
    """Relays ``GET /v1/responses/{id}`` as any other path, and captures a response that was made in the background when
    it is first fetched complete.

    What the user said was captured with the request, and with it a key that the response is known by. Who
    fetches it must be the same: by key, and by ``X-Memproxy-User`` or a field that the response repeats (``user``,
    ``safety_identifier``, ``metadata.user_id``). ``memory_context.user_id`` is not repeated and needs the header.
    """

    passthrough: Passthrough
    authenticator: Authenticator
    sessions: Sessions
    journal: CaptureJournal
    upstream: Upstream
    copies: Copies

    @staticmethod
    def claims(request: Request) -> bool:
        return request.method == "GET" and _ONE_RESPONSE.fullmatch(request.path) is not None

    async def handle(self, request: Request) -> int:
        """Relay the request; the status that went out. Raises as `Passthrough.stream`."""

        async def keep(answer: Answer) -> None:
            if answer.complete and answer.text and answer.response_id:
                await self._capture(request, answer, answer.response_id)

        def tap(upstream: UpstreamAnswer) -> Tap | None:
            if upstream.status != 200:
                return None
            return Tap(upstream, RESPONSES, request.request_id, keep, copies=self.copies)

        return await self.passthrough.stream(request, tap)

    async def _capture(self, request: Request, answer: Answer, response_id: str) -> None:
        """Never raises: what cannot be captured is counted."""
        try:
            exchange = await self._exchange(request, answer, response_id)
        except MemproxyError:  # nobody's, or a state that does not answer; the request itself is not ours to refuse
            metrics().capture_skipped.labels(reason="background").inc()
            return
        if exchange is not None:
            await self.journal.write(exchange, answer.text)

    async def _exchange(self, request: Request, answer: Answer, response_id: str) -> Exchange | None:
        """The exchange that the answer completes; None when it is none of ours, or was completed before."""
        identity = await self.authenticator.identify(request.headers)
        user, _ = user_named(identity, answer.user_fields)
        if user is None or not read_mode(request.headers, None).captures:
            return None
        owner = _owner(identity, user)
        now, key = datetime.now(UTC), background_key(response_id)
        noted = await self.sessions.last_noted(owner, key)
        if noted is None or noted.answer is not None:
            return None
        model = answer.model if answer.model is not None and len(answer.model) <= LONGEST_NAME else None
        return Exchange(
            scope=_owner(identity, user, session=noted.session),
            conversation=Conversation(session=noted.session, said_at=now, asked_at=noted.said_at, keys=(key,)),
            messages=[],
            request_id=request.request_id,
            access=self.upstream.access(request.headers, model),
            answer_id=kept_id(response_id),
        )


def _owner(identity: Identity, user: str, session: str | None = None) -> Scope:
    return Scope(tenant=identity.tenant, user=user, project=identity.project, agent=identity.agent, session=session)
