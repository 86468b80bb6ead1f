"""The keys of an identity provider at an address, which change there from time to time."""

import threading
import time
from collections import deque

import jwt

_LIFESPAN_S = 300.0
_TIMEOUT_S = 5.0
_FETCHES = 3
"""So many unknown key ids in a row are looked for at the provider: a rotation is seen at once even then."""


class JwksUrl(jwt.PyJWKClient):
    """A provider's keys, kept for five minutes. A key id that is not among them has them fetched again at once.

    The library's own pause between two fetches also counts from an ordinary one, so that tokens of a key that was
    rotated in just now would be refused for as long.
    """

    def __init__(self, url: str, *, refetch_s: float) -> None:
        """Unknown key ids cause at most three fetches in three times ``refetch_s`` seconds."""
        super().__init__(url, lifespan=_LIFESPAN_S, timeout=_TIMEOUT_S, cooldown_duration=0)
        self._window_s = _FETCHES * refetch_s
        self._fetched: deque[float] = deque(maxlen=_FETCHES)
        self._one_asks = threading.RLock()

    def get_signing_key(self, kid: str) -> jwt.PyJWK:
        """The key of this id. Blocking.

        Raises:
            jwt.PyJWKClientError: there is none.
            jwt.PyJWKClientConnectionError: the provider does not answer.
        """
        with self._one_asks:
            found = self.match_kid(self.get_signing_keys(), kid)
            if found is None and self._may_fetch():
                self._fetched.append(time.monotonic())
                found = self.match_kid(self.get_signing_keys(refresh=True), kid)
        if found is None:
            raise jwt.PyJWKClientError("its key id (kid) is not known")
        return found

    def _may_fetch(self) -> bool:
        return len(self._fetched) < _FETCHES or time.monotonic() - self._fetched[0] >= self._window_s
