"""The keys of an identity provider in a file, which may be replaced while tokens are checked."""

import asyncio
import logging
import time
from pathlib import Path

import jwt

from memproxy.errors import ConfigError

log = logging.getLogger(__name__)

_Stamp = tuple[int, int, int]


class JwksFile:
    """A JWKS file, read again when it was replaced.

    Args:
        path: The file.
        look_s: Seconds between two looks at it: a key that was taken out is taken so much longer at most.

    Raises:
        ConfigError: it is no readable JWKS file at the start. Later, the keys that were read last stay.
    """

    def __init__(self, path: Path, *, look_s: float) -> None:
        self._path = path
        self._look_s = look_s
        self._looked = time.monotonic()
        try:
            self._stamp = self._seen()
            self._keys = self._read()
        except (OSError, ValueError, jwt.PyJWTError) as error:
            raise ConfigError(f"auth.jwt.jwks_file: {path} cannot be used ({error})") from error

    async def keys(self) -> list[jwt.PyJWK]:
        """The keys in it, as of the last look."""
        if time.monotonic() - self._looked >= self._look_s:
            await self.look()
        return self._keys

    async def look(self) -> None:
        """Look at once, as for a key that is not there: it may have been added just now."""
        self._looked = time.monotonic()
        await asyncio.to_thread(self._look)

    def _look(self) -> None:
        try:
            if (seen := self._seen()) == self._stamp:
                return
            self._keys, self._stamp = self._read(), seen
        except (OSError, ValueError, jwt.PyJWTError) as error:
            # half a file, or none: the one who replaces it is not done, and tokens must go on being taken
            log.warning("auth.jwt.jwks_file: %s cannot be used (%s); the keys read before stay", self._path, error)

    def _seen(self) -> _Stamp:
        found = self._path.stat()
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> list[jwt.PyJWK]:
        return jwt.PyJWKSet.from_json(self._path.read_text("utf-8")).keys
