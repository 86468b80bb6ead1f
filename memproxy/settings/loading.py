"""Loads the settings: command line, then `MEMPROXY__SECTION__KEY`, then the file, then the defaults. All problems are
told at once, one per line: the key's path, its value, what is allowed. Secrets are never shown.
"""

import difflib
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, get_args, get_origin
from urllib.parse import urlsplit

from pydantic import ValidationError

from memproxy.core.proxykey import is_hash, is_key_id
from memproxy.errors import ConfigError
from memproxy.settings import EmbeddingSettings, Settings, StoreSettings, http_address, is_loopback
from memproxy.settings.reference import Setting, is_section, settings_of
from memproxy.settings.yaml_file import Substitution, kind_of, parse, read

PREFIX = "MEMPROXY__"
MAX_SHOWN = 80  # longest value in a message, in characters
MOST_IN_POSTGRES = 50  # of a collection's name; those of its tables are up to ten longer, and cut after 63

REMOTE = (
    "is reachable from other machines, and in auth.mode passthrough nobody but the upstream checks a caller's key; "
    "set auth.allow_remote: true if that is meant, or listen on 127.0.0.1"
)

OPEN_RELAY = (
    "must be true, because auth.allow_remote is and a key for the upstream is set (upstream.api_key, a route's, or in "
    "an address): in auth.mode passthrough whoever reaches this server uses that key; set it if that is meant, or take "
    "auth.mode: keys"
)

_ENTRY = "`memproxy keys new --config-entry` prints a key with its entry"

Values = dict[str, Any]


class _Problems:
    """What is wrong, in the order it was found; ``origin`` names where a path's value came from."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.origin: dict[str, str] = {}

    def add(self, path: str, text: str) -> None:
        origin = next((self.origin[key] for key in reversed(self.origin) if f"{path}.".startswith(f"{key}.")), None)
        self.lines.append(f"{path}: {text}" + (f" (from {origin})" if origin else ""))

    def unknown(self, path: str) -> None:
        self.add(path, f"there is no such setting; {_suggestion(path)}")


def load_settings(
    path: Path | None, *, overrides: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None
) -> Settings:
    """The settings of a file (None: no file), the environment and ``overrides`` (dotted or nested; None is left out).

    Raises:
        ConfigError: the configuration cannot be used; every problem is in the message, one per line.
    """
    environ = os.environ if environ is None else environ
    problems = _Problems()
    values: Values = {}
    if path is not None:
        values = Substitution(environ, problems.add).fill(read(path.expanduser()))
    _merge_environment(values, environ, problems)
    for dotted, value in (overrides or {}).items():
        if value is not None:
            problems.origin[dotted] = "the command line"
            _merge(values, _nest(dotted.split("."), value))
    _default_upstream(values, environ, problems)
    settings = _validate(values, problems)
    for key, text in conflicts(settings):
        if not any(line.startswith(f"{key}:") for line in problems.lines):
            problems.add(key, text)
    if problems.lines:
        title = f"The configuration {path} cannot be used:" if path else "The configuration cannot be used:"
        raise ConfigError("\n  ".join([title, *dict.fromkeys(problems.lines)]))
    return settings


def _merge(values: Values, above: Mapping[str, Any]) -> None:
    """Lay ``above`` over ``values``: mappings are merged key by key, anything else is replaced. What should be a
    mapping and is none stays, to be refused as it is with nothing laid over it.
    """
    for key, value in above.items():
        if isinstance(value, Mapping):
            inner = values.get(key)
            if inner is None or isinstance(inner, Mapping):
                values[key] = dict(inner or {})
                _merge(values[key], value)
        else:
            values[key] = value


def _merge_environment(values: Values, environ: Mapping[str, str], problems: _Problems) -> None:
    """Lay our variables over ``values``, sections and mappings before what is in them; those unread are problems."""
    ours = [name for name in environ if name.upper().startswith(PREFIX)]
    for name in sorted(ours, key=lambda variable: (variable.count("__"), variable)):
        written, text = name[len(PREFIX) :].split("__"), environ[name]
        try:
            names, kind = _named_path(written, values)
        except ValueError as error:
            problems.add(".".join(written).lower(), f"{error} (from {name})")
            continue
        path = ".".join(names)
        problems.origin[path] = name
        if kind is None:
            problems.unknown(path)
        elif not is_section(kind) and get_origin(kind) not in (list, dict):  # else the text is YAML (and so JSON)
            _merge(values, _nest(names, None if text == "null" else text))
        elif (value := _read_yaml(path, text, problems)) is not None:
            _merge(values, _nest(names, value))


def _named_path(written: Sequence[str], values: Values) -> tuple[list[str], Any]:
    """The path that a variable's name means, and the type of what is there (None: there is no such setting). Sections
    and settings are named in any case; of keys of a mapping (`retention.tenants`) the case counts (`_entry`).

    Raises:
        ValueError: it may be one of several entries.
    """
    names: list[str] = []
    kind: Any = Settings
    for part in written:
        if get_origin(kind) is dict:
            existing = _value_at(values, ".".join(names))
            names.append(_entry(part, list(existing) if isinstance(existing, dict) else ()))
            kind = get_args(kind)[1] if part else None
        else:
            names.append(part.lower())
            kind = _field_of(kind, part.lower())
    return names, kind


def _entry(written: str, existing: Collection[str]) -> str:
    """The entry of a mapping that a variable means, where these are ``existing``: one of them, in whatever case it is
    written; else a name in capitals alone means its lower-case form, and any other itself.

    Raises:
        ValueError: it may be one of several.
    """
    if written in existing:
        return written
    same = [key for key in existing if key.casefold() == written.casefold()]
    if len(same) > 1:
        raise ValueError(f"may be {' or '.join(sorted(same))}; write that one's case")
    return same[0] if same else written.lower() if written.isupper() else written


def _field_of(kind: Any, name: str) -> Any:
    """The type of a section's field; None where there is none."""
    field = kind.model_fields.get(name) if is_section(kind) else None
    return field.annotation if field is not None else None


