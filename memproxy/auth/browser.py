"""Keeps web pages away from a server on a person's own machine."""

import ipaddress
import re
import socket

from memproxy.auth.headers import Headers
from memproxy.errors import Forbidden, RequestError
from memproxy.settings import ServerSettings, is_loopback

LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})

ALLOWED_ORIGIN = b"access-control-allow-origin"
_METHODS = b"GET, POST, PUT, PATCH, DELETE"
_EXPOSED = (
    b"ETag, Location, Retry-After, Idempotency-Replayed, Server-Timing, X-Memproxy-Request-Id, X-Memproxy-Session, "
    b"X-Memproxy-Recall, X-Memproxy-Memories, X-Memproxy-Memories-New, X-Memproxy-Context, X-Memproxy-Erasure, "
    b"X-Memproxy-Write, X-Memproxy-Total, X-Memproxy-Next-Cursor"
)
"""Headers that pages may read beside those that they always may."""

_HOST = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_.-]{0,253})|\[[0-9a-f:.]{2,45}\])(?::0*([1-9][0-9]{0,4}))?", re.IGNORECASE)
"""A name or address, perhaps with a port: what programs write into ``Host``. RFC 3986 allows more."""

_MOST_PORT = 65_535

_OF_ANOTHER_PAGE = frozenset({"cross-site", "same-site"})
"""Values of ``Sec-Fetch-Site``: another port of the same machine is the same site and another origin."""


class BrowserGuard:
    """Keeps web pages away: no page may read or plant memory through a person's loopback (DNS rebinding, forms)."""

    def __init__(self, server: ServerSettings) -> None:
        self._any_address = server.host in {"0.0.0.0", "::", ""}  # noqa: S104 - compared, not bound
        self._hosts = {_host_named(name) for name in server.allowed_hosts} or _bound_names(server.host)
        self._origins = {origin.rstrip("/").lower() for origin in server.cors_origins}
        self._guess = not server.allowed_hosts

    def check(self, headers: Headers, *, is_page: bool = False, is_health: bool = False) -> None:
        """Refuse a foreign ``Host`` or ``Origin``. ``is_page``: links of other pages may lead here. ``is_health``: what
        watches the server asks by whatever address it has, a pod's or loopback, which no rebinding can name.

        Raises:
            RequestError: ``Host`` is no name or address, or there are several.
            Forbidden: with the setting that would allow it.
        """
        host = self._checked_host(headers, any_address=is_health)
        origins = headers.all(b"origin")
        for origin in origins:
            own_origins = {f"http://{host.lower()}", f"https://{host.lower()}"}
            if origin.rstrip("/").lower() not in self._origins | own_origins:
                raise Forbidden(
                    f"Origin {origin!r} may not call this server: add it to server.cors_origins.", code="origin_refused"
                )
        if not origins and _is_of_another_page(headers, is_page=is_page):
            raise Forbidden(
                "A page of another origin asks for this; pages that may are named in server.cors_origins.",
                code="origin_refused",
            )

    def _checked_host(self, headers: Headers, *, any_address: bool) -> str:
        """The request's ``Host``; empty where there is none, as HTTP/1.0 allows."""
        hosts = headers.all(b"host")
        if not hosts:
            return ""
        if len(hosts) > 1:
            raise RequestError("The request names several hosts (in Host and its target): name one.", param="Host")
        (host,) = hosts
        match = _HOST.fullmatch(host)
        if match is None or int(match[1] or 1) > _MOST_PORT:
            raise RequestError(f"Host {host[:100]!r} is not a name or address with perhaps a port.", param="Host")
        name = _without_port(host)
        address = _address(name)
        allowed = name in self._hosts or "*" in self._hosts
        # On a wildcard address we cannot know our names, but rebinding needs a name: a bare address is safe.
        allowed = allowed or (self._guess and self._any_address and address is not None)
        # 0.0.0.0 is no machine's address, and pages elsewhere reach loopback by it
        is_machine = name in LOOPBACK_NAMES or (address is not None and not address.is_unspecified)
        if not (allowed or (any_address and is_machine)):
            raise Forbidden(f"Host {host!r} is not served here: add it to server.allowed_hosts.", code="host_refused")
        return host

    def cors_headers(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """Headers that let a page of an allowed origin read our answers; none for anyone else."""
        origin = headers.get(b"origin")
        if origin is None or origin.rstrip("/").lower() not in self._origins:
            return []
        return [
            (ALLOWED_ORIGIN, origin.encode("latin-1", "replace")),
            (b"access-control-expose-headers", _EXPOSED),
            (b"vary", b"Origin"),
        ]

    def preflight_headers(self, headers: Headers) -> list[tuple[bytes, bytes]]:
        """The headers that answer a browser's preflight request; none where its page may not send."""
        if not (cors := self.cors_headers(headers)):
            return []
        requested = (headers.get(b"access-control-request-headers") or "").encode("latin-1", "replace")
        return [*cors, (b"access-control-allow-methods", _METHODS), (b"access-control-allow-headers", requested)]


def _is_of_another_page(headers: Headers, *, is_page: bool) -> bool:
    """Whether a browser says so (Fetch Metadata). Pictures, scripts and frames come without an ``Origin``, and whether
    they load tells a page what is there. A link to a page of ours is a person's own doing; one to anything else is
    refused, as an upstream's answer could run its script under our origin.
    """
    if headers.get(b"sec-fetch-site") not in _OF_ANOTHER_PAGE:
        return False
    return not is_page or (headers.get(b"sec-fetch-mode"), headers.get(b"sec-fetch-dest")) != ("navigate", "document")


def _bound_names(host: str) -> set[str]:
    if is_loopback(host):
        return {host.lower(), *LOOPBACK_NAMES}
    names = {socket.gethostname().lower(), socket.getfqdn().lower()}
    return {host.lower(), f"[{host.lower()}]", *names, *LOOPBACK_NAMES}


def _without_port(host: str) -> str:
    host = host.strip().lower()
    if host.startswith("["):
        return host[: host.find("]") + 1]
    return host.rsplit(":", 1)[0] if host.count(":") == 1 else host


def _host_named(setting: str) -> str:
    """A name of ``server.allowed_hosts`` as it is looked for in ``Host``: without a port, an IPv6 address bracketed."""
    name = _without_port(setting)
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return None
