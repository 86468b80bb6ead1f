"""The tables of the state, written once for both databases: their own types stand in braces, and what only one has
beside its `migrate`. None of these statements ever changes: a later form is a further step of `MIGRATIONS`.
"""

from collections.abc import Mapping, Sequence

from memproxy.errors import ConfigError

Steps = Sequence[Sequence[str]]
"""Statements that each bring a state from one version to the next."""

TABLES = (
    "CREATE TABLE refused (lane TEXT PRIMARY KEY, rows {big} NOT NULL){rowless}",
    # who has anything here
    "CREATE TABLE owners ({owner}, {held} PRIMARY KEY (tenant, {user})){rowless}",
    """
    CREATE TABLE slots (
        {owner}, slot {name} NOT NULL, holder TEXT NOT NULL, PRIMARY KEY (tenant, {user}, slot)
    ){rowless}
    """,
    # ``ended_at``: when a client said that the session is over, or it fell silent; a later turn opens it again
    """
    CREATE TABLE progress (
        {place},
        unlearned INTEGER NOT NULL,
        last_turn_at {time} NOT NULL,
        ended_at {time},
        PRIMARY KEY (tenant, {user}, session)
    ){rowless}
    """,
    "CREATE INDEX progress_open ON progress (last_turn_at) WHERE unlearned > 0",
    "CREATE INDEX progress_silent ON progress (last_turn_at) WHERE ended_at IS NULL",
    """
    CREATE TABLE session_keys (
        {owner},
        key {name} NOT NULL,
        session {name} NOT NULL,
        said_at {time} NOT NULL,
        answer TEXT,
        PRIMARY KEY (tenant, {user}, key, session)
    ){rowless}
    """,
    "CREATE INDEX session_keys_age ON session_keys (said_at)",
    # ``message`` names the user's message that the block stands before; ``memory`` is NULL in the block's frame;
    # ``expires``: when the memory that the line shows does
    """
    CREATE TABLE block_lines (
        {owner},
        session {name} NOT NULL,
        message {name} NOT NULL,
        place INTEGER NOT NULL,
        memory {name},
        line TEXT NOT NULL,
        at {time} NOT NULL,
        expires {time},
        PRIMARY KEY (tenant, {user}, session, message, place)
    ){rowless}
    """,
    "CREATE INDEX block_lines_of_memory ON block_lines (tenant, {user}, memory) WHERE memory IS NOT NULL",
    "CREATE INDEX block_lines_age ON block_lines (at)",
    # ``owners``: a group of them
    "CREATE TABLE block_erasures (owners INTEGER PRIMARY KEY, erasures {big} NOT NULL)",
    # parts are JSON of ``core.receipt``; ``version`` is that of their form
    """
    CREATE TABLE receipts (
        {place},
        request_id {name} NOT NULL,
        at {time} NOT NULL,
        version INTEGER NOT NULL,
        recalled {json},
        decided {json},
        PRIMARY KEY (tenant, {user}, request_id)
    )
    """,
    "CREATE INDEX receipts_age ON receipts (at)",
    # ``journal`` and ``place``: the learn row and the outcome's place in it, so that none is noted twice
    """
    CREATE TABLE outcomes (
        number {number},
        {place},
        journal {big} NOT NULL,
        place INTEGER NOT NULL,
        at {time} NOT NULL,
        result TEXT NOT NULL,
        version INTEGER NOT NULL,
        body {json} NOT NULL,
        UNIQUE (journal, place)
    )
    """,
    "CREATE INDEX outcomes_of_owner ON outcomes (tenant, {user}, number)",
    "CREATE INDEX outcomes_age ON outcomes (at)",
    """
    CREATE TABLE outcome_requests (
        {owner},
        request_id {name} NOT NULL,
        outcome {big} NOT NULL REFERENCES outcomes (number) ON DELETE CASCADE,
        PRIMARY KEY (tenant, {user}, request_id, outcome)
    ){rowless}
    """,
    "CREATE INDEX outcome_requests_of ON outcome_requests (outcome)",
    # ``kind``: wing, room, closet (of ``parent``, the pointer of what they are in), alias (of a wing, by its number;
    # ``parent`` is the circle that it was told in, `core.palace.circle`, empty for all), home (the wing of a session's
    # turns), last (the last number given below ``parent``, for ever)
    """
    CREATE TABLE palace (
        {owner},
        kind {name} NOT NULL,
        parent {name} NOT NULL,
        name {name} NOT NULL,
        number INTEGER NOT NULL,
        PRIMARY KEY (tenant, {user}, kind, parent, name)
    ){rowless}
    """,
    "CREATE INDEX palace_numbers ON palace (tenant, {user}, kind, parent, number)",
    # ``hour``: its beginning; ``given`` and ``made``: input and output tokens of our own model calls
    """
    CREATE TABLE model_tokens (
        tenant TEXT NOT NULL,
        hour {time} NOT NULL,
        source TEXT NOT NULL,
        given {big} NOT NULL,
        made {big} NOT NULL,
        PRIMARY KEY (tenant, hour, source)
    ){rowless}
    """,
    # the user is a digest (`state_part.Erased`), empty for the tenant as a whole; ``ends``: when the window that is
    # counted does, in seconds since 1970
    """
    CREATE TABLE uses (
        {owner},
        what TEXT NOT NULL,
        ends {big} NOT NULL,
        used {big} NOT NULL,
        PRIMARY KEY (tenant, {user}, what)
    ){rowless}
    """,
    # the user is named, or a digest once erased; ``agent``: empty for the user's own; ``chosen``: JSON of
    # ``core.choices``, ``version`` that of its form; ``learning`` stands beside it for the search for sessions
    """
    CREATE TABLE choices (
        {owner},
        agent {name} NOT NULL,
        at {time} NOT NULL,
        version INTEGER NOT NULL,
        learning {flag},
        chosen {json} NOT NULL,
        PRIMARY KEY (tenant, {user}, agent)
    ){rowless}
    """,
    # answers to calls with an idempotency key: the user is a digest, ``name`` stands for the key, ``asked`` for the
    # call, and ``answer`` is sealed with a key made of the caller's
    """
    CREATE TABLE answers (
        {owner},
        name {name} NOT NULL,
        asked TEXT NOT NULL,
        at {time} NOT NULL,
        answer {bytes},
        erased {flag} NOT NULL DEFAULT {false},
        PRIMARY KEY (tenant, {user}, name)
    )
    """,
    "CREATE INDEX answers_age ON answers (at)",
    # ``entry``: JSON of ``core.audit``, ``version`` that of its form
    """
    CREATE TABLE audit (
        number {number},
        tenant {name} NOT NULL,
        {users_named}
        at {time} NOT NULL,
        version INTEGER NOT NULL,
        entry {json} NOT NULL
    )
    """,
    "CREATE INDEX audit_of_tenant ON audit (tenant, number)",
    # ``record``: JSON of ``core.proxykey``
    "CREATE TABLE proxy_keys ({arrival} id TEXT NOT NULL UNIQUE, tenant {name} NOT NULL, record {json} NOT NULL)",
    # ``wrapped``: the owner's data key under the master key of id ``master``; without it the owner's texts are gone
    """
    CREATE TABLE data_keys (
        {owner},
        id {bytes} NOT NULL,
        master TEXT NOT NULL,
        wrapped {bytes} NOT NULL,
        made_at {written_at},
        PRIMARY KEY (tenant, {user})
    ){rowless}
    """,
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL){rowless}",
    # ``name``: a keyed digest of an owner (or session) that was erased, so that what was captured before and comes
    # behind the erasure is told; ``at``: when. ``secrets`` has the key
    "CREATE TABLE erased (name {bytes} PRIMARY KEY, at {time} NOT NULL){rowless}",
    "CREATE INDEX erased_age ON erased (at)",
    "CREATE TABLE secrets (name TEXT PRIMARY KEY, value {bytes} NOT NULL){rowless}",
    "INSERT INTO secrets VALUES ('erased', {secret})",
    # ``name`` and ``namespace``: of an entry's key (`core.working_memory`); ``project`` is empty for none; ``head``:
    # JSON of category, tags and the agent that wrote it; ``words``: what a search looks at
    """
    CREATE TABLE working (
        {owner},
        name {name} NOT NULL,
        project {name} NOT NULL,
        namespace {name} NOT NULL,
        created_at {time} NOT NULL,
        updated_at {time} NOT NULL,
        expires_at {time} NOT NULL,
        size {big} NOT NULL,
        head TEXT NOT NULL,
        words TEXT NOT NULL,
        data {bytes} NOT NULL,
        PRIMARY KEY (tenant, {user}, name, project)
    )
    """,
    "CREATE INDEX working_namespaces ON working (tenant, {user}, namespace)",
    "CREATE INDEX working_age ON working (expires_at)",
    # what was changed last of a million entries, past those that have expired, without reading them all
    "CREATE INDEX working_newest ON working (tenant, {user}, updated_at, expires_at)",
    # ``body``: JSON of ``core.dream.Dream``, without text; ``due``: while it is ``open``, until when somebody works on
    # it
    """
    CREATE TABLE dreams (
        number {number},
        {owner},
        id {name} NOT NULL,
        open {flag} NOT NULL,
        due {time} NOT NULL,
        body {json} NOT NULL,
        UNIQUE (tenant, {user}, id)
    )
    """,
    "CREATE UNIQUE INDEX dreams_open ON dreams (tenant, {user}) WHERE open{is_true}",
)


def written(statements: tuple[str, ...], types: Mapping[str, str]) -> tuple[str, ...]:
    """Statements as a database takes them."""
    return tuple(statement.format_map(types) for statement in statements)


def missing(done: int, where: str, *, first: int, schema: Sequence[str], migrations: Steps) -> Steps:
    """What brings a state of version ``done`` (0: there is none) to the newest; ``first`` is what ``schema`` creates.
    Raises `ConfigError`: a newer memproxy wrote it, or one from before the first release.
    """
    newest = first + len(migrations)
    if done > newest:
        raise ConfigError(
            f"{where} has version {done}, this memproxy knows up to {newest}. Start the version that wrote it, or a "
            "newer one."
        )
    if 0 < done < first:
        raise ConfigError(
            f"{where} has version {done}, which was written before the first release. Run `memproxy export` with the "
            "version that wrote it, and `memproxy import` with this one into a new state."
        )
    return migrations[done - first :] if done else (schema, *migrations)
