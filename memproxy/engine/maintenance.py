"""Long work for the command line, in the background: a reindex and a backup, one of each at a time, with progress."""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from uuid import uuid4

from memproxy.api.context import Parts
from memproxy.core.audit import COMMAND_LINE, AuditEntry
from memproxy.core.backup_manifest import STATE, STORE, Snapshot
from memproxy.core.protocol import BackupTold, ReindexAsked, ReindexTold
from memproxy.engine import sparse
from memproxy.errors import Conflict, EmbedderUnavailable, MemproxyError, NotBuilt
from memproxy.learn.reindex import Reindexer
from memproxy.metrics import metrics
from memproxy.ports import HeldStore, Rebuild, SnapshotStore
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

LOADING = "loading"
COPYING = "copying"
DONE = "done"
FAILED = "failed"

EVERYBODY = "*"
"""The tenant of audit entries that concern all of them."""

_POLL_S = 0.1


@contextlib.contextmanager
def _noting_end(progress: ReindexTold | BackupTold, label: str) -> Iterator[None]:
    """Note in ``progress`` how the work within ended; store and state go on serving."""
    try:
        yield
    except MemproxyError as error:
        log.error("the %s ended early: %s", label, error.message)
        progress.state, progress.error = FAILED, error.message
    except Exception as error:
        # callers that wait for the work must learn of any error
        metrics().internal_errors.labels(where=f"engine.{label}").inc()
        log.error("the %s failed unexpectedly", label, exc_info=error)
        progress.state = FAILED
        progress.error = f"It failed unexpectedly ({type(error).__name__}); the log says where."
    else:
        progress.state, progress.error = DONE, None


class Reindexing:
    """Rewrites the whole store for the configured embedder; the worker learns whose memories have no vectors yet."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tasks = TaskOwner("engine.reindex")
        self.progress = ReindexTold()
        """How far the running one is, or how the last one ended."""

    def begin(
        self, request: ReindexAsked, *, expected_id: str | None, opened: Callable[[], Awaitable[None]] | None
    ) -> ReindexTold:
        """Begin one, unless one runs. ``opened`` is called once a store that was not open has been opened by it. Raises
        `Conflict` where the caller's configuration has another embedder.
        """
        embedding = self._parts.settings.embedding
        configured = ReindexAsked(provider=embedding.provider, model=embedding.model, dimension=embedding.dimension)
        if request != configured:
            raise Conflict(
                f"The running server has embedding {_named(configured)}, this configuration {_named(request)}. "
                "Start the server anew with this configuration (chat goes on without memory then), and run "
                "`memproxy reindex` again; or stop it first."
            )
        if self.progress.state not in {LOADING, COPYING}:
            self.progress = ReindexTold(run=uuid4().hex, state=LOADING)
            self._tasks.start(self._run(self.progress, expected_id, opened), "reindex")
        return self.progress

    async def close(self) -> None:
        """End the running reindex; the next one goes on where it was."""
        await self._tasks.cancel()

    async def _run(
        self, run: ReindexTold, expected_id: str | None, opened: Callable[[], Awaitable[None]] | None
    ) -> None:
        with _noting_end(run, "reindex"):
            await self._wait_for_embedder()
            rebuild = await self._parts.store.begin_rebuild(expected_id)
            run.state = COPYING
            await self._rebuild(rebuild, run)
            if opened is not None:
                await opened()
        if run.state == DONE:
            log.info("reindexed %d memories for %s", run.done, self._parts.embedder.name)

    async def _wait_for_embedder(self) -> None:
        while True:
            if self._parts.embedder.state != "loading":
                break
            await asyncio.sleep(_POLL_S)
        if self._parts.embedder.state not in {"ready", "off"}:
            raise EmbedderUnavailable(
                f"The embedder is {self._parts.embedder.state}. A reindex needs it: mend that, or set "
                "embedding.provider: none to be without."
            )

    async def _rebuild(self, rebuild: Rebuild, run: ReindexTold) -> None:
        try:
            reindexer = Reindexer(rebuild, embedder=self._parts.embedder, lexical=self._parts.lexical, progress=run)
            without_vectors = self._parts.embedder.state == "off"
            await reindexer.run()
            if without_vectors:
                await self._parts.worker.without_vectors(reindexer.owners)
        finally:
            try:
                await rebuild.close()
            except MemproxyError as error:  # of leftovers, which the next opening or reindex removes
                metrics().internal_errors.labels(where="engine.reindex").inc()
                log.warning("the reindex did not clear up behind it: %s", error.message)


def _named(request: ReindexAsked) -> str:
    return f"{request.provider}:{request.model}" + (f" ({request.dimension} dimensions)" if request.dimension else "")


class BackingUp:
    """Copies the embedded store and state into a folder while they serve. Of a store in Qdrant it has a snapshot made.

    Writes to the store wait meanwhile (turns go to the journal as always, and into the copied state up to the moment
    it is copied); searches do not.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tasks = TaskOwner("engine.backup")
        self.progress = BackupTold()

    def begin(self, folder: Path, *, state: bool) -> BackupTold:
        """Begin one into this folder, which must be there and empty; ``state``: of the state as well.

        Raises:
            NotBuilt: the memories are in PostgreSQL.
            Conflict: another one runs, or the folder cannot be used.
        """
        if (held := self._parts.held) is None:
            raise NotBuilt("Memories in PostgreSQL are backed up by pg_dump (docs/postgres.md).")
        if self.progress.state == COPYING:
            raise Conflict("A backup is being made; wait until it is done.")
        if not folder.is_dir() or any(folder.iterdir()):
            raise Conflict(f"{folder} is no empty folder that the server can see.")
        self.progress = BackupTold(run=uuid4().hex, state=COPYING)
        self._tasks.start(self._run(held, folder, state=state), "backup")
        return self.progress

    async def close(self) -> None:
        """End the running backup; its copy is useless."""
        await self._tasks.cancel()

    async def _run(self, store: HeldStore | SnapshotStore, folder: Path, *, state: bool) -> None:
        with _noting_end(self.progress, "backup"):
            try:
                await self._copied(store, folder, state=state)
            except OSError as error:
                words = f"{folder} cannot be written ({error.strerror}); look at the disk."
                raise MemproxyError(words) from error
            now, counts = self._parts.clock.now(), {"bytes": self.progress.done}
            entry = AuditEntry(at=now, tenant=EVERYBODY, by=COMMAND_LINE, action="backup", counts=counts)
            await self._parts.state.note_audit([entry])

    async def _copied(self, store: HeldStore | SnapshotStore, folder: Path, *, state: bool) -> None:
        async with store.held() if isinstance(store, HeldStore) else store.snapshot() as source:
            if isinstance(source, Snapshot):
                self.progress.snapshot = source
            else:
                await asyncio.to_thread(self._copy, source, folder / STORE)
            if state:
                await self._parts.state.backup(folder / STATE)

    def _copy(self, source: Path, target: Path) -> None:
        """Copy the store's files without their holes, but its lock. The command packs them: writes wait for this."""
        files = [path for path in sorted(source.rglob("*")) if path.is_file() and path.name != "lock"]
        self.progress.total = sum(map(sparse.data_size, files))
        target.mkdir(mode=0o700)
        for path in files:
            copied = target / path.relative_to(source)
            copied.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            sparse.copy(path, copied)
            self.progress.done = min(self.progress.total, self.progress.done + sparse.data_size(path))
