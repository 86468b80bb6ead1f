"""The tables of the state in PostgreSQL, and their later forms (`MIGRATIONS`): all that is missing is one transaction.

Text is compared byte by byte (collation C), as in SQLite. JSON is kept as bytes: it may hold what text in PostgreSQL
cannot. What is the owner's stands under ``tenant`` and ``user_id``; changing it takes the owner's lock.
"""

from memproxy.stores import state_tables as tables
from memproxy.stores.postgres_state_database import SCHEMA, Db, lock_key, single_row

_OWNER = 'tenant text COLLATE "C" NOT NULL, user_id text COLLATE "C" NOT NULL'
_PLACE = f'{_OWNER}, project text COLLATE "C", agent text COLLATE "C", session text COLLATE "C"'
FIRST_VERSION = 5  # the form that the first release creates

_TYPES = {
    "user": "user_id",
    "owner": _OWNER,
    "held": "held_by text,",  # the claimant that does something for the owner beside the rows: no other one claims any
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

_TABLES = (
    *tables.written(tables.TABLES, _TYPES),
    "CREATE INDEX owners_held ON owners (held_by) WHERE held_by IS NOT NULL",
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

MIGRATIONS: tables.Steps = ()
"""From `FIRST_VERSION` on; none ever changes."""


async def migrate(db: Db, migrations: tables.Steps = MIGRATIONS) -> None:
    """Create or update the tables; several replicas may try at once. Raises as `state_tables.missing`."""
    newest = FIRST_VERSION + len(migrations)
    if await _version(db) == newest:
        return
    async with db.transaction():
        await db.execute("SELECT set_config('lock_timeout', '0', true), set_config('statement_timeout', '0', true)")
        await db.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("migrations")])
        done, where = await _version(db), "state.url: the database"
        steps = tables.missing(done, where, first=FIRST_VERSION, schema=_TABLES, migrations=migrations)
        await db.execute(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
        await db.execute("CREATE TABLE IF NOT EXISTS version (number integer NOT NULL)")
        for script in steps:
            for statement in script:
                await db.execute(statement)
        await db.execute("DELETE FROM version")
        await db.execute("INSERT INTO version VALUES (%s)", [newest])


async def _version(db: Db) -> int:
    (exists,) = await single_row(
        db, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version')", [SCHEMA]
    )
    return int((await single_row(db, "SELECT coalesce(max(number), 0) FROM version"))[0]) if exists else 0
