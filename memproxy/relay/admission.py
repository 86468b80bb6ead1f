"""Who may relay what.

In mode ``passthrough`` that is the upstream's business: the client's own key goes there. With proxy keys or tokens
everybody's requests go out with the operator's key, so what the upstream keeps of one caller would be open to all the
others.
"""

import asyncio
import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from memproxy.auth.identity import require
from memproxy.auth.modes import Authenticator
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import UPSTREAM_ALL
from memproxy.core.scope import Scope
from memproxy.errors import AuthUnavailable, Forbidden, StateUnavailable
from memproxy.metrics import metrics
from memproxy.relay.controls import user_of
from memproxy.relay.request import Request
from memproxy.relay.session_lookup import Conversation, Sessions
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

_POSTS = """
audio/speech audio/transcriptions audio/translations chat/completions completions embeddings images/edits
images/generations images/variations messages messages/count_tokens moderations responses
"""
KEEPS_NOTHING = ("GET /v1/models/*", *(f"POST /v1/{name}" for name in _POSTS.split()))
"""Calls that show nothing of other callers' data upstream (docs/access.md); ``/*``: the path and all below it."""

PATIENCE_S = 1.0
"""The longest wait for the state to say who made a response."""

_HOW = (
    f"That needs a key with the permission {UPSTREAM_ALL}, or an entry in upstream.shared_calls, which lets every "
    "caller do it."
)


class MadeResponses:
    """Who made which response, by its upstream's name for it.

    Only a digest of both names is kept. It is useless without the response's name, and stays when a user's memory is
    erased: the conversation goes on.
    """

    def __init__(self, sessions: Sessions, tasks: TaskOwner) -> None:
        self._sessions = sessions
        self._tasks = tasks

    def note(self, identity: Identity, user: str | None, upstream: str, response_id: str) -> asyncio.Task[None]:
        """Note that this user made the response, or this key, if it speaks for nobody in particular (``user`` None).
        Never raises: a response that could not be noted is nobody's.
        """
        return self._tasks.start(self._note(*_made_key(identity, user, upstream, response_id)), "note response")

    async def _note(self, owner: Scope, key: str) -> None:
        now = datetime.now(UTC)
        try:
            await self._sessions.remember(owner, Conversation(session="", said_at=now, asked_at=now, keys=(key,)), None)
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.made").inc()
            log.warning("whose a response is could not be noted, so it cannot be fetched: %s", error.message)

    async def was_made_by(self, identity: Identity, user: str | None, upstream: str, response_id: str) -> bool:
        """Whether this user (or key) made the response; `AuthUnavailable` where the state does not answer in time."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                return await self._sessions.last_noted(*_made_key(identity, user, upstream, response_id)) is not None
        except (StateUnavailable, TimeoutError) as error:
            raise AuthUnavailable(
                "Whose response that is cannot be found out just now. Try again in a moment."
            ) from error


def _made_key(identity: Identity, user: str | None, upstream: str, response_id: str) -> tuple[Scope, str]:
    who = ("user", user) if user else ("key", identity.by)
    named = json.dumps([upstream, *who, response_id]).encode()
    return Scope(tenant=identity.tenant, user=""), f"m:{hashlib.blake2b(named, digest_size=16).hexdigest()}"


class Admission:
    """Passes the requests below ``/v1`` that the proxy's own keys or tokens allow."""

    def __init__(
        self, settings: Settings, authenticator: Authenticator, made_responses: MadeResponses, upstream: str
    ) -> None:
        """``upstream`` is the name of the default one, where everything but chat goes."""
        self.needs_key = settings.auth.mode != "passthrough"
        """Whether the proxy itself asks for a key or a token, and the upstream sees the operator's key only."""
        self._calls = (*KEEPS_NOTHING, *settings.upstream.shared_calls)
        self._authenticator = authenticator
        self._made_responses = made_responses
        self._upstream = upstream

    async def admit(self, request: Request) -> Identity | None:
        """Let a caller who may make this call pass, and return who it is where the proxy itself asks for a key.

        Raises:
            Unauthenticated, Forbidden: the caller may not.
            MemoryUnavailable, AuthUnavailable: that cannot be found out just now.
        """
        if not self.needs_key:
            return None
        identity = await self._authenticator.identify(request.headers)
        require(identity, "chat")
        method = "GET" if request.method == "HEAD" else request.method
        if self._may(identity, method, request.path):
            return identity
        response_id = _response_of(method, request.pieces)
        if response_id is None:
            path = request.path[:200]
            raise Forbidden(f"{method} {path} reads or changes what the upstream keeps, whoever it is of. {_HOW}")
        await self._check_made(identity, user_of(identity, None), self._upstream, response_id)
        return identity

    async def chained(
        self, identity: Identity, user: str | None, upstream: str, kept_fields: Sequence[tuple[str, str]]
    ) -> Callable[[str], asyncio.Task[None]]:
        """Let a request pass that continues nothing, or a response that its user made; returns what notes the name of
        the new response. ``kept_fields`` are the fields that name what the upstream keeps.

        Raises:
            Forbidden: it continues something that the user may not fetch.
            AuthUnavailable: whose response it is cannot be found out just now.
        """
        for field, name in kept_fields:
            if field == "previous_response_id":
                if not self._may(identity, "GET", f"/v1/responses/{name}"):
                    await self._check_made(identity, user, upstream, name)
            elif not self._may(identity, "GET", f"/v1/conversations/{name}"):
                raise Forbidden(f"A conversation that the upstream keeps is everybody's. {_HOW}", param=field)
        return partial(self._made_responses.note, identity, user, upstream)

    def check_unread(self, identity: Identity) -> None:
        """Let a request with an unreadable body pass; `Forbidden` unless the caller may continue any response."""
        if UPSTREAM_ALL not in identity.permissions:
            raise Forbidden(
                "The body cannot be read (it must be JSON in UTF-8 with each name once), so whether it goes on from "
                f"another's response is not known. {_HOW}"
            )

    async def _check_made(self, identity: Identity, user: str | None, upstream: str, response_id: str) -> None:
        if not await self._made_responses.was_made_by(identity, user, upstream, response_id):
            raise Forbidden(
                f"No response {response_id[:100]!r} was made for this user through memproxy (a user whom the body "
                f"named is named by X-Memproxy-User when it is fetched). {_HOW}"
            )

    def _may(self, identity: Identity, method: str, path: str) -> bool:
        call = f"{method} {path}"
        return UPSTREAM_ALL in identity.permissions or any(
            call == named.removesuffix("/*") or (named.endswith("/*") and call.startswith(named.removesuffix("*")))
            for named in self._calls
        )


def _response_of(method: str, pieces: Sequence[str]) -> str | None:
    """The response that a call is about, where it is about one."""
    match method, pieces:
        case (
            ("GET" | "DELETE", ["", "v1", "responses", response_id])
            | ("GET", ["", "v1", "responses", response_id, "input_items"])
            | ("POST", ["", "v1", "responses", response_id, "cancel"])
        ):
            return response_id or None
    return None