def _read_yaml(path: str, text: str, problems: _Problems) -> Any:
    """The list or mapping in a variable's text; None, and a problem, where it holds neither."""
    try:
        value = parse(text, path)
    except ConfigError as error:
        problems.add(path, error.message.removeprefix(f"{path}: ").removeprefix(f"{path}, "))
        return None
    if isinstance(value, list | dict):
        return value
    setting = _setting(path)
    allowed = setting.allowed if setting is not None and setting.path == path else "mapping of its keys"
    form = '["a", "b"]' if allowed.startswith("list") else '{"key": "value"}'
    problems.add(path, f"must be a {allowed}, written as YAML or JSON such as {form}; here it is {kind_of(value)}")
    return None


def _nest(names: Sequence[str], value: Any) -> Values:
    for name in reversed(names):
        value = {name: value}
    return dict(value)


def _default_upstream(values: Values, environ: Mapping[str, str], problems: _Problems) -> None:
    upstream = values.get("upstream") or {}
    if isinstance(upstream, dict) and not upstream.get("base_url") and environ.get("OPENAI_BASE_URL"):
        values["upstream"] = {**upstream, "base_url": environ["OPENAI_BASE_URL"]}
        problems.origin["upstream.base_url"] = "OPENAI_BASE_URL"


def _validate(values: Values, problems: _Problems) -> Settings:
    """The settings; what is wrong is noted, taken out and the rest tried again, so that all problems come at once."""
    while True:
        for name in [name for name, value in values.items() if value is None]:
            del values[name]  # `recall:` with nothing below it
        try:
            return Settings.model_validate(values)
        except ValidationError as error:
            details = error.errors()
            for detail in details:
                _note(detail, values, problems)
            removed = [_remove(values, detail["loc"]) for detail in details]
            if not any(removed):
                return Settings()  # not reached: each problem is at a value that was given; never loop on a doubt


def _note(detail: Mapping[str, Any], values: Values, problems: _Problems) -> None:
    path = ".".join(str(part) for part in detail["loc"] if part != "[key]")
    if detail["type"] == "extra_forbidden":
        problems.unknown(path)
        return
    value, setting = _value_at(values, path), _setting(path)
    if setting is None:
        problems.add(path, f"is a section, with keys and values below it; here it is {kind_of(value)}")
        return
    allowed = f"allowed: {setting.allowed}"
    if detail["type"] in ("value_error", "string_pattern_mismatch"):
        message = detail["msg"].removeprefix("Value error, ").replace("String should", "must")
        allowed = f"{message}; {allowed}"
    problems.add(path, f"{_shown(path, value)} cannot be used; {allowed}")


