"""Identity: from a request's headers and fields to tenant and user (CONTRACT section 4). Used by relay and engine.

Only mode ``passthrough`` is built: the client's own key names the tenant, by a keyed hash of it.
"""

import hashlib
import ipaddress
import json
import socket
from collections.abc import Mapping, Sequence

import msgspec

from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, RequestError, Unauthenticated
from memproxy.settings import AuthSettings, ServerSettings

ANONYMOUS = "anonymous"
MAX_ID_LENGTH = 256
"""Longest user, session, project or agent id, in characters."""

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


class Headers:
    """Request headers as they came: bytes pairs, looked up by lower-case name."""

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self.raw = raw

    def all(self, name: bytes) -> list[str]:
        """All values of a header, in order."""
        return [_text(value) for key, value in self.raw if key.lower() == name]

    def get(self, name: bytes) -> str | None:
        """The first value of a header."""
        for key, value in self.raw:
            if key == name or key.lower() == name:
                return _text(value)
        return None

    def single(self, name: bytes) -> str | None:
        """The one value of a header of ours, stripped; None when absent or empty.

        Raises:
            RequestError: it is there twice with different values, or is too long.
        """
        values = {value.strip() for value in self.all(name)} - {""}
        if len(values) > 1:
            raise RequestError(f"The header {name.decode()} is given twice with different values.", param=name.decode())
        return clean_id(values.pop(), name.decode()) if values else None


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def clean_id(value: str, where: str) -> str:
    """An id that may name a user, session, project or agent.

    Raises:
        RequestError: it is longer than `MAX_ID_LENGTH` or holds control characters.
    """
    if len(value) > MAX_ID_LENGTH:
        raise RequestError(f"{where} is longer than {MAX_ID_LENGTH} characters.", param=where)
    if any(ord(char) < 32 or 0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise RequestError(f"{where} holds control characters or lone surrogates.", param=where)
    return value


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def client_key(headers: Headers) -> str | None:
    """The caller's key: the Bearer token, else ``api-key`` (Azure), else ``x-api-key``."""
    authorization = headers.get(b"authorization")
    if authorization is not None:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
    return headers.get(b"api-key") or headers.get(b"x-api-key") or None


def key_hash(secret: bytes, key: str) -> str:
    """The keyed hash that stands for a key (``memproxy keys hash`` prints it): 32 hex digits, BLAKE2b."""
    material = key.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, key=secret[:64], digest_size=16, person=b"tenant").hexdigest()


class Authenticator:
    """Turns a request's headers into an `Identity`."""

    def __init__(self, auth: AuthSettings, server: ServerSettings, secret: bytes) -> None:
        self._tenants = auth.tenants
        self._secret = secret
        self._loopback = is_loopback(server.host)
        self._default_user = auth.unnamed_user or ("default" if self._loopback else None)
        self._known: dict[str, str] = {}

    def identify(self, headers: Headers) -> Identity:
        """Who calls.

        Raises:
            Unauthenticated: no key on an address that others can reach.
            RequestError: a header of ours cannot be read.
        """
        key = client_key(headers)
        if key is None and not self._loopback:
            raise Unauthenticated("No API key: send it as `Authorization: Bearer …`, `api-key` or `x-api-key`.")
        return Identity(
            tenant=self._tenant(key),
            named_user=headers.single(b"x-memproxy-user"),
            default_user=self._default_user,
            project=headers.single(b"x-memproxy-project"),
            agent=headers.single(b"x-memproxy-agent"),
            session=headers.single(b"x-memproxy-session"),
        )

    def _tenant(self, key: str | None) -> str:
        if key is None:
            return ANONYMOUS
        tenant = self._known.get(key)
        if tenant is None:
            digest = key_hash(self._secret, key)
            tenant = self._tenants.get(digest) or f"key:{digest}"
            if len(self._known) >= 10_000:
                self._known.clear()
            self._known[key] = tenant
        return tenant


def resolve_user(identity: Identity, named: str | None) -> str:
    """The user an API call is about: named by header or by the call's ``user_id``, else the default.

    Raises:
        RequestError: both are given and disagree, or nobody is named and there is no default.
    """
    if named is not None:
        named = clean_id(named.strip(), "user_id") or None
    if named and identity.named_user and named != identity.named_user:
        raise RequestError("user_id and the header X-Memproxy-User disagree: name one user.", param="user_id")
    user = identity.named_user or named or identity.default_user
    if user is None:
        raise RequestError(
            "No user is named: give user_id or the header X-Memproxy-User (or set auth.unnamed_user).",
            param="user_id",
        )
    return user


