"""The audit log's entries: who did what of the administrative and erasing operations, when and how far. No content."""

from datetime import datetime

import msgspec

AUDIT_VERSION = 1  # version of the stored form; written beside it, so that a later reader knows how to migrate it
BY_JWT = "jwt:"  # how it begins where a token did it; the token's user follows, so that an erasure finds the name
COMMAND_LINE = "command line"  # who, where the command line did it


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation. ``by`` is a proxy key's id (``key:…``), a token's user or subject (``jwt:…``), the tenant, or the
    command line; never a key. ``scope`` names by ids what it was about, ``counts`` what came of it.
    """

    at: datetime
    tenant: str
    by: str
    action: str
    scope: dict[str, str] = {}
    counts: dict[str, int] = {}


class Audited(msgspec.Struct, frozen=True, kw_only=True):
    """An entry as it is stored; ``number`` only grows."""

    number: int
    entry: AuditEntry
