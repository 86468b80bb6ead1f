"""The connection to a Redis server, which all uses of it share. What is there may be forgotten, so that no request
waits for it or fails by it: whoever asks gets an answer soon or `errors.CacheUnavailable`, and does without.
"""

import asyncio
import hashlib
import logging
import random
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from redis import exceptions
from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from memproxy.errors import CacheUnavailable, ConfigError, StateUnavailable
from memproxy.metrics import metrics
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

Answer = TypeVar("Answer")

LEAST_VERSION = (6, 0)
PATIENCE_S = 0.1  # how long a request waits for an answer. Redis gives it in a fraction of a millisecond.
WORK_S = 1.0  # the same for work that no request waits for
CONNECT_S = 2.0  # the longest that a connection may take until it can be used
MOST_LATE = 3  # after this many late answers in a row Redis is left alone for a while
CLOSE_S = 0.1  # how long a close waits for notices that are still to be sent
PROBE_EVERY_S = 2.0
AGAIN_S = (0.2, 5.0)  # shortest and longest pause before a lost connection is made again; they vary
CONNECTIONS = 32

_VERSION = re.compile(r"(\d+)\.(\d+)")
_PROBE_MS = 60_000
_CAUSES: dict[type[Exception], tuple[str, str]] = {
    exceptions.AuthenticationError: ("refused", "it does not take the user and password of cache.url"),
    exceptions.NoPermissionError: ("refused", "the user of cache.url may not do what memproxy does (docs/redis.md)"),
    exceptions.OutOfMemoryError: ("memory", "its memory is full (maxmemory), it keeps nothing new"),
    exceptions.ReadOnlyError: ("refused", "it is a replica, which keeps nothing; cache.url must name the primary"),
    exceptions.BusyLoadingError: ("away", "it is loading its data"),
    exceptions.ConnectionError: ("away", "it cannot be reached; check cache.url and whether it runs"),
    TimeoutError: ("timeout", "it does not answer in time"),
    exceptions.TimeoutError: ("timeout", "it does not answer in time"),
    OSError: ("away", "it cannot be reached; check cache.url and whether it runs"),
}
"""Failures with the metric's word and a sentence; the first that fits. A TimeoutError is an OSError."""

_CLOSED = "the handler is closed"
"""Ends what uvloop says, as a `RuntimeError`, of a write to a connection that was lost between an answer and it."""

_LOST = (exceptions.ConnectionError, OSError)
"""Errors after which the connection is made anew."""


