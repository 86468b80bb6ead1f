"""The memory page: static files, and how they are served.

The page itself holds nobody's data, so it is served to whoever may reach the server; all that it shows it asks of the
memory API (`/v1/memory…`), by the API's own rules and with the key that a person typed in. It has no build step: what
lies in this folder is what a browser gets, from this server alone.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

PATH = "/memory"
"""Where the page is; its other files are below it."""

_TYPES = {
    ".html": b"text/html; charset=utf-8",
    ".css": b"text/css; charset=utf-8",
    ".js": b"text/javascript; charset=utf-8",
    ".svg": b"image/svg+xml",
}

CONTENT_SECURITY_POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    b"require-trusted-types-for 'script'; trusted-types 'none'"
)
"""No inline code, no other host, no frame around it, and no way in a script to make markup of a text."""

_GUARDS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (b"cache-control", b"no-cache"),
)


@dataclass(frozen=True, slots=True)
class PageFile:
    """A file of the page with the headers of its answer, among them its ``etag``."""

    body: bytes
    etag: bytes
    headers: tuple[tuple[bytes, bytes], ...]

    def is_known(self, if_none_match: str | None) -> bool:
        """Whether the browser has this version already."""
        return if_none_match is not None and self.etag.decode() in if_none_match


def page_files() -> Mapping[str, PageFile]:
    """The files of the page by their paths; `PATH` itself is the shell."""
    found = {}
    for file in files(__package__).iterdir():
        suffix = "." + file.name.rpartition(".")[2]
        if suffix not in _TYPES:
            continue
        body = file.read_bytes()
        etag = b'"%s"' % hashlib.blake2b(body, digest_size=12).hexdigest().encode()
        headers = ((b"content-type", _TYPES[suffix]), (b"etag", etag), *_GUARDS)
        found[PATH if file.name == "index.html" else f"{PATH}/{file.name}"] = PageFile(body, etag, headers)
    return found
