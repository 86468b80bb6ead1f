"""The palace's names: other ones for what is there. Each function runs inside a transaction that its caller opened."""

import sqlite3
from collections.abc import Collection, Mapping

Owner = tuple[str, str]


def rename(db: sqlite3.Connection, owner: Owner, wings: Mapping[str, str], aliases: Collection[str]) -> None:
    """Give wings another name, which is no other name of them any longer, and erase these other names. Numbers stay."""
    erase = "DELETE FROM palace WHERE tenant = ? AND user = ? AND kind = 'alias' AND name = ?"
    db.executemany(erase, [(*owner, name) for name in aliases])
    for name, other in wings.items():
        found = db.execute(
            "SELECT number FROM palace WHERE tenant = ? AND user = ? AND kind = 'wing' AND parent = '' AND name = ?",
            (*owner, name),
        ).fetchone()
        if found is None:
            continue
        db.execute(f"{erase} AND number = ? AND parent = ''", (*owner, other, *found))
        db.execute(
            "UPDATE palace SET name = ? WHERE tenant = ? AND user = ? AND kind = 'wing' AND parent = '' AND name = ?",
            (other, *owner, name),
        )
