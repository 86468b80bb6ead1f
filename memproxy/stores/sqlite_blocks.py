"""The blocks that sessions were given, line by line. Each function runs inside a transaction that its caller opened.

A count of erasures stands beside them, so that a block that was put together before a memory was erased is never kept
after it. It is counted by groups of owners (a hash of 16 bits): exact enough, bounded, and it names nobody.
"""

import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from memproxy.core.scope import Scope
from memproxy.ports import BlockLine, SessionBlocks
from memproxy.stores.sqlite_journal import micros, moment

BLOCKS_KEPT = timedelta(days=7)
"""No provider's prompt cache lives longer; a conversation taken up again later recalls anew."""

BLOCKS_PER_SESSION = 200
"""The oldest beyond it are forgotten (a session whose history is edited over and over makes new ones each time)."""

PRUNED_AT_ONCE = 2_000
"""Lines of one pruning, so that no single transaction is long."""

_ROW = "(?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ROWS = 32
"""Lines of one statement; a block has some ten."""

_CHUNK = 500
"""Values in one statement: well below SQLite's limit."""


def find(db: sqlite3.Connection, scope: Scope, messages: Sequence[str], now: datetime) -> SessionBlocks:
    """The blocks of these messages of the session, without lines of what has expired; a block without any memory's
    line left is not there.
    """
    blocks: dict[str, list[BlockLine]] = {}
    for some in _chunks(messages):
        rows = db.execute(
            "SELECT message, memory, line, expires FROM block_lines "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND session = ? AND message IN ({_marks(some)}) "
            "AND (expires IS NULL OR expires > ?) ORDER BY message, place",
            (*scope.owner, scope.session or "", *some, micros(now)),
        )
        for message, memory, line, expires in rows:
            until = moment(expires) if expires is not None else None
            blocks.setdefault(message, []).append(BlockLine(text=line, memory_id=memory, expires_at=until))
    left = {message: lines for message, lines in blocks.items() if any(line.memory_id for line in lines)}
    return SessionBlocks(blocks=left, erasures=_erasures(db, scope.owner))


def save(
    db: sqlite3.Connection, scope: Scope, message: str, lines: Sequence[BlockLine], *, erasures: int, at: datetime
) -> bool:
    """Note the block of a message in place of an earlier one; False when something was erased since ``erasures``."""
    if lines and _erasures(db, scope.owner) != erasures:
        return False
    place = (*scope.owner, scope.session or "", message)
    db.execute("DELETE FROM block_lines WHERE tenant = ? AND user = ? AND session = ? AND message = ?", place)
    for start in range(0, len(lines), _ROWS):  # in one statement: between two Python's lock may go to another thread
        some = lines[start : start + _ROWS]
        db.execute(
            f"INSERT INTO block_lines VALUES {', '.join([_ROW] * len(some))}",  # noqa: S608 (no value in the text)
            [
                value
                for number, line in enumerate(some, start)
                for value in (
                    *place,
                    number,
                    line.memory_id,
                    line.text,
                    micros(at),
                    micros(line.expires_at) if line.expires_at else None,
                )
            ],
        )
    db.execute(
        """
        DELETE FROM block_lines WHERE tenant = ?1 AND user = ?2 AND session = ?3 AND message IN (
            SELECT message FROM block_lines WHERE tenant = ?1 AND user = ?2 AND session = ?3
            GROUP BY message ORDER BY max(at) DESC LIMIT -1 OFFSET ?4)
        """,
        (*scope.owner, scope.session or "", BLOCKS_PER_SESSION),
    )
    return True


def drop_lines(db: sqlite3.Connection, owner: tuple[str, str], memory_ids: Sequence[str] | None) -> int:
    """Delete these memories' lines (None: all blocks) of an owner; answers how many lines went."""
    _note_erasure(db, owner)
    if memory_ids is None:
        return db.execute("DELETE FROM block_lines WHERE tenant = ? AND user = ?", owner).rowcount
    return sum(
        db.execute(
            "DELETE FROM block_lines "  # noqa: S608 (no value in the text)
            f"WHERE tenant = ? AND user = ? AND memory IN ({_marks(some)})",
            (*owner, *some),
        ).rowcount
        for some in _chunks(memory_ids)
    )


def prune(db: sqlite3.Connection, now: datetime) -> None:
    """Forget some blocks that are too old; called now and then."""
    db.execute(
        """
        DELETE FROM block_lines WHERE (tenant, user, session, message, place) IN (
            SELECT tenant, user, session, message, place FROM block_lines WHERE at < ? LIMIT ?)
        """,
        (micros(now - BLOCKS_KEPT), PRUNED_AT_ONCE),
    )


def erase(db: sqlite3.Connection, scope: Scope, session: str | None) -> None:
    """Delete the blocks of an owner, or of one of its sessions."""
    if session is None:
        drop_lines(db, scope.owner, None)
        return
    _note_erasure(db, scope.owner)
    db.execute("DELETE FROM block_lines WHERE tenant = ? AND user = ? AND session = ?", (*scope.owner, session))


def _erasures(db: sqlite3.Connection, owner: tuple[str, str]) -> int:
    row = db.execute("SELECT erasures FROM block_erasures WHERE owners = ?", (_owners(owner),)).fetchone()
    return 0 if row is None else int(row[0])


def _note_erasure(db: sqlite3.Connection, owner: tuple[str, str]) -> None:
    db.execute(
        "INSERT INTO block_erasures VALUES (?, 1) ON CONFLICT (owners) DO UPDATE SET erasures = erasures + 1",
        (_owners(owner),),
    )


def _owners(owner: tuple[str, str]) -> int:
    """The group of owners that this one is counted with."""
    name = "\x1f".join(owner).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(name, digest_size=2, person=b"blocks").digest(), "big")


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK))


def _marks(values: Sequence[str]) -> str:
    return ", ".join("?" * len(values))
