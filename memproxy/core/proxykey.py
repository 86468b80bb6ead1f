"""Proxy keys: their form, and the record that is kept of one (never the key itself)."""

import re
import secrets
from datetime import datetime

import msgspec

UPSTREAM_ALL = "upstream:all"
PERMISSIONS = ("chat", "memory:read", "memory:write", "act_as_user", UPSTREAM_ALL, "admin")
"""What a key may allow. ``admin`` is for keys, quotas, erasure and statistics; never for another user's text.
``upstream:all`` is for what the upstream keeps under the operator's key, whoever it is of.
"""

DEFAULT_PERMISSIONS = frozenset({"chat", "memory:read", "memory:write"})

_FORM = re.compile(r"mpk_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")


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
