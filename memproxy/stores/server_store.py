"""What memory stores on a server share: the collection in use, what it was built with, and its switch by a reindex."""

import asyncio
from abc import ABC, abstractmethod
from typing import ClassVar, Generic, Protocol, Self, TypeVar

import msgspec

from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.stores.backend import Backend
from memproxy.stores.edge_files import VERSION, Marker, check_built_with
from memproxy.stores.rebuild import EVERYBODY, CollectionRebuild
from memproxy.stores.vector_store import VectorStore, Writers


class ServerCollection(Backend, Protocol):
    """A collection of a server, which may not exist yet."""

    @property
    def name(self) -> str:
        """Its name on the server."""

    def beside(self, name: str) -> Self:
        """Another one of the same server."""

    async def exists(self) -> bool:
        """Whether there is one of this name."""

    async def drop(self) -> None:
        """Remove it with all that it holds."""


Used = TypeVar("Used", bound=ServerCollection)

_ASKED_AGAIN_AFTER_S = (0.1, 0.5, 2.0)  # waits between asking a server whether it has switched; writes wait meanwhile


class ServerStore(VectorStore, ABC, Generic[Used]):
    """`ports.RebuildableStore` on a server. Writes are acknowledged when the server has them, so nothing is flushed."""

    is_flushed = False

    server: ClassVar[str]
    """The product's name."""

    copied_by: ClassVar[str]
    """What brings lost memories back: "a snapshot of the collection"."""

    joint: ClassVar[str]
    """Stands between the configured name and the letter of the collection that a reindex makes."""

    def __init__(self, *, collection: str, location: str, dimension: int, embedder_name: str | None) -> None:
        """``collection`` is the configured name; ``location`` says in messages which one is meant, and where."""
        super().__init__(dimension=dimension, embedder_name=embedder_name)
        self.location = location
        self._configured = collection
        self.collection: Used | None = None
        """The one in use; None before `open`."""

    @abstractmethod
    async def existing(self) -> tuple[Used, Marker] | None:
        """The collection in use and what it was built with; None: there is none. Connects, if need be."""

    @abstractmethod
    async def _create(self) -> tuple[Used, Marker]:
        """Make the collection, unless somebody else was faster; what is there then."""

    @abstractmethod
    async def note(self, collection: Used, marker: Marker) -> None:
        """From now on this collection is in use, and was built so."""

    async def open(self, expected_id: str | None) -> str:
        try:
            _, marker = await self._open(expected_id, as_built=False)
        except BaseException:
            await self._disconnect()
            raise
        metrics().store_points.set(await self.points())
        return marker.store_id

    async def _open(self, expected_id: str | None, *, as_built: bool) -> tuple[Used, Marker]:
        existing = await self.existing()
        if existing is None and expected_id is not None:
            raise self._not_here(expected_id, None)
        collection, marker = existing or await self._create()
        if expected_id is not None and marker.store_id != expected_id:
            raise self._not_here(expected_id, marker.store_id)
        marker = await self._checked(collection, marker, as_built=as_built)
        self.unfinished = await self.other(collection).exists()
        self.adopt(collection)
        return collection, marker

    async def _checked(self, collection: Used, marker: Marker, *, as_built: bool) -> Marker:
        if marker.version > VERSION:
            raise ConfigError(
                f"The {self.location} has version {marker.version}; this memproxy knows up to {VERSION}. "
                "Start the version that wrote it, or a newer one."
            )
        if as_built:
            return marker
        built, configured = (marker.dimension, marker.embedder), (self.dimension, self._embedder)
        check_built_with(self.location, built=built, configured=configured)
        if marker.embedder is None and self._embedder is not None:
            marker = msgspec.structs.replace(marker, embedder=self._embedder)
            await self.note(collection, marker)
        return marker

    def other(self, used: Used) -> Used:
        """The collection that a reindex writes to."""
        first, second = (f"{self._configured}{self.joint}{letter}" for letter in "ab")
        return used.beside(first if used.name != first else second)

    def adopt(self, collection: Used) -> None:
        """Go on with this collection, from one call to the next."""
        self.collection = collection
        self._points = self.points_of(collection)

    def leave(self) -> None:
        """Return to the state before `open`."""
        self._points = self.collection = None

    async def close(self) -> None:
        self.leave()
        await self._disconnect()

    @abstractmethod
    async def _disconnect(self) -> None:
        """Disconnect; the next call connects again."""

    async def drop_unfinished(self) -> None:
        if self.collection is not None:
            await self.other(self.collection).drop()
        await super().drop_unfinished()

    async def flush(self) -> None:
        """Nothing to do: every write was acknowledged."""

    def hurry(self) -> None:
        """As `flush`: nothing to do."""

    async def optimize(self) -> bool:
        """As the port says: a server vacuums its own files, in its own time."""
        return False

    async def points(self) -> int:
        return await self._in_use().count(EVERYBODY)

    def _in_use(self) -> Used:
        if self.collection is None:
            raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
        return self.collection

    def _not_here(self, expected_id: str, found_id: str | None) -> StoreUnavailable:
        state = "does not exist" if found_id is None else f"is another store ({found_id})"
        return StoreUnavailable(
            f"The {self.location} {state}, but the state belongs to the store {expected_id}. Restore {self.copied_by}, "
            "or, if the memories are meant to be gone, remove the state file too."
        )

    async def begin_rebuild(self, expected_id: str | None) -> "ServerRebuild[Used]":
        opened_here = self.collection is None
        collection, marker = await self._open(expected_id, as_built=True)
        target_marker = msgspec.structs.replace(marker, dimension=self.dimension, embedder=self._embedder)
        rebuild = ServerRebuild(self, collection, target_marker, writers=self._writers, opened_here=opened_here)
        try:
            await rebuild.prepare()
        except BaseException:
            await rebuild.close()
            raise
        return rebuild

    @abstractmethod
    async def begun(self, target: Used) -> Marker | None:
        """What a reindex that ended early was making in this collection; None: nothing of it is there."""

    @abstractmethod
    async def begin(self, target: Used, marker: Marker, like: Used) -> None:
        """Make this collection for what ``marker`` says, and note that in it. What its operator has
        set on ``like`` holds for it too.
        """


