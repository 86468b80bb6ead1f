"""Who may relay at all. In mode ``passthrough`` that is the upstream's business: the client's own key goes there."""

from memproxy.auth import Authenticator, Headers, require
from memproxy.settings import AuthSettings


class Admission:
    """Lets requests pass below ``/v1`` that the proxy's own keys or tokens allow."""

    def __init__(self, auth: AuthSettings, authenticator: Authenticator) -> None:
        self._needed = auth.mode != "passthrough"
        self._authenticator = authenticator

    @property
    def needs_key(self) -> bool:
        """Whether the proxy itself asks for a key or a token."""
        return self._needed

    async def admit(self, headers: Headers) -> None:
        """Returns for those who may.

        Raises:
            Unauthenticated, Forbidden: they may not.
            MemoryUnavailable, AuthUnavailable: that cannot be found out just now.
        """
        if self._needed:
            require(await self._authenticator.identify(headers), "chat")
