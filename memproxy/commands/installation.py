"""The memory API of the installation on this machine, for the command line: that of the running server, over the
engine's private socket, else of an engine in this process, which holds the store meanwhile.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
import msgspec

from memproxy.auth.identity import encode_identity
from memproxy.auth.modes import ANONYMOUS
from memproxy.commands.options import Show
from memproxy.core.audit import COMMAND_LINE
from memproxy.core.protocol import IDENTITY_HEADER, BackupTold, Identity, ReindexTold
from memproxy.errors import ConfigError, MemproxyError, StoreUnavailable
from memproxy.serve.instance import ENGINE_SOCKET, AlreadyServed, locked
from memproxy.settings import Settings
from memproxy.settings.home import home_dir, secret

if TYPE_CHECKING:
    from memproxy.engine.engine import Engine
    from memproxy.ports import StateStore

T = TypeVar("T")
Told = TypeVar("Told", BackupTold, ReindexTold)

POLL_S = 0.3
"""Between two looks at how far the engine is."""

CALL_TIMEOUT_S = 120.0
OPEN_TIMEOUT_S = 60.0
FAILING_TIMEOUT_S = 5.0
"""How long what fails to open is tried again: a database that was started anew is there by then, a wrong key never is.
"""
CLOSE_GRACE_S = 10.0

_HASH = re.compile(r"[0-9a-f]{32}")


class Refused(MemproxyError):
    """The API refused a call of the command line; message and status are its own."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def without_learning(settings: Settings) -> Settings:
    """These settings for a command that only looks, moves or forgets: no model is called on the way."""
    return settings.model_copy(update={"learn": settings.learn.model_copy(update={"enabled": False})})


class Installation:
    """Calls of the memory API. ``in_process`` is the engine when it runs in this process."""

    def __init__(self, client: httpx.AsyncClient, settings: Settings, in_process: "Engine | None") -> None:
        self._client = client
        self._settings = settings
        self.in_process = in_process

    async def call(
        self, method: str, path: str, *, tenant: str | None = None, user: str | None = None, **arguments: Any
    ) -> Any:
        """One call for a user of a tenant; what it answers, read as JSON.

        Raises:
            Refused: the API answers with an error.
            StoreUnavailable: the server does not answer.
        """
        return (await self.answer(method, path, tenant=tenant, user=user, **arguments)).json()

    async def call_if_there(self, method: str, path: str, **arguments: Any) -> Any:
        """As `call`; None where the API finds nothing by that name."""
        try:
            return await self.call(method, path, **arguments)
        except Refused as refused:
            if refused.status != 404:
                raise
            return None

    async def answer(
        self,
        method: str,
        path: str,
        *,
        tenant: str | None = None,
        user: str | None = None,
        project: str | None = None,
        agent: str | None = None,
        headers: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> httpx.Response:
        """As `call`; the whole answer, whatever it holds."""
        identity = Identity(tenant=self._tenant(tenant), named_user=user, project=project, agent=agent, by=COMMAND_LINE)
        sent = {**(headers or {}), IDENTITY_HEADER: encode_identity(identity)}
        try:
            answer = await self._client.request(method, path, headers=sent, **arguments)
        except httpx.HTTPError as error:
            raise StoreUnavailable(f"The server does not answer ({type(error).__name__}). Is it stopping?") from error
        if answer.is_error:
            raise Refused(str(answer.json()["error"]["message"]), answer.status_code)
        return answer

    async def finish(self, path: str, request: msgspec.Struct, kind: type[Told], show: Show) -> Told:
        """Start a long piece of work of the engine's, and wait for its end; what it tells then.

        Raises:
            MemproxyError: it failed, or the server was started anew meanwhile.
        """

        async def call(method: str, **arguments: Any) -> Told:
            return msgspec.convert(await self.call(method, path, **arguments), kind)

        answer = await call("POST", content=msgspec.json.encode(request))
        run = answer.run
        while answer.state in {"loading", "copying"}:
            await asyncio.sleep(POLL_S)
            answer = await call("GET")
            if answer.run != run:
                raise MemproxyError("The server was started anew meanwhile. Run it again.")
            if answer.total:
                show(min(answer.done, answer.total), answer.total)
        if answer.error is not None:
            raise MemproxyError(answer.error)
        return answer

    def _tenant(self, named: str | None) -> str:
        """A tenant's name; a key's hash (``memproxy keys hash``) stands for the tenant of that key."""
        if named is None:
            return ANONYMOUS
        if _HASH.fullmatch(named):
            return self._settings.auth.tenants.get(named) or f"key:{named}"
        return named


@contextlib.asynccontextmanager
async def installation(settings: Settings, *, refused_too: bool = False) -> AsyncIterator[Installation]:
    """The installation of these settings, whether it is served just now or not. ``refused_too``: also one whose store
    was built with another embedder.

    Raises:
        AlreadyServed: another process has the store and answers no calls.
        StoreUnavailable, ConfigError: state or store cannot be opened.
    """
    try:
        with holding(settings):
            async with _engine(settings, refused_too=refused_too) as own_engine:
                yield own_engine
    except AlreadyServed as server:
        async with _connect(settings, server) as server_engine:
            yield server_engine


async def call_once(settings: Settings, method: str, path: str, **arguments: Any) -> Any:
    """One call of the installation's memory API (`Installation.call`), in which no model learns."""
    async with installation(without_learning(settings)) as running:
        return await running.call(method, path, **arguments)


@contextlib.asynccontextmanager
async def served(settings: Settings) -> AsyncIterator[Installation]:
    """The installation of these settings, which a server must be running on.

    Raises:
        ConfigError: none is.
        AlreadyServed: another process has the store and answers no calls.
    """
    try:
        with holding(settings):
            raise ConfigError("No server runs on this installation: start `memproxy serve` first.")
    except AlreadyServed as server:
        async with _connect(settings, server) as running:
            yield running


@contextlib.asynccontextmanager
async def _connect(settings: Settings, server: AlreadyServed) -> AsyncIterator[Installation]:
    if server.folder is None or not (server.folder / ENGINE_SOCKET).exists():
        raise server
    async with _client(httpx.AsyncHTTPTransport(uds=str(server.folder / ENGINE_SOCKET))) as client:
        yield Installation(client, settings, None)


@contextlib.asynccontextmanager
async def opened_state(settings: Settings) -> AsyncIterator["StateStore"]:
    """The state store of these settings, for what needs no engine."""
    from memproxy.wiring.state_stores import make_state  # noqa: PLC0415 - not where a server runs and does the work

    state = make_state(settings, home_dir())
    await state.open()
    try:
        yield state
    finally:
        await state.close()


def of_state(settings: Settings, question: Callable[["StateStore"], Awaitable[T]]) -> T:
    """What is asked of the state store of these settings, where no loop runs."""

    async def answer() -> T:
        async with opened_state(settings) as state:
            return await question(state)

    return asyncio.run(answer())


@contextlib.contextmanager
def holding(settings: Settings) -> Iterator[None]:
    """Within it no server starts on the store and the state of these settings.

    Raises:
        AlreadyServed: one is running.
    """
    with locked(settings, home_dir()) as locks:
        for lock in locks:
            lock.announce("no address: a command that ends by itself")
        yield


def _client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, base_url="http://memproxy", timeout=CALL_TIMEOUT_S)


