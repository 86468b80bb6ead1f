"""Proxy keys from the command line: made, listed, revoked in the state store, which relays look into by themselves;
and the audit log, which tells of it.
"""

import contextlib
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from memproxy.auth import default_user
from memproxy.auth.identity import ACT_AS_USER
from memproxy.core.audit import COMMAND_LINE, AuditEntry
from memproxy.core.proxykey import DEFAULT_PERMISSIONS, PERMISSIONS, KeyRecord, hashed, is_hash, new_key
from memproxy.errors import ConfigError
from memproxy.ports import StateStore
from memproxy.settings import Settings
from memproxy.settings.home import home_dir
from memproxy.wiring.state import make_state


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a new key is to be. The names are such as requests can name (`memproxy.commands.options.a_name`)."""

    tenant: str
    user: str | None = None
    project: str | None = None
    name: str = ""
    permissions: Sequence[str] = ()
    days: int | None = None


def made(asked: Asked) -> tuple[str, KeyRecord]:
    """A new key and its record; nothing is kept yet.

    Raises:
        ConfigError: a permission that does not exist, or a time that does not lie ahead.
    """
    unknown = [name for name in asked.permissions if name not in PERMISSIONS]
    if unknown:
        raise ConfigError(f"--permission {unknown[0]}: the permissions are {', '.join(PERMISSIONS)}")
    if asked.days is not None and asked.days < 1:
        raise ConfigError(f"--days {asked.days}: give a number of days from 1")
    key, key_id = new_key()
    now = datetime.now(UTC)
    record = KeyRecord(
        id=key_id,
        tenant=asked.tenant,
        hash=hashed(key),
        created_at=now,
        name=asked.name,
        user=asked.user,
        project=asked.project,
        permissions=frozenset(asked.permissions) or DEFAULT_PERMISSIONS,
        expires_at=now + timedelta(days=asked.days) if asked.days else None,
    )
    return key, record


def without_memory(record: KeyRecord, settings: Settings | None) -> str | None:
    """Why requests with this key have no memory, and what to do; None: they have. ``settings`` None: not known."""
    if settings is not None and settings.auth.mode != "keys":
        return f"auth.mode is {settings.auth.mode}: proxy keys open nothing. Set it to keys."
    if "chat" not in record.permissions:
        return None  # it is for the memory API
    named = record.user is not None or ACT_AS_USER in record.permissions
    if named or (settings is not None and default_user(settings.auth, settings.server) is not None):
        return None
    return (
        "Chat with this key has no memory, as it says of no request whose it is: make it for one user (--user U), let "
        f"requests name their user (--permission chat --permission {ACT_AS_USER}), or set auth.unnamed_user."
    )


async def keep(settings: Settings, record: KeyRecord) -> None:
    """Make the key known to every relay of this state.

    Raises:
        StateUnavailable: the state does not answer.
    """
    async with _state(settings) as state:
        await state.add_proxy_key(record)
        await state.note_audit([_entry("key.new", record.tenant, record.id)])


async def listed(settings: Settings, tenant: str | None) -> list[KeyRecord]:
    """The keys of a tenant, or of all; those of the configuration are not among them.

    Raises:
        StateUnavailable: the state does not answer.
    """
    async with _state(settings) as state:
        return await state.proxy_keys(tenant)


async def revoke(settings: Settings, key_id: str, tenant: str | None = None) -> bool:
    """End a key's validity, everywhere within seconds; False when there is no such valid key (of this tenant).

    Raises:
        StateUnavailable: the state does not answer.
    """
    async with _state(settings) as state:
        record = await state.proxy_key(key_id)
        if record is None or tenant not in {None, record.tenant}:
            return False
        revoked = await state.revoke_proxy_key(key_id, datetime.now(UTC))
        if revoked:
            await state.note_audit([_entry("key.revoke", record.tenant, key_id)])
        return revoked


async def audited(settings: Settings, tenant: str | None, limit: int) -> list[AuditEntry]:
    """The newest entries of the audit log, of a tenant or of all, newest first.

    Raises:
        StateUnavailable: the state does not answer.
    """
    async with _state(settings) as state:
        return [one.entry for one in await state.audit(tenant, before=None, limit=limit)]


def _entry(action: str, tenant: str, key_id: str) -> AuditEntry:
    return AuditEntry(at=datetime.now(UTC), tenant=tenant, by=COMMAND_LINE, action=action, scope={"key_id": key_id})


def audit_line(entry: AuditEntry) -> str:
    """One entry as the command line shows it."""
    about = [f"{name}={value}" for name, value in (*entry.scope.items(), *entry.counts.items())]
    return "  ".join([f"{entry.at:%Y-%m-%dT%H:%M:%SZ}", f"tenant {entry.tenant}", entry.by, entry.action, *about])


@contextlib.asynccontextmanager
async def _state(settings: Settings) -> AsyncIterator[StateStore]:
    state = make_state(settings, home_dir())
    await state.open()
    try:
        yield state
    finally:
        await state.close()


def config_entry(record: KeyRecord) -> str:
    """The record as an entry of ``auth.keys`` in the configuration (YAML)."""
    fields = {"id": record.id, "hash": record.hash, "tenant": record.tenant, "user": record.user}
    fields |= {"project": record.project, "name": record.name or None}
    lines = [f"{name}: {msgspec.json.encode(value).decode()}" for name, value in fields.items() if value is not None]
    lines.append(f"permissions: {msgspec.json.encode(sorted(record.permissions)).decode()}")
    return "  - " + "\n    ".join(lines)


def shown(record: KeyRecord) -> dict[str, Any]:
    """One key as programs read it: everything that is kept of it but its hash."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    del fields["hash"]
    return fields | {"permissions": sorted(record.permissions), "valid": record.holds(datetime.now(UTC))}


def line(record: KeyRecord) -> str:
    """One key as the list shows it."""
    now = datetime.now(UTC)
    ended = "revoked" if record.revoked_at else "" if record.holds(now) else "expired"
    if not ended and not is_hash(record.hash):
        ended = "of an earlier version: make it anew"
    until = f"until {record.expires_at:%Y-%m-%d}" if record.expires_at and not ended else ended or "valid"
    bound = [f"{what} {name}" for what, name in (("user", record.user), ("project", record.project)) if name]
    allowed = ",".join(sorted(record.permissions))
    return "  ".join([record.id, f"tenant {record.tenant}", *bound, allowed, until, record.name]).rstrip()
