"""Describes every setting from the schema, for error messages and the generated documentation."""

import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import AfterValidator, SecretStr
from pydantic.fields import FieldInfo

from memproxy.settings import Section, Settings, http_address, plain_types

NAMES = {
    int: "whole number",
    float: "number",
    bool: "true or false",
    str: "text",
    Path: "path",
    SecretStr: "secret text",
}


@dataclass(frozen=True)
class Setting:
    """One key of the file: its dotted ``path``, default, what is ``allowed``, and what it is for."""

    path: str
    default: Any
    allowed: str
    description: str
    secret: bool
    example: Any


def is_section(annotation: Any) -> bool:
    """Whether a field holds a section and not a value."""
    return isinstance(annotation, type) and issubclass(annotation, Section)


def settings_of(section: type[Section] = Settings, prefix: str = "") -> Iterator[Setting]:
    """All settings, in the schema's order."""
    for name, field in section.model_fields.items():
        path = f"{prefix}{name}"
        if is_section(field.annotation):
            yield from settings_of(field.annotation, f"{path}.")  # type: ignore[arg-type]
        else:
            yield _setting(path, field)


def _setting(path: str, field: FieldInfo) -> Setting:
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    default = field.get_default()
    return Setting(
        path=path,
        default=default,
        allowed=_describe(field.annotation, field.metadata),
        description=field.description or "",
        secret=SecretStr in plain_types(field.annotation) or bool(extra.get("secret")),
        example=extra.get("example", default),
    )


def _describe(annotation: Any, metadata: list[Any]) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return _describe(arguments[0], [*metadata, *_flat(annotation.__metadata__)])
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(_describe(part, metadata) for part in arguments if part is not type(None)) + ", or empty"
    if origin in (list, dict):
        kind = "list" if origin is list else "mapping"
        return f"{kind} of {' to '.join(_describe(part, []) for part in arguments)}"
    return _type_name(annotation, metadata)


def _type_name(annotation: Any, metadata: list[Any]) -> str:
    if any(isinstance(mark, AfterValidator) and mark.func is http_address for mark in metadata):
        return "http or https address"
    if isinstance(annotation, type) and issubclass(annotation, Section):
        names = (f"{name}*" if field.is_required() else name for name, field in annotation.model_fields.items())
        return f"{{{', '.join(names)}}} (* is required)"
    return NAMES.get(annotation, "anything") + _bounds(metadata)


def _flat(metadata: tuple[Any, ...]) -> list[Any]:
    """Constraints of an annotation: those inside a `Field` as well as bare ones."""
    return [mark for item in metadata for mark in (item.metadata if isinstance(item, FieldInfo) else [item])]


def _bounds(metadata: list[Any]) -> str:
    words = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
    # The innermost constraint comes first; a field's own narrower one replaces it.
    values = {name: getattr(mark, name) for mark in metadata for name in words if getattr(mark, name, None) is not None}
    return "".join(f", {word} {values[name]}" for name, word in words.items() if name in values)


def value_at(settings: Section, path: str) -> object:
    """The value of a dotted path."""
    value: object = settings
    for name in path.split("."):
        value = getattr(value, name)
    return value
