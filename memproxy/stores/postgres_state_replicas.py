"""What processes on one database know of each other: changes, and which of those that claim rows are alive.

A process listens on a connection of its own. One that claims rows has a name in ``claimants`` with the time until which
it counts as living; it puts that off all the time, and holds an advisory lock on the same connection, which the server
releases when the process is gone. Both are judged by the server's clock alone.
"""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from uuid import uuid4

from memproxy.errors import StateUnavailable
from memproxy.stores.carried_notices import CarriedNotices
from memproxy.stores.postgres_server import CONNECT_S
from memproxy.stores.postgres_state_database import CHANNEL, Db, PostgresDatabase, lock_key
from memproxy.stores.state_part import Db as AnyDb
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

LEASE = timedelta(seconds=20)
"""How long after the last sign of life of a process its claimed rows are taken over by another one."""

BEATS = 4  # signs of life within one lease
APART_S = 0.1  # announce new rows at most this often: a commit that sends a notice waits for all others that send one
AGAIN_S = (0.5, 5.0)  # shortest and longest pause before the connection that listens is made again; they vary

CHOSEN, ROWS, DESTROYED, CHANGE = "chosen", "rows", "destroyed", "change"
"""What processes tell each other: choices or keys changed; rows to claim; a data key is gone; a `core.changes.Change`.
"""


class Replicas:
    """This process among those that share a database. ``take_over`` gives back what those that are gone had claimed."""

    def __init__(
        self, database: PostgresDatabase, tasks: TaskOwner, take_over: Callable[[], Awaitable[None]], lease: timedelta
    ) -> None:
        self.name = uuid4().hex
        self.lease = lease
        self._database = database
        self._tasks = tasks
        self._take_over = take_over
        self._listening: asyncio.Task[None] | None = None
        self._claims = False
        self._heard_first = asyncio.Event()
        self._news = os.urandom(8)
        self._on: dict[str, list[Callable[[str], None]]] = {}
        self._rows_later: asyncio.TimerHandle | None = None
        self.changes = CarriedNotices(self._tell_changes, tasks)
        self.on(CHANGE, self.changes.heard)

    async def begin(self) -> None:
        if self._listening is None:
            self._listening = self._tasks.start(self._listen(), "listen")
            with suppress(TimeoutError):
                async with asyncio.timeout(CONNECT_S):
                    await self._heard_first.wait()

    async def end(self) -> None:
        """Stop listening; rows that this process had claimed may be taken over at once."""
        if self._rows_later is not None:
            self._rows_later.cancel()
        listening, self._listening = self._listening, None
        if listening is not None:
            listening.cancel()
            with suppress(asyncio.CancelledError):
                await listening
        if self._claims:
            self._claims = False
            with suppress(StateUnavailable):
                await self._database.run("DELETE FROM claimants WHERE id = :name", name=self.name)

    def news(self) -> bytes:
        """Other bytes than before whenever choices or proxy keys changed anywhere, or that may have been missed."""
        return self._news

    def on(self, kind: str, callback: Callable[[str], None]) -> None:
        """``callback`` is called with each notice of a kind, of this process or another."""
        self._on.setdefault(kind, []).append(callback)

    async def claims(self, db: AnyDb) -> None:
        """This process is about to claim rows, in the transaction of ``db``."""
        if not self._claims:
            await self.live(db)

    async def live(self, db: AnyDb) -> None:
        """This process lives, and does so for a lease's time at least."""
        await db.run(
            "INSERT INTO claimants VALUES (:name, clock_timestamp() + :lease, :lock) "
            "ON CONFLICT (id) DO UPDATE SET until = excluded.until",
            name=self.name,
            lease=self.lease,
            lock=lock_key("claimant", self.name),
        )

    async def release_dead(self, db: AnyDb) -> None:
        """Let be taken over at once what this process had claimed before, and others whose connection is gone."""
        await db.run(
            "DELETE FROM claimants WHERE id = :name OR until < clock_timestamp() "
            "OR (id != :name AND pg_try_advisory_xact_lock(lock))",
            name=self.name,
        )

    def claimed(self) -> None:
        """The first rows are claimed: from now on it shows that it lives."""
        self._claims = True

    async def tell(self, db: AnyDb, kind: str) -> None:
        """Have all processes told when the transaction of ``db`` is committed."""
        await db.run("SELECT pg_notify(:channel, :message)", channel=CHANNEL, message=f"{kind} ")

    def changed(self) -> None:
        """This process has changed choices or proxy keys: it knows before it is told."""
        self._news = os.urandom(8)

    async def _tell_changes(self, messages: list[str]) -> None:
        tell = "SELECT pg_notify(:channel, :kind || message) FROM unnest(:messages::text[]) AS message"
        await self._database.run(tell, channel=CHANNEL, kind=f"{CHANGE} ", messages=messages)

    def rows_came(self) -> None:
        """Announce new rows soon, in one message for all that come until then."""
        if self._rows_later is None and self._listening is not None:
            self._rows_later = asyncio.get_running_loop().call_later(APART_S, self._tell_rows)

    def _tell_rows(self) -> None:
        async def tell() -> None:
            with suppress(StateUnavailable):  # rows are looked for every second all the same
                await self._database.once(lambda db: self.tell(db, ROWS))

        self._rows_later = None
        self._tasks.start(tell(), "tell")

    async def _listen(self) -> None:
        pause, is_told = AGAIN_S[0], False
        while True:
            try:
                async with self._database.alone() as db:
                    pause, is_told = AGAIN_S[0], False
                    await self._hear(db)
            except StateUnavailable as error:
                if not is_told:
                    log.warning("does not hear of other replicas' changes for now: %s", error.message)
                is_told = True
            self._tell_missed()
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(2 * pause, AGAIN_S[1])

    async def _hear(self, db: Db) -> None:
        await db.execute(f"LISTEN {CHANNEL}")
        await db.execute("SELECT pg_try_advisory_lock(%s)", [lock_key("claimant", self.name)])
        self._tell_missed()
        self._heard_first.set()
        while True:
            await self._database.measure(db)
            if self._claims:
                await self.live(db)
                await self._take_over()
            async for notice in db.notifies(timeout=self.lease.total_seconds() / BEATS):
                kind, _, payload = notice.payload.partition(" ")
                self._heard(kind, payload)

    def _tell_missed(self) -> None:
        """Changes made while nobody listened were not announced: report that anything may have changed."""
        self.changed()
        self.changes.tell(None)
        self._heard(DESTROYED, "")

    def _heard(self, kind: str, payload: str) -> None:
        if kind == CHOSEN:
            self.changed()
        for callback in self._on.get(kind, ()):
            callback(payload)


IS_DEAD = """
    NOT EXISTS (SELECT FROM claimants WHERE claimants.id = journal.claimant AND claimants.until > clock_timestamp())
"""
"""Condition on a running row: who claimed it is gone."""
