"""What an import answers."""

from typing import Any

import msgspec

MOST_ERRORS = 100
"""Wrong lines that are told one by one; all are counted."""


class Told(msgspec.Struct, kw_only=True):
    """What became of the lines of an import. ``unchanged`` were there already, ``replaced`` were there in an older
    form; ``errors`` tells of wrong lines, ``rejected`` counts them.
    """

    dry_run: bool = False
    imported: int = 0
    replaced: int = 0
    unchanged: int = 0
    turns: int = 0
    rejected: int = 0
    errors: list[dict[str, Any]] = []
    notes: list[str] = []

    def refuse(self, number: int, message: str) -> None:
        """A line is not taken."""
        self.rejected += 1
        if len(self.errors) < MOST_ERRORS:
            self.errors.append({"line": number, "message": message})

    def note(self, text: str) -> None:
        """Something that concerns many lines, told once."""
        if text not in self.notes:
            self.notes.append(text)
