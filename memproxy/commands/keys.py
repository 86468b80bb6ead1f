"""Commands about keys: proxy keys, the hash that names a key's tenant, the master key of encryption."""

import asyncio
import sys
from typing import Annotated

import typer

from memproxy.commands.options import Config, Json, OneTenant, Unread, a_name, a_text, quiet_settings, show
from memproxy.core.proxykey import PERMISSIONS
from memproxy.errors import ConfigError

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
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", help="Also print the line for auth.tenants that names it.", metavar="T", callback=a_name
        ),
    ] = None,
    config: Unread = None,  # noqa: ARG001 - every command takes it
    *,
    json: Json = False,
) -> None:
    """Print the hash of an API key (an argument, or read from standard input), to name its tenant in auth.tenants."""
    from memproxy.auth import key_hash  # noqa: PLC0415 - other commands start faster without it
    from memproxy.settings.home import home_dir, secret  # noqa: PLC0415 - the same

    given = (key if key not in (None, "-") else _asked_key()).strip()
    if not given:
        raise ConfigError("No key was given: pipe it in, type it when asked, or give it as the argument.")
    made = key_hash(secret(None, home_dir()), given)
    show({"hash": made}, [made], as_json=json)
    if tenant is not None:
        typer.echo(f"auth.tenants:\n  {made}: {tenant}", err=True)


def _asked_key() -> str:
    """The key from standard input. Asked for on standard error, because a script often reads what is printed."""
    if sys.stdin is None or sys.stdin.closed:
        return ""  # started without a standard input
    if sys.stdin.isatty():
        return str(typer.prompt("API key", hide_input=True, err=True))
    return sys.stdin.readline()


def _known_permissions(names: list[str] | None) -> list[str] | None:
    """The permissions that are named on the command line.

    Raises:
        BadParameter: one of them does not exist.
    """
    for name in names or ():
        if name not in PERMISSIONS:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(PERMISSIONS)}.")
    return names


@app.command("new")
def keys_new(
    *,
    tenant: Annotated[str, typer.Option(help="Tenant that it belongs to.", metavar="T", callback=a_name)],
    user: Annotated[str | None, typer.Option(help="The only user it is for.", metavar="U", callback=a_name)] = None,
    project: Annotated[
        str | None, typer.Option(help="The only project it is for.", metavar="P", callback=a_name)
    ] = None,
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
        int | None, typer.Option(help="Days that it is valid; default for ever.", metavar="N", min=1)
    ] = None,
    config_entry: Annotated[
        bool,
        typer.Option(
            "--config-entry",
            help="Only print: the entry for auth.keys on standard error, the key on standard output.",
        ),
    ] = False,
    config: Config = None,
    json: Json = False,
) -> None:
    """Make a proxy key (auth.mode: keys). It is printed once; only its hash is kept."""
    from memproxy.commands import proxykeys  # noqa: PLC0415 - other commands start faster without it

    asked = proxykeys.Asked(
        tenant=tenant, user=user, project=project, name=name, permissions=permission or (), days=days
    )
    key, record = proxykeys.made(asked)
    settings = None if config_entry else quiet_settings(config)
    if settings is None:
        typer.echo(proxykeys.config_entry(record), err=True)
    else:
        asyncio.run(proxykeys.keep(settings, record))
    if (warning := proxykeys.without_memory(record, settings)) is not None:
        typer.echo(warning, err=True)
    show({"key": key} | proxykeys.shown(record), [key], as_json=json)


@app.command("list")
def keys_list(
    tenant: OneTenant = None,
    config: Config = None,
    *,
    json: Json = False,
) -> None:
    """List the proxy keys that were made here; their ids, never the keys."""
    from memproxy.commands import proxykeys  # noqa: PLC0415 - other commands start faster without it

    found = asyncio.run(proxykeys.listed(quiet_settings(config), tenant))
    show({"data": [proxykeys.shown(one) for one in found]}, map(proxykeys.line, found), as_json=json)


@app.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key (memproxy keys list).", metavar="ID")],
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Only if it is a key of this tenant.", metavar="T", callback=a_name),
    ] = None,
    config: Config = None,
    *,
    json: Json = False,
) -> None:
    """End a proxy key's validity; every relay knows within seconds."""
    from memproxy.auth.keys import RECORD_SECONDS  # noqa: PLC0415 - the same
    from memproxy.commands import proxykeys  # noqa: PLC0415 - other commands start faster without it

    if not asyncio.run(proxykeys.revoke(quiet_settings(config), key_id, tenant)):
        of = f" of tenant {tenant}" if tenant is not None else ""
        raise ConfigError(f"There is no valid key of id {key_id!r}{of}; memproxy keys list shows them.")
    line = f"{key_id} is revoked; a server that runs takes it for {RECORD_SECONDS:.0f} more seconds at most."
    show({"id": key_id, "revoked": True}, [line], as_json=json)


@app.command("master")
def keys_master(*, json: Json = False) -> None:
    """Print a new master key for MEMPROXY_MASTER_KEY (privacy.encrypt). Keep it apart from the data and its backups."""
    from memproxy.stores.sealing import new_master_key  # noqa: PLC0415 - other commands start faster without it

    made = new_master_key()
    show({"master_key": made}, [made], as_json=json)


@app.command("rewrap")
def keys_rewrap(config: Config = None, *, json: Json = False) -> None:
    """Wrap every user's data key by the first key of MEMPROXY_MASTER_KEY (new,old); then the old one may go.

    Start a running server with both keys before.
    """
    from memproxy.commands import masterkey  # noqa: PLC0415 - other commands start faster without it

    count = asyncio.run(masterkey.rewrap(quiet_settings(config)))
    show({"data_keys": count}, [f"{count} data key{'' if count == 1 else 's'} wrapped anew."], as_json=json)
