"""``Idempotency-Key``: a write that is sent again under its key is answered again, and done once.

Kept for 24 hours, by tenant, user and key: a digest of the call (``If-Match``, project, agent and session too), and its
answer, sealed with a key that is made of the caller's own, so that no words of a memory stand in the state's file.
Calls of one key wait for each other. An error is not kept. What was deleted is not told again (409). A crash between a
write and its answer does no harm: the ids of what the call makes come from its key.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.calls import Call
from memproxy.api.context import Backends
from memproxy.api.http import whole_body
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.errors import Conflict, KeyReused, MemproxyError, RequestError
from memproxy.ports.state import ANSWERS_KEPT, GivenAnswer

HEADER = "idempotency-key"
REPLAYED = "idempotency-replayed"
LONGEST_KEY = 256
MOST_KEPT_BYTES = 1024 * 1024
"""Larger answers are not kept: the call is done again when it is repeated, under the same ids."""

_KEPT_HEADERS = frozenset({"content-type", "location", "etag", "x-memproxy-write"})
_NONCE = 12


class _Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes


async def answered_once(api: Backends, call: Call, key: str, answer: Callable[[Call], Awaitable[Response]]) -> Response:
    """The answer that the call got before under this key; otherwise ``answer`` makes it, and it is kept."""
    body = await whole_body(call.request, api.parts.settings.server.max_body_bytes)
    scope = Scope(tenant=call.identity.tenant, user=call.user)
    keyed = _KeyedCall.of(api.parts.secret, scope, key, _request_line(call.request, call.identity), body)
    async with api.call_locks.of(*scope.owner, keyed.name):
        state, now = api.state, api.parts.clock.now()
        earlier = await state.given_answer(scope, keyed.name)
        if earlier is None or now - earlier.at > ANSWERS_KEPT:
            earlier = GivenAnswer(request_digest=keyed.request_digest, at=now)
            await state.keep_answer(scope, keyed.name, earlier)
        if earlier.request_digest != keyed.request_digest:
            words = "This idempotency key came with another call before: take a new key for a new call."
            raise KeyReused(words, param=HEADER)
        if earlier.erased:
            words = "This call was done before; what it answered was deleted since."
            raise Conflict(words, param=HEADER, code="idempotency_answer_erased")
        if earlier.answer is not None:
            return keyed.opened(earlier.answer)
        try:
            response = await answer(replace(call, seed=keyed.seed(earlier)))
        except MemproxyError:
            await state.drop_answer(scope, keyed.name)
            raise
        if response.status_code < 300 and len(response.body) <= MOST_KEPT_BYTES:
            await state.keep_answer(scope, keyed.name, msgspec.structs.replace(earlier, answer=keyed.sealed(response)))
        return response


class _KeyedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call under a key: its owner, a digest of the key and one of the call, and what seals its answer."""

    scope: Scope
    name: str
    request_digest: str
    secret: bytes

    @classmethod
    def of(cls, secret: bytes, scope: Scope, key: str, request: str, body: bytes) -> "_KeyedCall":
        material = msgspec.json.encode([*scope.owner, key])
        hashed = hashlib.blake2b(request.encode("utf-8", "surrogatepass") + b"\x00" + body, digest_size=16)
        return cls(
            scope=scope,
            name=hashlib.blake2b(material, key=secret[:64], digest_size=16, person=b"name").hexdigest(),
            request_digest=hashed.hexdigest(),
            secret=hashlib.blake2b(material, key=secret[:64], digest_size=32, person=b"seal").digest(),
        )

    def seed(self, earlier: GivenAnswer) -> str:
        """32 hex digits for the ids of what is made: the same when the same call is done again after a crash."""
        material = f"{self.request_digest} {earlier.at.isoformat()}".encode()
        return hashlib.blake2b(material, key=self.secret, digest_size=16, person=b"ids").hexdigest()

    def sealed(self, response: Response) -> bytes:
        """The answer as it is kept, encrypted."""
        headers = {name: value for name, value in response.headers.items() if name in _KEPT_HEADERS}
        plain = msgspec.msgpack.encode(_Answer(response.status_code, headers, bytes(response.body)))
        nonce = secrets.token_bytes(_NONCE)
        return nonce + AESGCM(self.secret).encrypt(nonce, plain, None)

    def opened(self, sealed: bytes) -> Response:
        """The kept answer.

        Raises:
            Conflict: it cannot be opened: the installation has another secret since.
        """
        try:
            plain = AESGCM(self.secret).decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
        except InvalidTag as error:
            raise Conflict("This call was answered, and its answer cannot be read any more.") from error
        stored = msgspec.msgpack.decode(plain, type=_Answer)
        return Response(stored.body, stored.status, {**stored.headers, REPLAYED: "true"})


def _request_line(request: Request, identity: Identity) -> str:
    """What beside the body makes it another call, with another answer."""
    line = f"{request.method} {request.url.path}?{request.url.query}"
    parts = [identity.project, identity.agent, identity.session, request.headers.getlist("if-match")]
    if any(parts):
        line += f" {msgspec.json.encode(parts).decode()}"
    return line if "memory:read" in identity.permissions else f"{line} unread"  # who may read is answered more


def key_of(request: Request) -> str | None:
    """The call's idempotency key.

    Raises:
        RequestError: it cannot be one, or there are several.
    """
    keys = set(request.headers.getlist(HEADER))
    if not keys:
        return None
    key = keys.pop()
    if keys or not 0 < len(key) <= LONGEST_KEY or not key.isprintable():
        raise RequestError(f"{HEADER}: must be one text of up to {LONGEST_KEY} printable characters.", param=HEADER)
    return key
