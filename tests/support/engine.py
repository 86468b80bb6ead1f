"""A real engine (Edge, SQLite, worker, recall by words) behind a real server on a loopback port."""

import contextlib
import inspect
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import httpx
import msgspec
import uvicorn

from memproxy.api.context import Parts
from memproxy.core.protocol import IDENTITY_HEADER, READY_PATH, Identity
from memproxy.engine.app import build_app
from memproxy.engine.engine import Engine
from memproxy.errors import StoreUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import TokenMeter
from memproxy.learn.worker import Worker
from memproxy.models.chat_client import OpenAIChatModel
from memproxy.models.embedding import NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Embedder, MemoryStore, RebuildableStore
from memproxy.recall.pipeline import Recall
from memproxy.serve.server import Server
from memproxy.settings import LearnSettings, RecallSettings, Settings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner
from memproxy.wiring.engine_parts import make_roles
from tests.support.emptied import EmptiedStore
from tests.support.http_client import plain_client
from tests.support.waiting import eventually

DIMENSION = 8


class WallClock:
    def now(self) -> datetime:
        return datetime.now(UTC)


def test_settings() -> Settings:
    """No extraction (no model is there), and recall with time to spare on a busy machine."""
    return Settings(learn=LearnSettings(enabled=False), recall=RecallSettings(deadline_ms=60_000))


test_settings.__test__ = False  # type: ignore[attr-defined]


def make_engine(
    folder: Path,
    *,
    settings: Settings | None = None,
    store: MemoryStore | None = None,
    own_store: bool = False,
    dimension: int = DIMENSION,
    embedder: Embedder | None = None,
    write_timeout_s: float = 30.0,
) -> Engine:
    """An engine over real parts; by words alone where no embedder is given. With a store of its own below ``folder``
    another engine can go on with it.
    """
    settings = settings or test_settings()
    clock = WallClock()
    state = SqliteState(folder / "state.db", sync="normal")
    embedder = embedder or NoEmbedder(dimension)
    options: dict[str, Any] = {"dimension": dimension, "embedder_name": embedder.name, "lull_s": 0}
    store = store or (EdgeStore(folder / "store", **options) if own_store else EmptiedStore(**options))
    lexical, access = Bm25Encoder(), ModelAccess(settings)
    model = OpenAIChatModel(settings.models.extract)
    worker = Worker(
        settings=settings,
        state=state,
        store=store,
        embedder=embedder,
        lexical=lexical,
        model=model,
        access=access,
        clock=clock,
    )
    meter = TokenMeter(state, clock, settings.learn)
    roles = make_roles(settings, access, meter, folder / "models")
    recall = Recall(
        settings=settings,
        store=store,
        embedder=embedder,
        lexical=lexical,
        clock=clock,
        rewriter=roles.rewriter,
        reranker=roles.reranker,
    )
    return Engine(
        Parts(
            settings=settings,
            state=state,
            store=cast("RebuildableStore", store),
            embedder=embedder,
            lexical=lexical,
            recall=recall,
            worker=worker,
            access=access,
            clock=clock,
            models=[*roles.models, model],
            write_timeout_s=write_timeout_s,
        )
    )


class SwitchedStore:
    """A real store that can be made to be away: every call then fails as if the store did not answer."""

    def __init__(self, inner: MemoryStore) -> None:
        self._inner = inner
        self.away = False

    def as_store(self) -> MemoryStore:
        """This, typed as what it stands for."""
        return cast("MemoryStore", self)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method: Callable[..., Awaitable[Any]] = getattr(self._inner, name)
        if not inspect.iscoroutinefunction(method):
            return method  # nothing that the store would be asked for

        async def call(*arguments: Any, **named: Any) -> Any:
            if self.away and name != "close":
                raise StoreUnavailable("The store is away (switched off by the test).")
            return await method(*arguments, **named)

        return call


