"""Writes that come together share one transaction."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, cast

from memproxy.errors import StateUnavailable
from memproxy.stores.sqlite_file import SqliteFile
from memproxy.tasks import TaskOwner

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class SharedCommit(Generic[Item, Answer]):
    """Collects items while a commit is under way, and writes them together in the next one.

    Args:
        write: writes items in their order within a transaction; answers one thing for each.
    """

    def __init__(
        self,
        file: SqliteFile,
        tasks: TaskOwner,
        write: Callable[[sqlite3.Connection, Sequence[Item]], Sequence[Answer]],
    ) -> None:
        self._file = file
        self._tasks = tasks
        self._write = write
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._committing = False

    async def add(self, item: Item) -> Answer:
        """Durable when it returns.

        Raises:
            StateUnavailable: it was not written.
            Exception: what its own writing raises (`RequestError`: it cannot be written); others that came with it are
                written.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if not self._committing:
            self._committing = True
            self._tasks.start(self._commit_all(), "commit")
        return await answer

    async def _commit_all(self) -> None:
        """Commit what waits, together; what comes meanwhile waits for the next commit."""
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._commit(batch)
        finally:
            self._committing = False
            # only after a cancellation or a mistake of ours is anything left here; nobody may wait for ever
            left, self._waiting = batch + self._waiting, []
            _fail(left, StateUnavailable("The journal's commit was broken off; what was to be written is not there."))

    async def _commit(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        items = [item for item, _ in batch]
        try:
            answers = await self._file.write(lambda db: self._write(db, items))
        except StateUnavailable as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the item is waited for
            if len(batch) == 1:
                _fail(batch, error)
            else:
                for one in batch:  # one item that cannot be written must not take the others with it
                    await self._commit([one])
        else:
            for (_, waiting), answer in zip(batch, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)


class SharedWork:
    """The same for writes of any kind: what is asked for in one turn of the event loop is one commit."""

    def __init__(self, file: SqliteFile, tasks: TaskOwner) -> None:
        self._commits: SharedCommit[Work, object] = SharedCommit(file, tasks, _all)

    async def add(self, work: Callable[[sqlite3.Connection], Answer]) -> Answer:
        """Durable when it returns; what ``work`` answered. Raises as `SharedCommit.add`."""
        return cast(Answer, await self._commits.add(work))


Work = Callable[[sqlite3.Connection], object]


def _all(db: sqlite3.Connection, works: Sequence[Work]) -> list[object]:
    return [work(db) for work in works]


def _fail(batch: Sequence[tuple[Item, asyncio.Future[Answer]]], error: BaseException) -> None:
    for _, waiting in batch:
        if not waiting.done():
            waiting.set_exception(error)
