"""Memories that were read lately, so that the next search of the same person does not decode them again.

Only for stores that this process alone writes to: whatever it writes is forgotten here at once, and what was read while
something was written is not kept.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence

from memproxy.stores.payload import Read

MOST_MEMORIES = 10_000
MOST_CHARACTERS = 48_000_000
"""Of text and bytes of token vectors, all together; with what ranking makes of 10,000 memories (`ports.Notes`: 1.6 KB
each) at most about 100 MB (docs/decisions/0018).
"""


class RecentMemories:
    """By point id; one that was used since it came, or since it was last to go, stays for another round: to put each in
    its place whenever it is used would take longer than to find it.
    """

    def __init__(self, *, most: int = MOST_MEMORIES, most_characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._most_characters = most_characters
        self._kept: OrderedDict[str, Read] = OrderedDict()
        self._characters = 0
        self._writes = 0

    @property
    def writes(self) -> int:
        """Changes so far: what is read is kept only if there were none since the reading began."""
        return self._writes

    def has_room(self, count: int) -> bool:
        """Whether so many more are kept without one going for them: a tenth of the characters is left free."""
        return len(self._kept) + count <= self._most and self._characters <= 0.9 * self._most_characters

    def get(self, places: Iterable[str]) -> dict[str, Read]:
        """Those of these that are known."""
        asked = list(places)
        found = {place: one for place, one in zip(asked, map(self._kept.get, asked), strict=True) if one is not None}
        for one in found.values():
            one.used = True
        return found

    def all_of(self, places: Iterable[str]) -> list[Read] | None:
        """What is at each of these places; None where one of them is not known."""
        found = list(map(self._kept.get, places))
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            return None
        for one in known:
            one.used = True
        return known

    def add(self, read: Sequence[tuple[str, Read]], *, writes: int) -> None:
        """What was read since there were so many ``writes``."""
        if writes != self._writes:
            return
        for place, one in read:
            self._drop(place)
            self._kept[place] = one
            self._characters += _size(one)
        while self._kept and (len(self._kept) > self._most or self._characters > self._most_characters):
            place, one = self._kept.popitem(last=False)
            if one.used:  # since it was last here: it stays for another round
                one.used = False
                self._kept[place] = one
            else:
                self._characters -= _size(one)

    def forget(self, places: Iterable[str]) -> None:
        """These were written."""
        self._writes += 1
        for place in places:
            self._drop(place)

    def clear(self) -> None:
        """Anything may have been written."""
        self._writes += 1
        self._kept.clear()
        self._characters = 0

    def _drop(self, place: str) -> None:
        one = self._kept.pop(place, None)
        if one is not None:
            self._characters -= _size(one)


def _size(one: Read) -> int:
    return len(one.memory.content) + len(one.tokens)