def resolve_scope(
    identity: Identity,
    *,
    user: str | None = None,
    project: str | None = None,
    agent: str | None = None,
    session: str | None = None,
) -> Scope:
    """The scope of an API call: the call's own fields first, then the headers'.

    Raises:
        RequestError: as `resolve_user`; or an id is not usable.
    """
    return Scope(
        tenant=identity.tenant,
        user=resolve_user(identity, user),
        project=_chosen(project, identity.project, "project_id"),
        agent=_chosen(agent, identity.agent, "agent_id"),
        session=_chosen(session, identity.session, "session_id"),
    )


def _chosen(field: str | None, header: str | None, name: str) -> str | None:
    return clean_id(field, name) if field else header


def require(identity: Identity, permission: str) -> None:
    """Pass only who holds this permission.

    Raises:
        Forbidden: the key does not allow it.
    """
    if permission not in identity.permissions:
        raise Forbidden(f"This key does not allow {permission}.")


def chat_user(identity: Identity, fields: Mapping[str, str | None]) -> str | None:
    """The user of a chat request: the header, else the body's fields in their order of precedence, else the default.

    ``fields`` are ``memory_context.user_id``, ``metadata.user_id``, ``safety_identifier`` and ``user``, in that order.
    None when nobody is named and there is no default: memory is then skipped.
    """
    for value in (identity.named_user, *fields.values()):
        if value and value.strip():
            return clean_id(value.strip(), "user")
    return identity.default_user


class BrowserGuard:
    """Keeps web pages away: no page may read or plant memory through a person's loopback (DNS rebinding, forms)."""

    def __init__(self, server: ServerSettings) -> None:
        self._any_address = server.host in {"0.0.0.0", "::", ""}  # noqa: S104 - compared, not bound
        self._hosts = {name.lower() for name in server.allowed_hosts} or self._bound_names(server.host)
        self._origins = {origin.rstrip("/").lower() for origin in server.cors_origins}
        self._guess = not server.allowed_hosts

    @staticmethod
    def _bound_names(host: str) -> set[str]:
        if is_loopback(host):
            return {host.lower(), *LOOPBACK_NAMES}
        names = {socket.gethostname().lower(), socket.getfqdn().lower()}
        return {host.lower(), f"[{host.lower()}]", *names, *LOOPBACK_NAMES}

    def check(self, headers: Headers) -> None:
        """Refuse a foreign ``Host`` or ``Origin``.

        Raises:
            Forbidden: with the setting that would allow it.
        """
        host = headers.get(b"host") or ""
        if host and not self._host_allowed(_without_port(host)):
            raise Forbidden(f"Host {host!r} is not served here: add it to server.allowed_hosts.", code="host_refused")
        origin = headers.get(b"origin")
        if origin is not None and not self._origin_allowed(origin.rstrip("/").lower(), host.lower()):
            raise Forbidden(
                f"Origin {origin!r} may not call this server: add it to server.cors_origins.", code="origin_refused"
            )

    def _host_allowed(self, name: str) -> bool:
        if name in self._hosts or "*" in self._hosts:
            return True
        # On a wildcard address we cannot know our names, but rebinding needs a name: a bare address is safe.
        return self._guess and self._any_address and _is_address(name)

    def _origin_allowed(self, origin: str, host: str) -> bool:
        return origin in self._origins or origin in {f"http://{host}", f"https://{host}"}

    def cors_headers(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """What tells a browser that its allowed origin may read our own answers; nothing for anyone else."""
        origin = headers.get(b"origin")
        if origin is None or origin.rstrip("/").lower() not in self._origins:
            return []
        return [(b"access-control-allow-origin", origin.encode("latin-1", "replace")), (b"vary", b"Origin")]


def _without_port(host: str) -> str:
    host = host.strip().lower()
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.rsplit(":", 1)[0] if host.count(":") == 1 else host


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def encode_identity(identity: Identity) -> str:
    """The identity as the private header's value (ASCII JSON)."""
    return json.dumps(msgspec.to_builtins(identity))


def decode_identity(value: str | None) -> Identity:
    """The identity that the relay put into the private header.

    Raises:
        Unauthenticated: it is missing or unreadable.
    """
    try:
        return msgspec.json.decode(value or "", type=Identity)
    except msgspec.DecodeError as error:
        raise Unauthenticated("This call carries no identity.") from error
