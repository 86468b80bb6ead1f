"""What all importers share: large JSON files read piece by piece, and values that may be anything."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, Any
from zipfile import BadZipFile, ZipFile

import ijson
from ijson.common import JSONError

from memproxy.errors import ConfigError

MOST_TEXT = 100_000
"""Characters of one memory or message that the API takes; what is longer is cut."""


@contextmanager
def opened(path: Path, member: str | None = None) -> Iterator[IO[bytes]]:
    """The file, or the member of that name where it is a ZIP archive.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != b"PK\x03\x04" or member is None:
                file.seek(0)
                yield file
                return
        with ZipFile(path) as archive:
            name = next((name for name in archive.namelist() if name.split("/")[-1] == member), None)
            if name is None:
                raise ConfigError(f"{path} holds no {member}. Is it the right archive?")
            with archive.open(name) as file:
                yield file
    except (OSError, BadZipFile) as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def objects(path: Path, keys: Sequence[str], *, member: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of the list that the file is (under the name ""), or of its lists of these names, one at a time.

    Raises:
        ConfigError: it is no JSON, or has none of these lists.
    """
    found = False
    try:
        with opened(path, member) as file:
            begin = _first_character(file)
        for key in [""] if begin == b"[" else keys:
            with opened(path, member) as file:
                for value in ijson.items(file, f"{key}.item" if key else "item"):
                    found = True
                    if isinstance(value, dict):
                        yield key, _with_floats(value)
    except JSONError as error:
        raise ConfigError(f"{path} is no JSON: {error}. Is the file complete?") from error
    if not found and begin != b"[":
        raise ConfigError(f"{path} has none of the lists {', '.join(keys)}. Is it the right format?")


def _with_floats(value: Any) -> Any:
    """The parser reads fractions as decimals, which keeps it from refusing integers of more than 64 bits."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {name: _with_floats(inner) for name, inner in value.items()}
    return [_with_floats(inner) for inner in value] if isinstance(value, list) else value


def _first_character(file: IO[bytes]) -> bytes:
    while (character := file.read(1)).isspace():
        pass
    return character


def text_of(value: object) -> str | None:
    """A text that says something, without characters that cannot be kept; None for anything else."""
    if not isinstance(value, str):
        return None
    kept = value.replace("\x00", "").encode("utf-8", "replace").decode().strip()
    return kept[:MOST_TEXT] or None


def time_of(*values: object) -> str | None:
    """The first of these that is a time (text or Unix seconds), as RFC 3339 in UTC."""
    for value in values:
        try:
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(value, UTC).isoformat()
            if isinstance(value, str) and value:
                read = datetime.fromisoformat(value)
                return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
        except (ValueError, OverflowError, OSError):
            continue
    return None


def written_at(path: Path) -> str:
    """When the file was written, as RFC 3339 in UTC: what it holds without a time is no later, and a second import of
    it is the same.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error}.") from error


def list_of(value: object) -> list[Any]:
    """The list; an empty one for anything else."""
    return value if isinstance(value, list) else []


def object_of(value: object) -> dict[str, Any]:
    """The object; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def without_none(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that have a value."""
    return {name: value for name, value in fields.items() if value not in (None, [], {})}


def with_clear_ids(messages: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The messages of a conversation. One whose id another one before it has, which says something else, goes without:
    the API would refuse both, and it is told apart by what it says then.
    """
    first: dict[str, tuple[object, object]] = {}
    clear = []
    for message in messages:
        name, said = message.get("id"), (message.get("role"), message.get("content"))
        is_clear = name is None or first.setdefault(name, said) == said
        clear.append(message if is_clear else {key: value for key, value in message.items() if key != "id"})
    return clear
