"""A copy of the embedded store and state on disk, made while they serve; told as it goes."""

import asyncio
import logging
from pathlib import Path
from uuid import uuid4

from memproxy.core.audit import COMMAND_LINE, AuditEntry
from memproxy.core.backup import STATE, STORE
from memproxy.core.protocol import BackupTold
from memproxy.engine import sparse
from memproxy.errors import Conflict, MemproxyError, NotBuilt
from memproxy.metrics import metrics
from memproxy.ports import Clock, HeldStore, StateStore
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

COPYING = "copying"
DONE = "done"
FAILED = "failed"

EVERYBODY = "*"
"""The tenant of what concerns all of them, in the audit log."""


class BackingUp:
    """Copies store and state into a folder, one backup at a time.

    Writes to the store wait meanwhile (turns go to the journal as always, and into the copied state up to the moment
    it is copied); searches do not.
    """

    def __init__(self, store: HeldStore | None, state: StateStore, clock: Clock) -> None:
        self._store = store
        self._state = state
        self._clock = clock
        self._tasks = TaskOwner("engine.backup")
        self.told = BackupTold()

    def begin(self, folder: Path) -> BackupTold:
        """Begin one into this folder, which must be there and empty.

        Raises:
            NotBuilt: the store is a server's.
            Conflict: another one runs, or the folder cannot be used.
        """
        if self._store is None:
            raise NotBuilt(
                "Only the embedded store is backed up here. Take a snapshot of the Qdrant collection with Qdrant's own "
                "tools, and `memproxy export` for each user."
            )
        if self.told.state == COPYING:
            raise Conflict("A backup is being made; wait until it is done.")
        if not folder.is_dir() or any(folder.iterdir()):
            raise Conflict(f"{folder} is no empty folder that the server can see.")
        self.told = BackupTold(run=uuid4().hex, state=COPYING)
        self._tasks.start(self._run(self._store, folder), "backup")
        return self.told

    async def close(self) -> None:
        """End what runs; what it copied is of no use."""
        await self._tasks.cancel()

    async def _run(self, store: HeldStore, folder: Path) -> None:
        try:
            async with store.held() as source:
                await asyncio.to_thread(self._copy, source, folder / STORE)
                await self._state.backup(folder / STATE)
            await self._state.note_audit([self._entry()])
        except MemproxyError as error:
            log.error("the backup ended early: %s", error.message)
            self.told.state, self.told.error = FAILED, error.message
        except OSError as error:
            log.error("the backup ended early: %s", error)
            self.told.state, self.told.error = (
                FAILED,
                f"{folder} cannot be written ({error.strerror}); look at the disk.",
            )
        except Exception as error:
            # whatever it is, store and state go on serving; whoever waits for the backup must be told
            metrics().internal_errors.labels(where="engine.backup").inc()
            log.error("the backup failed unexpectedly", exc_info=error)
            self.told.state = FAILED
            self.told.error = f"It failed unexpectedly ({type(error).__name__}); the log says where."
        else:
            self.told.state = DONE

    def _entry(self) -> AuditEntry:
        counts = {"bytes": self.told.done}
        return AuditEntry(at=self._clock.now(), tenant=EVERYBODY, by=COMMAND_LINE, action="backup", counts=counts)

    def _copy(self, source: Path, target: Path) -> None:
        """Copy the store's files, without their holes; its lock is not one of them. Packing is left to the command:
        writes wait for this.
        """
        files = [path for path in sorted(source.rglob("*")) if path.is_file() and path.name != "lock"]
        self.told.total = sum(map(sparse.data_size, files))
        target.mkdir(mode=0o700)
        for path in files:
            copied = target / path.relative_to(source)
            copied.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            sparse.copy(path, copied)
            self.told.done = min(self.told.total, self.told.done + sparse.data_size(path))
