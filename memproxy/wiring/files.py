"""What a start needs beside its settings, looked at before anything listens."""

import contextlib
import importlib.util
import ssl
from collections.abc import Awaitable
from pathlib import Path
from typing import NamedTuple

from memproxy.auth import default_user, make_authenticator, who_is_remembered
from memproxy.core.proxykey import KeyRecord
from memproxy.errors import ConfigError
from memproxy.models.dimensions import dimension_of
from memproxy.ports import MOVED, has_moved
from memproxy.relay.network import environment_proxy, tls_context
from memproxy.settings import JwtSettings, Settings, UpstreamSettings
from memproxy.settings.home import state_path


def check_not_moved(settings: Settings, home: Path) -> None:
    """See that an embedded state was not moved elsewhere. What cannot be read is told when it is opened.

    Raises:
        ConfigError: it was, or is not complete yet (`memproxy move`).
    """
    import sqlite3  # noqa: PLC0415 - the supervisor needs it for this look alone

    path = state_path(settings.state, home)
    if settings.state.backend != "sqlite" or not path.exists():
        return
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as db,
    ):
        row = db.execute("SELECT value FROM meta WHERE key = ?", [MOVED]).fetchone()
        if row is not None and row[0]:
            raise has_moved(str(path), row[0])


class Way(NamedTuple):
    """How an upstream is reached: the proxy between, if any, and the certificates that are trusted."""

    proxy: str | None
    tls: ssl.SSLContext | bool


def way_to(upstream: UpstreamSettings) -> Way:
    """The way that the relay's requests take.

    Raises:
        ConfigError: ``upstream.ca_file`` cannot be used.
    """
    proxy = environment_proxy(upstream.base_url) if upstream.environment_proxy else None
    return Way(proxy, tls_context(upstream.ca_file))


class MemoryFor(NamedTuple):
    """Who gets memory: in a sentence for an operator, and whether a request does that names no user."""

    text: str
    unnamed: bool


def memory_for(settings: Settings) -> MemoryFor:
    """Who gets memory with these settings."""
    unnamed = default_user(settings.auth, settings.server) is not None
    return MemoryFor(who_is_remembered(settings.auth, settings.server), unnamed)


_CLIENTS = {"qdrant": "qdrant_client", "postgres": "psycopg"}
"""The package, of the extra of the same name, that a store or a state on a server needs."""


def check_files(settings: Settings) -> None:
    """Read the files that the settings name (the upstream's certificates, keys that tokens are signed with), and look
    up the length of the model's vectors, and whether the clients of store and state are installed. Who cannot would
    end when it starts, and be started again for ever.

    Raises:
        ConfigError: one of them cannot be used; the message names its key in the settings.
    """
    _check_client("store", settings.store.backend, embedded="edge")
    _check_client("state", settings.state.backend, embedded="sqlite")
    if settings.state.backend == "postgres":
        from memproxy.stores.postgres_state_database import check_url  # noqa: PLC0415 - an extra

        check_url(settings.state.url or "")
    tls_context(settings.upstream.ca_file)
    make_authenticator(settings.auth, settings.server, b"", _nobody)
    dimension_of(settings.embedding)


def _check_client(section: str, backend: str, *, embedded: str) -> None:
    if (client := _CLIENTS.get(backend)) is not None and importlib.util.find_spec(client) is None:
        raise ConfigError(
            f'{section}.backend: the client of {backend} is not installed; run: pip install "PATH[{backend}]" (PATH: '
            f"the wheel or folder that memproxy came from), or set {section}.backend: {embedded}"
        )


async def count_signing_keys(settings: JwtSettings) -> int:
    """How many keys for these algorithms the identity provider gives at ``auth.jwt.jwks_url``, which must be set.

    Raises:
        AuthUnavailable: it does not answer in time, or not with usable keys.
    """
    from memproxy.auth.jwks import JwksUrl  # noqa: PLC0415 - aiohttp and cryptography, which no start needs
    from memproxy.tasks import TaskOwner  # noqa: PLC0415 - the client of Prometheus, which no start needs

    assert settings.jwks_url is not None, "the caller looked"  # noqa: S101
    return len(await JwksUrl(settings.jwks_url, settings.algorithms, TaskOwner("check")).read())


def _nobody(_: str) -> Awaitable[KeyRecord | None]:
    raise AssertionError("only made, never asked")
