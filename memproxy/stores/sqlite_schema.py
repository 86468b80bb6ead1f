"""The tables of the embedded state, and how a file of an earlier version gets to them.

``PRAGMA user_version`` is the version of a file's form. Times are microseconds since 1970 (UTC).
"""

import sqlite3
from collections.abc import Sequence

from memproxy.errors import ConfigError
from memproxy.stores import state_tables as tables

FIRST_VERSION = 12  # the form that the first release creates. Files of lower versions were written before it.

_TYPES = {
    "user": "user",
    "owner": "tenant TEXT NOT NULL, user TEXT NOT NULL",
    "place": "tenant TEXT NOT NULL, user TEXT NOT NULL, session TEXT, scope TEXT NOT NULL",
    "name": "TEXT",
    "time": "INTEGER",
    "written_at": "INTEGER NOT NULL",
    "json": "TEXT",
    "bytes": "BLOB",
    "big": "INTEGER",
    "number": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "flag": "INTEGER",
    "false": "0",
    "is_true": " = 1",
    "rowless": " WITHOUT ROWID",
    "users_named": "",
    "arrival": "",
    "secret": "randomblob(32)",
}

SCHEMA = (
    # ``head``: the oldest unfinished row of its owner and lane, the only one that may be claimed; ``at``: when it was
    # written
    """
    CREATE TABLE journal (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        lane TEXT NOT NULL,
        kind TEXT NOT NULL,
        version INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        session TEXT,
        scope TEXT NOT NULL,
        request_id TEXT,
        body BLOB NOT NULL,
        plan BLOB,
        state TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'parked')),
        head INTEGER NOT NULL DEFAULT 0,
        attempts INTEGER NOT NULL DEFAULT 0,
        due INTEGER NOT NULL DEFAULT 0,
        error TEXT,
        parked_at INTEGER,
        at INTEGER NOT NULL
    )
    """,
    "CREATE INDEX journal_of_owner ON journal (tenant, user, lane, number) WHERE state != 'parked'",
    "CREATE INDEX journal_claimable ON journal (lane, number) WHERE head = 1 AND state = 'waiting'",
    "CREATE INDEX journal_states ON journal (lane, state)",
    *tables.written(tables.TABLES, _TYPES),
)

MIGRATIONS: tuple[tuple[str, ...], ...] = tuple(
    tables.written(step, _TYPES) for step in (tables.WORKING, tables.DREAMS, tables.SILENT, tables.NEWEST)
)
"""Statements that each bring a file from one version to the next, from `FIRST_VERSION` on; none ever changes."""

VERSION = FIRST_VERSION + len(MIGRATIONS)
"""The form that this version reads and writes."""


def migrate(db: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Create the tables, or bring the file to the newest version; several processes may try at once. Raises
    `ConfigError`: a newer memproxy wrote the file, or one from before the first release.
    """
    newest = FIRST_VERSION + len(migrations)
    if _version(db) == newest:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        done = _version(db)
        if done > newest:
            raise ConfigError(
                f"state.path: the file has version {done}, this memproxy knows up to {newest}. "
                "Start the version that wrote it, or a newer one."
            )
        if 0 < done < FIRST_VERSION:
            raise ConfigError(
                f"state.path: the file has version {done}, which was written before the first release. Run `memproxy "
                "export` with the version that wrote it, and `memproxy import` with this one into a new MEMPROXY_HOME."
            )
        scripts = migrations[done - FIRST_VERSION :] if done else (SCHEMA, *migrations)
        for script in scripts:
            for statement in script:
                db.execute(statement)
        db.execute(f"PRAGMA user_version = {newest}")
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
