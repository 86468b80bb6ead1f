"""Mode ``passthrough``: the client's own key names the tenant, by a keyed hash of it."""

import hashlib

from memproxy.auth.headers import Headers, client_key, unknown_scheme
from memproxy.auth.naming import default_user
from memproxy.core.protocol import Identity
from memproxy.errors import Unauthenticated
from memproxy.settings import AuthSettings, ServerSettings, is_loopback

ANONYMOUS = "anonymous"


def key_hash(secret: bytes, key: str) -> str:
    """The keyed hash that stands for a key (``memproxy keys hash`` prints it): 32 hex digits, BLAKE2b."""
    material = key.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, key=secret[:64], digest_size=16, person=b"tenant").hexdigest()


class PassthroughAuthenticator:
    """Names the tenant by a keyed hash of the client's key; who the user is, the client says."""

    def __init__(self, auth: AuthSettings, server: ServerSettings, secret: bytes) -> None:
        self._tenants = auth.tenants
        self._secret = secret
        self._loopback = is_loopback(server.host)
        self._default_user = default_user(auth, server)

    async def identify(self, headers: Headers) -> Identity:
        """Who calls.

        Raises:
            Unauthenticated: no key on an address that others can reach, or a proof of another kind: those who bring one
                are not all the same.
            RequestError: a header of ours cannot be read.
        """
        key = client_key(headers)
        if key is None and (unknown_scheme(headers) or not self._loopback):
            raise Unauthenticated("No API key: send it as `Authorization: Bearer …`, `api-key` or `x-api-key`.")
        tenant = self._tenant(key)
        return Identity(
            tenant=tenant,
            by=tenant,
            named_user=headers.single(b"x-memproxy-user"),
            default_user=self._default_user,
            project=headers.single(b"x-memproxy-project"),
            agent=headers.single(b"x-memproxy-agent"),
            session=headers.single(b"x-memproxy-session"),
        )

    def _tenant(self, key: str | None) -> str:
        if key is None:
            return ANONYMOUS
        digest = key_hash(self._secret, key)
        return self._tenants.get(digest) or f"key:{digest}"
