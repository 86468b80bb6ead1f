"""The tables of the embedded state, and how a file of an earlier version gets to them.

``PRAGMA user_version`` is the version of a file's form. Times are microseconds since 1970 (UTC).
"""

import sqlite3
from collections.abc import Sequence

from memproxy.errors import ConfigError

FIRST_VERSION = 12
"""The form that the first release creates. Files of lower versions were written before it."""

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
    "CREATE TABLE refused (lane TEXT PRIMARY KEY, rows INTEGER NOT NULL) WITHOUT ROWID",
    """
    CREATE TABLE slots (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        slot TEXT NOT NULL,
        holder TEXT NOT NULL,
        PRIMARY KEY (tenant, user, slot)
    ) WITHOUT ROWID
    """,
    # ``ended_at``: when a client said that the session is over, or it fell silent; a later turn opens it again
    """
    CREATE TABLE progress (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        session TEXT NOT NULL,
        scope TEXT NOT NULL,
        unlearned INTEGER NOT NULL,
        last_turn_at INTEGER NOT NULL,
        ended_at INTEGER,
        PRIMARY KEY (tenant, user, session)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX progress_open ON progress (last_turn_at) WHERE unlearned > 0",
    """
    CREATE TABLE session_keys (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        key TEXT NOT NULL,
        session TEXT NOT NULL,
        said_at INTEGER NOT NULL,
        answer TEXT,
        PRIMARY KEY (tenant, user, key, session)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX session_keys_age ON session_keys (said_at)",
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    # ``message`` names the user's message that the block stands before; ``memory`` is NULL in the block's frame, and
    # ``expires`` is when that memory does
    """
    CREATE TABLE block_lines (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        session TEXT NOT NULL,
        message TEXT NOT NULL,
        place INTEGER NOT NULL,
        memory TEXT,
        line TEXT NOT NULL,
        at INTEGER NOT NULL,
        expires INTEGER,
        PRIMARY KEY (tenant, user, session, message, place)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX block_lines_of_memory ON block_lines (tenant, user, memory) WHERE memory IS NOT NULL",
    "CREATE INDEX block_lines_age ON block_lines (at)",
    "CREATE TABLE block_erasures (owners INTEGER PRIMARY KEY, erasures INTEGER NOT NULL)",
    # parts are JSON of ``core.receipt``; ``version`` is that of their form
    """
    CREATE TABLE receipts (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        request_id TEXT NOT NULL,
        session TEXT,
        scope TEXT NOT NULL,
        at INTEGER NOT NULL,
        version INTEGER NOT NULL,
        recalled TEXT,
        decided TEXT,
        PRIMARY KEY (tenant, user, request_id)
    )
    """,
    "CREATE INDEX receipts_age ON receipts (at)",
    # ``journal`` and ``place``: the learn row and the outcome's place in it, so that none is noted twice
    """
    CREATE TABLE outcomes (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        session TEXT,
        scope TEXT NOT NULL,
        journal INTEGER NOT NULL,
        place INTEGER NOT NULL,
        at INTEGER NOT NULL,
        result TEXT NOT NULL,
        version INTEGER NOT NULL,
        body TEXT NOT NULL,
        UNIQUE (journal, place)
    )
    """,
    "CREATE INDEX outcomes_of_owner ON outcomes (tenant, user, number)",
    "CREATE INDEX outcomes_age ON outcomes (at)",
    """
    CREATE TABLE outcome_requests (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        request_id TEXT NOT NULL,
        outcome INTEGER NOT NULL REFERENCES outcomes (number) ON DELETE CASCADE,
        PRIMARY KEY (tenant, user, request_id, outcome)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX outcome_requests_of ON outcome_requests (outcome)",
    # ``kind``: wing, room, closet (of ``parent``, the pointer of what they are in), alias (of a wing, by its number;
    # ``parent`` is the circle that it was told in, `core.palace.circle`, empty for all), home (the wing of a session's
    # turns), last (the last number given below ``parent``, for ever)
    """
    CREATE TABLE palace (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        kind TEXT NOT NULL,
        parent TEXT NOT NULL,
        name TEXT NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (tenant, user, kind, parent, name)
    ) WITHOUT ROWID
    """,
    "CREATE INDEX palace_numbers ON palace (tenant, user, kind, parent, number)",
    # ``hour``: its beginning; ``given`` and ``made``: input and output tokens of our own model calls
    """
    CREATE TABLE model_tokens (
        tenant TEXT NOT NULL,
        hour INTEGER NOT NULL,
        source TEXT NOT NULL,
        given INTEGER NOT NULL,
        made INTEGER NOT NULL,
        PRIMARY KEY (tenant, hour, source)
    ) WITHOUT ROWID
    """,
    # ``record``: JSON of ``core.proxykey``
    "CREATE TABLE proxy_keys (id TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL, record TEXT NOT NULL)",
    # ``wrapped``: the owner's data key under the master key of id ``master``; without it the owner's texts are gone
    """
    CREATE TABLE data_keys (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        id BLOB NOT NULL,
        master TEXT NOT NULL,
        wrapped BLOB NOT NULL,
        made_at INTEGER NOT NULL,
        PRIMARY KEY (tenant, user)
    ) WITHOUT ROWID
    """,
    # retrievals of a memory are counted in the store; this says who has memories at all
    "CREATE TABLE owners (tenant TEXT NOT NULL, user TEXT NOT NULL, PRIMARY KEY (tenant, user)) WITHOUT ROWID",
    # ``user``: a digest (`state_part.Erased`), empty for the whole tenant; ``ends``: when the window that is
    # counted does, in seconds since 1970
    """
    CREATE TABLE uses (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        what TEXT NOT NULL,
        ends INTEGER NOT NULL,
        used INTEGER NOT NULL,
        PRIMARY KEY (tenant, user, what)
    ) WITHOUT ROWID
    """,
    # ``agent``: empty for the user's own; ``chosen``: JSON of ``core.choices``, ``version`` that of its form;
    # ``learning`` stands beside it for the search for sessions that are due
    """
    CREATE TABLE choices (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        agent TEXT NOT NULL,
        at INTEGER NOT NULL,
        version INTEGER NOT NULL,
        learning INTEGER,
        chosen TEXT NOT NULL,
        PRIMARY KEY (tenant, user, agent)
    ) WITHOUT ROWID
    """,
    # answers to calls with an idempotency key: ``name`` stands for the key, ``asked`` for the call, and ``answer``
    # is sealed with a key made of the caller's
    """
    CREATE TABLE answers (
        tenant TEXT NOT NULL,
        user TEXT NOT NULL,
        name TEXT NOT NULL,
        asked TEXT NOT NULL,
        at INTEGER NOT NULL,
        answer BLOB,
        erased INTEGER NOT NULL DEFAULT 0,
        PRIMARY KEY (tenant, user, name)
    )
    """,
    "CREATE INDEX answers_age ON answers (at)",
    # ``entry``: JSON of ``core.audit``, ``version`` that of its form
    """
    CREATE TABLE audit (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        tenant TEXT NOT NULL,
        at INTEGER NOT NULL,
        version INTEGER NOT NULL,
        entry TEXT NOT NULL
    )
    """,
    "CREATE INDEX audit_of_tenant ON audit (tenant, number)",
    # an alias's ``parent`` in ``palace`` is from here on the circle that it was told in (`core.palace.circle`), empty
    # for all of them; what is there already was told before that was noted, and goes on to hold in all. An older
    # program would leave such names behind, so it may not open the file
    # ``name``: a keyed digest of an owner (or session) that was erased, so that what was captured before and comes
    # behind the erasure is told; ``at``: when. ``secrets`` has the key
    "CREATE TABLE erased (name BLOB PRIMARY KEY, at INTEGER NOT NULL) WITHOUT ROWID",
    "CREATE INDEX erased_age ON erased (at)",
    "CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID",
    "INSERT INTO secrets VALUES ('erased', randomblob(32))",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        # ``name`` and ``namespace``: of an entry's key (`core.working_memory`); ``project`` is empty for
        # none; ``head``: JSON of category, tags and the agent that wrote it; ``words``: what a search looks at
        """
        CREATE TABLE working (
            tenant TEXT NOT NULL,
            user TEXT NOT NULL,
            name TEXT NOT NULL,
            project TEXT NOT NULL,
            namespace TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            expires_at INTEGER NOT NULL,
            size INTEGER NOT NULL,
            head TEXT NOT NULL,
            words TEXT NOT NULL,
            data BLOB NOT NULL,
            PRIMARY KEY (tenant, user, name, project)
        )
        """,
        "CREATE INDEX working_namespaces ON working (tenant, user, namespace)",
        "CREATE INDEX working_age ON working (expires_at)",
    ),
    (
        # ``body``: JSON of ``core.dream.Dream``, without text; ``due``: while it is ``open``, until when somebody works
        # on it
        """
        CREATE TABLE dreams (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            tenant TEXT NOT NULL,
            user TEXT NOT NULL,
            id TEXT NOT NULL,
            open INTEGER NOT NULL,
            due INTEGER NOT NULL,
            body TEXT NOT NULL,
            UNIQUE (tenant, user, id)
        )
        """,
        "CREATE UNIQUE INDEX dreams_open ON dreams (tenant, user) WHERE open = 1",
    ),
    (
        # sessions that fell silent are summarised once: those of before are not
        "UPDATE progress SET ended_at = last_turn_at WHERE ended_at IS NULL",
        "CREATE INDEX progress_silent ON progress (last_turn_at) WHERE ended_at IS NULL",
    ),
    # what was changed last of a million entries, past those that have expired, without reading them all
    ("CREATE INDEX working_newest ON working (tenant, user, updated_at, expires_at)",),
)
"""Statements that each bring a file from one version to the next, from `FIRST_VERSION` on; none ever changes."""

VERSION = FIRST_VERSION + len(MIGRATIONS)
"""The form that this version reads and writes."""


def migrate(db: sqlite3.Connection, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Create the tables, or bring the file to the newest version; several processes may try at once.

    Raises:
        ConfigError: a newer memproxy wrote the file, or one from before the first release.
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
