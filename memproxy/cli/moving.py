"""Commands that take memories along and keep them safe: export, import, backup, restore."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from memproxy.cli.options import Config, Tenant, User, Whole, a_name, quiet_settings, told_of_all


def export_command(
    user: User,
    tenant: Tenant = None,
    config: Config = None,
    *,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With the vectors: a larger file, nothing to embed when it is imported.")
    ] = False,
) -> None:
    """Write everything of a user to standard output as JSON Lines: memories with their history, turns, places."""
    from memproxy import transfers, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    with upkeep.progress("exporting") as show:
        out = typer.get_binary_stream("stdout")
        done = asyncio.run(transfers.export(settings, out, show, tenant=tenant, user=user, vectors=vectors))
    typer.echo(f"{done} memories of user {user!r} of tenant {tenant or 'anonymous'}.", err=True)
    if not done and tenant is None:
        typer.echo("Memories that came with a key are its tenant's: name it by --tenant.", err=True)


def import_command(
    file: Annotated[Path, typer.Argument(help="The file.", metavar="FILE")],
    file_format: Annotated[
        Literal["memproxy", "mem0", "chatgpt", "zep"], typer.Option("--format", help="Whose export it is.")
    ] = "memproxy",
    user: Annotated[
        str | None,
        typer.Option(
            "--user", help="Whose all of it becomes; by default as the file says.", metavar="U", callback=a_name
        ),
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

    settings = quiet_settings(config)
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


def backup(
    folder: Annotated[Path, typer.Argument(help="Folder to make.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
) -> None:
    """Copy store, state and secret into a new folder, also while serving.

    What is not in it: the configuration, and the master key of privacy.encrypt.
    """
    from memproxy import backups, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "backup")
    with upkeep.progress("backing up") as show:
        manifest = asyncio.run(backups.backup(settings, folder, show))
    size = sum(one.size for one in manifest.files.values())
    typer.echo(
        f"{len(manifest.files)} files, {size:,} bytes in {folder}. `memproxy restore {folder}` brings them back."
    )


def restore(
    folder: Annotated[Path, typer.Argument(help="Folder of a backup.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there; it is kept under another name.")
    ] = False,
) -> None:
    """Put a backup in the place of the configured store and state. No server may be running on them."""
    from memproxy import backups, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "restore")
    with upkeep.progress("checking") as show:
        aside = backups.restore(settings, folder, show, force=force)
    typer.echo(f"Restored from {folder}.")
    for path in aside:
        typer.echo(f"What was there before is now {path}; remove it when it is not needed.")
