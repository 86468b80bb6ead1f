"""What the schema names but this version does not do. Such a setting stops the start; it is never ignored.

Whoever builds one deletes its line here.
"""

from dataclasses import dataclass

from memproxy.settings import Section, Settings


@dataclass(frozen=True)
class Unbuilt:
    """One setting or section: ``built`` holds the values that work; empty means the default alone."""

    path: str
    built: tuple[object, ...] = ()


UNBUILT = (
    Unbuilt("store.backend", ("edge", "qdrant")),
    Unbuilt("state.backend"),
    Unbuilt("state.url"),
    Unbuilt("working"),
    Unbuilt("telemetry.log_content"),
)


def value_at(settings: Section, path: str) -> object:
    """The value of a dotted path."""
    value: object = settings
    for name in path.split("."):
        value = getattr(value, name)
    return value


def refusals(settings: Settings) -> list[tuple[str, str]]:
    """(path, what works for now) of every setting in ``settings`` that this version does not do."""
    defaults = Settings()
    found = []
    for entry in UNBUILT:
        value, default = value_at(settings, entry.path), value_at(defaults, entry.path)
        if value == default or value in entry.built:
            continue
        found += [(path, _for_now(entry, value_at(defaults, path))) for path in _changed(entry.path, value, default)]
    return found


def _changed(path: str, value: object, default: object) -> list[str]:
    """``path`` itself, or the leaves of a section that are not as by default."""
    if not isinstance(value, Section):
        return [path]
    names = type(value).model_fields
    return [f"{path}.{name}" for name in names if getattr(value, name) != getattr(default, name)]


def _for_now(entry: Unbuilt, default: object) -> str:
    values = entry.built or (default,)
    return "leave it out" if default in (None, [], {}) else " or ".join(str(value).lower() for value in values)
