"""The keys of an identity provider, each with the algorithms that it is for: in a file, which may be replaced while
tokens are checked, or at an address, which may be slow, away, or hang. What a key is for is decided when it is read,
from its own members (RFC 7517): a token's header only chooses among keys that fit its algorithm.
"""

import asyncio
import json
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm

from memproxy.errors import AuthUnavailable, ConfigError
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

LOOK_S = 10.0  # seconds between two looks at a file, and between two fetches after one that failed or found no such key
LIFESPAN_S = 300.0  # keys that were fetched are fetched again, behind the requests, when they are this old
STALE_S = 24 * 3600.0  # keys of a provider that does not answer are accepted for this long: it may have withdrawn one
TIMEOUT_S = 5.0
BURST = 3  # so many fetches for unknown key ids need not wait for `LOOK_S`: a rotation is seen at once
MOST_JWKS_BYTES = 1024 * 1024  # upper bound for a JWKS; providers publish a few kilobytes

UNUSABLE = (
    jwt.PyJWTError,
    UnsupportedAlgorithm,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)
"""Errors of PyJWT and cryptography for hostile or careless keys and tokens."""

_CURVES = {"ES256": "P-256", "ES384": "P-384"}
_TYPES = {"RS": "RSA", "ES": "EC", "HS": "oct"}
_PUBLIC = frozenset({"kty", "crv", "n", "e", "x", "y", "k"})
"""Members that make the key that signatures are checked with. A private key that was published is not read as one."""


class SigningKey(msgspec.Struct, frozen=True):
    """A key, and which algorithms' signatures it may prove. ``id`` is its ``kid``."""

    id: str | None
    key: Any
    algorithms: frozenset[str]


def choose_key(keys: Iterable[SigningKey], kid: str | None, algorithm: str) -> SigningKey | None:
    """The one key that fits; None where there is none, or more than one."""
    fitting = [key for key in keys if algorithm in key.algorithms and (kid is None or key.id == kid)]
    return fitting[0] if len(fitting) == 1 else None


def usable_algorithms(key: object, algorithms: Sequence[str]) -> frozenset[str]:
    """The algorithms for which PyJWT takes this key (a secret, PEM or a key object), and finds it long enough."""
    usable = set()
    for name in algorithms:
        implementation = jwt.get_algorithm_by_name(name)
        with suppress(*UNUSABLE):
            if implementation.check_key_length(implementation.prepare_key(key)) is None:
                usable.add(name)
    return frozenset(usable)


def keys_of(jwks: bytes, algorithms: Sequence[str]) -> tuple[SigningKey, ...]:
    """The keys of a JWKS that may prove one of these algorithms' signatures. Those that cannot are passed over: a
    provider may publish keys for encryption, and of types that nobody here asked for.

    Raises:
        ValueError: it is no JWKS, or none of its keys can be used.
    """
    if len(jwks) > MOST_JWKS_BYTES:
        raise ValueError(f"it has more than {MOST_JWKS_BYTES} bytes")
    try:
        read = json.loads(jwks)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error
    entries = read.get("keys") if isinstance(read, dict) else None
    if not isinstance(entries, list):
        raise ValueError("it has no list `keys`")
    keys = tuple(key for entry in entries if isinstance(entry, dict) and (key := _key_of(entry, algorithms)))
    if not keys:
        raise ValueError(f"none of its {len(entries)} keys is for signatures by {', '.join(algorithms)}")
    return keys


def _key_of(entry: Mapping[str, Any], algorithms: Sequence[str]) -> SigningKey | None:
    kid, use, operations = entry.get("kid"), entry.get("use"), entry.get("key_ops")
    may_verify = operations is None or (isinstance(operations, list) and "verify" in operations)
    is_for_signatures = use in (None, "sig") and may_verify
    kind, curve = entry.get("kty"), entry.get("crv")
    fitting = [name for name in algorithms if kind == _TYPES[name[:2]] and curve == _CURVES.get(name)]
    declared = [name for name in fitting if entry.get("alg") in (None, name)]
    if not declared or not is_for_signatures or not isinstance(kid, str | None):
        return None
    try:
        key = jwt.PyJWK({name: entry[name] for name in _PUBLIC & entry.keys()}, declared[0]).key
    except UNUSABLE as error:
        log.warning("a key of the identity provider cannot be used: %s (kid %.80r)", type(error).__name__, kid)
        return None
    usable = usable_algorithms(key, declared)
    return SigningKey(kid, key, usable) if usable else None


