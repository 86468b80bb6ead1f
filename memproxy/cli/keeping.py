"""Commands that work on what is remembered, where it is: learn, consolidate, write anew, forget, prune."""

import asyncio
import os
from typing import Annotated

import typer

from memproxy.cli.options import Config, OneUser, Tenant, User, Whole, a_name, quiet_settings, told_of_all
from memproxy.errors import NotBuilt


def mine(
    config: Config = None,
    tenant: Annotated[
        str | None,
        typer.Option(
            "--tenant", help="Until nothing of this tenant waits; by default of all.", metavar="T", callback=a_name
        ),
    ] = None,
    *,
    retry_parked: Annotated[
        bool, typer.Option("--retry-parked", help="Also try again what was given up after its retries.")
    ] = False,
) -> None:
    """Index and learn from everything that waits, then exit; with a server running, have it do so."""
    from memproxy import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    with upkeep.progress("learning") as show:
        left = asyncio.run(upkeep.mine(settings, show, tenant=tenant, retry_parked=retry_parked))
    parked = f"; {left.parked} rows had been given up (GET /v1/memory/activity says why)" if left.parked else ""
    typer.echo(f"Nothing {f'of tenant {tenant} ' if tenant is not None else ''}waits any more{parked}.")


def dream(
    user: OneUser = None,  # noqa: ARG001
    tenant: Tenant = None,  # noqa: ARG001 - the options are there, the work is not
    config: Config = None,
) -> None:
    """Consolidate what is remembered. Not built yet: it ends with 1 and changes nothing."""
    quiet_settings(config)
    raise NotBuilt(
        "dream (consolidation) is not built in this version; nothing was changed. What is learned from a conversation "
        "is merged and superseded when it is learned, and `memproxy prune` erases what has expired."
    )


def reindex(config: Config = None, tenant: Whole = None) -> None:
    """Write all memories anew with the configured embedder, then switch to them.

    Needed after embedding.model or embedding.dimension changed. With a server running (started with that
    configuration) it does the work and goes on serving; writes meanwhile are not lost. Broken off, it goes on where it
    was when it is run again.
    """
    from memproxy import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "reindex")
    with upkeep.progress("reindexing") as show:
        told = asyncio.run(upkeep.reindex(settings, show))
    kept = f", {told.kept} of them by an earlier run" if told.kept else ""
    typer.echo(f"{told.done} memories reindexed{kept}; the new collection is in use.")
    if told.damaged:
        typer.echo(f"{told.damaged} could not be read and are left out; the log names them.")


def forget(
    user: User,
    session: Annotated[
        str | None, typer.Option("--session", help="Undo this conversation alone.", metavar="S", callback=a_name)
    ] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask; needed where nobody can be asked (scripts).")] = False,
) -> None:
    """Forget everything of a user, or undo one conversation. It cannot be taken back."""
    from memproxy import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    what = f"session {session!r} of user {user!r}" if session is not None else f"everything of user {user!r}"
    if not yes and not os.isatty(0):
        raise typer.BadParameter(f"nobody can be asked here: give --yes to forget {what} for good", param_hint="--yes")
    if not yes:
        typer.confirm(f"Forget {what} for good?", abort=True, err=True)
    gone = asyncio.run(upkeep.forget(settings, tenant=tenant, user=user, session=session))
    typer.echo(f"{gone} memories forgotten: {what} of tenant {tenant or 'anonymous'}.")
    if not gone and tenant is None:
        typer.echo("Memories that came with a key are its tenant's: name it by --tenant (memproxy keys hash).")


def prune(
    user: OneUser = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go, and change nothing.")] = False,
) -> None:
    """Erase what has expired or is over the limit (retention) now, of everybody or of one user."""
    from memproxy import prunings  # noqa: PLC0415 - other commands start faster without it

    gone = asyncio.run(prunings.prune(quiet_settings(config), tenant=tenant, user=user, dry_run=dry_run))
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(gone.items()))
    typer.echo(f"{sum(gone.values())} memories {'would go' if dry_run else 'pruned'}{f' ({told})' if told else ''}.")