class Script:
    """A program that Redis runs as one step."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.sha = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()


def name_of(*parts: str | None) -> str:
    """A name for a key: always the same for the same parts, and none of them can be read in it."""
    text = "\x1f".join("" if part is None else f"={part}" for part in parts)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def check_address(url: str) -> None:
    """See that an address can be used. Raises `errors.ConfigError`."""
    _pool(url)


def _pool(url: str) -> BlockingConnectionPool:
    try:
        pool = BlockingConnectionPool.from_url(
            url,
            max_connections=CONNECTIONS,
            timeout=CONNECT_S,
            socket_connect_timeout=CONNECT_S,
            socket_timeout=CONNECT_S,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
        )
        pool.make_connection()  # type: ignore[no-untyped-call]  # refuses an option that there is not
    except (ValueError, TypeError) as error:
        raise ConfigError(f"cache.url cannot be used: {error}") from error
    # the client takes database 0 for a name
    if not url.startswith("unix:") and urlsplit(url).path.strip("/") and "db" not in pool.connection_kwargs:
        raise ConfigError("cache.url cannot be used: the database at its end must be a number, as in …:6379/0")
    return pool


class RedisServer:
    """One server, for one process, found at ``url`` (``cache.url``). `start` begins to connect, and goes on as long as
    it takes. ``installation`` answers the id by which its keys begin; None: it is not known yet. ``patience_s``: how
    long a request waits for an answer.
    """

    def __init__(
        self, url: str, installation: Callable[[], Awaitable[str | None]], *, patience_s: float = PATIENCE_S
    ) -> None:
        """Raises `errors.ConfigError` where ``url`` is no address."""
        pool = _pool(url)
        options = pool.connection_kwargs
        self.where = options.get("path") or f"{options.get('host', 'localhost')}:{options.get('port', 6379)}"
        self.client = Redis(connection_pool=pool)
        self.state = "loading"
        """``ready``, ``loading`` or ``degraded: why``."""
        self.run = ""
        """Names the server's life: another one may have forgotten what this one was told."""
        self._installation = installation
        self._patience_s = patience_s
        self._prefix: str | None = None
        self._connected = False
        self._late = 0
        self._changed = asyncio.Event()
        self._first = asyncio.Event()
        self._prepare: list[Callable[[], Awaitable[None]]] = []
        self._on_lost: list[Callable[[], None]] = []
        self.tasks = TaskOwner("redis")
        """Owns what goes on beside requests, until the server is closed."""
        self._keeping: asyncio.Task[None] | None = None

    def key(self, *parts: str) -> str:
        """A key of this installation's. Known as soon as there was a connection."""
        return ":".join((self._prefix or "", *parts))

    def on_connected(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do ``work`` on each new connection before others may use it."""
        self._prepare.append(work)

    def on_lost(self, callback: Callable[[], None]) -> None:
        self._on_lost.append(callback)

    async def start(self, patience_s: float = 0.0) -> None:
        """Begin to connect; returns when that is done, or after ``patience_s``."""
        if self._keeping is None:
            self._keeping = self.tasks.start(self._keep(), "keep")
        with suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                await self._first.wait()

    async def close(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        await self.tasks.drain(CLOSE_S)
        self._connected = False
        with suppress(*_LOST, exceptions.RedisError):
            await self.client.connection_pool.disconnect()

    async def ask(self, work: Callable[[Any], Awaitable[Answer]], within_s: float | None = None) -> Answer:
        """What ``work`` answers, given the client, ``within_s`` (else as a request). Raises `CacheUnavailable`."""
        if not self._connected:
            raise CacheUnavailable(f"Redis at {self.where} is not used just now ({self.state}).")
        return await self._answer(work, self._patience_s if within_s is None else within_s)

    async def command(self, *words: Any, within_s: float | None = None) -> Any:
        """The answer to one command. Raises as `ask`."""
        return await self.ask(lambda client: client.execute_command(*words), within_s)

    async def call(
        self, script: Script, keys: Sequence[str], values: Sequence[Any], within_s: float | None = None
    ) -> Any:
        """The answer of a script. Raises as `ask`."""

        async def run(client: Any) -> Any:
            try:
                return await client.execute_command("EVALSHA", script.sha, len(keys), *keys, *values)
            except exceptions.NoScriptError:
                return await client.execute_command("EVAL", script.text, len(keys), *keys, *values)

        return await self.ask(run, within_s)

    async def _answer(self, work: Callable[[Any], Awaitable[Answer]], within_s: float) -> Answer:
        # A late command is not cancelled: redis-py would hand its connection, an answer under way, to the next one.
        task: asyncio.Task[Answer | Exception] = self.tasks.start(_outcome(work, self.client), "ask")
        await asyncio.wait({task}, timeout=within_s)
        try:
            answer = _answer_of(task)
        except (TimeoutError, OSError, exceptions.RedisError) as error:
            word, why = cause_of(error)
            metrics().cache_failures.labels(word).inc()
            self._late = self._late + 1 if word == "timeout" else 0
            if (isinstance(error, _LOST) and word != "timeout") or self._late >= MOST_LATE:
                self._lose(why)
            elif word in {"memory", "refused"}:
                self._note(f"degraded: {why}")
            raise CacheUnavailable(f"Redis at {self.where}: {why}.") from error
        self._late = 0
        return answer

    def lose(self, error: Exception) -> None:
        """A connection of somebody's own to this server was lost."""
        self._lose(cause_of(error)[1])

    def _lose(self, why: str) -> None:
        self._note(f"degraded: {why}")
        if self._connected:
            self._connected = False
            for callback in self._on_lost:
                callback()
        self._changed.set()

    def _note(self, state: str) -> None:
        if state != self.state:
            if state == "ready":
                log.info("Redis at %s is used", self.where)
            else:
                log.warning(
                    "Redis at %s: %s. Each process counts limits by itself and keeps its own meanwhile; no request "
                    "waits for it",
                    self.where,
                    state.removeprefix("degraded: "),
                )
        self.state = state

    async def _keep(self) -> None:
        pause = AGAIN_S[0]
        while True:
            self._changed.clear()
            if not await self._is_named():
                await asyncio.sleep(AGAIN_S[0])
                continue
            try:
                await self._connect()
            except CacheUnavailable as error:
                self._note(f"degraded: {error.message}")
            self._first.set()
            began = asyncio.get_running_loop().time()
            while self._connected:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PROBE_EVERY_S):
                        await self._changed.wait()
                if self._connected:
                    await self._look()
            if asyncio.get_running_loop().time() - began > AGAIN_S[1]:
                pause = AGAIN_S[0]
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret
            pause = min(2 * pause, AGAIN_S[1])

    async def _look(self) -> None:
        """See whether it keeps what it is given."""
        with suppress(CacheUnavailable):
            await self._answer(self._probe, WORK_S)
            self._note("ready")

    async def _probe(self, client: Any) -> None:
        await client.execute_command("SET", self.key("probe"), 1, "PX", _PROBE_MS)

    async def _is_named(self) -> bool:
        """Whether it is known how keys begin: not before the state is open, and the store was once."""
        if self._prefix is None:
            with suppress(StateUnavailable):
                installation = await self._installation()
                self._prefix = f"memproxy:{installation}" if installation is not None else None
        return self._prefix is not None

    async def _connect(self) -> None:
        try:
            with closed_as_lost():
                async with asyncio.timeout(CONNECT_S):
                    # one in use is a late command's own, which ends by itself
                    await self.client.connection_pool.disconnect(inuse_connections=False)
                    info = await self.client.info("server")
                    self._check_version(str(info.get("redis_version", "")))
                    self.run = str(info.get("run_id", ""))
                    asked_at = time.perf_counter()
                    await self._probe(self.client)
                    self._check_speed(time.perf_counter() - asked_at)
        except (TimeoutError, OSError, exceptions.RedisError) as error:
            word, why = cause_of(error)
            metrics().cache_failures.labels(word).inc()
            if word != "memory":
                raise CacheUnavailable(why) from error
            self._note(f"degraded: {why}")  # it can be read, and deleted from
        self._late, self._connected = 0, True
        try:
            for work in self._prepare:
                await work()
        except CacheUnavailable:
            self._connected = False
            raise
        if not self.state.startswith("degraded: its memory"):
            self._note("ready")

    def _check_version(self, version: str) -> None:
        match = _VERSION.match(version)
        if match is None or (int(match[1]), int(match[2])) < LEAST_VERSION:
            metrics().cache_failures.labels("refused").inc()
            raise CacheUnavailable(f"it is version {version or '?'}; 6.0 or newer is needed")

    def _check_speed(self, took_s: float) -> None:
        if took_s > self._patience_s:
            metrics().cache_failures.labels("timeout").inc()
            raise CacheUnavailable(
                f"it takes {took_s * 1000:.0f} ms to answer; requests wait {self._patience_s * 1000:.0f}"
            )