class JwksFile:
    """A JWKS file, read again when it was replaced. A key taken out of it counts ``look_s`` seconds more at most."""

    def __init__(self, path: Path, algorithms: Sequence[str], *, look_s: float = LOOK_S) -> None:
        """Read it.

        Raises:
            ConfigError: it is no usable JWKS. Later, the keys that were read last stay.
        """
        self._path = path
        self._algorithms = algorithms
        self._look_s = look_s
        self._looked = time.monotonic()
        self._stamp: tuple[int, int, int] | None = None
        self._keys: tuple[SigningKey, ...] = ()
        try:
            self._read()
        except (OSError, ValueError) as error:
            raise ConfigError(f"auth.jwt.jwks_file: {path} cannot be used ({error})") from error

    async def find(self, kid: str | None, algorithm: str) -> SigningKey | None:
        """The key that fits. One that is not there may have been added just now, so the file is looked at again."""
        if time.monotonic() - self._looked < self._look_s and (key := choose_key(self._keys, kid, algorithm)):
            return key
        self._looked = time.monotonic()
        try:
            await asyncio.to_thread(self._read)
        except (OSError, ValueError) as error:
            # half a file, or none: it is being replaced, and tokens must still be accepted
            log.warning("auth.jwt.jwks_file: %s cannot be used (%s); the keys read before stay", self._path, error)
        return choose_key(self._keys, kid, algorithm)

    def _read(self) -> None:
        status = self._path.stat()
        stamp = status.st_mtime_ns, status.st_size, status.st_ino
        if stamp != self._stamp:
            with self._path.open("rb") as file:
                self._keys, self._stamp = keys_of(file.read(MOST_JWKS_BYTES + 1), self._algorithms), stamp


@dataclass(eq=False)
class JwksUrl:
    """A provider's keys. Tokens of known keys never wait: old keys serve while new ones are fetched. One fetch runs at
    a time, for all that need it; after a failed one none begins for ``pause_s`` seconds, and unknown key ids cause up
    to `BURST`, then one in ``pause_s`` seconds.
    """

    url: str
    algorithms: Sequence[str]
    tasks: TaskOwner
    _: KW_ONLY
    pause_s: float = LOOK_S
    lifespan_s: float = LIFESPAN_S
    stale_s: float = STALE_S
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        self._keys: tuple[SigningKey, ...] = ()
        self._fetched_at = self._failed_at = self._asked_until = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, kid: str | None, algorithm: str) -> SigningKey | None:
        """The key that fits; None where the provider has none.

        Raises:
            AuthUnavailable: the provider does not answer, and without it nobody can tell.
        """
        age = time.monotonic() - self._fetched_at
        if age >= self.stale_s:
            await self._fetch()
        elif age >= self.lifespan_s and self._may_fetch():
            self._begin()
        key = choose_key(self._keys, kid, algorithm)
        if key is None and kid is not None and self._may_ask():
            await self._fetch()
            key = choose_key(self._keys, kid, algorithm)
        return key

    def _may_fetch(self) -> bool:
        return self._fetching is not None or time.monotonic() - self._failed_at >= self.pause_s

    def _may_ask(self) -> bool:
        """Whether to call `_fetch` for an unknown key id, which does not always ask the provider."""
        now = time.monotonic()
        if self._fetching is not None or not self._may_fetch():
            return True
        if self._asked_until > now + (BURST - 1) * self.pause_s:
            return False
        self._asked_until = max(self._asked_until, now) + self.pause_s
        return True

    async def _fetch(self) -> None:
        if self._may_fetch():
            await asyncio.wait({self._begin()})  # a cancelled caller does not end it for the others
        if self._failed_at > self._fetched_at:
            raise AuthUnavailable(
                "The keys of the identity provider cannot be fetched (auth.jwt.jwks_url). Try again in a moment."
            )

    def _begin(self) -> asyncio.Task[None]:
        if self._fetching is None:
            self._fetching = self.tasks.start(self._renew(), "jwks")
        return self._fetching

    async def _renew(self) -> None:
        began = time.monotonic()
        try:
            self._keys = await self.read()
            self._fetched_at = time.monotonic()
        except AuthUnavailable as error:
            log.warning("%s Keys that were fetched before are taken for a day at most.", error.message)
        finally:
            self._fetching = None
            if self._fetched_at < began:
                self._failed_at = time.monotonic()

    async def read(self) -> tuple[SigningKey, ...]:
        """The keys as the provider gives them now.

        Raises:
            AuthUnavailable: it does not answer in time, or not with usable keys.
        """
        try:
            async with asyncio.timeout(self.timeout_s):
                return await asyncio.to_thread(keys_of, await self._answer(), self.algorithms)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            reason = str(error) if type(error) is ValueError else type(error).__name__  # others may quote the address
            raise AuthUnavailable(f"auth.jwt.jwks_url gives no keys ({reason}).") from error

    async def _answer(self) -> bytes:
        """At most one byte more than a JWKS may have. Redirects are not followed, compressed answers not opened."""
        body = bytearray()
        async with (
            aiohttp.ClientSession(
                trust_env=True, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.get(self.url, allow_redirects=False, headers={"accept-encoding": "identity"}) as answer,
        ):
            if answer.status != 200:
                raise ValueError(f"it answers {answer.status}")
            async for piece in answer.content.iter_any():
                body += piece
                if len(body) > MOST_JWKS_BYTES:
                    break
        return bytes(body)
