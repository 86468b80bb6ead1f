"""Our own fields in a request body: ``memory_context`` and ``memory_config``. They never reach the upstream."""

from typing import Any

import msgspec

from memproxy.core.memory import Kind
from memproxy.errors import RequestError
from memproxy.wire.splice import contains, escapes_small_letters

OURS = ("memory_context", "memory_config")
"""Top-level members that are taken out before the upstream sees the request."""

_ANY = msgspec.json.Decoder()
_KINDS = frozenset(kind.value for kind in Kind)
MAX_LIMIT = 200
"""Largest ``retrieval_limit``: ``limit`` is 1-200 everywhere."""


class MemoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """``memory_context``: whose memory, and how narrow; None where the request does not say."""

    user_id: str | None = None
    session_id: str | None = None
    project_id: str | None = None
    agent_id: str | None = None


class MemoryConfig(msgspec.Struct, frozen=True, kw_only=True):
    """``memory_config``: what this request changes of memory's settings; None leaves a setting as it is. ``unknown``
    are the names in it that memproxy does not know.
    """

    enabled: bool | None = None
    auto_store: bool | None = None
    memory_types: list[str] | None = None
    retrieval_limit: int | None = None
    similarity_threshold: float | None = None
    max_tokens: int | None = None
    compress_above_tokens: int | None = None
    memory_tools: str | None = None
    unknown: tuple[str, ...] = ()

    def check_names(self) -> None:
        """Pass a config that is understood as a whole: a name that is misspelt would leave its setting as it is, and
        store what nobody wanted to be stored.

        Raises:
            RequestError: it has a name that is not known; the message has the known ones.
        """
        if not self.unknown:
            return
        named = ", ".join(f"`{name[:_MOST_NAME]}`" for name in self.unknown[:_MOST_NAMES])
        more = f" and {len(self.unknown) - _MOST_NAMES} more" if len(self.unknown) > _MOST_NAMES else ""
        raise RequestError(
            f"`memory_config` has no {named}{more}; it takes {', '.join(CONFIG_FIELDS)}.",
            param=f"memory_config.{self.unknown[0][:_MOST_NAME]}",
        )


CONFIG_FIELDS = tuple(name for name in MemoryConfig.__struct_fields__ if name != "unknown")
"""What ``memory_config`` may hold."""

_MOST_NAMES = 5
_MOST_NAME = 40
"""How many unknown names an error repeats, and how many characters of each."""


NO_CONTEXT = MemoryContext()
NO_CONFIG = MemoryConfig()


def may_hold_ours(body: bytes) -> bool:
    """Whether a body may have one of our fields, or names a response of ours, by its bytes alone; the names may be
    written with escapes.
    """
    return contains(body, b"memory_con", b"_") or contains(body, b"resp_memproxy_", b"_") or escapes_small_letters(body)


def read_context(raw: msgspec.Raw | None) -> MemoryContext:
    """Read ``memory_context``. Fields that we do not know are ignored; an empty string says nothing, but that a user
    was meant to be named.

    Raises:
        RequestError: it is no object, or one of its fields is no string.
    """
    fields = _fields(raw, "memory_context")
    if not fields:
        return NO_CONTEXT
    return MemoryContext(
        user_id="" if fields.get("user_id") == "" else _string(fields, "user_id"),
        session_id=_string(fields, "session_id"),
        project_id=_string(fields, "project_id"),
        agent_id=_string(fields, "agent_id"),
    )


def read_config(raw: msgspec.Raw | None) -> MemoryConfig:
    """Read ``memory_config``. Unknown names are kept for the caller to check.

    Raises:
        RequestError: it is no object, or a field has the wrong type or is out of its range.
    """
    fields = _fields(raw, "memory_config")
    if not fields:
        return NO_CONFIG
    return MemoryConfig(
        enabled=_boolean(fields, "enabled"),
        auto_store=_boolean(fields, "auto_store"),
        memory_types=_kinds(fields, "memory_types"),
        retrieval_limit=_integer(fields, "retrieval_limit", least=1, most=MAX_LIMIT),
        similarity_threshold=_unit(fields, "similarity_threshold"),
        max_tokens=_integer(fields, "max_tokens", least=0, most=None),
        compress_above_tokens=_integer(fields, "compress_above_tokens", least=0, most=None),
        memory_tools=_choice(fields, "memory_tools", ("none", "inject")),
        unknown=tuple(name for name in fields if name not in CONFIG_FIELDS),
    )


def _fields(raw: msgspec.Raw | None, name: str) -> dict[str, Any]:
    try:
        value = None if raw is None else _ANY.decode(raw)
    except msgspec.DecodeError as error:  # a number that no machine type holds
        raise RequestError(f"`{name}` cannot be read: {error}.", param=name) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RequestError(f"`{name}` must be an object.", param=name)
    return value


def _wrong(param: str, expected: str) -> RequestError:
    return RequestError(f"`{param}` must be {expected}.", param=param)


def _string(fields: dict[str, Any], name: str) -> str | None:
    value = fields.get(name)
    if value is None or isinstance(value, str):
        return value or None
    raise _wrong(f"memory_context.{name}", "a string")


def _boolean(fields: dict[str, Any], name: str) -> bool | None:
    value = fields.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise _wrong(f"memory_config.{name}", "true or false")


def _choice(fields: dict[str, Any], name: str, allowed: tuple[str, ...]) -> str | None:
    value = fields.get(name)
    if value is not None and value not in allowed:
        raise _wrong(f"memory_config.{name}", f"one of {', '.join(allowed)}")
    return value if isinstance(value, str) else None


def _integer(fields: dict[str, Any], name: str, *, least: int, most: int | None) -> int | None:
    value = fields.get(name)
    if value is None:
        return None
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if isinstance(value, bool) or not whole or value < least or (most is not None and value > most):
        allowed = f"from {least} to {most}" if most is not None else f"of at least {least}"
        raise _wrong(f"memory_config.{name}", f"a whole number {allowed}")
    return int(value)


def _unit(fields: dict[str, Any], name: str) -> float | None:
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise _wrong(f"memory_config.{name}", "a number from 0 to 1")
    return float(value)


def _kinds(fields: dict[str, Any], name: str) -> list[str] | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(kind, str) and kind in _KINDS for kind in value):
        raise _wrong(f"memory_config.{name}", f"a list of {', '.join(sorted(_KINDS))}")
    return value
