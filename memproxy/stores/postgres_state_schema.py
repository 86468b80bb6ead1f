"""The tables of the state in PostgreSQL, as migrations that never change; all that are missing are one transaction.

Text is compared byte by byte (collation C), as in SQLite. JSON is kept as bytes: it may hold what text in PostgreSQL
cannot. What is the owner's stands under ``tenant`` and ``user_id``; changing it takes the owner's lock.
"""

from collections.abc import Sequence

from memproxy.errors import ConfigError
from memproxy.stores import state_tables as tables
from memproxy.stores.postgres_state_database import SCHEMA, Db, lock_key, single_row

_OWNER = 'tenant text COLLATE "C" NOT NULL, user_id text COLLATE "C" NOT NULL'
_PLACE = f'{_OWNER}, project text COLLATE "C", agent text COLLATE "C", session text COLLATE "C"'
_TYPES = {
    "user": "user_id",
    "owner": _OWNER,
    "place": _PLACE,
    "name": 'text COLLATE "C"',
    "time": "timestamptz",
    "written_at": "timestamptz NOT NULL DEFAULT clock_timestamp()",
    "json": "bytea",
    "bytes": "bytea",
    "big": "bigint",
    "number": "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "flag": "boolean",
    "false": "false",
    "is_true": "",
    "rowless": "",
    # of an entry of the audit log: whom it was about, and who did it
    "users_named": 'about text COLLATE "C", by_user text COLLATE "C",',
    "arrival": "number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,",
    "secret": "uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())",
}

_JOURNAL = (
    # ``head``: the oldest unfinished row of its owner and lane, the only one that may be claimed; ``claimant``: who
    # runs it; ``due`` NULL: at once
    f"""
    CREATE TABLE journal (
        number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        lane text NOT NULL,
        kind text NOT NULL,
        version integer NOT NULL,
        {_PLACE},
        request_id text,
        body bytea NOT NULL,
        plan bytea,
        state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'parked')),
        head boolean NOT NULL,
        claimant text,
        attempts integer NOT NULL DEFAULT 0,
        due timestamptz,
        error text,
        at timestamptz NOT NULL DEFAULT clock_timestamp(),
        parked_at timestamptz
    )
    """,
    "CREATE INDEX journal_of_owner ON journal (tenant, user_id, lane, number)",
    "CREATE INDEX journal_claimable ON journal (lane, number) WHERE head AND state = 'waiting'",
    "CREATE INDEX journal_running ON journal (claimant) WHERE state = 'running'",
    "CREATE INDEX journal_states ON journal (lane, state, number)",
    # who claims, until when it counts as living if it does not say so again, and the advisory lock that it holds
    "CREATE TABLE claimants (id text PRIMARY KEY, until timestamptz NOT NULL, lock bigint NOT NULL)",
    "CREATE INDEX uses_past ON uses (ends)",
)

_SHARED = (
    # ``held_by``: the claimant that does something for the owner beside the rows; no other one claims any meanwhile
    "ALTER TABLE owners ADD COLUMN held_by text",
    "CREATE INDEX owners_held ON owners (held_by) WHERE held_by IS NOT NULL",
    # how rows were refused, for replicas at which somebody waits for them; ``kind``: the error's class
    f"""
    CREATE TABLE refusals (
        number bigint PRIMARY KEY,
        {_OWNER},
        kind text NOT NULL,
        error text NOT NULL,
        at timestamptz NOT NULL DEFAULT clock_timestamp()
    )
    """,
    "CREATE INDEX refusals_of_owner ON refusals (tenant, user_id)",
    "CREATE INDEX refusals_age ON refusals (at)",
)

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (*tables.written(tables.TABLES, _TYPES), *tables.written(tables.WORKING, _TYPES), *_JOURNAL),
    tables.written(tables.DREAMS, _TYPES),
    _SHARED,
    tables.written(tables.SILENT, _TYPES),
    tables.written(tables.NEWEST, _TYPES),
)


async def migrate(db: Db, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Create or update the tables; several replicas may try at once. Raises `ConfigError`: newer ones are there."""
    if await _version(db) == len(migrations):
        return
    async with db.transaction():
        await db.execute("SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)")
        await db.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("migrations")])
        done = await _version(db)
        if done > len(migrations):
            raise ConfigError(
                f"state.url: the database has version {done}, this memproxy knows up to {len(migrations)}. "
                "Start the version that wrote it, or a newer one."
            )
        await db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await db.execute("CREATE TABLE IF NOT EXISTS version (number integer NOT NULL)")
        for script in migrations[done:]:
            for statement in script:
                await db.execute(statement)
        await db.execute("DELETE FROM version")
        await db.execute("INSERT INTO version VALUES (%s)", [len(migrations)])


async def _version(db: Db) -> int:
    (there,) = await single_row(
        db, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version')", [SCHEMA]
    )
    return int((await single_row(db, "SELECT coalesce(max(number), 0) FROM version"))[0]) if there else 0
