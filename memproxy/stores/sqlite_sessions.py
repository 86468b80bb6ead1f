"""Slots, learning progress and session keys. Each function runs inside a transaction that its caller opened."""

import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec

from memproxy.core.scope import Scope
from memproxy.ports import KnownSession, SessionProgress, SlotChange
from memproxy.stores.sqlite_journal import micros, moment

SESSIONS_PER_KEY = 5
"""Conversations that may begin alike and still be told apart; the oldest are forgotten."""

KEYS_KEPT = timedelta(days=90)
"""A conversation that was silent for longer is not recognised by its prefix any more."""

_CHUNK = 500
"""Values in one statement: well below SQLite's limit."""


class SlotTaken(Exception):
    """A slot does not hold what was expected; raised to roll the transaction back."""


def slots(db: sqlite3.Connection, owner: tuple[str, str], names: Sequence[str]) -> dict[str, str]:
    """Slot name to the memory id that holds it."""
    held: dict[str, str] = {}
    for some in _chunks(names):
        held |= db.execute(
            "SELECT slot, holder FROM slots "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND slot IN ({_marks(some)})",
            (*owner, *some),
        ).fetchall()
    return held


def change_slots(db: sqlite3.Connection, owner: tuple[str, str], changes: Sequence[SlotChange]) -> None:
    """Change slots one after the other.

    Raises:
        SlotTaken: one does not hold what was expected.
    """
    for change in changes:
        if slots(db, owner, [change.slot]).get(change.slot) != change.expected:
            raise SlotTaken
        if change.new is None:
            db.execute("DELETE FROM slots WHERE tenant = ? AND user = ? AND slot = ?", (*owner, change.slot))
        else:
            db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?, ?, ?)", (*owner, change.slot, change.new))


def drop_slots(db: sqlite3.Connection, owner: tuple[str, str], prefix: str) -> None:
    """Free the slots whose names begin so."""
    db.execute(
        "DELETE FROM slots WHERE tenant = ? AND user = ? AND slot >= ? AND substr(slot, 1, ?) = ?",
        (*owner, prefix, len(prefix), prefix),
    )


def note_turns(db: sqlite3.Connection, scope: Scope, count: int, at: datetime) -> None:
    """Count turns that are indexed and not learned from yet."""
    db.execute(
        """
        INSERT INTO progress (tenant, user, session, scope, unlearned, last_turn_at) VALUES (?, ?, ?, ?, ?, ?)
        ON CONFLICT (tenant, user, session) DO UPDATE SET
            scope = excluded.scope, unlearned = unlearned + excluded.unlearned,
            last_turn_at = max(last_turn_at, excluded.last_turn_at), ended_at = NULL
        """,
        (*scope.owner, scope.session or "", msgspec.json.encode(scope).decode(), count, micros(at)),
    )


def note_end(db: sqlite3.Connection, scope: Scope, at: datetime) -> None:
    """Somebody said that the session is over."""
    db.execute(
        "UPDATE progress SET ended_at = ? WHERE tenant = ? AND user = ? AND session = ?",
        (micros(at), *scope.owner, scope.session or ""),
    )


def ended(db: sqlite3.Connection, owner: tuple[str, str], names: Sequence[str]) -> set[str]:
    """Which of these sessions somebody said to be over, and in which nothing was said since."""
    found: set[str] = set()
    for some in _chunks(names):
        rows = db.execute(
            "SELECT session FROM progress "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND ended_at IS NOT NULL AND session IN ({_marks(some)})",
            (*owner, *some),
        )
        found |= {session for (session,) in rows}
    return found


