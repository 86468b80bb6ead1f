"""A cache that is bounded in bytes: what callers can name is of any length, so a number of entries bounds nothing."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

Key = TypeVar("Key")
Value = TypeVar("Value")

ENTRY_BYTES = 200  # what an entry takes in the table, beside its key and its value


def footprint(value: Any) -> int:
    """About how many bytes a value takes in memory, with all that it holds."""
    size = sys.getsizeof(value)
    if isinstance(value, dict):
        return size + sum(footprint(key) + footprint(inner) for key, inner in value.items())
    if isinstance(value, list | tuple | set | frozenset):
        return size + sum(map(footprint, value))
    if isinstance(value, msgspec.Struct):
        return size + sum(footprint(getattr(value, name)) for name in value.__struct_fields__)
    return size


class BoundedCache(Generic[Key, Value]):
    """Forgets what was used least recently, as soon as all of it takes more than ``most_bytes``. ``size_of`` is a
    value's bytes when it is put in; the key's are added. What is larger than all that may be kept is not kept.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[Value], int] = footprint) -> None:
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Key]:
        """The keys, the one that was used least recently first."""
        return iter(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value of this key, if it is still kept; that counts as a use."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def put(self, key: Key, value: Value) -> None:
        """Keep it, in place of an older value of the key."""
        self.pop(key)
        size = ENTRY_BYTES + footprint(key) + self._size_of(value)
        if size > self._most_bytes:
            return
        self._entries[key] = value, size
        self.bytes += size
        while self.bytes > self._most_bytes:
            _, (_, gone) = self._entries.popitem(last=False)
            self.bytes -= gone

    def pop(self, key: Key) -> Value | None:
        """Forget and return it."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self.bytes -= entry[1]
        return entry[0]
