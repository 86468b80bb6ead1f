"""Proxy keys: their form, the record that is kept of one (never the key itself), and the hash in it: BLAKE2b (RFC 7693)
with a salt. A key has 256 random bits, which nobody finds by trying, so the hash is not stretched: checking takes
microseconds, every request is checked, and nobody can make the relay compute.
"""

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from datetime import datetime

import msgspec

UPSTREAM_ALL = "upstream:all"
PERMISSIONS = ("chat", "memory:read", "memory:write", "act_as_user", UPSTREAM_ALL, "admin")
"""What a key may allow. ``admin`` is for keys, quotas, erasure and statistics; never for another user's text.
``upstream:all`` is for what the upstream keeps under the operator's key, for any caller.
"""

DEFAULT_PERMISSIONS = frozenset({"chat", "memory:read", "memory:write"})

_FORM = re.compile(r"mpk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")

_SALT_BYTES, _HASH_BYTES = 16, 32


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a key. ``hash`` is its hash; ``user`` and ``project`` are what it is bound to."""

    id: str
    tenant: str
    hash: str
    created_at: datetime
    name: str = ""
    user: str | None = None
    project: str | None = None
    permissions: frozenset[str] = DEFAULT_PERMISSIONS
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def new_key() -> tuple[str, str]:
    """A new key (256 random bits) and its id, which is a part of it and no secret."""
    key_id = secrets.token_hex(6)
    return f"mpk_{key_id}_{secrets.token_urlsafe(32)}", key_id


def is_key_id(text: str) -> bool:
    """Whether a key of ours can have this id."""
    return re.fullmatch("[0-9a-f]{12}", text) is not None


def id_of(key: str) -> str | None:
    """The id in a key; None for what is no key of ours."""
    match = _FORM.fullmatch(key)
    return match[1] if match else None


def hashed(key: str) -> str:
    """``blake2b$salt$hash`` of a key, with a new salt."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return "$".join(("blake2b", _text(salt), _text(_digest(key, salt))))


def matches(key: str, record: str) -> bool:
    """Whether a key has this hash; takes the same time whichever byte differs."""
    parts = _parts(record)
    return parts is not None and hmac.compare_digest(_digest(key, parts[0]), parts[1])


def is_hash(record: str) -> bool:
    """Whether this is a hash as `hashed` makes them: else no key has it."""
    return _parts(record) is not None


def _parts(record: str) -> tuple[bytes, bytes] | None:
    """Salt and hash."""
    try:
        kind, *parts = record.split("$")
        salt, digest = (base64.b64decode(part, altchars=b"-_", validate=True) for part in parts)
    except (ValueError, binascii.Error):
        return None
    return (salt, digest) if (kind, len(salt), len(digest)) == ("blake2b", _SALT_BYTES, _HASH_BYTES) else None


def _digest(key: str, salt: bytes) -> bytes:
    material = key.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, salt=salt, person=b"memproxy key", digest_size=_HASH_BYTES).digest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode()
