"""Regular expressions that are compiled late: hundreds of them take a third of a second, which no start waits for.

What is looked for before `compiling` came to its pattern compiles that one alone.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, cached_property


class LatePattern:
    """What ``re.compile`` makes of the same, made when it is first looked for. From then on its methods are those of
    the compiled one, with nothing between.
    """

    def __init__(self, pattern: str, flags: int = 0) -> None:
        self.pattern = pattern
        self._flags = flags
        _waiting().append(self)

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The pattern itself. Raises as ``re.compile``."""
        return re.compile(self.pattern, self._flags)

    @property
    def flags(self) -> int:
        """As of a compiled one."""
        return self.compiled.flags

    @cached_property
    def search(self) -> Callable[..., re.Match[str] | None]:
        """As of a compiled one; a begin and an end may follow the text."""
        return self.compiled.search

    @cached_property
    def match(self) -> Callable[..., re.Match[str] | None]:
        """As of a compiled one; a begin and an end may follow the text."""
        return self.compiled.match

    @cached_property
    def fullmatch(self) -> Callable[[str], re.Match[str] | None]:
        """As of a compiled one, of a whole text."""
        return self.compiled.fullmatch

    @cached_property
    def finditer(self) -> Callable[..., Iterator[re.Match[str]]]:
        """As of a compiled one; a begin and an end may follow the text."""
        return self.compiled.finditer

    @cached_property
    def sub(self) -> Callable[[str, str], str]:
        """As of a compiled one, with a template, everywhere in a text."""
        return self.compiled.sub


@cache
def _waiting() -> deque[LatePattern]:
    """Those that nobody saw to yet, in the order in which they were made."""
    return deque()


def compiling() -> Iterator[LatePattern]:
    """Compile what was not looked for yet; each step is one pattern, mostly below a millisecond, 10 at most."""
    waiting = _waiting()
    while waiting:
        late = waiting.popleft()
        if "compiled" not in vars(late):
            _ = late.compiled
            yield late