def due_sessions(db: sqlite3.Connection, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
    """Sessions that learning should look at, those waiting longest first."""
    rows = db.execute(
        """
        SELECT scope, unlearned, last_turn_at FROM progress
        WHERE unlearned > 0 AND (unlearned >= ? OR last_turn_at <= ?) AND NOT EXISTS (
            SELECT 1 FROM journal WHERE journal.tenant = progress.tenant AND journal.user = progress.user
            AND journal.lane = 'learn' AND journal.state != 'parked' AND ifnull(journal.session, '') = progress.session)
        AND coalesce(
            (SELECT learning FROM choices WHERE choices.tenant = progress.tenant AND choices.user = progress.user
             AND choices.agent = json_extract(progress.scope, '$.agent')),
            (SELECT learning FROM choices WHERE choices.tenant = progress.tenant AND choices.user = progress.user
             AND choices.agent = ''), 1)
        ORDER BY last_turn_at LIMIT ?
        """,
        (every, micros(idle_before), limit),
    )
    return [_progress(*row) for row in rows]


def progress(db: sqlite3.Connection, scope: Scope) -> SessionProgress | None:
    """How far learning is in the session."""
    row = db.execute(
        "SELECT scope, unlearned, last_turn_at FROM progress WHERE tenant = ? AND user = ? AND session = ?",
        (*scope.owner, scope.session or ""),
    ).fetchone()
    return _progress(*row) if row is not None else None


def _progress(scope: str, unlearned: int, last_turn_at: int) -> SessionProgress:
    return SessionProgress(
        scope=msgspec.json.decode(scope, type=Scope), unlearned=unlearned, last_turn_at=moment(last_turn_at)
    )


def is_learning(db: sqlite3.Connection, scope: Scope) -> bool:
    """Whether the session has an unfinished learn row."""
    found = db.execute(
        """
        SELECT 1 FROM journal WHERE tenant = ? AND user = ? AND lane = 'learn' AND state != 'parked'
        AND ifnull(session, '') = ?
        """,
        (*scope.owner, scope.session or ""),
    )
    return found.fetchone() is not None


def take_unlearned(db: sqlite3.Connection, scope: Scope, count: int) -> None:
    """Learning of ``count`` turns has begun."""
    db.execute(
        "UPDATE progress SET unlearned = max(0, unlearned - ?) WHERE tenant = ? AND user = ? AND session = ?",
        (count, *scope.owner, scope.session or ""),
    )


def find_sessions(db: sqlite3.Connection, owner: tuple[str, str], keys: Sequence[str]) -> dict[str, list[KnownSession]]:
    """Sessions by key, newest first."""
    found: dict[str, list[KnownSession]] = {}
    for some in _chunks(keys):
        rows = db.execute(
            "SELECT key, session, said_at, answer FROM session_keys "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND key IN ({_marks(some)}) ORDER BY said_at DESC",
            (*owner, *some),
        )
        for key, session, said_at, answer in rows:
            known = KnownSession(session=session, said_at=moment(said_at), answer=answer)
            found.setdefault(key, []).append(known)
    return found


def remember_session(db: sqlite3.Connection, owner: tuple[str, str], keys: Sequence[str], known: KnownSession) -> None:
    """Note the session under each key, and forget the oldest beyond what is kept of a key.

    What is known stays: a repeated request keeps the time its message first came; an answer is replaced by a newer one.
    """
    for key in keys:
        db.execute(
            """
            INSERT INTO session_keys VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (tenant, user, key, session) DO UPDATE SET
                said_at = min(said_at, excluded.said_at), answer = ifnull(excluded.answer, answer)
            """,
            (*owner, key, known.session, micros(known.said_at), known.answer),
        )
        db.execute(
            """
            DELETE FROM session_keys WHERE tenant = ?1 AND user = ?2 AND key = ?3 AND session IN (
                SELECT session FROM session_keys WHERE tenant = ?1 AND user = ?2 AND key = ?3
                ORDER BY said_at DESC LIMIT -1 OFFSET ?4)
            """,
            (*owner, key, SESSIONS_PER_KEY),
        )


def prune_sessions(db: sqlite3.Connection, now: datetime) -> None:
    """Forget some keys that are too old; called now and then, so that no single call is long."""
    db.execute(
        """
        DELETE FROM session_keys WHERE (tenant, user, key, session) IN (
            SELECT tenant, user, key, session FROM session_keys WHERE said_at < ? LIMIT 1000)
        """,
        (micros(now - KEYS_KEPT),),
    )


def erase(db: sqlite3.Connection, scope: Scope, session: str | None) -> None:
    """Delete progress and keys of an owner or one session, and an owner's slots (a slot belongs to no session)."""
    where, values = ("AND session = ?", (session,)) if session is not None else ("", ())
    for table in ("progress", "session_keys"):
        db.execute(
            f"DELETE FROM {table} WHERE tenant = ? AND user = ? {where}",  # noqa: S608 (no value in the text)
            (*scope.owner, *values),
        )
    if session is None:
        db.execute("DELETE FROM slots WHERE tenant = ? AND user = ?", scope.owner)


def leave_owners(db: sqlite3.Connection, owner: tuple[str, str]) -> None:
    """Forget that the owner was here, unless something came after it was to be forgotten."""
    db.execute(
        """
        DELETE FROM owners WHERE tenant = ?1 AND user = ?2
            AND NOT EXISTS (SELECT 1 FROM journal WHERE tenant = ?1 AND user = ?2)
        """,
        owner,
    )


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
