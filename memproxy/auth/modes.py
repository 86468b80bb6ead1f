"""The authenticator of the configured mode; in ``passthrough`` a keyed hash of the client's key is the tenant."""

import hashlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from memproxy.auth.headers import Headers, client_key, unknown_scheme
from memproxy.auth.identity import default_user
from memproxy.auth.proxy_keys import KeysAuthenticator, News, no_news
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import KeyRecord
from memproxy.errors import Unauthenticated
from memproxy.settings import AuthSettings, ProxyKeySettings, ServerSettings, is_loopback

if TYPE_CHECKING:  # it loads the metrics, which the supervisor does without
    from memproxy.tasks import TaskOwner

ANONYMOUS = "anonymous"  # the tenant of callers without a key, on an address of this machine only

_ALWAYS = datetime(1970, 1, 1, tzinfo=UTC)


class Authenticator(Protocol):
    """Turns a request's headers into an identity."""

    async def identify(self, headers: Headers) -> Identity:
        """Who calls.

        Raises:
            Unauthenticated: nobody who is known.
            Forbidden: somebody who names what he may not.
            RequestError: a header of ours cannot be read.
            MemoryUnavailable, AuthUnavailable: it cannot be found out just now.
        """


def make_authenticator(
    auth: AuthSettings,
    server: ServerSettings,
    secret: bytes,
    lookup: Callable[[str], Awaitable[KeyRecord | None]],
    news: News = no_news,
    *,
    tasks: "TaskOwner | None" = None,
) -> Authenticator:
    """The authenticator of ``auth.mode``; ``lookup`` finds the record of a proxy key by its id, ``news`` changes when
    records do, ``tasks`` fetch an identity provider's keys.

    Raises:
        ConfigError: the keys of mode ``jwt`` cannot be used.
    """
    if auth.mode == "keys":
        configured = {key.id: _record(key) for key in auth.keys}
        return KeysAuthenticator(configured, lookup, default_user=default_user(auth, server), news=news)
    if auth.mode == "jwt":
        from memproxy.auth.jwt import JwtAuthenticator  # noqa: PLC0415 - cryptography, which other modes do not need

        return JwtAuthenticator(auth.jwt, tasks, unnamed_user=default_user(auth, server))
    return PassthroughAuthenticator(auth, server, secret)


def _record(entry: ProxyKeySettings) -> KeyRecord:
    plain = {"hash": entry.hash.get_secret_value(), "permissions": frozenset(entry.permissions)}
    return KeyRecord(created_at=_ALWAYS, **(entry.model_dump() | plain))


def key_hash(secret: bytes, key: str) -> str:
    """The keyed hash that stands for a key (``memproxy keys hash`` prints it): 32 hex digits, BLAKE2b."""
    material = key.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, key=secret[:64], digest_size=16, person=b"tenant").hexdigest()


class PassthroughAuthenticator:
    """Names the tenant by a keyed hash of the client's key; the client names the user."""

    def __init__(self, auth: AuthSettings, server: ServerSettings, secret: bytes) -> None:
        self._tenants = auth.tenants
        self._secret = secret
        self._loopback = is_loopback(server.host)
        self._default_user = default_user(auth, server)

    async def identify(self, headers: Headers) -> Identity:
        """Who calls.

        Raises:
            Unauthenticated: no key on an address that others can reach, or a proof of another kind: those who bring one
                are not all the same.
            RequestError: a header of ours cannot be read.
        """
        key = client_key(headers)
        if key is None and (unknown_scheme(headers) or not self._loopback):
            raise Unauthenticated("No API key: send it as `Authorization: Bearer …`, `api-key` or `x-api-key`.")
        tenant = ANONYMOUS
        if key is not None:
            digest = key_hash(self._secret, key)
            tenant = self._tenants.get(digest) or f"key:{digest}"
        return Identity(
            tenant=tenant,
            by=tenant,
            named_user=headers.single(b"x-memproxy-user"),
            default_user=self._default_user,
            project=headers.single(b"x-memproxy-project"),
            agent=headers.single(b"x-memproxy-agent"),
            session=headers.single(b"x-memproxy-session"),
        )
