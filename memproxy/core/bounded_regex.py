"""Regular expressions that read no more of a text than they are meant for. Python's go back and try again, so one that
is quick on a sentence may take minutes on a text made for it. A pattern whose time grows faster than its text has a
bound (`most`), which `tests/test_patterns.py` asks for.
"""

import re
from collections.abc import Iterator

SENTENCE = 1_000  # characters of a sentence or a statement; what is longer was pasted, and its beginning is read
AT_ONCE = 65_536  # most characters that a pattern sees at once on the event loop; longer text is cut (`core.redact`)


class BoundedPattern:
    """What ``re.compile`` makes of the same, of which each method reads the first ``most`` characters of a text."""

    def __init__(self, pattern: str, flags: int = 0, *, most: int) -> None:
        """Raises as ``re.compile``."""
        self.compiled = re.compile(pattern, flags)
        self.most = most

    def search(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern` does, up to the bound."""
        return self.compiled.search(text, 0, self.most)

    def match(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern` does, up to the bound."""
        return self.compiled.match(text, 0, self.most)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """As `re.Pattern` does, up to the bound."""
        return self.compiled.finditer(text, 0, self.most)

    def fullmatch(self, text: str) -> re.Match[str] | None:
        """As `re.Pattern` does; a longer text does not match as a whole."""
        return self.compiled.fullmatch(text) if len(text) <= self.most else None

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        """As `re.Pattern` does; what is behind the bound stays with the last part."""
        *first, last = self.compiled.split(text[: self.most], maxsplit)
        return [*first, last + text[self.most :]]
