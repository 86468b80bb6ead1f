"""Tokens of our own model calls, by tenant, source and hour. Each function runs inside its caller's transaction."""

import sqlite3
from datetime import datetime, timedelta

from memproxy.stores.sqlite_journal import micros

KEPT = timedelta(days=400)
"""How long the hours are kept: a year can be compared with the one before."""


def note(db: sqlite3.Connection, tenant: str, source: str, tokens: tuple[int, int], at: datetime) -> None:
    """Add input and output tokens to what the tenant spent in the hour that begins ``at``; drop hours too long ago."""
    db.execute(
        """
        INSERT INTO model_tokens VALUES (?, ?, ?, ?, ?) ON CONFLICT (tenant, hour, source) DO UPDATE SET
            given = given + excluded.given, made = made + excluded.made
        """,
        (tenant, micros(at), source, *tokens),
    )
    db.execute("DELETE FROM model_tokens WHERE tenant = ? AND hour < ?", (tenant, micros(at - KEPT)))


def spent(db: sqlite3.Connection, tenant: str, since: datetime) -> dict[str, tuple[int, int]]:
    """Input and output tokens by source in the hours since then."""
    rows = db.execute(
        "SELECT source, sum(given), sum(made) FROM model_tokens WHERE tenant = ? AND hour >= ? GROUP BY source",
        (tenant, micros(since)),
    )
    return {source: (given, made) for source, given, made in rows}
