"""``memproxy move``: an installation into other stores, while it is served, and back.

While the server runs, copies of its files (or its tables, where they are on a server) are brought to the target pass by
pass, until few things change between two of them. Then the server is stopped, the rest is brought, both sides are
compared, and each state notes which one holds from now on (`ports.MOVED`): neither can be served by mistake.
"""

import asyncio
import contextlib
import os
import re
import secrets
import signal
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from memproxy.commands.backup import remove_abandoned, working_folder
from memproxy.commands.installation import holding, served, without_learning
from memproxy.commands.options import Config, Json, Show, Whole, progress, quiet_settings, show, tell_of_all_tenants
from memproxy.core.protocol import BACKUP_PATH, BackupAsked, BackupTold
from memproxy.errors import ConfigError, MemproxyError
from memproxy.ports import MOVED, STORE_ID
from memproxy.serve.instance import AlreadyServed, InstanceLock
from memproxy.settings import Settings
from memproxy.settings.home import home_dir, state_path, store_path
from memproxy.settings.loading import load_settings
from memproxy.stores.moving import Digests, Rows, copy, digests, state_tables
from memproxy.wiring.move_sides import Side, memories_location, opened_side, state_location

app = typer.Typer()

FEW = 500
"""The server is stopped when a pass had no more changes than this: the rest takes seconds."""

MOST_PASSES = 5
"""Passes while the server runs: one that writes faster than is copied would never be caught up with."""

STOP_S = 30.0
"""Longest that a server which was told to stop is waited for, beyond ``server.shutdown_grace_s``."""

MEMORIES = "memories"

_COPIED = re.compile(r"moving-\w{8}")
"""Name of the folder in the home that a running server's files are copied into, pass by pass."""


