"""``memproxy keys``: proxy keys, the hash that names a key's tenant, the master key of encryption.

Proxy keys are made, listed and revoked in the state store, which relays look into by themselves: no server is asked.
"""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from memproxy.auth.identity import ACT_AS_USER, default_user
from memproxy.auth.modes import key_hash
from memproxy.auth.proxy_keys import RECORD_SECONDS
from memproxy.commands.installation import of_state
from memproxy.commands.options import Config, Json, OneTenant, Unread, a_text, named, quiet_settings, show
from memproxy.core.audit import COMMAND_LINE, AuditEntry
from memproxy.core.proxykey import DEFAULT_PERMISSIONS, PERMISSIONS, KeyRecord, hashed, new_key
from memproxy.errors import ConfigError
from memproxy.settings import Settings
from memproxy.settings.home import home_dir, secret

if TYPE_CHECKING:
    from memproxy.ports import StateStore

app = typer.Typer(help="Keys and what stands for them.", no_args_is_help=True)


@app.command("hash")
def keys_hash(
    key: Annotated[
        str | None,
        typer.Argument(
            help="The key; better piped in or typed when asked, so that no history keeps it.",
            metavar="KEY",
            show_default=False,
        ),
    ] = None,
    tenant: Annotated[str | None, named("--tenant", "Also print the line for auth.tenants that names it.", "T")] = None,
    config: Unread = None,  # noqa: ARG001 - every command takes it
    *,
    json: Json = False,
) -> None:
    """Print the hash of an API key (an argument, or read from standard input), to name its tenant in auth.tenants."""
    typed = (key if key not in (None, "-") else _asked_key()).strip()
    if not typed:
        raise ConfigError("No key was given: pipe it in, type it when asked, or give it as the argument.")
    hash_of_key = key_hash(secret(None, home_dir()), typed)
    show({"hash": hash_of_key}, [hash_of_key], as_json=json)
    if tenant is not None:
        typer.echo(f"auth.tenants:\n  {hash_of_key}: {tenant}", err=True)


def _asked_key() -> str:
    """The key from standard input. Asked for on standard error, because a script often reads what is printed."""
    if sys.stdin is None or sys.stdin.closed:
        return ""  # started without a standard input
    if sys.stdin.isatty():
        return str(typer.prompt("API key", hide_input=True, err=True))
    return sys.stdin.readline()


def _known_permissions(names: list[str] | None) -> list[str] | None:
    """The permissions that are named on the command line."""
    for name in names or ():
        if name not in PERMISSIONS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(PERMISSIONS)}.")
    return names


@app.command("new")
def keys_new(
    *,
    tenant: Annotated[str, named("--tenant", "Tenant that it belongs to.", "T")],
    user: Annotated[str | None, named("--user", "The only user it is for.", "U")] = None,
    project: Annotated[str | None, named("--project", "The only project it is for.", "P")] = None,
    name: Annotated[str, typer.Option(help="What it is for.", metavar="TEXT", callback=a_text)] = "",
    permission: Annotated[
        list[str] | None,
        typer.Option(
            help=f"What it allows; several times: {', '.join(PERMISSIONS)}. Default: the first three.",
            metavar="NAME",
            callback=_known_permissions,
        ),
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="Days that it is valid; default for ever.", metavar="N", min=1, max=36_500)
    ] = None,
    config_entry: Annotated[
        bool,
        typer.Option(
            "--config-entry", help="Only print: the entry for auth.keys on standard error, the key on standard output."
        ),
    ] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Make a proxy key (auth.mode: keys). It is printed once; only its hash is kept."""
    key, record = make_key(tenant, user=user, project=project, name=name, permissions=permission or (), days=days)
    settings = None if config_entry else quiet_settings(config)
    if settings is None:
        typer.echo(_config_entry(record), err=True)
    else:
        for alike in of_state(settings, partial(_keep, record)):
            typer.echo(f"Tenant {alike!r} has keys, too: {tenant!r} is another one, and shares no memory.", err=True)
    if (warning := _without_memory(record, settings)) is not None:
        typer.echo(warning, err=True)
    show({"key": key} | _record_fields(record), [key], as_json=json)


@app.command("list")
def keys_list(tenant: OneTenant = None, config: Config = None, *, json: Json = False) -> None:
    """List the proxy keys that were made here; their ids, never the keys."""
    records = of_state(quiet_settings(config), lambda state: state.proxy_keys(tenant))
    show({"data": [_record_fields(record) for record in records]}, map(line, records), as_json=json)
    if not records:
        of = f" of tenant {tenant}" if tenant is not None else ""
        typer.echo(f"There are no proxy keys{of}; memproxy keys new makes one.", err=True)


@app.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key (memproxy keys list).", metavar="ID")],
    tenant: Annotated[str | None, named("--tenant", "Only if it is a key of this tenant.", "T")] = None,
    config: Config = None,
    *,
    json: Json = False,
) -> None:
    """End a proxy key's validity; every relay knows within seconds."""
    if not of_state(quiet_settings(config), partial(_revoke, key_id, tenant)):
        of = f" of tenant {tenant}" if tenant is not None else ""
        raise ConfigError(f"There is no valid key of id {key_id!r}{of}; memproxy keys list shows them.")
    line = f"{key_id} is revoked; a server that runs takes it for {RECORD_SECONDS:.0f} more seconds at most."
    show({"id": key_id, "revoked": True}, [line], as_json=json)


