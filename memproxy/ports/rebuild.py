"""The seam for rebuilding a store: a second collection is made beside the first and takes its place.

Maintenance alone: what is read here is not bound to an owner, so nothing but a reindex may use it.
"""

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.ports.memory import MemoryStore, Page, Point, SparseVector


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """Some of all memories: where the next call goes on (None at the end), and how many could not be read."""

    memories: list[Memory]
    next_place: str | None
    damaged: int = 0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A memory as the new collection holds it; ``embedded``: it has a dense vector, ``late``: vectors of its tokens."""

    memory: Memory
    bm25: SparseVector
    embedded: bool
    late: bool = False


class Rebuild(Protocol):
    """A new collection in the making. A place is the store's own name of a memory (a point id).

    Every call raises `errors.StoreUnavailable` when the store fails. Until `switch` the first collection serves, and
    what is written to it is noted for `take_changed`.
    """

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt left something that is gone on with."""

    @property
    def total(self) -> int:
        """Memories in the first collection when this began."""

    def place(self, memory: Memory) -> str:
        """Where the memory is, in both collections."""

    async def scan(self, after: str | None, *, limit: int) -> Scanned:
        """Memories of all owners in the first collection, in the order of their places, from behind ``after``."""

    async def turns(self, scope: Scope, cursor: str | None, *, limit: int) -> Page:
        """Turns of ``scope.session`` (None: of no session) in the first collection, newest first."""

    async def current(self, places: Collection[str]) -> list[Memory]:
        """These memories as the first collection has them now; those that are gone are left out."""

    async def neighbours(self, scope: Scope, turns: Sequence[Memory]) -> list[Memory]:
        """The turns right before and after these in their sessions, in the first collection."""

    async def kept(self, places: Collection[str]) -> dict[str, Kept]:
        """What the new collection has of these, by place."""

    async def write(self, points: Sequence[Point]) -> None:
        """Write to the new collection."""

    async def remove(self, places: Collection[str]) -> None:
        """Delete from the new collection."""

    async def remove_strays(self) -> None:
        """Delete from the new collection what the first one has no more."""

    async def flush(self) -> None:
        """Returns when everything written to the new collection survives a crash."""

    def take_changed(self) -> set[str]:
        """Places written or deleted in the first collection since the last call."""

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Within it nobody writes to the first collection; who wants to waits."""

    async def switch(self) -> None:
        """The new collection takes the place of the first one, at once and for good; then the first one is removed.
        Only within `paused`, after `flush`.
        """

    async def close(self) -> None:
        """Let go; without `switch` what was written stays for the next attempt."""


class RebuildableStore(MemoryStore, Protocol):
    """A memory store that can be rebuilt."""

    async def begin_rebuild(self, expected_id: str | None) -> Rebuild:
        """Make a new collection for the configured embedder beside the present one, or go on with one that was begun.

        A store that `open` refused because of its embedder is opened as it was built, and is open as configured after
        the switch; without a switch it is closed again by `Rebuild.close`.

        Raises:
            StoreUnavailable: as for `open`.
            ConfigError: a newer version wrote it.
        """