def _remove(values: Any, location: tuple[int | str, ...]) -> bool:
    """Take the value at ``location`` out (of a list or a text, the whole); False if there was none."""
    name: int | str = ""
    for name in location:
        inner = values.get(name)
        if not isinstance(inner, dict) or name == location[-1]:
            break
        values = inner
    return values.pop(name, values) is not values


def _setting(path: str) -> Setting | None:
    """The setting that ``path`` is, or is a part of."""
    return next((entry for entry in settings_of() if path == entry.path or path.startswith(f"{entry.path}.")), None)


def _value_at(values: Any, path: str) -> object:
    for name in path.split("."):
        if isinstance(values, dict) and name in values:
            values = values[name]
        elif isinstance(values, list) and name.isdigit() and int(name) < len(values):
            values = values[int(name)]
        else:
            return None
    return values


def _shown(path: str, value: object) -> str:
    """A value for a message: short, and never a secret."""
    setting = _setting(path)
    if setting is None or isinstance(value, dict | list):
        return kind_of(value)
    if value is None or isinstance(value, bool):
        return "an empty value" if value is None else str(value).lower()
    if setting.secret:
        return "the value (not shown)"
    if isinstance(value, str) and "@" in value:
        value = f"…@{value.rpartition('@')[2]}"  # what stands before it in an address is a user and a password
    try:
        text = repr(value)
    except ValueError:  # Python does not print integers of thousands of digits
        text = "a very long number"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def _suggestion(path: str) -> str:
    """The nearest name in the same section, else the same name in another one, else what there is."""
    *sections, name = path.split(".")
    kind: Any = Settings
    for section in sections:
        inside = get_args(kind)
        kind = inside[-1] if inside and get_origin(kind) in (list, dict) else _field_of(kind, section)
    siblings = list(kind.model_fields) if is_section(kind) else []
    near = difflib.get_close_matches(name, siblings, n=1)
    names = [".".join([*sections, match]) for match in near]
    if names := (names or [entry.path for entry in settings_of() if entry.path.rpartition(".")[2] == name])[:3]:
        return f"did you mean {' or '.join(names)}?"
    return f"allowed: {', '.join(siblings)}" if siblings else "remove it"


def conflicts(settings: Settings) -> Iterator[tuple[str, str]]:
    """(path, what is wrong with it) of settings that are allowed alone, but not together, or not yet."""
    server, auth, store, dedup = settings.server, settings.auth, settings.store, settings.dedup
    if auth.mode == "passthrough" and not auth.allow_remote and not is_loopback(server.host):
        yield "server.host", f"{server.host!r} {REMOTE}"
    upstream, jwt = settings.upstream, auth.jwt
    has_own_key = upstream.api_key is not None or "@" in urlsplit(upstream.base_url).netloc
    if auth.mode == "passthrough" and auth.allow_remote and has_own_key and not auth.open_relay:
        yield "auth.open_relay", OPEN_RELAY
    if auth.mode == "jwt" and sum(map(bool, (jwt.key, jwt.key_file, jwt.jwks_file, jwt.jwks_url))) != 1:
        yield "auth.jwt", "must have exactly one of key, key_file, jwks_file and jwks_url, because auth.mode is jwt"
    if auth.mode == "jwt" and 0 < sum(name.startswith("HS") for name in jwt.algorithms) < len(jwt.algorithms):
        yield (
            "auth.jwt.algorithms",
            "mixes secrets (HS) and public keys (RS, ES); a token could choose the weaker proof",
        )
    yield from _wrong_keys(settings)
    yield from _wrong_store(store)
    yield from _wrong_state(settings)
    yield from _wrong_engines(settings)
    yield from _wrong_cache(settings)
    if settings.telemetry.log_content:
        yield "telemetry.log_content", "true is not built yet; for now: false"
    if dedup.related_above > dedup.update_above:
        yield ("dedup.related_above", f"{dedup.related_above} is above dedup.update_above ({dedup.update_above})")
    if settings.embedding.provider == "openai" and settings.embedding.model == EmbeddingSettings().model:
        yield "embedding.model", "must name a model of the embeddings API, because embedding.provider is openai"


