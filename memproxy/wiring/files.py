"""What a start needs beside its settings, looked at before anything listens."""

import contextlib
import importlib.util
import os
from collections.abc import Awaitable
from pathlib import Path

from memproxy.auth.identity import who_is_remembered
from memproxy.auth.modes import make_authenticator
from memproxy.core.proxykey import KeyRecord
from memproxy.errors import ConfigError
from memproxy.models.dimensions import dimension_of
from memproxy.ports import MOVED, has_moved
from memproxy.relay.network import tls_context
from memproxy.settings import JwtSettings, Settings, TelemetrySettings
from memproxy.settings.home import state_path
from memproxy.traces import Traces


def check_not_moved(settings: Settings, home: Path) -> None:
    """See that an embedded state was not moved elsewhere. An unreadable state is reported when it is opened.

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


def memory_for(settings: Settings) -> str:
    """Who gets memory with these settings, in a sentence for an operator."""
    return who_is_remembered(settings.auth, settings.server)


_OTLP = "http/protobuf"
_CLIENTS = {"qdrant": "qdrant_client", "postgres": "psycopg", "redis": "redis"}
"""The package, of the extra of the same name, that a store, a state or a cache on a server needs."""


def check_files(settings: Settings) -> None:
    """Read the files that the settings name (the upstream's certificates, keys that tokens are signed with), and look
    up the length of the model's vectors, and whether the clients of store, state and traces are installed. Who cannot
    would end when it starts, and be started again for ever.

    Raises:
        ConfigError: one of them cannot be used; the message names its key in the settings.
    """
    _check_client("store", settings.store.backend, embedded="edge")
    _check_client("state", settings.state.backend, embedded="sqlite")
    _check_client("cache", settings.cache.backend, embedded="memory")
    if settings.tools.memory == "inject" and importlib.util.find_spec("mcp") is None:
        raise _not_installed("tools.memory", "the library of the memory tools", "mcp", "tools.memory: none")
    for name, section in (("state.url", settings.state), ("store.url", settings.store)):
        if section.backend == "postgres":
            from memproxy.stores.postgres_server import check_url  # noqa: PLC0415 - an extra

            check_url(section.url or "", name)
    if settings.cache.backend == "redis":
        from memproxy.stores.redis_server import check_address  # noqa: PLC0415 - an extra

        check_address(settings.cache.url or "")
    if settings.telemetry.traces:
        _check_traces()
    tls_context(settings.upstream.ca_file)
    make_authenticator(settings.auth, settings.server, b"", _nobody)
    dimension_of(settings.embedding)


def _check_client(section: str, backend: str, *, embedded: str) -> None:
    if (client := _CLIENTS.get(backend)) is not None and importlib.util.find_spec(client) is None:
        setting = f"{section}.backend"
        raise _not_installed(setting, f"the client of {backend}", backend, f"{setting}: {embedded}")


def _not_installed(setting: str, package: str, extra: str, instead: str) -> ConfigError:
    return ConfigError(
        f'{setting}: {package} is not installed; run: pip install "PATH[{extra}]" (PATH: the wheel or folder that '
        f"memproxy came from), or set {instead}"
    )


def _check_traces() -> None:
    try:
        is_there = importlib.util.find_spec("opentelemetry.exporter.otlp.proto.http") is not None
    except ModuleNotFoundError:
        is_there = False
    if not is_there:
        raise _not_installed("telemetry.traces", "the exporter of OpenTelemetry", "otel", "telemetry.traces: false")
    for name in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if (protocol := os.environ.get(name) or _OTLP) != _OTLP:
            raise ConfigError(
                f"telemetry.traces: {name} is {protocol!r}, and only {_OTLP} is spoken (collectors take it on port "
                "4318). Set it to that, or leave it out."
            )


def open_traces(telemetry: TelemetrySettings, process: str) -> Traces | None:
    """What makes this process's spans; None where nobody wants any."""
    if not telemetry.traces:
        return None
    from memproxy.wiring.open_telemetry import OpenTelemetryTraces  # noqa: PLC0415 - an extra

    return OpenTelemetryTraces(process)


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
