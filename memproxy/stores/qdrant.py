"""The memory store on a Qdrant server or cluster, through `qdrant-client` (whose local mode serves tests).

Every write waits until it is applied, so `flush` has nothing to do. The collection's identity is a point with a fixed
id and no owner: every read and delete names an owner, so it never shows.
"""

import httpx
import msgspec
from qdrant_client import AsyncQdrantClient

from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, StoreUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Point
from memproxy.stores.backend import Written
from memproxy.stores.edge_files import VERSION, Marker, check_built_with
from memproxy.stores.qdrant_collection import Collection
from memproxy.stores.qdrant_rebuild import QdrantRebuild, current, other, tidy
from memproxy.stores.vector_store import VectorStore

CONNECT_TIMEOUT_S = 2.0
"""A server that is down is known after this; recall's own deadline is far shorter, writes are tried again."""

TIMEOUT_S = 10
"""Longest silence of the server within one call."""


class QdrantStore(VectorStore):
    """`ports.MemoryStore` in a collection. ``client`` replaces the connection made from ``url`` and ``api_key``."""

    def __init__(
        self,
        *,
        url: str | None,
        api_key: str | None,
        collection: str,
        dimension: int,
        embedder_name: str | None,
        client: AsyncQdrantClient | None = None,
    ) -> None:
        super().__init__(dimension=dimension, embedder_name=embedder_name)
        self._collection = collection
        self._place = f"collection {collection} at {url or 'the local client'}"
        self._given = client is not None
        self._client = client or _connection(url, api_key)
        self._opened: Collection | None = None

    async def open(self, expected_id: str | None) -> str:
        _, marker = await self._open(expected_id, as_built=False)
        metrics().store_points.set(await self.points())
        return marker.store_id

    async def _open(self, expected_id: str | None, *, as_built: bool) -> tuple[Collection, Marker]:
        collection = await current(self._client, self._collection, self._place)
        if not await collection.exists():
            if expected_id is not None:
                raise self._not_here(expected_id, None)
            await collection.create(self._dimension)
        await collection.index()
        marker = await self._marker(collection, as_built=as_built)
        if expected_id is not None and marker.store_id != expected_id:
            raise self._not_here(expected_id, marker.store_id)
        await tidy(collection, self._collection, marker)
        self.unfinished = await other(collection, self._collection).exists()
        self.adopt(collection)
        return collection, marker

    def adopt(self, collection: Collection) -> Collection | None:
        """Go on with this collection, from one call to the next; answers the one before."""
        before, self._opened = self._opened, collection
        self._points = self.points_of(collection)
        return before

    async def drop_unfinished(self) -> None:
        if self._opened is not None:
            await other(self._opened, self._collection).drop()
        await super().drop_unfinished()

    def written(self, point: Point) -> Written:
        """The point as it is written to a collection of the configured embedder."""
        return self._written(Scope(tenant=point.memory.tenant, user=point.memory.user_id), point)

    async def begin_rebuild(self, expected_id: str | None) -> QdrantRebuild:
        """As `ports.RebuildableStore` says."""
        opened_here = self._opened is None
        collection, marker = await self._open(expected_id, as_built=True)
        wanted = msgspec.structs.replace(marker, dimension=self._dimension, embedder=self._embedder)
        rebuild = QdrantRebuild(self, collection, self._collection, writers=self._writers, opened_here=opened_here)
        try:
            await rebuild.prepare(wanted)
        except BaseException:
            await rebuild.close()
            raise
        return rebuild

    def leave(self) -> None:
        """Be as before `open`."""
        self._points = self._opened = None

    async def close(self) -> None:
        self.leave()
        if not self._given:
            await self._client.close()

    async def flush(self) -> None:
        """Nothing to do: every write has waited until it was applied."""

    def hurry(self) -> None:
        """As `flush`: nothing to do."""

    async def optimize(self) -> bool:
        """As the port says: a Qdrant server vacuums its own files, in its own time."""
        return False

    async def points(self) -> int:
        if self._opened is None:
            raise StoreUnavailable("The memory store is not open; open it, or wait until it is.")
        return await self._opened.points()

    async def _marker(self, collection: Collection, *, as_built: bool) -> Marker:
        fresh = Marker.fresh(dimension=self._dimension, embedder=self._embedder)
        marker = await collection.identity() or await collection.set_identity(fresh, replace=False)
        if marker.version > VERSION:
            raise ConfigError(
                f"The {self._place} has version {marker.version}; this memproxy knows up to {VERSION}. "
                "Start the version that wrote it, or a newer one."
            )
        if as_built:
            return marker
        built, wanted = (marker.dimension, marker.embedder), (self._dimension, self._embedder)
        check_built_with(self._place, built=built, wanted=wanted)
        if marker.embedder is None and self._embedder is not None:
            marker = await collection.set_identity(
                msgspec.structs.replace(marker, embedder=self._embedder), replace=True
            )
        return marker

    def _not_here(self, expected_id: str, found_id: str | None) -> StoreUnavailable:
        here = "does not exist" if found_id is None else f"is another store ({found_id})"
        return StoreUnavailable(
            f"The {self._place} {here}, but the state belongs to the store {expected_id}. Restore a snapshot of the "
            "collection, or, if the memories are meant to be gone, remove the state file too."
        )


class _QuickConnect(httpx.AsyncHTTPTransport):
    """Gives up connecting sooner than reading: the client knows one timeout for both."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "connect": CONNECT_TIMEOUT_S}
        return await super().handle_async_request(request)


def _connection(url: str | None, api_key: str | None) -> AsyncQdrantClient:
    if url is None:
        raise ConfigError("store.url: missing; `store.backend: qdrant` needs the address of a Qdrant server.")
    transport = _QuickConnect(limits=httpx.Limits(max_connections=64, max_keepalive_connections=16))
    return AsyncQdrantClient(
        url=url, api_key=api_key, timeout=TIMEOUT_S, check_compatibility=False, transport=transport
    )