@app.command("master")
def keys_master(*, json: Json = False) -> None:
    """Print a new master key for MEMPROXY_MASTER_KEY (privacy.encrypt). Keep it apart from the data and its backups."""
    from memproxy.stores.sealing import new_master_key  # noqa: PLC0415 - cryptography, which the others do not need

    key = new_master_key()
    show({"master_key": key}, [key], as_json=json)


@app.command("rewrap")
def keys_rewrap(config: Config = None, *, json: Json = False) -> None:
    """Wrap every user's data key by the first key of MEMPROXY_MASTER_KEY (new,old); then the old one may go.

    Start a running server with both keys before.
    """
    settings = quiet_settings(config)
    if not settings.privacy.encrypt:
        raise ConfigError("privacy.encrypt is off: there are no data keys to wrap.")
    count = of_state(settings, _rewrap)
    show({"data_keys": count}, [f"{count} data key{'' if count == 1 else 's'} wrapped anew."], as_json=json)


def make_key(
    tenant: str,
    *,
    user: str | None = None,
    project: str | None = None,
    name: str = "",
    permissions: Sequence[str] = (),
    days: int | None = None,
) -> tuple[str, KeyRecord]:
    """A new key and its record; nothing is kept yet."""
    key, key_id = new_key()
    now = datetime.now(UTC)
    record = KeyRecord(
        id=key_id,
        tenant=tenant,
        hash=hashed(key),
        created_at=now,
        name=name,
        user=user,
        project=project,
        permissions=frozenset(permissions) or DEFAULT_PERMISSIONS,
        expires_at=now + timedelta(days=days) if days else None,
    )
    return key, record


def _without_memory(record: KeyRecord, settings: Settings | None) -> str | None:
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


async def _keep(record: KeyRecord, state: "StateStore") -> list[str]:
    """Make the key known to every relay of this state; answers tenants of other keys whose names differ from its own in
    capitals alone.
    """
    other_tenants = {other.tenant for other in await state.proxy_keys(None)} - {record.tenant}
    await state.add_proxy_key(record)
    await state.note_audit([_entry("key.new", record.tenant, record.id)])
    return sorted(name for name in other_tenants if name.casefold() == record.tenant.casefold())


async def _revoke(key_id: str, tenant: str | None, state: "StateStore") -> bool:
    """End a key's validity, everywhere within seconds; False when there is no such valid key (of this tenant)."""
    record = await state.proxy_key(key_id)
    if record is None or tenant not in {None, record.tenant}:
        return False
    revoked = await state.revoke_proxy_key(key_id, datetime.now(UTC))
    if revoked:
        await state.note_audit([_entry("key.revoke", record.tenant, key_id)])
    return revoked


def _entry(action: str, tenant: str, key_id: str) -> AuditEntry:
    return AuditEntry(at=datetime.now(UTC), tenant=tenant, by=COMMAND_LINE, action=action, scope={"key_id": key_id})


def _config_entry(record: KeyRecord) -> str:
    """The record as an entry of ``auth.keys`` in the configuration (YAML)."""
    fields = {"id": record.id, "hash": record.hash, "tenant": record.tenant, "user": record.user}
    fields |= {"project": record.project, "name": record.name or None}
    lines = [f"{name}: {msgspec.json.encode(value).decode()}" for name, value in fields.items() if value is not None]
    lines.append(f"permissions: {msgspec.json.encode(sorted(record.permissions)).decode()}")
    return "  - " + "\n    ".join(lines)


def _record_fields(record: KeyRecord) -> dict[str, Any]:
    """One key as programs read it: everything that is kept of it but its hash."""
    fields: dict[str, Any] = msgspec.to_builtins(record)
    del fields["hash"]
    return fields | {"permissions": sorted(record.permissions), "valid": record.holds(datetime.now(UTC))}


def line(record: KeyRecord) -> str:
    """One key as the list shows it."""
    now = datetime.now(UTC)
    ended = "revoked" if record.revoked_at else "" if record.holds(now) else "expired"
    until = f"until {record.expires_at:%Y-%m-%d}" if record.expires_at and not ended else ended or "valid"
    bound = [f"{kind} {name}" for kind, name in (("user", record.user), ("project", record.project)) if name]
    allowed = ",".join(sorted(record.permissions))
    return "  ".join([record.id, f"tenant {record.tenant}", *bound, allowed, until, record.name]).rstrip()


async def _rewrap(state: "StateStore") -> int:
    """Wrap every data key by the first master key; how many were wrapped by another one.

    Raises:
        StateUnavailable: a key is wrapped by a master key that is not here.
    """
    from memproxy.wiring.state_stores import keys_of  # noqa: PLC0415 - the whole of the state's store

    keys = keys_of(state)
    return await keys.rewrap() if keys is not None else 0
