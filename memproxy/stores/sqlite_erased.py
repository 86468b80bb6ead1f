"""Who was erased, and when: turns that were captured before, and come behind the erasure, are dropped.

They wait in a relay, or beside the state, while the state cannot be written. Whoever was erased is known by a keyed
digest alone: it names nobody. Each function runs inside a transaction that its caller opened.
"""

import hmac
import sqlite3
from datetime import UTC, datetime, timedelta

from memproxy.core.scope import Scope
from memproxy.ports import JournalEntry
from memproxy.stores.sqlite_journal import micros

MARK = "erased:"
"""How a digest in place of a user's name begins."""

ERASED_KEPT = timedelta(days=30)
"""What waits is written within seconds once the state can be; a state that nobody opens forgets nobody meanwhile."""


def note(db: sqlite3.Connection, scope: Scope, session: str | None) -> None:
    """The owner, or one session of it, is erased now."""
    now = datetime.now(UTC)
    db.execute("DELETE FROM erased WHERE at < ?", (micros(now - ERASED_KEPT),))
    db.execute("INSERT OR REPLACE INTO erased VALUES (?, ?)", (digest(db, *scope.owner, session), micros(now)))


def is_too_late(db: sqlite3.Connection, entry: JournalEntry) -> bool:
    """Whether its owner, or its session, was erased after it was captured."""
    if entry.captured_at is None or db.execute("SELECT 1 FROM erased LIMIT 1").fetchone() is None:
        return False
    names = [digest(db, *entry.scope.owner, session) for session in (None, entry.scope.session or "")]
    found = db.execute("SELECT 1 FROM erased WHERE name IN (?, ?) AND at >= ?", (*names, micros(entry.captured_at)))
    return found.fetchone() is not None


def name_of(db: sqlite3.Connection, owner: tuple[str, str]) -> str:
    """The owner's digest in place of the user's name, where something is kept that an erasure leaves."""
    return MARK + digest(db, *owner, None).hex()[:32]


def name_now(db: sqlite3.Connection, owner: tuple[str, str]) -> str:
    """How the owner may be called: by name, or by `name_of` once erased."""
    return name_of(db, owner) if is_gone(db, owner) else owner[1]


def is_gone(db: sqlite3.Connection, owner: tuple[str, str]) -> bool:
    """Whether the owner was erased, and nothing came since."""
    marked = db.execute("SELECT 1 FROM erased WHERE name = ?", (digest(db, *owner, None),)).fetchone()
    here = db.execute("SELECT 1 FROM owners WHERE tenant = ? AND user = ?", owner).fetchone()
    return marked is not None and here is None


def leave_choices(db: sqlite3.Connection, owner: tuple[str, str]) -> None:
    """What an erased owner has chosen holds on, without the name."""
    if is_gone(db, owner):
        change = "UPDATE OR REPLACE choices SET user = ? WHERE tenant = ? AND user = ?"
        db.execute(change, (name_of(db, owner), *owner))


def came_back(db: sqlite3.Connection, owner: tuple[str, str]) -> None:
    """Something of the owner is written: from here on the name stands in the file, beside what was chosen, too."""
    known = db.execute("SELECT 1 FROM owners WHERE tenant = ? AND user = ?", owner).fetchone()
    if known is None and db.execute("SELECT 1 FROM choices LIMIT 1").fetchone() is not None:
        change = "UPDATE OR IGNORE choices SET user = ? WHERE tenant = ? AND user = ?"
        db.execute(change, (owner[1], owner[0], name_of(db, owner)))


def digest(db: sqlite3.Connection, tenant: str, user: str, session: str | None) -> bytes:
    """The name of an owner (``session`` None) or a session, which only this state's key makes."""
    (key,) = db.execute("SELECT value FROM secrets WHERE name = 'erased'").fetchone()
    parts = [part.encode("utf-8", "surrogatepass") for part in (tenant, user, session) if part is not None]
    return hmac.digest(key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")
