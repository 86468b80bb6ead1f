"""How rows of the embedded state are sealed, and how a state that is not encrypted yet becomes so.

Each function runs inside a transaction that its caller opened.
"""

import re
import sqlite3

import msgspec

from memproxy.core.receipt import Outcome, Recalled
from memproxy.stores.sealing import DataKey

SEALED_TABLES = ("journal", "block_lines", "receipts", "outcomes", "palace", "slots", "session_keys")
"""Tables that hold texts, or names made of them."""

NAMED_IN_WORDS = ("wing", "closet", "alias")
"""Kinds of the palace's rows whose names are words of the user's; rooms are named by sessions."""

_MARKED = re.compile(r"(forgotten\|[0-9a-f]{24}\|[0-9a-f]{24}\||gone\|)(.*)", re.DOTALL)
"""Entries of the slot register that are no slots: they are dropped by how they begin, which is hashes of ids."""


def slot_name(key: DataKey, name: str) -> str:
    """How the register knows the slot: by a keyed hash, after what it is dropped by."""
    marked = _MARKED.fullmatch(name)
    head, rest = marked.groups() if marked else ("", name)
    return f"{head}{key.token(rest, 'slot')}"


def seal_owner(db: sqlite3.Connection, key: DataKey) -> None:
    """Seal everything of the key's owner."""
    _journal(db, key)
    _blocks(db, key)
    _receipts(db, key)
    _outcomes(db, key)
    _names(db, key)


def _journal(db: sqlite3.Connection, key: DataKey) -> None:
    rows = db.execute("SELECT number, body, plan FROM journal WHERE tenant = ? AND user = ?", key.owner).fetchall()
    db.executemany(
        "UPDATE journal SET body = ?, plan = ? WHERE number = ?",
        [
            (key.seal(body, "journal.body"), None if plan is None else key.seal(plan, "journal.plan"), number)
            for number, body, plan in rows
        ],
    )


def _blocks(db: sqlite3.Connection, key: DataKey) -> None:
    rows = db.execute(
        "SELECT line, session, message, place FROM block_lines WHERE tenant = ? AND user = ?", key.owner
    ).fetchall()
    db.executemany(
        "UPDATE block_lines SET line = ?, message = ? "
        "WHERE tenant = ? AND user = ? AND session = ? AND message = ? AND place = ?",
        [
            (key.seal_text(line, "block.line"), key.name(message), *key.owner, session, message, place)
            for line, session, message, place in rows
        ],
    )


def _receipts(db: sqlite3.Connection, key: DataKey) -> None:
    rows = db.execute(
        "SELECT rowid, recalled FROM receipts WHERE tenant = ? AND user = ? AND recalled IS NOT NULL", key.owner
    ).fetchall()
    for number, stored in rows:
        recalled = msgspec.json.decode(stored, type=Recalled)
        if recalled.query:
            sealed = msgspec.structs.replace(recalled, query=key.seal_text(recalled.query, "receipt.query"))
            form = msgspec.json.encode(sealed).decode()
            db.execute("UPDATE receipts SET recalled = ? WHERE rowid = ?", (form, number))


def _outcomes(db: sqlite3.Connection, key: DataKey) -> None:
    rows = db.execute("SELECT number, body FROM outcomes WHERE tenant = ? AND user = ?", key.owner).fetchall()
    for number, stored in rows:
        outcome = msgspec.json.decode(stored, type=Outcome)
        if outcome.content is not None:
            sealed = msgspec.structs.replace(outcome, content=key.seal_text(outcome.content, "outcome.content"))
            form = msgspec.json.encode(sealed).decode()
            db.execute("UPDATE outcomes SET body = ? WHERE number = ?", (form, number))


def _names(db: sqlite3.Connection, key: DataKey) -> None:
    rows = db.execute("SELECT slot FROM slots WHERE tenant = ? AND user = ?", key.owner).fetchall()
    db.executemany(
        "UPDATE slots SET slot = ? WHERE tenant = ? AND user = ? AND slot = ?",
        [(slot_name(key, slot), *key.owner, slot) for (slot,) in rows],
    )
    rows = db.execute(
        "SELECT kind, parent, name FROM palace WHERE tenant = ? AND user = ? AND kind IN ('wing', 'closet', 'alias')",
        key.owner,
    ).fetchall()
    db.executemany(
        "UPDATE palace SET name = ? WHERE tenant = ? AND user = ? AND kind = ? AND parent = ? AND name = ?",
        [(key.name(name), *key.owner, kind, parent, name) for kind, parent, name in rows],
    )
    rows = db.execute(
        "SELECT key, session, answer FROM session_keys WHERE tenant = ? AND user = ?", key.owner
    ).fetchall()
    db.executemany(
        "UPDATE session_keys SET key = ?, answer = ? WHERE tenant = ? AND user = ? AND key = ? AND session = ?",
        [
            (key.name(name), None if answer is None else key.name(answer), *key.owner, name, session)
            for name, session, answer in rows
        ],
    )
