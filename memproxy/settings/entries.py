"""Entries of mappings (`retention.tenants`, `auth.tenants`), as names of environment variables say them.

Keys of a mapping are the user's own and their case counts, while such variables are written in capitals, on Windows
always. So a name in capitals alone means its lower-case form; any other is taken as it is written; and an entry that is
there already, in the file, is meant in whatever case it is named.
"""

from collections.abc import Collection, Iterator
from typing import Any, NamedTuple, get_args, get_origin

from memproxy.settings import Settings
from memproxy.settings.base import Section

DELIMITER = "__"


class EntryName(NamedTuple):
    """What a variable names: the path of a mapping, one of its entries as written, and what of it (None: all of it)."""

    mapping: str
    entry: str
    field: str | None


def entry_named(variable: str) -> EntryName | None:
    """What a variable's name (without our prefix) says of an entry; None when it is about something else."""
    parts = variable.split(DELIMITER)
    for path, _ in _mappings():
        depth = path.count(".") + 1
        if len(parts) > depth and ".".join(parts[:depth]).lower() == path:
            field = ".".join(parts[depth + 1 :]).lower()
            return EntryName(path, parts[depth], field or None)
    return None


def key_of(written: str, there: Collection[str]) -> str:
    """The entry that a variable means, where these are ``there``.

    Raises:
        ValueError: it may be one of several.
    """
    if written in there:
        return written
    same = [key for key in there if key.casefold() == written.casefold()]
    if len(same) > 1:
        raise ValueError(f"may be {' or '.join(sorted(same))}; write that one's case")
    return same[0] if same else written.lower() if written.isupper() else written


def fields_of(mapping: str) -> list[str] | None:
    """What an entry of the mapping at this path has below it; None when it is a plain value."""
    kind = dict(_mappings())[mapping]
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, Section) else None


def mapping_above(path: str) -> str | None:
    """The mapping in one of whose entries ``path`` lies."""
    return next((mapping for mapping, _ in _mappings() if path.startswith(f"{mapping}.")), None)


def _mappings(section: type[Section] = Settings, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Paths of all mappings, with the type of their values."""
    for name, field in section.model_fields.items():
        kind = field.annotation
        if get_origin(kind) is dict:
            yield f"{prefix}{name}", get_args(kind)[1]
        elif isinstance(kind, type) and issubclass(kind, Section):
            yield from _mappings(kind, f"{prefix}{name}.")