def _wrong_store(store: StoreSettings) -> Iterator[tuple[str, str]]:
    if store.backend == "edge" and (store.url or store.api_key):
        name = "store.url" if store.url else "store.api_key"
        yield name, "is for a server; set store.backend: qdrant or postgres, or remove it"
    if store.backend != "qdrant" and (store.grpc_port is not None or store.quantization != "none"):
        name = "store.grpc_port" if store.grpc_port is not None else "store.quantization"
        yield name, "is for a Qdrant server; set store.backend: qdrant, or remove it"
    if store.index != "hnsw" and store.backend != "postgres":
        yield "store.index", "is for PostgreSQL; set store.backend: postgres, or remove it"
    if store.index == "ivfflat" and store.probes > store.lists:
        yield "store.probes", f"{store.probes} is above store.lists ({store.lists})"
    if store.backend == "qdrant":
        try:
            http_address(store.url or "")
        except ValueError as error:
            yield "store.url", f"must be the address of the Qdrant server, because store.backend is qdrant; it {error}"
    if store.backend == "postgres" and urlsplit(store.url or "").scheme not in {"postgresql", "postgres"}:
        yield "store.url", "must be postgresql://user:password@host/database, because store.backend is postgres"
    if store.backend == "postgres" and store.api_key:
        yield "store.api_key", "is for a Qdrant server; PostgreSQL's password is a part of store.url"
    if store.backend == "postgres" and len(store.collection) > MOST_IN_POSTGRES:
        yield "store.collection", f"is longer than {MOST_IN_POSTGRES} characters; PostgreSQL cuts its tables' names"


def _wrong_state(settings: Settings) -> Iterator[tuple[str, str]]:
    state = settings.state
    if state.backend == "sqlite" and state.url:
        yield "state.url", "is for a server; set state.backend: postgres, or remove it"
    if state.backend == "postgres" and urlsplit(state.url or "").scheme not in {"postgresql", "postgres"}:
        yield "state.url", "must be postgresql://user:password@host/database, because state.backend is postgres"


def _wrong_engines(settings: Settings) -> Iterator[tuple[str, str]]:
    """An embedded store, or state, has one owner."""
    if settings.engine.workers == 1:
        return
    remedies = []
    if settings.store.backend == "edge":
        remedies.append("store.backend: qdrant or postgres (edge is embedded)")
    if settings.state.backend == "sqlite":
        remedies.append("state.backend: postgres (sqlite is embedded)")
    if remedies:
        yield "engine.workers", f"{settings.engine.workers} engines need {' and '.join(remedies)}; or set it to 1"


def _wrong_cache(settings: Settings) -> Iterator[tuple[str, str]]:
    cache = settings.cache
    if cache.backend == "memory" and cache.url:
        yield "cache.url", "is for a server; set cache.backend: redis, or remove it"
    parts = urlsplit(cache.url or "")
    try:
        is_complete = parts.path if parts.scheme == "unix" else parts.hostname and (parts.port or 6379) > 0
    except ValueError:  # the port is no number
        is_complete = False
    if cache.backend == "redis" and not (is_complete and parts.scheme in {"redis", "rediss", "unix"}):
        yield "cache.url", "must be redis://:password@host:6379/0 or rediss://… or unix://…, as cache.backend is redis"


def _wrong_keys(settings: Settings) -> Iterator[tuple[str, str]]:
    """Keys that callers could never prove, or that others could guess."""
    jwt = settings.auth.jwt
    key = jwt.key.get_secret_value() if jwt.key else ""
    takes_secrets = all(name.startswith("HS") for name in jwt.algorithms)
    if settings.auth.mode == "jwt" and jwt.key is not None and takes_secrets == ("-----BEGIN" in key):
        yield "auth.jwt.key", "must be a secret for HS algorithms, and a public key in PEM for RS and ES ones"
    elif jwt.key is not None and len(key.encode()) < jwt.least_secret_bytes:
        yield "auth.jwt.key", jwt.short_secret
    places: dict[str, int] = {}
    for place, entry in enumerate(settings.auth.keys):
        path = f"auth.keys.{place}"
        if not is_key_id(entry.id):
            yield f"{path}.id", f"must be the twelve characters after `mpk_` of the key; {_ENTRY}"
        elif (first := places.setdefault(entry.id, place)) != place:
            yield f"{path}.id", f"is that of auth.keys.{first} too; one of the two would never be looked at: remove it"
        if not is_hash(entry.hash.get_secret_value()):
            yield f"{path}.hash", f"is no hash of a key; {_ENTRY}"
