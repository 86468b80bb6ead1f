"""The engine's store, embedder and chat models, and the engine over them."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from memproxy.api.context import Parts
from memproxy.engine.engine import Engine
from memproxy.engine.role import TenantModel
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import QuestionTally, TokenMeter
from memproxy.learn.extract import load_prompt
from memproxy.learn.worker import Worker
from memproxy.models.chat_client import OpenAIChatModel
from memproxy.models.dimensions import dimension_of
from memproxy.models.embed import FastembedEmbedder, load_local, load_reranker
from memproxy.models.embedding import NoEmbedder
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import (
    Clock,
    Embedder,
    HeldStore,
    HotStore,
    MemoryStore,
    OpenModel,
    Reranker,
    SnapshotStore,
    StateStore,
)
from memproxy.recall.hot import Hot, HotInProcess
from memproxy.recall.pipeline import Recall
from memproxy.recall.recipes import LATE, configured
from memproxy.recall.rerank import LocalReranker, ModelReranker
from memproxy.recall.rewrite import Rewriter
from memproxy.retention.pruning import Policies
from memproxy.settings import ModelSettings, Settings
from memproxy.settings.home import store_path
from memproxy.stores.edge import EdgeStore
from memproxy.traces import Traces
from memproxy.wiring.cache import Caches, OwnersColumns, make_caches
from memproxy.wiring.state_stores import keys_of, make_apart_state, make_state

if TYPE_CHECKING:
    from memproxy.stores.postgres import PostgresStore
    from memproxy.stores.qdrant import QdrantStore
    from memproxy.stores.state_sealed import SealedOwners


class SystemClock:
    """The machine's clock, or the one that all machines on the state go by."""

    def __init__(self, read: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._read = read

    def now(self) -> datetime:
        return self._read()


def make_embedder(
    settings: Settings, home: Path, *, local_files_only: bool = False, spent: Callable[[str, str], None] | None = None
) -> Embedder:
    """The embedder of these settings; with ``local_files_only`` it downloads nothing. One that is paid by the token
    tells ``spent`` whose question it was asked, and the question.
    """
    embedding = settings.embedding
    if embedding.token_vectors is None:
        are_ranked = LATE in configured(settings.recall).stages
        embedding = embedding.model_copy(update={"token_vectors": are_ranked})
    if embedding.provider == "none":
        return NoEmbedder(dimension_of(embedding))
    if embedding.provider == "openai":
        from memproxy.models.embed_remote import OpenAIEmbedder  # noqa: PLC0415 - its library takes most of a second

        return OpenAIEmbedder(embedding, spent=spent)
    load = partial(load_local, local_files_only=local_files_only)
    return FastembedEmbedder(embedding, home / "models", load)


def make_store(
    settings: Settings, home: Path, embedder: Embedder, *, keys: "SealedOwners | None" = None
) -> "EdgeStore | QdrantStore | PostgresStore":
    """The memory store of these settings, for this embedder's vectors. With ``keys`` it encrypts."""
    store = _bare_store(settings, home, embedder)
    policies = Policies(settings.retention)
    if policies.has_time_to_live:
        store.expire_after(policies.time_to_live)
    if keys is not None:
        store.seal_with(keys)
        keys.on_destroyed(store.drop_read)
    return store


def _bare_store(settings: Settings, home: Path, embedder: Embedder) -> "EdgeStore | QdrantStore | PostgresStore":
    dimension = embedder.dimension or dimension_of(settings.embedding)
    name = None if settings.embedding.provider == "none" else embedder.name
    store = settings.store
    if store.backend == "qdrant":
        from memproxy.stores.qdrant import QdrantStore  # noqa: PLC0415 - half a second that the embedded store saves

        return QdrantStore(
            url=store.url,
            api_key=store.api_key.get_secret_value() if store.api_key else None,
            grpc_port=store.grpc_port,
            quantized=store.quantization == "int8",
            collection=store.collection,
            dimension=dimension,
            embedder_name=name,
        )
    if store.backend == "postgres":
        from memproxy.stores.postgres import PostgresStore  # noqa: PLC0415 - an extra, and time that Edge saves
        from memproxy.stores.postgres_collection import NearestIndex  # noqa: PLC0415 - the same

        by_lists = NearestIndex(store.lists, store.probes) if store.index == "ivfflat" else None
        return PostgresStore(
            url=store.url, collection=store.collection, dimension=dimension, embedder_name=name, index=by_lists
        )
    return EdgeStore(store_path(store, home), dimension=dimension, embedder_name=name, index_bytes=store.index_bytes)


def make_hot(settings: Settings, caches: Caches, state: StateStore, store: MemoryStore, clock: Clock) -> Hot | None:
    """The memories that are kept hot; None where nothing uses them (an embedded store, no stable facts first)."""
    hot_store: HotStore
    if caches.server is not None:
        from memproxy.stores.redis_uses import RedisHot  # noqa: PLC0415 - an extra

        hot_store = RedisHot(caches.server, state, OwnersColumns(state), ttl_s=settings.cache.ttl_s)
    elif settings.store.backend != "edge" or settings.recall.first_turn_facts:
        hot_store = HotInProcess(ttl_s=settings.cache.ttl_s)
    else:
        return None
    return Hot(hot_store, store=store, settings=settings, clock=clock, changes=caches.changes)


class Roles(NamedTuple):
    """What recall asks (None: it asks nobody), and the models behind, to be closed with the engine."""

    rewriter: Rewriter | None
    reranker: Reranker | None
    models: tuple[OpenModel, ...]


def make_roles(settings: Settings, access: ModelAccess, meter: TokenMeter, cache_dir: Path) -> Roles:
    """The roles of these settings; a model is made only for a role that is used. Reads the prompts' files, and keeps a
    local model in ``cache_dir``.

    Raises:
        ConfigError: a prompt of ``learn.prompts_dir`` does not begin with its version.
    """
    rewriter: Rewriter | None = None
    reranker: Reranker | None = None
    models: list[OpenModel] = []

    def model(source: str, role: ModelSettings, timeout_s: float) -> TenantModel:
        chat = OpenAIChatModel(role, role=source)
        models.append(chat)
        within_s = min(timeout_s, role.timeout_s)
        return TenantModel(model=chat, access=access, settings=role, source=source, timeout_s=within_s, meter=meter)

    redacted = frozenset[str](settings.privacy.redact)
    folder = settings.learn.prompts_dir
    if settings.rewrite.mode in {"llm", "hyde"}:
        rewriter = Rewriter(
            model("rewrite", settings.models.rewrite, settings.rewrite.timeout_s),
            rewriting=load_prompt(folder, "rewrite.md").text,
            hypothetical=load_prompt(folder, "hyde.md").text,
            redact_kinds=redacted,
        )
    if settings.recall.rerank == "model":
        reranker = ModelReranker(
            model("rerank", settings.models.rerank, settings.recall.rerank_timeout_s),
            prompt=load_prompt(folder, "rerank.md").text,
            redact_kinds=redacted,
        )
    elif settings.recall.rerank == "local":
        load = partial(load_reranker, settings.recall, cache_dir, settings.embedding.threads)
        reranker = LocalReranker(load, settings.recall.rerank_timeout_s)
        models.append(reranker)
    return Roles(rewriter, reranker, tuple(models))


def make_engine(
    settings: Settings, home: Path, secret: bytes, state_socket: Path | None = None, traces: Traces | None = None
) -> Engine:
    """The engine, not started yet; beside relays the process that listens on ``state_socket`` writes its state.
    ``traces`` makes spans of what it learns.
    """
    state = make_state(settings, home) if state_socket is None else make_apart_state(settings, home, state_socket)
    caches = make_caches(settings, state)
    clock: Clock = SystemClock(state.clock())
    meter = TokenMeter(caches.usage, clock, settings.learn)
    tally = QuestionTally(meter)
    embedder = make_embedder(settings, home, spent=tally.add)
    store = make_store(settings, home, embedder, keys=keys_of(state))
    lexical = Bm25Encoder()
    access = ModelAccess(settings)
    roles = make_roles(settings, access, meter, home / "models")
    hot = make_hot(settings, caches, state, store, clock)
    recall = Recall(
        settings=settings,
        store=store,
        embedder=embedder,
        lexical=lexical,
        clock=clock,
        rewriter=roles.rewriter,
        reranker=roles.reranker,
        hot=hot,
    )
    model = OpenAIChatModel(settings.models.extract)
    judge = OpenAIChatModel(settings.models.judge) if settings.learn.judge == "llm" else None
    worker = Worker(
        settings=settings,
        state=state,
        store=store,
        embedder=embedder,
        lexical=lexical,
        model=model,
        access=access,
        clock=clock,
        judge=judge,
        usage=caches.usage,
        working=caches.working,
        traces=traces,
    )
    state.on_rows(worker.wake_index)
    models = [*roles.models, model, *([judge] if judge is not None else [])]
    return Engine(
        Parts(
            settings=settings,
            state=state,
            store=store,
            embedder=embedder,
            lexical=lexical,
            recall=recall,
            worker=worker,
            access=access,
            clock=clock,
            held=store if isinstance(store, HeldStore | SnapshotStore) else None,
            changes=caches.changes,
            usage=caches.usage,
            working=caches.working,
            hot=hot,
            shared=caches.server,
            models=models,
            tally=tally,
            lexical_version=Bm25Encoder.VERSION,
            secret=secret,
        )
    )
