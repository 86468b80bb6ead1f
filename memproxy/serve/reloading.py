"""What a running server takes of a configuration that was changed (SIGHUP), and what waits for its next start.

Reloaded are the settings of who may call and how much: keys and tokens, limits, hosts and origins, the log. Where
memory is kept, how it is recalled and learned, and where requests go are read once at the start: parts of them are on
disk, in pools and in requests under way, and half of a change would be worse than none.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from memproxy.errors import ConfigError
from memproxy.serve.launch import reveal
from memproxy.settings import Settings
from memproxy.settings.loading import conflicts
from memproxy.settings.reference import settings_of, value_at

RELOADED = (
    "auth.allow_remote",
    "auth.jwt",
    "auth.keys",
    "auth.open_relay",
    "auth.tenants",
    "auth.unnamed_user",
    "limits.tenant",
    "limits.user.chat_per_minute",
    "limits.user.memories",
    "limits.user.turns_per_minute",
    "server.allowed_hosts",
    "server.body_timeout_s",
    "server.cors_origins",
    "server.headers_timeout_s",
    "server.max_concurrent_requests",
    "server.max_held_bytes",
    "server.shutdown_grace_s",
    "telemetry.log_format",
    "telemetry.log_level",
    "telemetry.metrics",
    "telemetry.metrics_token",
    "upstream.shared_calls",
)
"""Settings, and sections, that a running server takes. docs/deploy.md lists them."""


class Reload(NamedTuple):
    """``settings`` are what a running server goes on with; ``taken`` are the paths of what it takes, ``waiting`` those
    that were changed in the file, too, and need a restart.
    """

    settings: Settings
    taken: list[str]
    waiting: list[str]


def reload(now: Settings, wanted: Settings) -> Reload:
    """What becomes of a server that runs with ``now`` when its file says ``wanted``.

    Raises:
        ConfigError: what can be taken does not go together with what cannot.
    """
    taken: list[str] = []
    waiting: list[str] = []
    for path in _changed(now, wanted):
        # keys, tokens and tenants belong to the mode that reads them
        waits = now.auth.mode != wanted.auth.mode and path.startswith("auth.")
        (waiting if waits or not is_reloaded(path) else taken).append(path)
    values = reveal(now)
    for path in taken:
        _put(values, path, reveal(value_at(wanted, path)))
    settings = Settings.model_validate(values)
    for path, problem in conflicts(settings):
        others = ", ".join(waiting)
        raise ConfigError(f"{path}: {problem}. {others} changed, too, and cannot be reloaded: restart memproxy.")
    return Reload(settings, taken, waiting)


def is_reloaded(path: str) -> bool:
    """Whether a running server takes a change of this setting."""
    return any(f"{path}.".startswith(f"{one}.") for one in RELOADED)


def _changed(now: Settings, wanted: Settings) -> Iterator[str]:
    for setting in settings_of():
        if value_at(now, setting.path) != value_at(wanted, setting.path):
            yield setting.path


def _put(values: dict[str, Any], path: str, value: Any) -> None:
    *sections, name = path.split(".")
    for section in sections:
        values = values[section]
    values[name] = value
