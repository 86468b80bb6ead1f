"""Commands that work on what is remembered, where it is: learn, consolidate, write anew, forget, prune."""

import asyncio
from functools import partial
from typing import Annotated

import typer

from memproxy.commands.options import (
    Config,
    Json,
    OneUser,
    Tenant,
    User,
    Whole,
    Yes,
    a_name,
    quiet_settings,
    show,
    told_forgotten,
    told_of_all,
)
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
    json: Json = False,
) -> None:
    """Index and learn from everything that waits, then exit; with a server running, have it do so."""
    from memproxy.commands import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    with upkeep.progress("learning") as told:
        left = asyncio.run(upkeep.mine(settings, told, tenant=tenant, retry_parked=retry_parked))
    parked = f"; {left.parked} rows had been given up (GET /v1/memory/activity says why)" if left.parked else ""
    of = f"of tenant {tenant} " if tenant is not None else ""
    show(left, [f"Nothing {of}waits any more{parked}."], as_json=json)


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


def reindex(config: Config = None, tenant: Whole = None, *, json: Json = False) -> None:
    """Write all memories anew with the configured embedder, then switch to them.

    Needed after embedding.model or embedding.dimension changed. With a server running (started with that
    configuration) it does the work and goes on serving; writes meanwhile are not lost. Broken off, it goes on where it
    was when it is run again.
    """
    from memproxy.commands import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    told_of_all(tenant, "reindex")
    with upkeep.progress("reindexing") as shows:
        told = asyncio.run(upkeep.reindex(settings, shows))
    kept = f", {told.kept} of them by an earlier run" if told.kept else ""
    lines = [f"{told.done} memories reindexed{kept}; the new collection is in use."]
    if told.damaged:
        lines.append(f"{told.damaged} could not be read and are left out; the log names them.")
    show({"reindexed": told.done, "kept": told.kept, "damaged": told.damaged}, lines, as_json=json)


def forget(
    user: User,
    session: Annotated[
        str | None, typer.Option("--session", help="Undo this conversation alone.", metavar="S", callback=a_name)
    ] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget everything of a user, or undo one conversation. It cannot be taken back."""
    from memproxy.commands import upkeep  # noqa: PLC0415 - other commands start faster without it

    settings = quiet_settings(config)
    what = f"session {session!r} of user {user!r}" if session is not None else f"everything of user {user!r}"
    forgetting = partial(upkeep.forget, settings, tenant=tenant, user=user, session=session)
    told_forgotten(forgetting, what, tenant, yes=yes, as_json=json)


def prune(
    user: OneUser = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Erase what has expired or is over the limit (retention) now, of everybody or of one user."""
    from memproxy.commands import prunings  # noqa: PLC0415 - other commands start faster without it

    gone = asyncio.run(prunings.prune(quiet_settings(config), tenant=tenant, user=user, dry_run=dry_run))
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(gone.items()))
    count, became = sum(gone.values()), "would go" if dry_run else "pruned"
    result = {"pruned": count, "reasons": gone, "dry_run": dry_run}
    show(result, [f"{count} memories {became}{f' ({told})' if told else ''}."], as_json=json)