class ServerRebuild(CollectionRebuild, Generic[Used]):
    """`ports.Rebuild` beside the collection of an open `ServerStore`."""

    def __init__(
        self, store: ServerStore[Used], used: Used, marker: Marker, *, writers: Writers, opened_here: bool
    ) -> None:
        self._store = store
        self._used = used
        self._target = store.other(used)
        self._marker = marker
        self.collection_here = opened_here
        self._switched = False
        super().__init__(store.points_of(self._target), writers=writers, written=store.written)

    async def prepare(self) -> None:
        """Make the new collection, or go on with the one that was begun for this embedder."""
        self.resumed = await self._store.begun(self._target) == self._marker
        if not self.resumed:
            await self._target.drop()
            await self._store.begin(self._target, self._marker, self._used)
        await self.begin(self._store.points_of(self._used))

    async def flush(self) -> None:
        """Nothing to do: every write was acknowledged."""

    async def switch(self) -> None:
        try:
            await self._store.note(self._target, self._marker)
        except StoreUnavailable:
            await self._make_sure()
        self._store.adopt(self._target)
        self._store.unfinished, self._switched = False, True

    async def _make_sure(self) -> None:
        """It may have switched although its answer did not come; writes must not go to the wrong collection."""
        for patience_s in (*_ASKED_AGAIN_AFTER_S, None):
            try:
                existing = await self._store.existing()
                break
            except StoreUnavailable:
                if patience_s is None:
                    self._store.leave()
                    raise
                await asyncio.sleep(patience_s)
        if existing is None or existing[0].name != self._target.name:
            raise StoreUnavailable(
                f"{self._store.server} did not switch to the new collection; run `memproxy reindex` again."
            )

    async def close(self) -> None:
        if self._switched:
            self._writers.stop_noting()
            await self._used.drop()
            return
        try:
            self._store.unfinished = True
            await self.leave_unfinished()
        finally:
            if self.collection_here:
                self._store.leave()
