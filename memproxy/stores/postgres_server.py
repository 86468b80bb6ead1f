"""A PostgreSQL server, as state and memories use it: how it is connected to, what it must be, what its errors mean."""

import logging
import select
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from memproxy.errors import ConfigError

OLDEST_VERSION = 15
CONNECT_S = 3  # a server that is down is known after this
RECONNECT_S = 4.0
"""How long a pool retries a connection by itself, with growing, varied pauses; the next call makes it go on."""

CONNECT: dict[str, Any] = {
    "autocommit": True,
    "application_name": "memproxy",
    "connect_timeout": CONNECT_S,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 15_000,
}
"""How connections are made; one that waits learns within half a minute that its server is cut off."""


async def check_idle(connection: AsyncConnection[Any]) -> None:
    """Before a connection is used: an idle one at which something has arrived was closed by the server, or was told of
    a change. The look costs a microsecond, a question to the server a round trip.
    """
    poll = select.poll()  # select.select takes no descriptor above 1,023, and a relay with many streams has those
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        await AsyncConnectionPool.check_connection(connection)


POOL: dict[str, Any] = {
    "kwargs": CONNECT,
    "check": check_idle,
    "min_size": 1,
    "timeout": CONNECT_S,
    "reconnect_timeout": RECONNECT_S,
    "open": False,
}
"""How a pool keeps its connections."""

logging.getLogger("psycopg.pool").setLevel(logging.ERROR)  # it tells of each try; callers are told, too


async def refusal(connection: AsyncConnection[Any], server: str, setting: str) -> str | None:
    """Why this server or database cannot be used, and what to do; None: it can. ``setting`` names its address."""
    version = connection.info.server_version // 10_000
    if version < OLDEST_VERSION:
        return (
            f"{server} is version {version}; {OLDEST_VERSION} or newer is needed. Upgrade the server, or name another "
            f"one in {setting}."
        )
    cursor = await connection.execute("SELECT pg_is_in_recovery(), current_setting('server_encoding')")
    is_standby, encoding = await cursor.fetchone() or (False, "UTF8")
    if is_standby:
        return f"{server} is a standby, which only reads. {_PRIMARY.format(setting=setting)}"
    if encoding != "UTF8":
        return (
            f"The database of {server} has the encoding {encoding}; UTF8 is needed. Make another one: "
            "CREATE DATABASE memproxy ENCODING 'UTF8' TEMPLATE template0;"
        )
    return None


_PRIMARY = "Name the primary in {setting}; with several hosts there, add target_session_attrs=read-write."

_REMEDIES: dict[type[Exception], str] = {
    errors.InsufficientPrivilege: "{rights}",
    errors.UndefinedTable: "Its tables are not there. Unless a start is just making them, restore a dump of the "
    "database and start again.",
    errors.ReadOnlySqlTransaction: _PRIMARY,
    errors.TooManyConnections: "Raise max_connections there, or run fewer processes (server.workers, engine.workers).",
    errors.DiskFull: "Free some space on its disk.",
    errors.QueryCanceled: "Look for what keeps it busy (pg_stat_activity).",
    errors.LockNotAvailable: "Look for a transaction that was left open (pg_stat_activity).",
    errors.DeadlockDetected: "It is tried again.",
}

_CONNECT_REMEDIES = (
    ("password authentication failed", "Check user and password in {setting}."),
    ("no password supplied", "Add the password to {setting}."),
    ("pg_hba.conf", "Let this machine's address in by its pg_hba.conf."),
    ("too many", _REMEDIES[errors.TooManyConnections]),
    ("remaining connection slots", _REMEDIES[errors.TooManyConnections]),
    ("the database system", "It is tried again."),
    ("role", "Make the user that {setting} names: CREATE ROLE … LOGIN PASSWORD …;"),
    ("database", "Make the database that {setting} names: CREATE DATABASE … OWNER …;"),
    ("resolve host", "Check the host in {setting}."),
    ("translate host", "Check the host in {setting}."),
)
"""What a refused connection's message says, in English, and what to do; it has no code."""

_RIGHTS = {
    "state.url": "Let its user make the schema: GRANT CREATE ON DATABASE … TO …; or make the schema memproxy for it: "
    "CREATE SCHEMA memproxy AUTHORIZATION …;",
    "store.url": "Let its user make tables: GRANT CREATE ON SCHEMA public TO …; those that are there must be its own.",
}


def explained(error: Exception, setting: str) -> str:
    """What went wrong, in brackets and without values of a row, which details may quote; and what to do about it."""
    fallback = f"Check that PostgreSQL runs, and {setting}."
    if isinstance(error, PoolTimeout):
        return f"(no connection in time). {fallback}"
    primary = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    reason = ((primary or str(error)).strip().splitlines() or [type(error).__name__])[0][:200].removesuffix(".")
    remedy = next((text for kind, text in _REMEDIES.items() if isinstance(error, kind)), None)
    if remedy is None and getattr(error, "sqlstate", None) is None:
        message = str(error).lower()
        remedy = next((text for part, text in _CONNECT_REMEDIES if part in message), None)
    return f"({reason}). {(remedy or fallback).format(setting=setting, rights=_RIGHTS[setting])}"


def check_url(url: str, setting: str) -> None:
    """See that it is a connection string. Raises `ConfigError`; the message does not show it."""
    wrong = ConfigError(
        f"{setting}: is no connection string of PostgreSQL; it looks like postgresql://user:password@host:5432/name."
    )
    try:
        ports = str(psycopg.conninfo.conninfo_to_dict(url).get("port") or "5432")
    except psycopg.ProgrammingError as error:
        raise wrong from error
    if not all(port.isdecimal() for port in ports.split(",") if port):
        raise wrong