@contextmanager
def closed_as_lost() -> Iterator[None]:
    """A context that turns a connection closed beneath the client into `redis.exceptions.ConnectionError`."""
    try:
        yield
    except RuntimeError as error:
        if _CLOSED not in str(error):
            raise
        raise exceptions.ConnectionError(str(error)) from error


async def _outcome(work: Callable[[Any], Awaitable[Answer]], client: Any) -> Answer | Exception:
    try:
        with closed_as_lost():
            return await work(client)
    except (TimeoutError, OSError, exceptions.RedisError) as error:
        return error


def _answer_of(task: "asyncio.Task[Answer | Exception]") -> Answer:
    if not task.done():
        raise TimeoutError
    outcome = task.result()
    if isinstance(outcome, Exception):
        raise outcome
    return outcome


def cause_of(error: Exception) -> tuple[str, str]:
    """The metric's word for what went wrong, and a sentence."""
    text = str(error)
    if text.startswith(("NOAUTH", "WRONGPASS")):
        return _CAUSES[exceptions.AuthenticationError]
    if "OOM command" in text:  # a script's, too
        return _CAUSES[exceptions.OutOfMemoryError]
    for kind, cause in _CAUSES.items():
        if isinstance(error, kind):
            return cause
    return "refused", f"it refuses: {text[:200]}"
