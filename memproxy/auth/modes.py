"""The authenticator of the configured mode."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from memproxy.auth.headers import Headers
from memproxy.auth.keys import KeysAuthenticator, News, no_news
from memproxy.auth.naming import default_user
from memproxy.auth.passthrough import PassthroughAuthenticator
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import KeyRecord
from memproxy.settings import AuthSettings, ProxyKeySettings, ServerSettings

if TYPE_CHECKING:
    from memproxy.tasks import TaskOwner

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
        configured = {one.id: _record(one) for one in auth.keys}
        return KeysAuthenticator(configured, lookup, default_user=default_user(auth, server), news=news)
    if auth.mode == "jwt":
        from memproxy.auth.jwt import JwtAuthenticator  # noqa: PLC0415 - cryptography, which other modes do not need

        return JwtAuthenticator(auth.jwt, tasks, unnamed_user=default_user(auth, server))
    return PassthroughAuthenticator(auth, server, secret)


def _record(entry: ProxyKeySettings) -> KeyRecord:
    return KeyRecord(
        id=entry.id,
        tenant=entry.tenant,
        hash=entry.hash.get_secret_value(),
        created_at=_ALWAYS,
        name=entry.name,
        user=entry.user,
        project=entry.project,
        permissions=frozenset(entry.permissions),
    )
