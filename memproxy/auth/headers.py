"""Request headers, ids in them, and the caller's key."""

from collections.abc import Sequence

from memproxy.core.text import STEPS
from memproxy.errors import RequestError, Unauthenticated

MAX_ID_LENGTH = 256  # longest user, session, project or agent id, in characters
LONGEST_KEY = 8 * 1024  # bytes; providers' keys have some hundred, tokens that list groups a few thousand
_KEYS = (b"authorization", b"api-key", b"x-api-key")  # headers that hold the caller's key, the first that does wins


class Headers:
    """Request headers as they came: bytes pairs, looked up by lower-case name."""

    def __init__(self, raw: Sequence[tuple[bytes, bytes]]) -> None:
        self.raw = raw
        self._values: dict[bytes, list[bytes]] = {}
        for name, value in raw:
            self._values.setdefault(name.lower(), []).append(value)

    def all(self, name: bytes) -> list[str]:
        """All values of a header, in order."""
        values = self._values.get(name)
        return [_text(value) for value in values] if values else []

    def get(self, name: bytes) -> str | None:
        """The first value of a header."""
        values = self._values.get(name)
        return _text(values[0]) if values else None

    def single(self, name: bytes) -> str | None:
        """The one value of a header of ours, stripped; None when absent or empty.

        Raises:
            RequestError: it is there twice with different values, or is too long.
        """
        raw_values = self._values.get(name)
        if raw_values is None:
            return None
        values = {_text(value).strip() for value in raw_values} - {""}
        if len(values) > 1:
            raise RequestError(f"The header {name.decode()} is given twice with different values.", param=name.decode())
        return clean_id(values.pop(), name.decode()) if values else None


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")


def clean_id(value: str, where: str) -> str:
    """An id that may name a user, session, project or agent, without the blanks around it.

    Raises:
        RequestError: it is longer than `MAX_ID_LENGTH`, holds control characters, or is a step of a path.
    """
    if len(value) > MAX_ID_LENGTH:
        raise RequestError(f"{where} is longer than {MAX_ID_LENGTH} characters.", param=where)
    if not value.isprintable() and any(ord(char) < 32 or 0xD800 <= ord(char) <= 0xDFFF for char in value):
        raise RequestError(f"{where} holds control characters or lone surrogates.", param=where)
    value = value.strip()
    if value in STEPS:
        raise RequestError(f"{where} is {value!r}, which clients take out of a path: no path leads to it.", param=where)
    return value


def client_key(headers: Headers) -> str | None:
    """The caller's key: the Bearer token, else ``api-key`` (Azure), else ``x-api-key``.

    Raises:
        Unauthenticated: one of these headers is there twice with different values: which of them others (an upstream,
            something on the way) go by cannot be known. Or the key is longer than `LONGEST_KEY`.
    """
    for name in _KEYS:
        if len(sent := headers.all(name)) > 1 and len(set(sent)) > 1:
            raise Unauthenticated(f"The header {name.decode()} is given twice with different values.")
    scheme, _, token = (headers.get(b"authorization") or "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    key = bearer or headers.get(b"api-key") or headers.get(b"x-api-key") or None
    if key is not None and len(key) > LONGEST_KEY:
        raise Unauthenticated(f"The key is longer than {LONGEST_KEY} bytes: that is none.")
    return key


def unknown_scheme(headers: Headers) -> bool:
    """Whether ``Authorization`` says who calls in a way that we cannot check (``Basic``, ``Negotiate``, …)."""
    scheme = (headers.get(b"authorization") or "").partition(" ")[0]
    return bool(scheme) and scheme.lower() != "bearer"
