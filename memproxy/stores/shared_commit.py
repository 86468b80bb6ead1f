"""Writes that arrive together share a commit."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from memproxy.errors import StateUnavailable
from memproxy.tasks import TaskOwner

Item = TypeVar("Item")
Answer = TypeVar("Answer")


class SharedCommit(Generic[Item, Answer]):
    """Collects items while a commit is under way, and writes them together in the next one. ``write`` writes items in
    their order within a transaction, and answers one thing for each.
    """

    def __init__(self, tasks: TaskOwner, write: Callable[[Sequence[Item]], Awaitable[Sequence[Answer]]]) -> None:
        self._tasks = tasks
        self._write = write
        self._waiting: list[tuple[Item, asyncio.Future[Answer]]] = []
        self._committing = False

    async def add(self, item: Item) -> Answer:
        """Durable when it returns. Raises `StateUnavailable`: it was not written; or what its own writing raises
        (`RequestError`: it cannot be): others that came with it are written.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, answer))
        if not self._committing:
            self._committing = True
            self._tasks.start(self._commit_all(), "commit")
        return await answer

    async def _commit_all(self) -> None:
        """Commit all waiting items together; items that arrive meanwhile wait for the next commit."""
        batch: list[tuple[Item, asyncio.Future[Answer]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._commit(batch)
        finally:
            self._committing = False
            # only after a cancellation or a mistake of ours is anything left here; nobody may wait for ever
            unanswered, self._waiting = batch + self._waiting, []
            _fail(
                unanswered, StateUnavailable("The commit was broken off; what was to be written may be there or not.")
            )

    async def _commit(self, batch: list[tuple[Item, asyncio.Future[Answer]]]) -> None:
        try:
            answers = await self._write([item for item, _ in batch])
        except StateUnavailable as error:
            _fail(batch, error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is raised where the item is waited for
            if len(batch) == 1:
                _fail(batch, error)
            else:
                for entry in batch:  # one item that cannot be written must not take the others with it
                    await self._commit([entry])
        else:
            for (_, waiting), answer in zip(batch, answers, strict=True):
                if not waiting.done():
                    waiting.set_result(answer)


def _fail(batch: Sequence[tuple[Any, asyncio.Future[Any]]], error: Exception) -> None:
    for _, waiting in batch:
        if not waiting.done():
            waiting.set_exception(error)