@app.command("move")
def move_command(
    to: Annotated[
        Path | None,
        typer.Option("--to", help="Configuration (YAML) that names the stores to move into.", metavar="FILE"),
    ] = None,
    config: Config = None,
    tenant: Whole = None,
    *,
    copy_only: Annotated[
        bool, typer.Option("--copy-only", help="Copy and go on serving; run it again without this to switch.")
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Serve the installation of --config again, as it was before the move.")
    ] = False,
    json: Json = False,
) -> None:
    """Move this installation into the stores that FILE names, while it is served; verified, and with nothing lost.

    At the end a server that runs here is stopped: start it with FILE. Broken off, it goes on where it was when it is
    run again. The way back: memproxy move --config FILE --to THE-OLD-ONE.
    """
    settings = quiet_settings(config)
    tell_of_all_tenants(tenant, "move")
    if cancel == (to is not None):
        raise typer.BadParameter("give either --to FILE or --cancel", param_hint="--to")
    if to is None:
        asyncio.run(take_back(settings))
        line = "This installation can be served again; what was copied elsewhere stays there."
        show({"cancelled": True}, [line], as_json=json)
        return
    try:
        target = load_settings(to)
    except ConfigError as error:
        raise ConfigError(f"--to {error.message}") from error
    with progress("moving") as shows:
        moved = asyncio.run(move(settings, target, shows, switch=not copy_only))
    done = f"{moved.memories} memories and {moved.rows} rows of the state are in {moved.place}"
    if moved.switched:
        lines = [
            f"{done}, compared and equal.",
            f"Start it there: memproxy serve --config {to}. Other machines need the same MEMPROXY_SECRET.",
        ]
    else:
        lines = [f"{done}. This installation goes on; the same without --copy-only brings the rest, and switches."]
    show(moved, lines, as_json=json)


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a move did. ``passes``: how often the source was read; ``switched``: whether the target holds now."""

    place: str
    memories: int
    rows: int
    passes: int
    switched: bool


async def move(settings: Settings, target_settings: Settings, show: Show, *, switch: bool = True) -> Moved:
    """Move the installation of ``settings`` into the stores of ``target_settings``; without ``switch`` it is only
    copied.

    Raises:
        ConfigError: both share a store, the target holds something else, or embedder or encryption do not fit.
        StateUnavailable, StoreUnavailable: a store does not answer.
        MemproxyError: the server does not stop, or the copy is not equal to what was copied.
    """
    home = home_dir()
    for part, place_of in (("state", state_location), ("store", memories_location)):
        if place_of(settings, home) == place_of(target_settings, home):
            raise ConfigError(
                f"--to names the {part} that this installation has already. State and store move together."
            )
    await _remove_copies(home)
    with _held(target_settings, settings, home):
        async with opened_side(target_settings, home) as target:
            copying = _Copying(target, show, sealed=target_settings.privacy.encrypt)
            await copying.begin()
            while copying.changes > FEW and copying.passes < MOST_PASSES:
                async with _served_side(settings, home) as source:
                    if source is None:
                        break
                    await copying.take(source)
            if not switch:
                if copying.passes == 0:  # nobody serves it
                    with holding(settings):
                        async with opened_side(settings, home) as source:
                            await copying.take(source)
                return copying.end(switched=False)
            await _stop(settings)
            with holding(settings):
                async with opened_side(settings, home) as source:
                    await source.state.check_unused()
                    await copying.take(source)
                    await copying.check(source)
                    note = f"was moved to {target.location} (store {target.store_id}) on {datetime.now(UTC):%Y-%m-%d}"
                    await source.state.set_meta(MOVED, note)
                    await target.state.set_meta(MOVED, "")
            return copying.end(switched=True)


async def take_back(settings: Settings) -> None:
    """Let the installation be served again that was moved, or is not complete."""
    home = home_dir()
    await _remove_copies(home)
    with holding(settings):
        async with opened_side(settings, home) as side:
            await side.state.set_meta(MOVED, "")


async def _remove_copies(home: Path) -> None:
    """Remove what killed runs had copied."""
    if await asyncio.to_thread(home.is_dir):
        await asyncio.to_thread(remove_abandoned, home, _COPIED.fullmatch)


class _Copying:
    """Passes from one side to the other."""

    def __init__(self, target: Side, show: Show, *, sealed: bool) -> None:
        """``sealed``: the target is to be encrypted."""
        self._target = target
        self._show = show
        self._sealed = sealed
        self._tables = state_tables()
        self._digests: dict[str, Digests] = {}
        self._done = self._total = 0
        self.passes = 0
        self.changes = FEW + 1

    async def begin(self) -> None:
        """Look what the target holds."""
        self._digests = {name: await digests(copied) for name, copied in self._pieces()}

    async def take(self, source: Side) -> None:
        """Bring the target to what the source has."""
        self._check_fits(source)
        origin = f"the installation of {source.location} (store {source.store_id})"
        await self._target.state.set_meta(MOVED, f"is not complete: {origin} is moved into it")
        rows_of_state = [await source.state.count(table) for table in self._tables]
        self._done, self._total = 0, await source.points.count() + sum(rows_of_state)
        self.changes = await copy(source.points, self._target.points, self._digests[MEMORIES], self._shown)
        for table in self._tables:
            rows, into = Rows(table, source.state), Rows(table, self._target.state)
            self.changes += await copy(rows, into, self._digests[table.name], self._shown)
        await self._target.state.set_last_numbers(await source.state.last_numbers())
        await self._target.state.set_meta(STORE_ID, self._target.store_id)
        self.passes += 1

    def _check_fits(self, source: Side) -> None:
        target = self._target
        if source.moved and (not target.moved or target.store_id not in source.moved):
            raise ConfigError(
                f"The installation in {source.location} {source.moved}. Start it, or move it from, there."
            )
        # a state begins with some facts of its own
        is_used = any(rows for name, rows in self._digests.items() if name not in {"meta", "secrets"})
        if self.passes == 0 and is_used and source.store_id not in target.moved:
            raise ConfigError(
                f"{target.location} holds an installation already, and not what an earlier run copied from this one. "
                "Name an empty database and collection in --to."
            )
        if source.sealed and not self._sealed:
            raise ConfigError(
                f"privacy.encrypt: the installation in {source.location} is encrypted; set it in --to, too."
            )
        if source.vectors != target.vectors and source.vectors[1] is not None:
            raise ConfigError(
                f"embedding: the memories have vectors of {source.vectors[1]} ({source.vectors[0]} numbers), --to "
                f"names {target.vectors[1]} ({target.vectors[0]}). Move with the same, then run `memproxy reindex`."
            )

    def _shown(self, count: int) -> None:
        self._done += count
        self._show(min(self._done, self._total), self._total)

    async def check(self, source: Side) -> None:
        """See that both sides hold the same: as many, of the same digests."""
        for name, copied in self._pieces():
            written = await digests(copied)
            if written != self._digests[name]:
                raise MemproxyError(
                    f"{name}: {self._target.location} holds {len(written)} after the copy, {len(self._digests[name])} "
                    "were copied, or some of them differ. Nothing was switched; run it again."
                )
        if (count := await source.points.count()) != len(self._digests[MEMORIES]):
            raise MemproxyError(
                f"{count} memories are in {source.location}, and {len(self._digests[MEMORIES])} were copied."
            )

    def _pieces(self) -> Iterator[tuple[str, Any]]:
        yield MEMORIES, self._target.points
        for table in self._tables:
            yield table.name, Rows(table, self._target.state)

    def end(self, *, switched: bool) -> Moved:
        memories = len(self._digests[MEMORIES])
        rows = sum(map(len, self._digests.values())) - memories
        return Moved(place=self._target.location, memories=memories, rows=rows, passes=self.passes, switched=switched)


@contextlib.contextmanager
def _held(target: Settings, source: Settings, home: Path) -> Iterator[None]:
    """Within it no server starts on the files of the target, if it has any. Raises `AlreadyServed`.

    A server of the source guards the place of its embedded state (`serve.instance.locked`), also when it uses none.
    """
    paths = [state_path(target.state, home)] if target.state.backend == "sqlite" else []
    paths += [store_path(target.store, home)] if target.store.backend == "edge" else []
    paths = [path for path in paths if path != state_path(source.state, home)]
    with contextlib.ExitStack() as held:
        for lock in map(InstanceLock, paths):
            lock.acquire()
            held.callback(lock.release)
            lock.announce("no address: a command that ends by itself")
        yield


@contextlib.asynccontextmanager
async def _served_side(settings: Settings, home: Path) -> AsyncIterator[Side | None]:
    """What a running server holds: a copy of its files, or its stores where they are on servers. None: none runs."""
    if settings.state.backend != "sqlite":
        async with opened_side(settings, home) as side:
            yield side
        return
    folder = home / f"moving-{secrets.token_hex(4)}"
    is_served = False
    with working_folder(folder):
        try:
            async with served(without_learning(settings)) as server:
                request = BackupAsked(folder=str(folder))
                await server.finish(BACKUP_PATH, request, BackupTold, lambda *_: None)  # the passes are what is shown
                is_served = True
        except AlreadyServed:
            raise
        except ConfigError:
            pass  # none runs
        if not is_served:
            yield None
            return
        async with opened_side(settings, home, copied=folder) as side:
            yield side


async def _stop(settings: Settings) -> None:
    """Tell the server that runs on this machine to stop, and wait for its end."""
    stopped_pid: int | None = None
    until = asyncio.get_running_loop().time() + settings.server.shutdown_grace_s + STOP_S
    while True:
        try:
            with holding(settings):
                return
        except AlreadyServed as server:
            if (server.pid or stopped_pid) is None or asyncio.get_running_loop().time() > until:
                raise  # no server, but a command; or it does not end
            if server.pid is not None and stopped_pid != server.pid:  # near its end it is not named any more
                stopped_pid = server.pid
                os.kill(stopped_pid, signal.SIGTERM)
        await asyncio.sleep(0.1)