class Api:
    """A client of the engine's routes, as the relay would be one for each caller."""

    def __init__(self, client: httpx.AsyncClient, engine: Engine, *, tenant: str = "acme") -> None:
        self.client = client
        self.engine = engine
        self.tenant = tenant

    def identity(self, user: str | None = None, *, project: str | None = None) -> Identity:
        return Identity(tenant=self.tenant, named_user=user, default_user="default", project=project)

    async def call(
        self, method: str, path: str, *, identity: Identity | None = None, **arguments: Any
    ) -> httpx.Response:
        """One call, by default as a caller who names no user and is ``default``."""
        headers = {IDENTITY_HEADER: msgspec.json.encode(identity or self.identity()).decode()} | arguments.pop(
            "headers", {}
        )
        return await self.client.request(method, path, headers=headers, **arguments)

    async def readiness(self) -> dict[str, str]:
        """How its parts are."""
        parts: dict[str, str] = (await self.client.get(READY_PATH)).json()
        return parts

    async def store(self, content: str, *, identity: Identity | None = None, **fields: Any) -> dict[str, Any]:
        """Store one memory; the memory."""
        response = await self.call("POST", "/v1/memory", identity=identity, json={"content": content, **fields})
        memory: dict[str, Any] = response.json()
        assert response.status_code in {201, 202}, response.text
        if response.status_code == 202:  # it takes longer than the engine lets callers wait
            whose = {"user_id": fields["user_id"]} if "user_id" in fields else {}
            await eventually(lambda: self._shows(memory["id"], identity, whose), what="the memory is written")
        return memory

    async def _shows(self, name: str, identity: Identity | None, whose: dict[str, str]) -> bool:
        found = await self.call("GET", f"/v1/memory/{name}", identity=identity, params=whose)
        return found.status_code == 200

    async def say(
        self, session: str, *said: str | dict[str, Any], identity: Identity | None = None, **fields: Any
    ) -> list[str]:
        """Ingest messages (a text is the user's); their turn ids."""
        messages = [{"role": "user", "content": one} if isinstance(one, str) else one for one in said]
        body = {"session_id": session, "messages": messages, **fields}
        response = await self.call("POST", "/v1/memory/turns", identity=identity, json=body)
        assert response.status_code == 201, response.text
        ids: list[str] = response.json()["turn_ids"]
        return ids

    async def data(self, path: str, *, identity: Identity | None = None, **query: Any) -> list[dict[str, Any]]:
        """The ``data`` of a list call below ``/v1/memory``."""
        response = await self.call("GET", f"/v1/memory/{path}", identity=identity, params=query)
        assert response.status_code == 200, response.text
        data: list[dict[str, Any]] = response.json()["data"]
        return data

    async def page(self, *, identity: Identity | None = None, **query: Any) -> list[dict[str, Any]]:
        """The memories that a list call finds."""
        response = await self.call("GET", "/v1/memory", identity=identity, params=query)
        assert response.status_code == 200, response.text
        data: list[dict[str, Any]] = response.json()["data"]
        return data

    async def search(self, query: str, *, identity: Identity | None = None, **fields: Any) -> list[dict[str, Any]]:
        """The memories that a search finds, best first."""
        response = await self.call("POST", "/v1/memory/search", identity=identity, json={"query": query, **fields})
        assert response.status_code == 200, response.text
        return [found["memory"] for found in response.json()["data"]]


@contextlib.asynccontextmanager
async def serve_engine(engine: Engine, *, wait: bool = True) -> AsyncIterator[Api]:
    """The engine behind a real server; closed with it."""
    # named as TCP, or asyncio leaves Nagle's algorithm on and every answer waits 40 ms for an ACK
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen()  # who connects before the server is up waits for it
    server = Server(uvicorn.Config(build_app(engine), log_config=None, lifespan="on", timeout_graceful_shutdown=2))
    tasks = TaskOwner("test.server")
    task = tasks.start(server.serve(sockets=[listener]), "serve")
    host, port = listener.getsockname()
    try:
        if wait:
            await engine.wait_open()
        async with plain_client(base_url=f"http://{host}:{port}", timeout=60) as client:
            yield Api(client, engine)
    finally:
        server.leave()
        await task
