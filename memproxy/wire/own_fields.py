"""Our own fields in a request body: ``memory_context`` and ``memory_config``. They never reach the upstream."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from memproxy.core.memory import Kind
from memproxy.errors import RequestError
from memproxy.wire.splice import contains, escapes_small_letters

OURS = ("memory_context", "memory_config")
"""Top-level members that are taken out before the upstream sees the request."""

_ANY = msgspec.json.Decoder()
MAX_LIMIT = 200
"""Largest ``retrieval_limit``: ``limit`` is 1-200 everywhere."""


class MemoryContext(msgspec.Struct, frozen=True, kw_only=True):
    """``memory_context``: whose memory it is, in which scope; None where the request does not say."""

    user_id: str | None = None
    session_id: str | None = None
    project_id: str | None = None
    agent_id: str | None = None


_CONTEXT = MemoryContext.__struct_fields__


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


_COUNT = (Annotated[int, Meta(ge=0)], "a whole number of at least 0")
_FLAG = (bool, "true or false")
_CONFIG: dict[str, tuple[Any, str]] = {
    "enabled": _FLAG,
    "auto_store": _FLAG,
    "memory_types": (list[Kind], f"a list of {', '.join(sorted(Kind))}"),
    "retrieval_limit": (Annotated[int, Meta(ge=1, le=MAX_LIMIT)], f"a whole number from 1 to {MAX_LIMIT}"),
    "similarity_threshold": (Annotated[float, Meta(ge=0, le=1)], "a number from 0 to 1"),
    "max_tokens": _COUNT,
    "compress_above_tokens": _COUNT,
    "memory_tools": (Literal["none", "inject"], "one of none, inject"),
}
"""The values that each field takes, as a type and in words."""

CONFIG_FIELDS = tuple(_CONFIG)
"""What ``memory_config`` may hold."""

_MOST_NAMES = 5
_MOST_NAME = 40
"""How many unknown names an error repeats, and how many characters of each."""


def may_hold_ours(body: bytes) -> bool:
    """Whether a body may have one of our fields, or name a response of ours, by its bytes alone, escaped or not."""
    return contains(body, b"memory_con", b"_") or contains(body, b"resp_memproxy_", b"_") or escapes_small_letters(body)


def read_context(raw: msgspec.Raw | None) -> MemoryContext:
    """Read ``memory_context``. Fields that we do not know are ignored; an empty string says nothing, but that a user
    was meant to be named. Raises `RequestError` where it is no object, or one of its fields is no string.
    """
    fields = _fields(raw, "memory_context")
    if not fields:
        return MemoryContext()
    named = {name: _checked("memory_context", fields, name, str, "a string") for name in _CONTEXT}
    return MemoryContext(**{name: value or (value if name == "user_id" else None) for name, value in named.items()})


def read_config(raw: msgspec.Raw | None) -> MemoryConfig:
    """Read ``memory_config``. Unknown names are kept for the caller to check. Raises `RequestError` where it is no
    object, or a field has the wrong type or is out of its range.
    """
    fields = _fields(raw, "memory_config")
    if not fields:
        return MemoryConfig()
    values = {name: _checked("memory_config", fields, name, *takes) for name, takes in _CONFIG.items()}
    return MemoryConfig(**values, unknown=tuple(name for name in fields if name not in _CONFIG))


def _checked(where: str, fields: dict[str, Any], name: str, kind: Any, expected: str) -> Any:
    """A field's value as this type; None where there is none."""
    value = fields.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return None if value is None else msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise RequestError(f"`{where}.{name}` must be {expected}.", param=f"{where}.{name}") from error


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
