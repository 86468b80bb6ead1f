"""The tables of the state in PostgreSQL, as migrations: each brings a database from one version to the next, none ever
changes. All of them that are missing are one transaction, so that one that is killed leaves nothing half.

Text is compared byte by byte (collation C), as the embedded state does. JSON is kept as bytes: it may hold what text in
PostgreSQL cannot. What is the owner's stands under ``tenant`` and ``user_id``; changing it takes the owner's lock.
"""

from collections.abc import Sequence

from memproxy.errors import ConfigError
from memproxy.stores.postgres_state_database import SCHEMA, Db, lock_key, one

_OWNER = 'tenant text COLLATE "C" NOT NULL, user_id text COLLATE "C" NOT NULL'
_PLACE = f'{_OWNER}, project text COLLATE "C", agent text COLLATE "C", session text COLLATE "C"'

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
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
        "CREATE TABLE refused (lane text PRIMARY KEY, rows bigint NOT NULL)",
        f"CREATE TABLE owners ({_OWNER}, PRIMARY KEY (tenant, user_id))",
        f"""
        CREATE TABLE slots (
            {_OWNER}, slot text COLLATE "C", holder text NOT NULL, PRIMARY KEY (tenant, user_id, slot)
        )
        """,
        f"""
        CREATE TABLE progress (
            {_PLACE},
            unlearned integer NOT NULL,
            last_turn_at timestamptz NOT NULL,
            ended_at timestamptz,
            PRIMARY KEY (tenant, user_id, session)
        )
        """,
        "CREATE INDEX progress_open ON progress (last_turn_at) WHERE unlearned > 0",
        f"""
        CREATE TABLE session_keys (
            {_OWNER},
            key text COLLATE "C" NOT NULL,
            session text COLLATE "C" NOT NULL,
            said_at timestamptz NOT NULL,
            answer text,
            PRIMARY KEY (tenant, user_id, key, session)
        )
        """,
        "CREATE INDEX session_keys_age ON session_keys (said_at)",
        # ``message`` names the user's message that the block stands before; ``memory`` is NULL in the block's frame;
        # ``expires``: when the memory that the line shows does
        f"""
        CREATE TABLE block_lines (
            {_OWNER},
            session text COLLATE "C" NOT NULL,
            message text COLLATE "C" NOT NULL,
            place integer NOT NULL,
            memory text COLLATE "C",
            line text NOT NULL,
            at timestamptz NOT NULL,
            expires timestamptz,
            PRIMARY KEY (tenant, user_id, session, message, place)
        )
        """,
        "CREATE INDEX block_lines_of_memory ON block_lines (tenant, user_id, memory) WHERE memory IS NOT NULL",
        "CREATE INDEX block_lines_age ON block_lines (at)",
        # ``owners``: a group of them
        "CREATE TABLE block_erasures (owners integer PRIMARY KEY, erasures bigint NOT NULL)",
        # parts are JSON of ``core.receipt``; ``version`` is that of their form
        f"""
        CREATE TABLE receipts (
            {_PLACE},
            request_id text COLLATE "C" NOT NULL,
            at timestamptz NOT NULL,
            version integer NOT NULL,
            recalled bytea,
            decided bytea,
            PRIMARY KEY (tenant, user_id, request_id)
        )
        """,
        "CREATE INDEX receipts_age ON receipts (at)",
        # ``journal`` and ``place``: the learn row and the outcome's place in it, so that none is noted twice
        f"""
        CREATE TABLE outcomes (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            {_PLACE},
            journal bigint NOT NULL,
            place integer NOT NULL,
            at timestamptz NOT NULL,
            result text NOT NULL,
            version integer NOT NULL,
            body bytea NOT NULL,
            UNIQUE (journal, place)
        )
        """,
        "CREATE INDEX outcomes_of_owner ON outcomes (tenant, user_id, number)",
        "CREATE INDEX outcomes_age ON outcomes (at)",
        f"""
        CREATE TABLE outcome_requests (
            {_OWNER},
            request_id text COLLATE "C" NOT NULL,
            outcome bigint NOT NULL REFERENCES outcomes (number) ON DELETE CASCADE,
            PRIMARY KEY (tenant, user_id, request_id, outcome)
        )
        """,
        "CREATE INDEX outcome_requests_of ON outcome_requests (outcome)",
        # ``kind``: wing, room, closet (of ``parent``, the pointer of what they are in), alias (of a wing, by its
        # number), home (the wing of a session's turns), last (the last number given below ``parent``, for ever)
        f"""
        CREATE TABLE palace (
            {_OWNER},
            kind text COLLATE "C" NOT NULL,
            parent text COLLATE "C" NOT NULL,
            name text COLLATE "C" NOT NULL,
            number integer NOT NULL,
            PRIMARY KEY (tenant, user_id, kind, parent, name)
        )
        """,
        "CREATE INDEX palace_numbers ON palace (tenant, user_id, kind, parent, number)",
        # ``hour``: its beginning; ``given`` and ``made``: input and output tokens of our own model calls
        """
        CREATE TABLE model_tokens (
            tenant text NOT NULL,
            hour timestamptz NOT NULL,
            source text NOT NULL,
            given bigint NOT NULL,
            made bigint NOT NULL,
            PRIMARY KEY (tenant, hour, source)
        )
        """,
        # ``user_id``: a digest, or empty for the tenant as a whole; ``ends``: when the counted window does
        f"""
        CREATE TABLE uses (
            {_OWNER},
            what text NOT NULL,
            ends bigint NOT NULL,
            used bigint NOT NULL,
            PRIMARY KEY (tenant, user_id, what)
        )
        """,
        "CREATE INDEX uses_past ON uses (ends)",
        # ``user_id``: the name, or its digest once erased; ``agent``: empty for the user's own; ``chosen``: JSON of
        # ``core.choices``, ``version`` that of its form; ``learning`` stands beside it for the search for sessions
        f"""
        CREATE TABLE choices (
            {_OWNER},
            agent text COLLATE "C" NOT NULL,
            at timestamptz NOT NULL,
            version integer NOT NULL,
            learning boolean,
            chosen bytea NOT NULL,
            PRIMARY KEY (tenant, user_id, agent)
        )
        """,
        # answers to calls with an idempotency key: ``user_id`` is a digest, ``name`` stands for the key, ``asked`` for
        # the call, and ``answer`` is sealed with a key made of the caller's
        f"""
        CREATE TABLE answers (
            {_OWNER},
            name text COLLATE "C" NOT NULL,
            asked text NOT NULL,
            at timestamptz NOT NULL,
            answer bytea,
            erased boolean NOT NULL DEFAULT false,
            PRIMARY KEY (tenant, user_id, name)
        )
        """,
        "CREATE INDEX answers_age ON answers (at)",
        # ``entry``: JSON of ``core.audit``, ``version`` that of its form; ``about`` and ``by_user``: the users that it
        # names
        """
        CREATE TABLE audit (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            tenant text COLLATE "C" NOT NULL,
            about text COLLATE "C",
            by_user text COLLATE "C",
            at timestamptz NOT NULL,
            version integer NOT NULL,
            entry bytea NOT NULL
        )
        """,
        "CREATE INDEX audit_of_tenant ON audit (tenant, number)",
        # ``record``: JSON of ``core.proxykey``
        """
        CREATE TABLE proxy_keys (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text NOT NULL UNIQUE,
            tenant text COLLATE "C" NOT NULL,
            record bytea NOT NULL
        )
        """,
        # ``wrapped``: the owner's data key under the master key of id ``master``; without it the owner's texts are gone
        f"""
        CREATE TABLE data_keys (
            {_OWNER},
            id bytea NOT NULL,
            master text NOT NULL,
            wrapped bytea NOT NULL,
            made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
            PRIMARY KEY (tenant, user_id)
        )
        """,
        # ``name`` and ``namespace``: of the entry's key (`core.working_memory`); ``project`` is empty for none;
        # ``head``: JSON of category, tags and the agent that wrote it; ``words``: what a search looks at
        f"""
        CREATE TABLE working (
            {_OWNER},
            name text COLLATE "C" NOT NULL,
            project text COLLATE "C" NOT NULL,
            namespace text COLLATE "C" NOT NULL,
            created_at timestamptz NOT NULL,
            updated_at timestamptz NOT NULL,
            expires_at timestamptz NOT NULL,
            size bigint NOT NULL,
            head text NOT NULL,
            words text NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (tenant, user_id, name, project)
        )
        """,
        "CREATE INDEX working_namespaces ON working (tenant, user_id, namespace)",
        "CREATE INDEX working_age ON working (expires_at)",
        "CREATE TABLE meta (key text PRIMARY KEY, value text NOT NULL)",
        # ``name``: a keyed digest of an owner (or session) that was erased, so that what was captured before and comes
        # behind the erasure is told; ``at``: when. ``secrets`` has the key
        "CREATE TABLE erased (name bytea PRIMARY KEY, at timestamptz NOT NULL)",
        "CREATE INDEX erased_age ON erased (at)",
        "CREATE TABLE secrets (name text PRIMARY KEY, value bytea NOT NULL)",
        "INSERT INTO secrets VALUES ('erased', uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()))",
    ),
    (
        # ``body``: JSON of ``core.dream.Dream``, without text; ``due``: while it is ``open``, until when somebody works
        # on it
        f"""
        CREATE TABLE dreams (
            number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            {_OWNER},
            id text COLLATE "C" NOT NULL,
            open boolean NOT NULL,
            due timestamptz NOT NULL,
            body bytea NOT NULL,
            UNIQUE (tenant, user_id, id)
        )
        """,
        "CREATE UNIQUE INDEX dreams_open ON dreams (tenant, user_id) WHERE open",
    ),
    (
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
    ),
    (
        # sessions that fell silent are summarised once: those of before are not
        "UPDATE progress SET ended_at = last_turn_at WHERE ended_at IS NULL",
        "CREATE INDEX progress_silent ON progress (last_turn_at) WHERE ended_at IS NULL",
    ),
    # what was changed last of a million entries, past those that have expired, without reading them all
    ("CREATE INDEX working_newest ON working (tenant, user_id, updated_at, expires_at)",),
)


async def migrate(db: Db, migrations: Sequence[Sequence[str]] = MIGRATIONS) -> None:
    """Create the tables, or bring them to the newest version; several replicas may try at once.

    Raises:
        ConfigError: a newer memproxy made them.
    """
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
    (there,) = await one(
        db, "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = %s AND tablename = 'version')", [SCHEMA]
    )
    return int((await one(db, "SELECT coalesce(max(number), 0) FROM version"))[0]) if there else 0
