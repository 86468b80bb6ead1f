"""What stands behind the engine's ports: store, embedder, models."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memproxy.engine.parts import Engine
from memproxy.engine.reindex import Reindexing
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import TokenMeter
from memproxy.learn.tally import QuestionTally
from memproxy.learn.worker import Worker
from memproxy.models.chat_when_asked import ChatModelWhenAsked
from memproxy.models.dimensions import dimension_of
from memproxy.models.embed import FastembedEmbedder, load_local
from memproxy.models.lexical import Bm25Encoder
from memproxy.models.no_embedder import NoEmbedder
from memproxy.ports import Clock, Embedder, RebuildableStore
from memproxy.recall.pipeline import Recall
from memproxy.recall.recipes import LATE, configured
from memproxy.retention.policies import Policies
from memproxy.settings import RecallSettings, Settings
from memproxy.settings.home import store_path
from memproxy.stores.edge import EdgeStore
from memproxy.wiring.roles import make_roles
from memproxy.wiring.state import keys_of, make_apart_state, make_state

if TYPE_CHECKING:
    from memproxy.stores.qdrant import QdrantStore
    from memproxy.stores.sealed_state import SealedState


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """The current instant, in UTC."""
        return datetime.now(UTC)


def make_embedder(
    settings: Settings,
    home: Path,
    *,
    local_files_only: bool = False,
    spent: Callable[[str, str], None] | None = None,
) -> Embedder:
    """The embedder of these settings; with ``local_files_only`` it downloads nothing. One that is paid by the token
    tells ``spent`` whose question it was asked, and the question.
    """
    embedding = settings.embedding
    if embedding.token_vectors is None:
        embedding = embedding.model_copy(update={"token_vectors": _ranks_by_tokens(settings.recall)})
    if embedding.provider == "none":
        return NoEmbedder(dimension_of(embedding))
    if embedding.provider == "openai":
        from memproxy.models.embed_remote import OpenAIEmbedder  # noqa: PLC0415 - its library takes most of a second

        return OpenAIEmbedder(embedding, spent=spent)
    load = partial(load_local, local_files_only=local_files_only)
    return FastembedEmbedder(embedding, home / "models", load)


def _ranks_by_tokens(recall: RecallSettings) -> bool:
    """Whether what is recalled is ranked by token vectors."""
    return LATE in configured(recall).stages


def make_store(
    settings: Settings,
    home: Path,
    embedder: Embedder,
    *,
    keys: "SealedState | None" = None,
) -> RebuildableStore:
    """The memory store of these settings, for this embedder's vectors. With ``keys`` it encrypts."""
    store = _bare_store(settings, home, embedder)
    policies = Policies(settings.retention)
    if policies.has_time_to_live:
        store.expire_after(policies.time_to_live)
    if keys is not None:
        store.seal_with(keys)
        keys.on_destroyed(store.drop_read)
    return store


def _bare_store(settings: Settings, home: Path, embedder: Embedder) -> "EdgeStore | QdrantStore":
    dimension = embedder.dimension or dimension_of(settings.embedding)
    name = None if settings.embedding.provider == "none" else embedder.name
    store = settings.store
    if store.backend == "qdrant":
        from memproxy.stores.qdrant import QdrantStore  # noqa: PLC0415 - half a second that the embedded store saves

        return QdrantStore(
            url=store.url,
            api_key=store.api_key.get_secret_value() if store.api_key else None,
            collection=store.collection,
            dimension=dimension,
            embedder_name=name,
        )
    return EdgeStore(
        store_path(store, home),
        dimension=dimension,
        embedder_name=name,
        index_bytes=store.index_bytes,
    )


def make_engine(settings: Settings, home: Path, secret: bytes, state_socket: Path | None = None) -> Engine:
    """The engine, not started yet; beside relays the process that listens on ``state_socket`` writes its state."""
    clock: Clock = SystemClock()
    state = make_state(settings, home) if state_socket is None else make_apart_state(settings, home, state_socket)
    meter = TokenMeter(state, clock, settings.learn)
    tally = QuestionTally(meter)
    embedder = make_embedder(settings, home, spent=tally.add)
    store = make_store(settings, home, embedder, keys=keys_of(state))
    lexical = Bm25Encoder()
    access = ModelAccess(settings)
    roles = make_roles(settings, access, meter)
    recall = Recall(
        settings=settings,
        store=store,
        embedder=embedder,
        lexical=lexical,
        clock=clock,
        rewriter=roles.rewriter,
        reranker=roles.reranker,
    )
    model = ChatModelWhenAsked(settings.models.extract)
    judge = ChatModelWhenAsked(settings.models.judge) if settings.learn.judge == "llm" else None
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
        tally=tally,
        model=model,
        recall_models=(*roles.models, judge) if judge is not None else roles.models,
        reindexing=Reindexing(
            settings=settings.embedding,
            store=store,
            embedder=embedder,
            lexical=lexical,
            without_vectors=worker.without_vectors,
        ),
        lexical_version=Bm25Encoder.VERSION,
        held=store if isinstance(store, EdgeStore) else None,
        secret=secret,
    )
