"""A second collection of a Qdrant server, made while the first one serves, and the alias that says which one does.

The alias ``<collection>__current`` names the collection in use; without it, that is the configured name itself. Giving
the alias another collection is the switch: the server does it at once. What a crash leaves is gone on with by the next
reindex.
"""

from typing import TYPE_CHECKING

from qdrant_client import AsyncQdrantClient, models

from memproxy.errors import StoreUnavailable
from memproxy.stores.edge_files import Marker
from memproxy.stores.qdrant_collection import Collection
from memproxy.stores.rebuild import CollectionRebuild
from memproxy.stores.writers import Writers

if TYPE_CHECKING:
    from memproxy.stores.qdrant import QdrantStore


def pointer(configured: str) -> str:
    """The alias that names the collection in use."""
    return f"{configured}__current"


async def current(client: AsyncQdrantClient, configured: str, place: str) -> Collection:
    """The collection in use; it may not exist yet."""
    plain = Collection(client, configured, place)
    names = await _aliases(plain)
    return plain.beside(names.get(pointer(configured)) or names.get(configured) or configured)


def other(used: Collection, configured: str) -> Collection:
    """The collection that a reindex writes to."""
    name = f"{configured}__a" if used.name != f"{configured}__a" else f"{configured}__b"
    return used.beside(name)


async def _aliases(collection: Collection) -> dict[str, str]:
    found = await collection.call(lambda client: client.get_aliases())
    return {one.alias_name: one.collection_name for one in found.aliases}


async def tidy(used: Collection, configured: str, marker: Marker) -> None:
    """Remove the collection of the configured name where a reindex ended right after it had switched away from it."""
    plain = used.beside(configured)
    if used.name == configured or configured in await _aliases(used) or not await plain.exists():
        return
    identity = await plain.identity()
    if identity is not None and identity.store_id == marker.store_id:
        await plain.drop()


class QdrantRebuild(CollectionRebuild):
    """`ports.Rebuild` beside the collection of an open `QdrantStore`."""

    def __init__(
        self, store: "QdrantStore", first: Collection, configured: str, *, writers: Writers, opened_here: bool
    ) -> None:
        self._store = store
        self._configured = configured
        self._old = first
        self._target = other(first, configured)
        self._opened_here = opened_here
        self._switched = False
        super().__init__(store.points_of(self._target), writers=writers, written=store.written)

    async def prepare(self, wanted: Marker) -> None:
        """Make the new collection, or go on with the one that was begun for this embedder."""
        target = self._target
        there = await target.identity() if await target.exists() else None
        self._resumed = there == wanted
        if not self._resumed:
            await target.drop()
            await target.create(wanted.dimension)
            await target.index()
            await target.set_identity(wanted, replace=True)
        await self.begin(self._store.points_of(self._old))

    async def flush(self) -> None:
        """Nothing to do: every write has waited until it was applied."""

    async def switch(self) -> None:
        alias = pointer(self._configured)
        there = [models.DeleteAlias(alias_name=alias)] if alias in await _aliases(self._target) else []
        create = models.CreateAlias(collection_name=self._target.name, alias_name=alias)
        operations: list[models.AliasOperations] = [
            *(models.DeleteAliasOperation(delete_alias=one) for one in there),
            models.CreateAliasOperation(create_alias=create),
        ]
        try:
            await self._target.call(lambda client: client.update_collection_aliases(operations))
        except StoreUnavailable:
            await self._make_sure(alias)
        self._store.adopt(self._target)
        self._store.unfinished, self._switched = False, True

    async def _make_sure(self, alias: str) -> None:
        """The server may have switched although its answer did not come; writes must not go to the wrong collection."""
        try:
            switched = (await _aliases(self._target)).get(alias) == self._target.name
        except StoreUnavailable:
            self._store.leave()
            raise
        if not switched:
            raise StoreUnavailable("Qdrant did not switch to the new collection; run `memproxy reindex` again.")

    async def close(self) -> None:
        if self._switched:
            self._writers.stop_noting()
            await self._old.drop()
            return
        try:
            self._store.unfinished = True
            await self.leave_unfinished()
        finally:
            if self._opened_here:
                self._store.leave()
