"""Who was erased, and when: a message said before an erasure that arrives after it is dropped.

A turn arrives late when its answer was under way, or when it waited in a relay, or beside the state, while the state
could not be written. Erased owners are kept as keyed digests, which name nobody. Each function runs inside a
transaction that its caller opened.
"""

import hmac
import sqlite3
from datetime import UTC, datetime, timedelta
from itertools import product

from memproxy.core.scope import Scope
from memproxy.stores.sqlite_part import micros

MARK = "erased:"
"""How a digest in place of a user's name begins."""

ERASED_KEPT = timedelta(days=30)
"""What waits is written within seconds once the state can be; a state that nobody opens forgets nobody meanwhile."""


def note(db: sqlite3.Connection, scope: Scope) -> None:
    """The owner, or what is narrower of the scope, is erased now."""
    now = datetime.now(UTC)
    db.execute("DELETE FROM erased WHERE at < ?", (micros(now - ERASED_KEPT),))
    db.execute("INSERT OR REPLACE INTO erased VALUES (?, ?)", (_digest(db, scope), micros(now)))


def is_too_late(db: sqlite3.Connection, scope: Scope, said_at: datetime | None) -> bool:
    """Whether the scope, or a wider one, was erased after this was said; None: that does not matter."""
    if said_at is None or db.execute("SELECT 1 FROM erased LIMIT 1").fetchone() is None:
        return False
    wider = product({None, scope.session}, {None, scope.project}, {None, scope.agent})
    names = [_digest(db, _of(scope.owner, *place)) for place in wider]
    found = db.execute(
        f"SELECT 1 FROM erased WHERE name IN ({', '.join('?' * len(names))}) AND at >= ?",  # noqa: S608 (no value in it)
        (*names, micros(said_at)),
    )
    return found.fetchone() is not None


def name_of(db: sqlite3.Connection, owner: tuple[str, str]) -> str:
    """The owner's digest in place of the user's name, where something is kept that an erasure leaves."""
    return MARK + _digest(db, _of(owner)).hex()[:32]


def name_now(db: sqlite3.Connection, owner: tuple[str, str]) -> str:
    """How the owner may be called: by name, or by `name_of` once erased."""
    return name_of(db, owner) if is_gone(db, owner) else owner[1]


def is_gone(db: sqlite3.Connection, owner: tuple[str, str]) -> bool:
    """Whether the owner was erased, and nothing came since."""
    marked = db.execute("SELECT 1 FROM erased WHERE name = ?", (_digest(db, _of(owner)),)).fetchone()
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


def _digest(db: sqlite3.Connection, scope: Scope) -> bytes:
    """The name of an owner, or of what is narrower, which only this state's key makes."""
    (key,) = db.execute("SELECT value FROM secrets WHERE name = 'erased'").fetchone()
    places = {"session": scope.session, "project": scope.project, "agent": scope.agent}
    names = [*scope.owner, *(f"{kind}={name}" for kind, name in places.items() if name is not None)]
    parts = [name.encode("utf-8", "surrogatepass") for name in names]
    return hmac.digest(key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")


def _of(
    owner: tuple[str, str], session: str | None = None, project: str | None = None, agent: str | None = None
) -> Scope:
    return Scope(tenant=owner[0], user=owner[1], session=session, project=project, agent=agent)
