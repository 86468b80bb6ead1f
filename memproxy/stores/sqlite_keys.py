"""The statements of proxy keys. Each function runs inside a transaction that its caller opened."""

import sqlite3
from datetime import datetime

import msgspec

from memproxy.core.proxykey import KeyRecord

_DECODER = msgspec.json.Decoder(KeyRecord)


def find(db: sqlite3.Connection, key_id: str) -> KeyRecord | None:
    """One record."""
    row = db.execute("SELECT record FROM proxy_keys WHERE id = ?", (key_id,)).fetchone()
    return _DECODER.decode(row[0]) if row else None


def listed(db: sqlite3.Connection, tenant: str | None) -> list[KeyRecord]:
    """The records of a tenant, or all, oldest first."""
    rows = db.execute("SELECT record FROM proxy_keys WHERE tenant = ? OR ? IS NULL ORDER BY rowid", (tenant, tenant))
    return [_DECODER.decode(row[0]) for row in rows]


def add(db: sqlite3.Connection, record: KeyRecord) -> None:
    """A new record."""
    form = msgspec.json.encode(record).decode()
    db.execute("INSERT INTO proxy_keys (id, tenant, record) VALUES (?, ?, ?)", (record.id, record.tenant, form))


def revoke(db: sqlite3.Connection, key_id: str, at: datetime) -> bool:
    """Whether a valid one was ended."""
    record = find(db, key_id)
    if record is None or record.revoked_at is not None:
        return False
    ended = msgspec.structs.replace(record, revoked_at=at)
    db.execute("UPDATE proxy_keys SET record = ? WHERE id = ?", (msgspec.json.encode(ended).decode(), key_id))
    return True
