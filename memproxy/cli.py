"""The command line. Exit codes: 0 done, 1 it failed (the message says why), 2 bad usage."""

import asyncio
import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from memproxy import __version__, logs
from memproxy.config_file import load_settings
from memproxy.errors import ConfigError, MemproxyError
from memproxy.evals.cli import app as evaluations
from memproxy.home import home_dir, secret
from memproxy.settings import Settings

app = typer.Typer(
    help="A reverse proxy for OpenAI-compatible chat APIs that gives any application long-term memory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
keys = typer.Typer(help="Keys and what stands for them.", no_args_is_help=True)
app.add_typer(keys, name="keys")
app.add_typer(evaluations, name="eval")

Tenant = Annotated[
    str | None,
    typer.Option(
        "--tenant", help="Whose: a tenant's name, or a key's hash; by default that of callers without key.", metavar="T"
    ),
]
Config = Annotated[Path | None, typer.Option("--config", help="Configuration file (YAML).", metavar="FILE")]


@app.command()
def serve(
    config: Config = None,
    upstream: Annotated[str | None, typer.Option(help="Upstream base URL.", metavar="URL")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on (0: any free one).")] = None,
) -> None:
    """Run the proxy."""
    from memproxy import supervisor  # noqa: PLC0415 - other commands start faster without it

    overrides = {"upstream.base_url": upstream, "server.host": host, "server.port": port}
    settings = load_settings(config, overrides=overrides)
    logs.setup(settings.telemetry.log_level, settings.telemetry.log_format, "serve")
    supervisor.serve(settings, dict(os.environ))


@app.command()
def demo(
    *, serve: Annotated[bool, typer.Option("--serve", help="Leave it running, to be tried by hand.")] = False
) -> None:
    """Show memory at work: two sessions with a scripted model, a kill in between. No key, no network."""
    from memproxy.demo.run import run_demo  # noqa: PLC0415 - other commands start faster without it

    raise typer.Exit(run_demo(serve=serve))


@app.command()
def check(config: Config = None) -> None:
    """Check configuration, upstream, state, store and embedder; each with a line and a remedy."""
    from memproxy.check import run_check  # noqa: PLC0415 - other commands start faster without it

    raise typer.Exit(run_check(config))


@app.command()
def mine(
    config: Config = None,
    *,
    retry_parked: Annotated[
        bool, typer.Option("--retry-parked", help="Also try again what was given up after its retries.")
    ] = False,
) -> None:
    """Index and learn from everything that waits, then exit; with a server running, have it do so."""
    from memproxy import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = _quiet_settings(config)
    with upkeep.progress("learning") as show:
        left = asyncio.run(upkeep.mine(settings, show, retry_parked=retry_parked))
    parked = f"; {left.parked} rows had been given up (GET /v1/memory/activity says why)" if left.parked else ""
    typer.echo(f"Nothing waits any more{parked}.")


@app.command()
def reindex(config: Config = None) -> None:
    """Write all memories anew with the configured embedder, then switch to them.

    Needed after embedding.model or embedding.dimension changed. With a server running (started with that
    configuration) it does the work and goes on serving; writes meanwhile are not lost. Broken off, it goes on where it
    was when it is run again.
    """
    from memproxy import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = _quiet_settings(config)
    with upkeep.progress("reindexing") as show:
        told = asyncio.run(upkeep.reindex(settings, show))
    kept = f", {told.kept} of them by an earlier run" if told.kept else ""
    typer.echo(f"{told.done} memories reindexed{kept}; the new collection is in use.")
    if told.damaged:
        typer.echo(f"{told.damaged} could not be read and are left out; the log names them.")


@app.command()
def forget(
    user: Annotated[str, typer.Option("--user", help="Whose memory.", metavar="U")],
    session: Annotated[str | None, typer.Option(help="Undo this conversation alone.", metavar="S")] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Forget everything of a user, or undo one conversation. It cannot be taken back."""
    from memproxy import upkeep  # noqa: PLC0415 - other commands start faster without it

    what = f"session {session!r} of user {user!r}" if session is not None else f"everything of user {user!r}"
    if not yes and os.isatty(0):
        typer.confirm(f"Forget {what} for good?", abort=True)
    gone = asyncio.run(upkeep.forget(_quiet_settings(config), tenant=tenant, user=user, session=session))
    typer.echo(f"{gone} memories forgotten: {what} of tenant {tenant or 'anonymous'}.")
    if not gone and tenant is None:
        typer.echo("Memories that came with a key are its tenant's: name it by --tenant (memproxy keys hash).")


@app.command("export")
def export_command(
    user: Annotated[str, typer.Option("--user", help="Whose memory.", metavar="U")],
    tenant: Tenant = None,
    config: Config = None,
    *,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With the vectors: a larger file, nothing to embed when it is imported.")
    ] = False,
) -> None:
    """Write everything of a user to standard output as JSON Lines: memories with their history, turns, places."""
    from memproxy import transfers, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = _quiet_settings(config)
    with upkeep.progress("exporting") as show:
        out = typer.get_binary_stream("stdout")
        done = asyncio.run(transfers.export(settings, out, show, tenant=tenant, user=user, vectors=vectors))
    typer.echo(f"{done} memories of user {user!r} of tenant {tenant or 'anonymous'}.", err=True)
    if not done and tenant is None:
        typer.echo("Memories that came with a key are its tenant's: name it by --tenant.", err=True)


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(help="The file.", metavar="FILE")],
    file_format: Annotated[
        Literal["memproxy", "mem0", "chatgpt", "zep"], typer.Option("--format", help="Whose export it is.")
    ] = "memproxy",
    user: Annotated[
        str | None, typer.Option("--user", help="Whose all of it becomes; by default as the file says.", metavar="U")
    ] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check and count; write nothing.")] = False,
) -> None:
    """Take over an export of memproxy or of another product, with its times. The same file twice changes nothing, so
    that a broken off import goes on when it is run again.
    """
    from memproxy import transfers, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = _quiet_settings(config)
    with upkeep.progress("importing") as show:
        taken = asyncio.run(
            transfers.import_file(
                settings, file, show, file_format=file_format, tenant=tenant, user=user, dry_run=dry_run
            )
        )
    for number, message in taken.errors:
        typer.echo(f"{file}, line {number}: {message}", err=True)
    for note in taken.notes:
        typer.echo(note, err=True)
    would = "would be " if dry_run else ""
    typer.echo(
        f"{taken.imported} memories {would}imported, {taken.replaced} replaced, {taken.unchanged} unchanged; "
        f"{taken.turns} messages; {taken.rejected} lines rejected."
    )
    if taken.queued:
        typer.echo("The store is away: some of it waits in the journal and is written when the store answers.")
    if taken.rejected:
        raise typer.Exit(1)


@app.command()
def prune(
    user: Annotated[str | None, typer.Option("--user", help="This user alone.", metavar="U")] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go, and change nothing.")] = False,
) -> None:
    """Erase what has expired or is over the limit (retention) now, of everybody or of one user."""
    from memproxy import prunings  # noqa: PLC0415 - other commands start faster without it

    gone = asyncio.run(prunings.prune(_quiet_settings(config), tenant=tenant, user=user, dry_run=dry_run))
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(gone.items()))
    typer.echo(f"{sum(gone.values())} memories {'would go' if dry_run else 'pruned'}{f' ({told})' if told else ''}.")


def _quiet_settings(config: Path | None) -> Settings:
    """The settings of a command that ends by itself; of its log only what went wrong is shown."""
    settings = load_settings(config)
    logs.setup("error", settings.telemetry.log_format, "command")
    return settings


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="Folder to make.", metavar="DIR")], config: Config = None
) -> None:
    """Copy store, state and secret into a new folder, also while serving.

    What is not in it: the configuration, and the master key of privacy.encrypt.
    """
    from memproxy import backups, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = _quiet_settings(config)
    with upkeep.progress("backing up") as show:
        manifest = asyncio.run(backups.backup(settings, folder, show))
    size = sum(one.size for one in manifest.files.values())
    typer.echo(
        f"{len(manifest.files)} files, {size:,} bytes in {folder}. `memproxy restore {folder}` brings them back."
    )


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="Folder of a backup.", metavar="DIR")],
    config: Config = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there; it is kept under another name.")
    ] = False,
) -> None:
    """Put a backup in the place of the configured store and state. No server may be running on them."""
    from memproxy import backups, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = _quiet_settings(config)
    with upkeep.progress("checking") as show:
        aside = backups.restore(settings, folder, show, force=force)
    typer.echo(f"Restored from {folder}.")
    for path in aside:
        typer.echo(f"What was there before is now {path}; remove it when it is not needed.")


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


@keys.command("hash")
def keys_hash() -> None:
    """Print the hash of an API key (read from standard input), to name its tenant in auth.tenants."""
    from memproxy.auth import key_hash  # noqa: PLC0415 - other commands start faster without it

    key = typer.prompt("API key", hide_input=True) if os.isatty(0) else typer.get_text_stream("stdin").read()
    if not key.strip():
        raise ConfigError("No key was given: pipe it in, or type it.")
    typer.echo(key_hash(secret(None, home_dir()), key.strip()))


@keys.command("new")
def keys_new(
    *,
    tenant: Annotated[str, typer.Option(help="Tenant that it belongs to.", metavar="T")],
    user: Annotated[str | None, typer.Option(help="The only user it is for.", metavar="U")] = None,
    project: Annotated[str | None, typer.Option(help="The only project it is for.", metavar="P")] = None,
    name: Annotated[str, typer.Option(help="What it is for.", metavar="TEXT")] = "",
    permission: Annotated[
        list[str] | None,
        typer.Option(help="What it allows; several times. Default: chat, memory:read, memory:write.", metavar="NAME"),
    ] = None,
    days: Annotated[int | None, typer.Option(help="Days that it is valid; default for ever.", metavar="N")] = None,
    config_entry: Annotated[
        bool, typer.Option("--config-entry", help="Print an entry for auth.keys instead of keeping the key.")
    ] = False,
    config: Config = None,
) -> None:
    """Make a proxy key (auth.mode: keys). It is printed once; only its hash is kept."""
    from memproxy import proxykeys  # noqa: PLC0415 - other commands start faster without it

    asked = proxykeys.Asked(
        tenant=tenant, user=user, project=project, name=name, permissions=permission or (), days=days
    )
    key, record = proxykeys.made(asked)
    if config_entry:
        typer.echo(proxykeys.config_entry(record), err=True)
    else:
        asyncio.run(proxykeys.keep(_quiet_settings(config), record))
    typer.echo(key)


@keys.command("list")
def keys_list(tenant: Tenant = None, config: Config = None) -> None:
    """List the proxy keys that were made here; their ids, never the keys."""
    from memproxy import proxykeys  # noqa: PLC0415 - other commands start faster without it

    for record in asyncio.run(proxykeys.listed(_quiet_settings(config), tenant)):
        typer.echo(proxykeys.line(record))


@keys.command("revoke")
def keys_revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key (memproxy keys list).", metavar="ID")],
    config: Config = None,
) -> None:
    """End a proxy key's validity; every relay knows within seconds."""
    from memproxy import proxykeys  # noqa: PLC0415 - other commands start faster without it

    if not asyncio.run(proxykeys.revoke(_quiet_settings(config), key_id)):
        raise ConfigError(f"There is no valid key of id {key_id!r}; memproxy keys list shows them.")
    typer.echo(f"{key_id} is revoked.")


@keys.command("master")
def keys_master() -> None:
    """Print a new master key for MEMPROXY_MASTER_KEY (privacy.encrypt). Keep it apart from the data and its backups."""
    from memproxy.stores.sealing import new_master_key  # noqa: PLC0415 - other commands start faster without it

    typer.echo(new_master_key())


@keys.command("rewrap")
def keys_rewrap(config: Config = None) -> None:
    """Wrap every user's data key by the first key of MEMPROXY_MASTER_KEY (new,old); then the old one may go.

    Start a running server with both keys before.
    """
    from memproxy import masterkey  # noqa: PLC0415 - other commands start faster without it

    count = asyncio.run(masterkey.rewrap(_quiet_settings(config)))
    typer.echo(f"{count} data key{'' if count == 1 else 's'} wrapped anew.")


@app.command()
def audit(
    tenant: Annotated[str | None, typer.Option(help="Of this tenant alone; by default of all.", metavar="T")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Newest entries to show.")] = 100,
    config: Config = None,
) -> None:
    """Show the audit log: administrative and erasing operations, newest first; never content."""
    from memproxy import proxykeys  # noqa: PLC0415 - other commands start faster without it

    for entry in asyncio.run(proxykeys.audited(_quiet_settings(config), tenant, limit)):
        typer.echo(proxykeys.audit_line(entry))


def main() -> None:
    """Run the command line."""
    try:
        app()
    except MemproxyError as error:
        typer.echo(f"memproxy: {error.message}", err=True)
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
