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
from memproxy.core.transfer_lines import MEDIA_TYPE
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
    """A client of the engine's routes, as the relay would be one for each caller; by default one who names no user and
    is ``default``. Paths, but for that of `call`, are below ``/v1/memory``.
    """

    def __init__(
        self, client: httpx.AsyncClient, engine: Engine, *, tenant: str = "acme", caller: Identity | None = None
    ) -> None:
        self.client = client
        self.engine = engine
        self.tenant = tenant
        self._caller = caller

    def by(self, caller: Identity) -> "Api":
        """The same engine, asked by somebody else."""
        return Api(self.client, self.engine, tenant=caller.tenant, caller=caller)

    def identity(self, user: str | None = None, *, project: str | None = None) -> Identity:
        return Identity(tenant=self.tenant, named_user=user, default_user="default", project=project)

    async def call(
        self, method: str, path: str, *, identity: Identity | None = None, **arguments: Any
    ) -> httpx.Response:
        """One call of any path, however it is answered."""
        caller = identity or self._caller or self.identity()
        headers = {IDENTITY_HEADER: msgspec.json.encode(caller).decode()} | arguments.pop("headers", {})
        return await self.client.request(method, path, headers=headers, **arguments)

    async def readiness(self) -> dict[str, str]:
        """How its parts are."""
        parts: dict[str, str] = (await self.client.get(READY_PATH)).json()
        return parts

    async def ask(self, method: str, path: str = "", **arguments: Any) -> httpx.Response:
        """One call below ``/v1/memory``, however it is answered."""
        return await self.call(method, "/v1/memory" + (f"/{path}" if path and path[0] != "?" else path), **arguments)

    async def ok(self, method: str, path: str = "", *, status: int = 200, **arguments: Any) -> Any:
        """The JSON of an answer that has this status."""
        answer = await self.ask(method, path, **arguments)
        assert answer.status_code == status, answer.text
        return answer.json()

    async def status(self, method: str, path: str = "", **arguments: Any) -> int:
        return (await self.ask(method, path, **arguments)).status_code

    async def refused(self, method: str, path: str = "", **arguments: Any) -> tuple[int, str | None]:
        """The status of a refusal, and the parameter that it names."""
        answer = await self.ask(method, path, **arguments)
        return answer.status_code, answer.json()["error"]["param"]

    async def code(self, method: str, path: str = "", **arguments: Any) -> tuple[int, str | None]:
        """The status of a refusal, and its code."""
        answer = await self.ask(method, path, **arguments)
        return answer.status_code, answer.json()["error"]["code"]

    async def get(self, path: str = "", *, identity: Identity | None = None, **query: Any) -> Any:
        """What a call for reading answers, one memory among others."""
        return await self.ok("GET", path, identity=identity, params=query or None)

    async def post(self, path: str = "", *, status: int = 200, identity: Identity | None = None, **body: Any) -> Any:
        return await self.ok("POST", path, status=status, identity=identity, json=body)

    async def edit(self, name: str, *, identity: Identity | None = None, **fields: Any) -> Any:
        """Change fields of a memory; the memory."""
        return await self.ok("PATCH", name, identity=identity, json=fields)

    async def delete(self, path: str = "", *, identity: Identity | None = None, **query: Any) -> int:
        """How many memories a deletion took at once."""
        told = await self.ok("DELETE", path, identity=identity, params=query or None)
        assert set(told) == {"deleted"}, told
        return int(told["deleted"])

    async def recall(self, query: str, *, identity: Identity | None = None, **fields: Any) -> Any:
        return await self.post("recall", identity=identity, query=query, **fields)

    async def context(self, query: str) -> str:
        """The block that a recall gives."""
        return str((await self.recall(query))["context"])

    async def history(self, name: str, **query: Any) -> list[str]:
        """The ids of a memory's history, the oldest first."""
        return [one["id"] for one in await self.data(f"{name}/history", **query)]

    async def judge(self, signal: str, *, status: int = 201, identity: Identity | None = None, **body: Any) -> Any:
        """Feedback on a memory or a request."""
        return await self.post("feedback", status=status, identity=identity, signal=signal, **body)

    async def bring(
        self, *lines: bytes | dict[str, Any], identity: Identity | None = None, **query: Any
    ) -> dict[str, Any]:
        """Import lines; what is told of them."""
        content = b"".join(one if isinstance(one, bytes) else msgspec.json.encode(one) + b"\n" for one in lines)
        headers = {"content-type": MEDIA_TYPE}
        sent: dict[str, Any] = {"identity": identity, "params": query, "content": content, "headers": headers}
        told: dict[str, Any] = await self.ok("POST", "import", **sent)
        return told

    async def store(self, content: str, *, identity: Identity | None = None, **fields: Any) -> dict[str, Any]:
        """Store one memory; the memory."""
        response = await self.ask("POST", identity=identity, json={"content": content, **fields})
        memory: dict[str, Any] = response.json()
        assert response.status_code in {201, 202}, response.text
        if response.status_code == 202:  # it takes longer than the engine lets callers wait
            whose = {"user_id": fields["user_id"]} if "user_id" in fields else {}
            await eventually(lambda: self._shows(memory["id"], identity, whose), what="the memory is written")
        return memory

    async def _shows(self, name: str, identity: Identity | None, whose: dict[str, str]) -> bool:
        return await self.status("GET", name, identity=identity, params=whose) == 200

    async def say(
        self, session: str, *said: str | dict[str, Any], identity: Identity | None = None, **fields: Any
    ) -> list[str]:
        """Ingest messages (a text is the user's); their turn ids."""
        messages = [{"role": "user", "content": one} if isinstance(one, str) else one for one in said]
        told = await self.post("turns", status=201, identity=identity, session_id=session, messages=messages, **fields)
        ids: list[str] = told["turn_ids"]
        return ids

    async def data(self, path: str, *, identity: Identity | None = None, **query: Any) -> list[dict[str, Any]]:
        """The ``data`` of a list call."""
        data: list[dict[str, Any]] = (await self.get(path, identity=identity, **query))["data"]
        return data

    async def page(self, *, identity: Identity | None = None, **query: Any) -> list[dict[str, Any]]:
        """The memories that a list call finds."""
        return await self.data("", identity=identity, **query)

    async def walk(self, path: str = "", *, limit: int, **query: Any) -> list[dict[str, Any]]:
        """The ``data`` of all pages of a list call."""
        found: list[dict[str, Any]] = []
        while True:
            page = await self.get(path, limit=limit, **query)
            found += page["data"]
            assert len(page["data"]) <= limit
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]

    async def search(self, query: str, *, identity: Identity | None = None, **fields: Any) -> list[dict[str, Any]]:
        """The memories that a search finds, best first."""
        told = await self.post("search", identity=identity, query=query, **fields)
        return [found["memory"] for found in told["data"]]


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
