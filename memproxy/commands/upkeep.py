"""What the command line does with an installation's memory: learn what waits (``mine``), forget (``forget``), and write
all of it anew for another embedder (``reindex``).
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

import msgspec
from rich.console import Console
from rich.progress import Progress

from memproxy.commands.installation import Installation, installation, without_learning
from memproxy.core.protocol import LEARNING_PATH, REINDEX_PATH, ReindexAsked, ReindexTold
from memproxy.errors import ConfigError, MemproxyError
from memproxy.settings import Settings

POLL_S = 0.3
STALLED_AFTER_S = 180.0
"""Longer than the longest pause between two tries of a row: what has not moved by then waits for something."""


class Left(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do: rows that wait or run by lane, sessions not learned from; ``parked`` rows were given up."""

    index: int
    learn: int
    sessions: int
    parked: int

    @property
    def steps(self) -> int:
        """Rows and sessions together."""
        return self.index + self.learn + self.sessions


class Show(Protocol):
    """Tells how far it is."""

    def __call__(self, done: int, total: int) -> None:
        """``done`` of ``total`` steps."""


async def mine(settings: Settings, show: Show, *, tenant: str | None = None, retry_parked: bool = False) -> Left:
    """Index and learn until nothing waits (of a tenant); what is left is what was given up. ``retry_parked``: what was
    given up before is tried again.

    Raises:
        ConfigError: learning is switched off.
        MemproxyError: nothing moved for `STALLED_AFTER_S` seconds; the message says what waits.
    """
    if not settings.learn.enabled:
        raise ConfigError("learn.enabled is false: there is nothing to drain. Switch it on, for this run at least.")
    async with installation(settings) as here:
        if retry_parked:
            await _left(here, tenant, retry_parked="true")
        return await _drained(here, show, tenant)


async def _drained(here: Installation, show: Show, tenant: str | None) -> Left:
    loop = asyncio.get_running_loop()
    left = await _left(here, tenant)
    total, moved = left.steps, loop.time()
    while left.steps:
        await asyncio.sleep(POLL_S)
        before, left = left, await _left(here, tenant)
        total = max(total, left.steps)
        show(total - left.steps, total)
        if left != before:
            moved = loop.time()
        elif loop.time() - moved > STALLED_AFTER_S:
            raise MemproxyError(
                f"{left.learn} rows of learning and {left.index} of indexing wait and nothing moves. They may wait for "
                "a model key (configure models.extract.api_key or upstream.api_key) "
                "or for the store; see the log."
            )
    return left


async def _left(here: Installation, tenant: str | None, **asked: str) -> Left:
    params = asked | {"everybody": str(tenant is None).lower()}
    told = await here.call("POST", LEARNING_PATH, tenant=tenant, params=params)
    queues = told["queues"]
    open_rows = {lane: states.get("waiting", 0) + states.get("running", 0) for lane, states in queues.items()}
    return Left(
        index=open_rows.get("index", 0),
        learn=open_rows.get("learn", 0),
        sessions=told["sessions"],
        parked=sum(states.get("parked", 0) for states in queues.values()),
    )


async def forget(settings: Settings, *, tenant: str | None, user: str, session: str | None) -> int:
    """Forget everything of a user, or undo one of its conversations; how many memories went.

    Raises:
        MemproxyError: it could not be done; the message says why.
    """
    path = f"/v1/memory/users/{piece_of_path(user)}"
    if session is not None:
        path = f"/v1/memory/sessions/{piece_of_path(session)}"
    async with installation(without_learning(settings)) as here:
        told = await here.call("DELETE", path, tenant=tenant, user=user)
    return int(told["deleted"])


def piece_of_path(name: str) -> str:
    """A name as a piece of a path. ``.`` and ``..`` would be taken for steps, the second out of where it stands."""
    return name.replace(".", "%2E") if name in {".", ".."} else quote(name, safe="")


async def reindex(settings: Settings, show: Show) -> ReindexTold:
    """Write every memory into a new collection with the configured embedder, and switch to it.

    With a server running, it does so, and serves meanwhile. What an earlier run left unfinished is gone on with.

    Raises:
        MemproxyError: it could not be done; the message says why.
    """
    embedding = settings.embedding
    asked = ReindexAsked(provider=embedding.provider, model=embedding.model, dimension=embedding.dimension)
    async with installation(without_learning(settings), refused_too=True) as here:
        told = await _told(here, "POST", content=msgspec.json.encode(asked))
        run = told.run
        while told.state in {"loading", "copying"}:
            await asyncio.sleep(POLL_S)
            told = await _told(here, "GET")
            if told.run != run:
                raise MemproxyError("The server was started anew meanwhile. Run it again: it goes on where it was.")
            if told.total:
                show(min(told.done, told.total), told.total)
    if told.error is not None:
        raise MemproxyError(told.error)
    return told


async def _told(here: Installation, method: str, **arguments: Any) -> ReindexTold:
    return msgspec.convert(await here.call(method, REINDEX_PATH, **arguments), ReindexTold)


@contextmanager
def progress(what: str) -> Iterator[Show]:
    """A progress bar on a terminal, a line now and then elsewhere."""
    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield _lines(console, what)
        return
    with Progress(console=console) as bar:
        task = bar.add_task(what, total=None)

        def show(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield show


def _lines(console: Console, what: str) -> Show:
    told: set[int] = set()

    def show(done: int, total: int) -> None:
        tenth = done * 10 // total if total else 10
        if tenth not in told:
            told.add(tenth)
            console.print(f"{what}: {done:,} of {total:,}", highlight=False)

    return show
