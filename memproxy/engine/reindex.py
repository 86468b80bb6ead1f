"""A reindex in the background of the engine: one at a time, told as it goes."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Set
from uuid import uuid4

from memproxy.core.protocol import ReindexAsked, ReindexTold
from memproxy.errors import Conflict, EmbedderUnavailable, MemproxyError
from memproxy.learn.locks import Owner
from memproxy.learn.reindex import Reindexer
from memproxy.metrics import metrics
from memproxy.ports import Embedder, LexicalEncoder, Rebuild, RebuildableStore
from memproxy.settings import EmbeddingSettings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

LOADING = "loading"
COPYING = "copying"
DONE = "done"
FAILED = "failed"

_POLL_S = 0.1


class Reindexing:
    """Begins reindexes and says how far they are.

    Args:
        settings: What embedder is configured.
        store: What is rebuilt.
        embedder, lexical: What it is rebuilt with.
        without_vectors: Notes whose memories have no vectors, to be filled in when there is an embedder.
    """

    def __init__(
        self,
        *,
        settings: EmbeddingSettings,
        store: RebuildableStore,
        embedder: Embedder,
        lexical: LexicalEncoder,
        without_vectors: Callable[[Set[Owner]], Awaitable[None]],
    ) -> None:
        self._settings = settings
        self._store = store
        self._embedder = embedder
        self._lexical = lexical
        self._without_vectors = without_vectors
        self._tasks = TaskOwner("engine.reindex")
        self._last = ReindexTold()
        self._reindexer: Reindexer | None = None

    @property
    def told(self) -> ReindexTold:
        """How far the one is that runs, or how the last one ended."""
        if self._reindexer is not None:
            progress = self._reindexer.progress
            self._last.done, self._last.total = progress.done, progress.total
            self._last.kept, self._last.damaged = progress.kept, progress.damaged
        return self._last

    def begin(
        self, asked: ReindexAsked, *, expected_id: str | None, opened: Callable[[], Awaitable[None]] | None
    ) -> ReindexTold:
        """Begin one, unless one runs. ``opened`` is called when a store that was not open has been opened by it.

        Raises:
            Conflict: who asks has another embedder in its configuration.
        """
        self._check(asked)
        if self._last.state not in {LOADING, COPYING}:
            self._reindexer = None
            self._last = ReindexTold(run=uuid4().hex, state=LOADING)
            self._tasks.start(self._run(self._last, expected_id, opened), "reindex")
        return self.told

    async def close(self) -> None:
        """End what runs; the next one goes on where it was."""
        await self._tasks.cancel()

    def _check(self, asked: ReindexAsked) -> None:
        here = ReindexAsked(
            provider=self._settings.provider, model=self._settings.model, dimension=self._settings.dimension
        )
        if asked != here:
            raise Conflict(
                f"The running server has embedding {_named(here)}, this configuration {_named(asked)}. Start the "
                "server anew with this configuration (chat goes on without memory then), and run `memproxy reindex` "
                "again; or stop it first."
            )

    async def _run(
        self, told: ReindexTold, expected_id: str | None, opened: Callable[[], Awaitable[None]] | None
    ) -> None:
        try:
            await self._embedder_there()
            rebuild = await self._store.begin_rebuild(expected_id)
            told.state = COPYING
            await self._rebuilt(rebuild)
            if opened is not None:
                await opened()
        except MemproxyError as error:
            log.error("the reindex ended early: %s", error.message)
            self._ended(told, FAILED, error.message)
        except Exception as error:
            # whatever it is, the first collection goes on serving; whoever waits for the reindex must be told
            metrics().internal_errors.labels(where="engine.reindex").inc()
            log.error("the reindex failed unexpectedly", exc_info=error)
            self._ended(told, FAILED, f"It failed unexpectedly ({type(error).__name__}); the log says where.")
        else:
            self._ended(told, DONE, None)
            log.info("reindexed %d memories for %s", told.done, self._embedder.name)

    def _ended(self, told: ReindexTold, state: str, error: str | None) -> None:
        told.state, told.error = state, error
        self._last, self._reindexer = self.told, None

    async def _embedder_there(self) -> None:
        while True:
            if self._embedder.state != "loading":
                break
            await asyncio.sleep(_POLL_S)
        if self._embedder.state not in {"ready", "off"}:
            raise EmbedderUnavailable(
                f"The embedder is {self._embedder.state}. A reindex needs it: mend that, or set embedding.provider: "
                "none to be without."
            )

    async def _rebuilt(self, rebuild: Rebuild) -> None:
        try:
            self._reindexer = Reindexer(rebuild, embedder=self._embedder, lexical=self._lexical)
            if self._embedder.state == "off":
                await self._reindexer.run()
                await self._without_vectors(self._reindexer.owners)
            else:
                await self._reindexer.run()
        finally:
            await _let_go(rebuild)


async def _let_go(rebuild: Rebuild) -> None:
    """Trouble here is about what is left over, which the next opening or reindex removes."""
    try:
        await rebuild.close()
    except MemproxyError as error:
        metrics().internal_errors.labels(where="engine.reindex").inc()
        log.warning("the reindex did not clear up behind it: %s", error.message)


def _named(asked: ReindexAsked) -> str:
    return f"{asked.provider}:{asked.model}" + (f" ({asked.dimension} dimensions)" if asked.dimension else "")
