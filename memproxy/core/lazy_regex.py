"""Regular expressions that are compiled when first used, and that read no more of a text than they are meant for.

Hundreds of them take a third of a second to compile, which no start waits for. What is looked for before `compiling`
came to its pattern compiles that one alone.

Python's expressions go back and try again, so one that is quick on a sentence may take minutes on a long text that was
made for it. A pattern whose time grows faster than its text therefore has a bound (`most`): text behind it is not read.
`tests/test_patterns.py` finds all patterns of the package and fails for one that needs a bound and has none.
"""

import re
import sys
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from typing import TypeVar

Result = TypeVar("Result")

SENTENCE = 1_000
"""Characters of a sentence or a statement; what is longer was pasted, and its beginning is read."""

AT_ONCE = 65_536
"""Most characters that a pattern sees at once on the relay's event loop, whatever somebody sends: longer text is cut
into pieces (`core.redact`), or its beginning is read.
"""


class LazyPattern:
    """What ``re.compile`` makes of the same, made when it is first looked for. From then on its methods are those of
    the compiled one, with nothing between, unless it is bounded.
    """

    def __init__(self, pattern: str, flags: int = 0, *, most: int | None = None) -> None:
        """``most``: of a longer text so many characters are read, from where the search begins. Nothing longer is
        matched as a whole, and what is behind them stays in a text in which something is replaced.
        """
        self.pattern = pattern
        self.most = most
        self._flags = flags
        _waiting().append(self)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself. Raises as ``re.compile``."""
        return re.compile(self.pattern, self._flags)

    @cached_property
    def search(self) -> Callable[..., re.Match[str] | None]:
        """As of a compiled one; a begin and an end may follow the text."""
        return self._bounded(self.compiled.search)

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        """As of a compiled one; a begin and an end may follow the text."""
        return self._bounded(self.compiled.match)

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        """As of a compiled one; a begin and an end may follow the text."""
        return self._bounded(self.compiled.finditer)

    @cached_property
    def fullmatch(self) -> Callable[[str], re.Match[str] | None]:
        """As of a compiled one, of a whole text."""
        if self.most is None:
            return self.compiled.fullmatch
        whole, most = self.compiled.fullmatch, self.most
        return lambda text: whole(text) if len(text) <= most else None

    @cached_property
    def sub(self) -> Callable[[str, str], str]:
        """As of a compiled one, with a template, everywhere in a text."""
        if self.most is None:
            return self.compiled.sub
        replaced, most = self.compiled.sub, self.most
        return lambda template, text: replaced(template, text[:most]) + text[most:]

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        """As of a compiled one; what is behind the bound stays with the last part."""
        parts = self.compiled.split(text[: self.most], maxsplit)
        return parts if self.most is None else [*parts[:-1], parts[-1] + text[self.most :]]

    def _bounded(self, method: Callable[[str, int, int], Result]) -> Callable[..., Result]:
        if self.most is None:
            return method
        most = self.most

        def bounded(text: str, begin: int = 0, end: int = sys.maxsize) -> Result:
            return method(text, begin, min(end, begin + most))

        return bounded


@cache
def _waiting() -> deque[LazyPattern]:
    """Those that nobody saw to yet, in the order in which they were made."""
    return deque()


def compiling() -> Iterator[LazyPattern]:
    """Compile what was not looked for yet; each step is one pattern, mostly below a millisecond, 10 at most."""
    waiting = _waiting()
    while waiting:
        late = waiting.popleft()
        if "compiled" not in vars(late):
            _ = late.compiled
            yield late
