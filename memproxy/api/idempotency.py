"""``Idempotency-Key``: a write that is sent again under its key is answered again, and done once.

Kept for 24 hours, by tenant, user and key: a digest of the call (with its ``If-Match``, and the project, agent and
session that it stands in), and its answer, sealed with a key that is made of the caller's own, so that no words of a
memory stand in the state's file. Calls of one key wait for each other. An error is not kept: the call may be made
again. What was deleted is not told again (409). A crash between a write and its answer does no harm: the ids of what
the call makes come from its key.
"""

import asyncio
import functools
import hashlib
import secrets
import weakref
from typing import Any

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends, Endpoint
from memproxy.api.http import caller, whole_body
from memproxy.auth import administered_user, resolve_user
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.errors import Conflict, KeyReused, MemproxyError, RequestError
from memproxy.ports.state import ANSWERS_KEPT, GivenAnswer

HEADER = "idempotency-key"
REPLAYED = "idempotency-replayed"
LONGEST_KEY = 256
MOST_KEPT_BYTES = 1024 * 1024
"""Larger answers are not kept: the call is done again when it is repeated, under the same ids."""

_TOLD = frozenset({"content-type", "location", "etag", "x-memproxy-write"})
_NONCE = 12


class _Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


class _Named(msgspec.Struct, frozen=True):
    """Of a body what says whose the call is; the rest is passed over, which takes a tenth of reading it."""

    user_id: Any = None


_DECODE = msgspec.json.Decoder(_Named).decode


class Idempotency:
    """Wraps the endpoints that write."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends
        self._max_bytes = backends.settings.server.max_body_bytes
        self._locks: weakref.WeakValueDictionary[tuple[str, str, str], asyncio.Lock] = weakref.WeakValueDictionary()

    def once(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint, done once for each key."""

        @functools.wraps(endpoint)
        async def answered(request: Request) -> Response:
            key = _key(request)
            if key is None:
                return await endpoint(request)
            call = await self._call(request, key)
            async with self._lock(call):
                return await self._answered(request, endpoint, call)

        return answered

    async def _call(self, request: Request, key: str) -> "_Call":
        erases = "user_id" in request.path_params
        identity = caller(request, "memory:write", *(["admin"] if erases else []))
        body = await whole_body(request, self._max_bytes)
        resolve = administered_user if erases else resolve_user
        scope = Scope(tenant=identity.tenant, user=resolve(identity, _named_user(request, body)))
        self._backends.require_state()
        return _Call.of(self._backends.secret, scope, key, _what(request, identity), body)

    def _lock(self, call: "_Call") -> asyncio.Lock:
        place = (*call.scope.owner, call.name)
        lock = self._locks.get(place)
        if lock is None:
            lock = self._locks[place] = asyncio.Lock()
        return lock

    async def _answered(self, request: Request, endpoint: Endpoint, call: "_Call") -> Response:
        state, now = self._backends.state, self._backends.clock.now()
        given = await state.given_answer(call.scope, call.name)
        if given is None or now - given.at > ANSWERS_KEPT:
            given = GivenAnswer(asked=call.asked, at=now)
            await state.keep_answer(call.scope, call.name, given)
        if (known := _again(call, given)) is not None:
            return known
        request.state.seed = call.seed(given)
        try:
            response = await endpoint(request)
        except MemproxyError:
            await state.drop_answer(call.scope, call.name)
            raise
        if response.status_code < 300 and len(response.body) <= MOST_KEPT_BYTES:
            sealed = call.sealed(response)
            await state.keep_answer(call.scope, call.name, msgspec.structs.replace(given, answer=sealed))
        return response


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call under a key: whose, the name that stands for the key, what was asked, and what seals its answer."""

    scope: Scope
    name: str
    asked: str
    secret: bytes

    @classmethod
    def of(cls, secret: bytes, scope: Scope, key: str, what: str, body: bytes) -> "_Call":
        told = msgspec.json.encode([*scope.owner, key])
        asked = hashlib.blake2b(what.encode("utf-8", "surrogatepass") + b"\x00" + body, digest_size=16)
        return cls(
            scope=scope,
            name=hashlib.blake2b(told, key=secret[:64], digest_size=16, person=b"name").hexdigest(),
            asked=asked.hexdigest(),
            secret=hashlib.blake2b(told, key=secret[:64], digest_size=32, person=b"seal").digest(),
        )

    def seed(self, given: GivenAnswer) -> str:
        """32 hex digits for the ids of what is made: the same when the same call is done again after a crash."""
        told = f"{self.asked} {given.at.isoformat()}".encode()
        return hashlib.blake2b(told, key=self.secret, digest_size=16, person=b"ids").hexdigest()

    def sealed(self, response: Response) -> bytes:
        """What is kept of the answer."""
        headers = {name: value for name, value in response.headers.items() if name in _TOLD}
        told = msgspec.msgpack.encode(_Answer(response.status_code, headers, bytes(response.body)))
        nonce = secrets.token_bytes(_NONCE)
        return nonce + AESGCM(self.secret).encrypt(nonce, told, None)

    def opened(self, sealed: bytes) -> Response:
        """The answer again.

        Raises:
            Conflict: it cannot be opened: the installation has another secret since.
        """
        try:
            told = AESGCM(self.secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        except InvalidTag as error:
            raise Conflict("This call was answered, and its answer cannot be read any more.") from error
        kept = msgspec.msgpack.decode(told, type=_Answer)
        return Response(kept.body, kept.status, {**kept.headers, REPLAYED: "true"})


def _what(request: Request, identity: Identity) -> str:
    """What is asked beside the body, and from where: each of these may make it another call, with another answer."""
    what = f"{request.method} {request.url.path}?{request.url.query}"
    place = [identity.project, identity.agent, identity.session, request.headers.getlist("if-match")]
    if any(place):
        what += f" {msgspec.json.encode(place).decode()}"
    return what if "memory:read" in identity.permissions else f"{what} unread"  # who may read is answered more


def _again(call: _Call, given: GivenAnswer) -> Response | None:
    if given.asked != call.asked:
        raise KeyReused(
            "This idempotency key came with another call before: take a new key for a new call.", param=HEADER
        )
    if given.erased:
        raise Conflict(
            "This call was done before; what it answered was deleted since.",
            param=HEADER,
            code="idempotency_answer_erased",
        )
    return call.opened(given.answer) if given.answer is not None else None


def _key(request: Request) -> str | None:
    given = set(request.headers.getlist(HEADER))
    if not given:
        return None
    key = given.pop()
    if given or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise RequestError(f"{HEADER}: must be one text of up to {LONGEST_KEY} printable characters.", param=HEADER)
    return key


def _named_user(request: Request, body: bytes) -> str | None:
    """Whom the call is for, as its own reading will find; what cannot be read is refused there."""
    named = request.path_params.get("user_id") or request.query_params.get("user_id")
    if named or not body:
        return named or None
    try:
        user = _DECODE(body).user_id
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
    return user if isinstance(user, str) and user.strip() else None


def new_id(request: Request, prefix: str, made: str) -> str:
    """An id for what a call makes: from its idempotency key, else ``made``."""
    return f"{prefix}_{getattr(request.state, 'seed', made)}"