@contextlib.asynccontextmanager
async def _engine(settings: Settings, *, refused_too: bool) -> AsyncIterator[Installation]:
    """An engine in this process, once it is open (``refused_too``: or its store refused).

    Raises:
        ConfigError: the store is refused.
        StoreUnavailable: something fails to open for `FAILING_TIMEOUT_S`, or is not open within `OPEN_TIMEOUT_S`.
    """
    from memproxy.engine.app import build_app  # noqa: PLC0415 - a second that no command needs beside a server
    from memproxy.engine.readiness import DEGRADED, REFUSED  # noqa: PLC0415 - the same
    from memproxy.wiring.engine_parts import make_engine  # noqa: PLC0415 - the same

    home = home_dir()
    engine = make_engine(settings, home, secret(os.environ, home))
    await engine.start()
    try:
        began = asyncio.get_running_loop().time()
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(engine.wait_open(), 0.2)
                break
            parts = engine.readiness()
            if parts["store"].startswith(REFUSED):
                if refused_too:
                    break
                raise ConfigError(parts["store"].removeprefix(f"{REFUSED}: "))
            waited_s = asyncio.get_running_loop().time() - began
            for part in ("state", "store"):
                if waited_s > FAILING_TIMEOUT_S and parts[part].startswith(DEGRADED):
                    raise StoreUnavailable(parts[part].removeprefix(f"{DEGRADED}: "))
            if waited_s > OPEN_TIMEOUT_S:
                raise StoreUnavailable(f"The store does not open: state {parts['state']}, store {parts['store']}.")
        async with _client(httpx.ASGITransport(build_app(engine))) as client:
            yield Installation(client, settings, engine)
    finally:
        await engine.close(CLOSE_GRACE_S)
