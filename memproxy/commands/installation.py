"""The memory API of the installation on this machine, for the command line: that of the running server, over the
engine's private socket, else of an engine in this process, which holds the store meanwhile.
"""

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from memproxy.auth import ANONYMOUS, encode_identity
from memproxy.core.audit import COMMAND_LINE
from memproxy.core.protocol import IDENTITY_HEADER, Identity
from memproxy.engine.app import build_app
from memproxy.engine.engine import Engine
from memproxy.engine.readiness import REFUSED
from memproxy.errors import ConfigError, MemproxyError, StoreUnavailable
from memproxy.serve.supervisor import ENGINE_SOCKET, AlreadyServed, InstanceLock
from memproxy.settings import Settings
from memproxy.settings.home import home_dir, secret, state_path, store_path
from memproxy.wiring.engine import make_engine

CALL_TIMEOUT_S = 120.0
OPEN_TIMEOUT_S = 60.0
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

    def __init__(self, client: httpx.AsyncClient, settings: Settings, in_process: Engine | None) -> None:
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

    async def answer(
        self,
        method: str,
        path: str,
        *,
        tenant: str | None = None,
        user: str | None = None,
        headers: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> httpx.Response:
        """As `call`; the whole answer, whatever it holds."""
        identity = Identity(tenant=self._tenant(tenant), named_user=user, by=COMMAND_LINE)
        sent = {**(headers or {}), IDENTITY_HEADER: encode_identity(identity)}
        try:
            answer = await self._client.request(method, path, headers=sent, **arguments)
        except httpx.HTTPError as error:
            raise StoreUnavailable(f"The server does not answer ({type(error).__name__}). Is it stopping?") from error
        if answer.is_error:
            raise Refused(str(answer.json()["error"]["message"]), answer.status_code)
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
    home = home_dir()
    with contextlib.ExitStack() as held:
        try:
            _hold(held, settings, home)
        except AlreadyServed as served:
            if served.folder is None or not (served.folder / ENGINE_SOCKET).exists():
                raise
            socket = served.folder / ENGINE_SOCKET
            async with _client(httpx.AsyncHTTPTransport(uds=str(socket))) as client:
                yield Installation(client, settings, None)
            return
        async with (
            _engine(settings, home, refused_too=refused_too) as engine,
            _client(httpx.ASGITransport(build_app(engine))) as client,
        ):
            yield Installation(client, settings, engine)


@contextlib.contextmanager
def holding(settings: Settings) -> Iterator[None]:
    """Within it no server starts on the store and the state of these settings.

    Raises:
        AlreadyServed: one is running.
    """
    with contextlib.ExitStack() as held:
        _hold(held, settings, home_dir())
        yield


def _hold(held: contextlib.ExitStack, settings: Settings, home: Path) -> None:
    """Keep a server from starting on the store while we have it."""
    for path in _guarded(settings, home):
        lock = InstanceLock(path)
        lock.acquire()
        held.callback(lock.release)
        lock.announce("no address: a command that ends by itself")


def _guarded(settings: Settings, home: Path) -> Iterator[Path]:
    yield state_path(settings.state, home)
    if settings.store.backend == "edge":
        yield store_path(settings.store, home)


def _client(transport: httpx.AsyncBaseTransport) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, base_url="http://memproxy", timeout=CALL_TIMEOUT_S)


@contextlib.asynccontextmanager
async def _engine(settings: Settings, home: Path, *, refused_too: bool) -> AsyncIterator[Engine]:
    engine = make_engine(settings, home, secret(os.environ, home))
    await engine.start()
    try:
        await _open(engine, refused_too=refused_too)
        yield engine
    finally:
        await engine.close(CLOSE_GRACE_S)


async def _open(engine: Engine, *, refused_too: bool) -> None:
    """Wait until it is open (``refused_too``: or its store refused).

    Raises:
        ConfigError: the store is refused.
        StoreUnavailable: something does not open within `OPEN_TIMEOUT_S`.
    """
    until = asyncio.get_running_loop().time() + OPEN_TIMEOUT_S
    while True:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(engine.wait_open(), 0.2)
            return
        parts = engine.readiness()
        if parts["store"].startswith(REFUSED):
            if refused_too:
                return
            raise ConfigError(parts["store"].removeprefix(f"{REFUSED}: "))
        if asyncio.get_running_loop().time() > until:
            raise StoreUnavailable(f"The store does not open: state {parts['state']}, store {parts['store']}.")
