"""The tables of the embedded state, and how a file of an earlier version gets to them (`MIGRATIONS`).

``PRAGMA user_version`` is the version of a file's form. Times are microseconds since 1970 (UTC).
"""

import sqlite3

from memproxy.stores import state_tables as tables

FIRST_VERSION = 16  # the form that the first release creates. Files of lower versions were written before it.

_TYPES = {
    "user": "user",
    "owner": "tenant TEXT NOT NULL, user TEXT NOT NULL",
    "held": "",
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

MIGRATIONS: tables.Steps = ()
"""From `FIRST_VERSION` on; none ever changes."""

VERSION = FIRST_VERSION + len(MIGRATIONS)
"""The form that this version reads and writes."""


def migrate(db: sqlite3.Connection, migrations: tables.Steps = MIGRATIONS) -> None:
    """Create the tables, or bring the file to the newest version; several processes may try at once. Raises as
    `state_tables.missing`.
    """
    newest = FIRST_VERSION + len(migrations)
    if _version(db) == newest:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        where = "state.path: the file"
        for script in tables.missing(_version(db), where, first=FIRST_VERSION, schema=SCHEMA, migrations=migrations):
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
