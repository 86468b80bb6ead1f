"""Commands that take memories along and keep them safe: export, import, backup, restore."""

import asyncio
from pathlib import Path
from typing import Annotated, Literal

import typer

from memproxy.commands.options import (
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
    from memproxy.commands import transfers, upkeep  # noqa: PLC0415 - other commands start faster without it

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
    from memproxy.commands import transfers, upkeep  # noqa: PLC0415 - other commands start faster without it

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
    folder: Annotated[Path, typer.Argument(help="Folder to make; with --keep, that of the dated ones.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
    *,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            min=1,
            help="Make a dated folder below DIR, and keep the newest N of these. What is as it was is kept once.",
            metavar="N",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Copy store, state and secret into a new folder, also while serving: packed, and read back when written.

    What is not in it: the configuration, and the master key of privacy.encrypt.
    """
    from memproxy.commands import backups, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "backup")
    with upkeep.progress("backing up") as told:
        made = asyncio.run(backups.backup(settings, folder, told, keep=keep))
    manifest, removed = made.manifest, [str(path) for path in made.removed]
    count, size, where = len(manifest.files), manifest.size, folder if keep is None else made.folder
    shared = f", {manifest.shared} of them shared with the backup before" if manifest.shared else ""
    line = f"{count} files, {size:,} bytes in {where}{shared}. `memproxy restore {where}` brings them back."
    result = {"folder": str(where), "files": count, "bytes": size, "shared": manifest.shared, "removed": removed}
    show(result, [line, *(f"Removed, as --keep {keep} says: {path}" for path in removed)], as_json=json)


def restore(
    folder: Annotated[Path, typer.Argument(help="A backup, or the folder of several: the newest.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Replace what is there; it is kept under another name.")
    ] = False,
    only_look: Annotated[
        bool, typer.Option("--check", help="Say whether it could be restored here, and change nothing.")
    ] = False,
    json: Json = False,
) -> None:
    """Put a backup in the place of the configured store and state. No server may be running on them.

    First it says whether it may: versions, damage, what is there already, room on the disk.
    """
    from memproxy.commands import restores, upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "restore")
    with restores.restoring(settings, folder, force=force, only_look=only_look) as restoration:
        with upkeep.progress("checking") as told:
            findings = restoration.look(told)
        for one in findings:
            # of --json the result alone is on standard output
            typer.echo(f"{'ok  ' if one.works else 'FAIL'} {one.part:8} {one.text}", err=json)
        restores.require(findings)
        if only_look:
            possible = {"possible": True, "folder": str(restoration.folder)}
            show(possible, ["It can be restored; nothing was changed."], as_json=json)
            return
        with upkeep.progress("restoring") as told:
            aside = restoration.run(told)
    lines = [f"What was there before is now {path}; remove it when it is not needed." for path in aside]
    result = {"restored": str(restoration.folder), "aside": [str(path) for path in aside]}
    show(result, [f"Restored from {restoration.folder}.", *lines], as_json=json)
