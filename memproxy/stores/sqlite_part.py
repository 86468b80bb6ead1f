"""What the parts of the embedded state share: its file, commits in common, and how an owner's columns are written.

Each part is a module for some of the contracts in `ports.state`: a class whose methods are theirs, and functions of
statements, each of which runs inside a transaction that its caller opened. `sqlite_state` puts the parts together.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from memproxy.stores.sqlite_file import SharedWork, SqliteFile
from memproxy.tasks import TaskOwner

Owner = tuple[str, str]
"""Tenant and user."""

PRUNE_EVERY = 500
"""Calls of one kind between two prunings of what they have written."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_CHUNK = 500
"""Values in one statement: well below SQLite's limit."""


class Columns(Protocol):
    """How texts of one owner are written into columns and read again: as they are, or encrypted (`sqlite_sealing`).
    ``what`` names the column.
    """

    def seal(self, plain: bytes, what: str) -> bytes:
        """Bytes as they are written."""

    def open(self, sealed: bytes, what: str) -> bytes:
        """What `seal` was given; nothing where it cannot be read."""

    def seal_text(self, plain: str, what: str) -> str:
        """As `seal`, of a text."""

    def open_text(self, sealed: str, what: str) -> str:
        """As `open`, of a text."""

    def name(self, plain: str) -> str:
        """A name by which rows are looked up: always the same for the same name."""

    def plain_name(self, name: str) -> str:
        """What `name` was given; empty where it cannot be read."""

    def slot(self, name: str) -> str:
        """A slot of the register; nobody needs to read it again."""


class Sealing(Protocol):
    """Whose columns are written how."""

    def of(self, db: sqlite3.Connection, owner: Owner) -> Columns | None:
        """The owner's; None: there is no key, hence nothing of the owner that could be read."""

    def made(self, db: sqlite3.Connection, owner: Owner) -> Columns:
        """The same for writing, whose key is made where there is none."""


class PlainColumns:
    """Columns that are not encrypted."""

    def seal(self, plain: bytes, what: str) -> bytes:  # noqa: ARG002 - the protocol's
        return plain

    open = seal

    def seal_text(self, plain: str, what: str) -> str:  # noqa: ARG002 - the protocol's
        return plain

    open_text = seal_text

    def name(self, plain: str) -> str:
        return plain

    plain_name = slot = name


class NoSealing:
    """Nothing is encrypted."""

    def __init__(self) -> None:
        self._columns = PlainColumns()

    def of(self, db: sqlite3.Connection, owner: Owner) -> Columns | None:  # noqa: ARG002 - the protocol's
        return self._columns

    def made(self, db: sqlite3.Connection, owner: Owner) -> Columns:  # noqa: ARG002 - the protocol's
        return self._columns


class SqlitePart:
    """A part of the state."""

    def __init__(self, file: SqliteFile, tasks: TaskOwner, sealing: Sealing) -> None:
        self._file = file
        self._tasks = tasks
        self._sealing = sealing
        self._commits = SharedWork(file, tasks)


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - _EPOCH) // timedelta(microseconds=1)


def moment(stored: int) -> datetime:
    """The instant that `micros` counted."""
    return _EPOCH + timedelta(microseconds=stored)


def chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    """The values, as many at once as one statement takes."""
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def marks(values: Sequence[str]) -> str:
    """The statement's place for these values."""
    return ", ".join("?" * len(values))


def run(db: sqlite3.Connection, statement: str, values: Sequence[object]) -> None:
    """One statement that answers nothing."""
    db.execute(statement, values)
