"""Chooses what stands behind each port. The only module that names concrete stores and models."""

from datetime import UTC, datetime
from pathlib import Path

from memproxy.auth import Authenticator, BrowserGuard
from memproxy.engine.parts import Engine
from memproxy.home import state_path, store_path
from memproxy.learn.access import ModelAccess
from memproxy.learn.worker import Worker
from memproxy.models.chat import OpenAIChatModel
from memproxy.models.embed import FastembedEmbedder, NoEmbedder, OpenAIEmbedder, dimension_of
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Clock, Embedder, MemoryStore, StateStore
from memproxy.recall.pipeline import Recall
from memproxy.relay.app import Relay
from memproxy.relay.capture import Journal
from memproxy.relay.decide import Decider
from memproxy.relay.engine import EngineClient
from memproxy.relay.gate import Gate
from memproxy.relay.handler import ChatHandler
from memproxy.relay.health import Health
from memproxy.relay.memory_api import MemoryApi
from memproxy.relay.passthrough import Passthrough
from memproxy.relay.process import RelayProcess
from memproxy.relay.sessions import Sessions
from memproxy.relay.upstream import Upstream
from memproxy.settings import Settings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.qdrant import QdrantStore
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current instant, in UTC."""
        return datetime.now(UTC)


def make_state(settings: Settings, home: Path) -> StateStore:
    """The state store of these settings."""
    return SqliteState(state_path(settings.state, home), sync=settings.state.sync)


def make_embedder(settings: Settings, home: Path) -> Embedder:
    """The embedder of these settings."""
    embedding = settings.embedding
    if embedding.provider == "none":
        return NoEmbedder(dimension_of(embedding))
    if embedding.provider == "openai":
        return OpenAIEmbedder(embedding)
    return FastembedEmbedder(embedding, home / "models")


def make_store(settings: Settings, home: Path, embedder: Embedder) -> MemoryStore:
    """The memory store of these settings, for this embedder's vectors."""
    dimension = embedder.dimension or dimension_of(settings.embedding)
    name = None if settings.embedding.provider == "none" else embedder.name
    store = settings.store
    if store.backend == "qdrant":
        return QdrantStore(
            url=store.url,
            api_key=store.api_key.get_secret_value() if store.api_key else None,
            collection=store.collection,
            dimension=dimension,
            embedder_name=name,
        )
    return EdgeStore(store_path(store, home), dimension=dimension, embedder_name=name)


def make_engine(settings: Settings, home: Path, secret: bytes) -> Engine:
    """The engine, not started yet."""
    clock: Clock = SystemClock()
    state = make_state(settings, home)
    embedder = make_embedder(settings, home)
    store = make_store(settings, home, embedder)
    lexical = Bm25Encoder()
    access = ModelAccess(settings)
    recall = Recall(settings=settings, store=store, embedder=embedder, lexical=lexical, clock=clock)
    worker = Worker(
        settings=settings,
        state=state,
        store=store,
        embedder=embedder,
        lexical=lexical,
        model=OpenAIChatModel(settings.models.extract),
        access=access,
        clock=clock,
    )
    return Engine(
        settings=settings,
        state=state,
        store=store,
        embedder=embedder,
        recall=recall,
        worker=worker,
        access=access,
        clock=clock,
        secret=secret,
    )


def make_relay(settings: Settings, home: Path, secret: bytes, engine_socket: Path) -> RelayProcess:
    """The relay, not started yet."""
    tasks = TaskOwner("relay")
    state = make_state(settings, home)
    sessions = Sessions(state)
    engine = EngineClient(engine_socket, deadline_s=settings.recall.deadline_ms / 1000)
    upstream = Upstream(settings.upstream)
    authenticator = Authenticator(settings.auth, settings.server, secret)
    guard = BrowserGuard(settings.server)
    journal = Journal(
        state,
        sessions,
        engine,
        commit_timeout_s=settings.state.commit_timeout_ms / 1000,
        redact_kinds=frozenset(settings.privacy.redact),
    )
    passthrough = Passthrough(upstream, tasks)
    decider = Decider(
        secret=secret, authenticator=authenticator, sessions=sessions, gate=Gate(settings.gate), engine=engine
    )
    chat = ChatHandler(
        settings=settings,
        decider=decider,
        upstream=upstream,
        journal=journal,
        passthrough=passthrough,
        tasks=tasks,
    )
    memory_api = MemoryApi(engine, authenticator, guard, max_body_bytes=settings.server.max_body_bytes)
    health = Health(engine, settings.telemetry)
    relay = Relay(
        chat=chat,
        passthrough=passthrough,
        memory_api=memory_api,
        health=health,
        guard=guard,
        max_concurrent_requests=settings.server.max_concurrent_requests,
    )
    return RelayProcess(
        app=relay, state=state, engine=engine, upstream=upstream, journal=journal, health=health, tasks=tasks
    )
