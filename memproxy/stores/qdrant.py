"""The memory store on a Qdrant server or cluster, through `qdrant-client` (whose local mode serves tests).

Every write waits until it is applied. The alias ``<collection>__current`` names the collection in use; without it, that
is the configured name itself. Giving the alias another collection is the switch of a reindex:
the server does it at once.
"""

from qdrant_client import AsyncQdrantClient, models

from memproxy.stores.edge_files import Marker
from memproxy.stores.qdrant_collection import Collection
from memproxy.stores.qdrant_connection import Server
from memproxy.stores.server_store import ServerStore


class QdrantStore(ServerStore[Collection]):
    """`ports.MemoryStore` in a collection. ``client`` replaces the connection made from ``url`` and ``api_key``.

    Args:
        grpc_port: None: one above the port of ``url``; 0: REST alone.
        quantized: Compare vectors rounded to a byte a number first, and the best of them as they are.
    """

    server = "Qdrant"
    copied_by = "a snapshot of the collection"
    joint = "__"

    def __init__(
        self,
        *,
        url: str | None,
        api_key: str | None,
        collection: str,
        dimension: int,
        embedder_name: str | None,
        grpc_port: int | None = None,
        quantized: bool = False,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        place = f"collection {collection} at {url or 'the local client'}"
        super().__init__(collection=collection, place=place, dimension=dimension, embedder_name=embedder_name)
        self._server = Server(url=url, api_key=api_key, grpc_port=grpc_port, place=place, client=client)
        self._plain = Collection(self._server, collection, quantized=quantized)
        self._store_id = ""

    @property
    def by_grpc(self) -> bool:
        """Whether it is reached by gRPC."""
        return self._server.by_grpc

    @property
    def counts_within(self) -> bool:
        """Whether the server counts over one user's memories how rare a word is, and not over everybody's."""
        return self._server.counts_within

    async def known(self) -> tuple[Collection, Marker] | None:
        await self._server.connect()
        collection = await self._current()
        if not await collection.exists():
            return None
        await collection.prepare()
        marker = await collection.identity()
        if marker is None:
            return None
        await self._tidy(collection, marker)
        return collection, marker

    async def _made(self) -> tuple[Collection, Marker]:
        collection = await self._current()
        await collection.create(self._dimension)
        await collection.prepare()
        fresh = Marker.fresh(dimension=self._dimension, embedder=self._embedder)
        return collection, await collection.set_identity(fresh, replace=False)

    async def _open(self, expected_id: str | None, *, as_built: bool) -> tuple[Collection, Marker]:
        collection, marker = await super()._open(expected_id, as_built=as_built)
        self._store_id = marker.store_id

        async def same(client: AsyncQdrantClient) -> bool:
            return await collection.identity_by(client) == marker

        await self._server.prefer_grpc(same)
        return collection, marker

    async def note(self, collection: Collection, marker: Marker) -> None:
        if await collection.identity() != marker:
            await collection.set_identity(marker, replace=True)
        if collection.name == (await self._current()).name:
            return
        alias, aliases = pointer(self._configured), await self._aliases()
        create = models.CreateAlias(collection_name=collection.name, alias_name=alias)
        operations: list[models.AliasOperations] = [models.CreateAliasOperation(create_alias=create)]
        if alias in aliases:
            operations.insert(0, models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)))
        await self._server.call(lambda client: client.update_collection_aliases(operations))

    async def begun(self, target: Collection) -> Marker | None:
        return await target.identity() if await target.exists() else None

    async def begin(self, target: Collection, wanted: Marker, like: Collection) -> None:
        await target.create(wanted.dimension, like)
        await target.prepare()
        await target.set_identity(wanted, replace=True)

    async def points(self) -> int:
        return await self._in_use().points(self._store_id)

    async def _current(self) -> Collection:
        """The collection in use; it may not exist yet."""
        names = await self._aliases()
        name = names.get(pointer(self._configured)) or names.get(self._configured) or self._configured
        return self._plain.beside(name)

    async def _aliases(self) -> dict[str, str]:
        found = await self._server.call(lambda client: client.get_aliases())
        return {one.alias_name: one.collection_name for one in found.aliases}

    async def _tidy(self, used: Collection, marker: Marker) -> None:
        """Remove the collection of the configured name where a reindex ended right after it switched away from it."""
        plain = self._plain
        if used.name == plain.name or plain.name in await self._aliases() or not await plain.exists():
            return
        identity = await plain.identity()
        if identity is not None and identity.store_id == marker.store_id:
            await plain.drop()

    async def _disconnect(self) -> None:
        await self._server.close()


def pointer(configured: str) -> str:
    """The alias that names the collection in use."""
    return f"{configured}__current"
