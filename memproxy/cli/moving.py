"""Commands that take memories along and keep them safe: export, import, backup, restore."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from memproxy.cli.options import (
    Config,
    Json,
    Tenant,
    User,
    Whole,
    a_name,
    quiet_settings,
    show,
    tell_of_tenants,
    told_of_all,
    whose,
)


def export_command(
    user: User,
    tenant: Tenant = None,
    config: Config = None,
    *,
    vectors: Annotated[
        bool, typer.Option("--vectors", help="With the vectors: a larger file, nothing to embed when it is imported.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the count on standard error as one line of JSON.")
    ] = False,
) -> None:
    """Write everything of a user to standard output as JSON Lines: memories with their history, turns, places. Where
    nothing is found it says so and ends with 1.
    """
    from memproxy import transfers, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    with upkeep.progress("exporting") as told:
        out = typer.get_binary_stream("stdout")
        done = asyncio.run(transfers.export(settings, out, told, tenant=tenant, user=user, vectors=vectors))
    show({"memories": done}, [f"{done} memories of user {user!r} of {whose(tenant)}."], as_json=json, err=True)
    if done:
        return
    tell_of_tenants(tenant)
    raise typer.Exit(1)


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
    json: Json = False,
) -> None:
    """Take over an export of memproxy or of another product, with its times. The same file twice changes nothing, so
    that a broken off import goes on when it is run again.
    """
    from memproxy import transfers, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    with upkeep.progress("importing") as told:
        taken = asyncio.run(
            transfers.import_file(
                settings, file, told, file_format=file_format, tenant=tenant, user=user, dry_run=dry_run
            )
        )
    for number, message in taken.errors:
        typer.echo(f"{file}, line {number}: {message}", err=True)
    for note in taken.notes:
        typer.echo(note, err=True)
    would = "would be " if dry_run else ""
    rest = f"{taken.turns} messages; {taken.rejected} lines rejected."
    lines = [
        f"{taken.imported} memories {would}imported, {taken.replaced} replaced, {taken.unchanged} unchanged; {rest}"
    ]
    if taken.queued:
        lines.append("The store is away: some of it waits in the journal and is written when the store answers.")
    show(taken, lines, as_json=json)
    if taken.rejected:
        raise typer.Exit(1)


def backup(
    folder: Annotated[Path, typer.Argument(help="Folder to make.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
    *,
    json: Json = False,
) -> None:
    """Copy store, state and secret into a new folder, also while serving.

    What is not in it: the configuration, and the master key of privacy.encrypt.
    """
    from memproxy import backups, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "backup")
    with upkeep.progress("backing up") as told:
        manifest = asyncio.run(backups.backup(settings, folder, told))
    count, size = len(manifest.files), sum(one.size for one in manifest.files.values())
    line = f"{count} files, {size:,} bytes in {folder}. `memproxy restore {folder}` brings them back."
    show({"folder": str(folder), "files": count, "bytes": size}, [line], as_json=json)


def restore(
    folder: Annotated[Path, typer.Argument(help="Folder of a backup.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there; it is kept under another name.")
    ] = False,
    json: Json = False,
) -> None:
    """Put a backup in the place of the configured store and state. No server may be running on them."""
    from memproxy import backups, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "restore")
    with upkeep.progress("checking") as told:
        aside = backups.restore(settings, folder, told, force=force)
    lines = [f"What was there before is now {path}; remove it when it is not needed." for path in aside]
    result = {"restored": str(folder), "aside": [str(path) for path in aside]}
    show(result, [f"Restored from {folder}.", *lines], as_json=json)
