"""Responses made in the background, captured when they are fetched complete: once, whoever fetches how often."""

import re
from datetime import UTC, datetime

from memproxy.auth import Authenticator, client_key
from memproxy.core.protocol import Identity, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError
from memproxy.metrics import metrics
from memproxy.relay.capture import Exchange, Journal
from memproxy.relay.controls import read_mode, user_named
from memproxy.relay.passthrough import Passthrough
from memproxy.relay.request import Request
from memproxy.relay.sessions import Conversation, Sessions
from memproxy.relay.stream import Copies, Tap
from memproxy.relay.upstream import Upstream, UpstreamAnswer
from memproxy.wire.format import RESPONSES, Answer
from memproxy.wire.request import LONGEST_NAME
from memproxy.wire.responses import background_key, kept_id

_ONE_RESPONSE = re.compile(r"/v1/responses/[^/]+")


class FetchedResponses:
    """Relays ``GET /v1/responses/{id}`` as any other path, and looks at a copy of the answer.

    What the user said was captured with the request, and with it a key that the response is known by. The one who
    fetches must be the same: by key, and by ``X-Memproxy-User`` or a field that the response repeats (``user``,
    ``safety_identifier``, ``metadata.user_id``). ``memory_context.user_id`` is not repeated and needs the header.
    """

    def __init__(
        self,
        *,
        passthrough: Passthrough,
        authenticator: Authenticator,
        sessions: Sessions,
        journal: Journal,
        upstream: Upstream,
        copies: Copies,
    ) -> None:
        self._copies = copies
        self._passthrough = passthrough
        self._authenticator = authenticator
        self._sessions = sessions
        self._journal = journal
        self._upstream = upstream

    @staticmethod
    def claims(request: Request) -> bool:
        """Whether a request fetches one response."""
        return request.method == "GET" and _ONE_RESPONSE.fullmatch(request.path) is not None

    async def handle(self, request: Request) -> int:
        """Relay the request; the status that went out.

        Raises:
            UpstreamError: the upstream cannot be reached or broke off.
            ClientGone: the client left.
        """

        async def keep(answer: Answer) -> None:
            if answer.complete and answer.text and answer.response_id:
                await self._capture(request, answer, answer.response_id)

        def tap(upstream: UpstreamAnswer) -> Tap | None:
            if upstream.status != 200:
                return None
            return Tap(upstream, RESPONSES, request.request_id, keep, copies=self._copies)

        return await self._passthrough.stream(request, tap)

    async def _capture(self, request: Request, answer: Answer, response_id: str) -> None:
        """Never raises: what cannot be captured is counted."""
        try:
            exchange = await self._exchange(request, answer, response_id)
        except MemproxyError:  # nobody's, or a state that does not answer; the request itself is not ours to refuse
            metrics().capture_skipped.labels(reason="background").inc()
            return
        if exchange is not None:
            await self._journal.write(exchange, answer.text)

    async def _exchange(self, request: Request, answer: Answer, response_id: str) -> Exchange | None:
        """The exchange that the answer completes; None when it is none of ours, or was completed before."""
        identity = await self._authenticator.identify(request.headers)
        user, _ = user_named(identity, answer.user_fields)
        if user is None or not read_mode(request.headers, None).captures:
            return None
        owner = _owner(identity, user)
        now, key = datetime.now(UTC), background_key(response_id)
        known = await self._sessions.known(owner, key)
        if known is None or known.answer is not None:
            return None
        return Exchange(
            scope=_owner(identity, user, session=known.session),
            conversation=Conversation(session=known.session, said_at=now, asked_at=known.said_at, keys=(key,)),
            messages=[],
            request_id=request.request_id,
            access=self._access(request, answer),
            answer_id=kept_id(response_id),
        )

    def _access(self, request: Request, answer: Answer) -> UpstreamAccess:
        return UpstreamAccess(
            base_url=self._upstream.base_url,
            model=_kept_model(answer.model),
            api_key=client_key(request.headers) if self._upstream.takes_client_key else None,
        )


def _kept_model(model: str | None) -> str:
    return model if model is not None and len(model) <= LONGEST_NAME else ""


def _owner(identity: Identity, user: str, session: str | None = None) -> Scope:
    return Scope(tenant=identity.tenant, user=user, project=identity.project, agent=identity.agent, session=session)
