"""The relay's life: what is opened before it serves and closed after it, in order."""

import asyncio
import logging
from collections.abc import Callable

from tenacity import AsyncRetrying, retry_if_exception_type, wait_exponential

from memproxy.errors import ConfigError, StateUnavailable
from memproxy.ports import StateStore
from memproxy.relay.app import Relay
from memproxy.relay.capture import Journal
from memproxy.relay.engine import EngineClient
from memproxy.relay.health import Health
from memproxy.relay.position import Positions
from memproxy.relay.upstreams import Upstreams
from memproxy.relay.work import BodyWork
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

OPEN_PATIENCE_S = 1.0
"""How long serving waits for the journal: it opens in milliseconds, unless something is wrong with it."""

NOTES_S = 1.0
"""At the end, sessions and blocks of the last answers may take so long to be written."""


class RelayProcess:
    """Opens and closes what the relay uses.

    Start: the pools, the journal if it opens at once, then serving; else it opens beside it, for a request does not
    wait for memory.
    Stop: new requests are refused (``/readyz`` says so) while open ones end; then the server closes its connections;
    then commits that are under way and what is kept behind them (sessions, blocks), notices to the engine, the pools,
    and the journal's file last.
    """

    def __init__(
        self,
        *,
        app: Relay,
        state: StateStore,
        engine: EngineClient,
        upstreams: Upstreams,
        journal: Journal,
        positions: Positions,
        health: Health,
        tasks: TaskOwner,
        work: BodyWork,
        take: Callable[[Settings], None],
    ) -> None:
        self._work = work
        self.take = take
        """Goes on with reloaded settings; raises ConfigError, and changes nothing, where they cannot be used."""
        self.app = app
        self._state = state
        self._engine = engine
        self._upstreams = upstreams
        self._journal = journal
        self._positions = positions
        self._health = health
        self._tasks = tasks
        self._opening: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Make ready to serve."""
        await self._upstreams.open()
        await self._engine.open()
        self._opening = self._tasks.start(self._open_state(), "open state")
        await asyncio.wait({self._opening}, timeout=OPEN_PATIENCE_S)  # a turn that comes before it is open is lost
        self._health.serving = True

    async def _open_state(self) -> None:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type((StateUnavailable, ConfigError)), wait=wait_exponential(min=0.2, max=10)
        ):
            with attempt:
                try:
                    await self._state.open()
                    await self._positions.load()
                except (StateUnavailable, ConfigError) as error:  # the latter: a newer version wrote it
                    log.error("turns are not kept until the state opens: %s", error.message)
                    raise

    async def drain(self, grace_s: float) -> None:
        """Take nothing new, and wait for what is open, ``grace_s`` seconds at most."""
        await self.app.drain(grace_s)

    async def stop(self) -> None:
        """Close everything, in the order that the class describes."""
        await self._journal.close()
        if self._opening is not None:
            self._opening.cancel()
        await self._tasks.drain(NOTES_S)
        await self._engine.close()
        await self._upstreams.close()
        await self._state.close()
        self._work.close()
