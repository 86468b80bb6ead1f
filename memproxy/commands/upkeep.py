"""Commands on an installation's whole memory: learn what waits (``mine``), write all of it anew for another embedder
(``reindex``), ``dream``, ``forget``, ``prune``, and look at the ``audit`` log.
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any

import msgspec
import typer

from memproxy.commands.installation import POLL_S, Installation, call_once, installation, of_state, without_learning
from memproxy.commands.options import (
    Config,
    Json,
    OneTenant,
    OneUser,
    Show,
    Tenant,
    User,
    Whole,
    Yes,
    named,
    one_line,
    progress,
    quiet_settings,
    show,
    tell_of_all_tenants,
    told_forgotten,
)
from memproxy.core.audit import AuditEntry
from memproxy.core.protocol import LEARNING_PATH, OWNERS_PATH, PRUNE_PATH, REINDEX_PATH, ReindexAsked, ReindexTold
from memproxy.core.text import piece_of_path
from memproxy.errors import ConfigError, MemproxyError
from memproxy.settings import Settings

app = typer.Typer()

STALLED_AFTER_S = 180.0
"""Longer than the longest pause between two tries of a row: what has not moved by then waits for something."""

WARNED_AFTER_S = 10.0
"""How long without a row done until the command says, once, what it may be waiting for."""

MOST_SHOWN = 200
"""Characters of a memory that a dry run shows."""


@app.command("mine")
def mine_command(
    config: Config = None,
    tenant: Annotated[
        str | None, named("--tenant", "Until nothing of this tenant waits; by default of all.", "T")
    ] = None,
    *,
    retry_parked: Annotated[
        bool, typer.Option("--retry-parked", help="Also try again what was given up after its retries.")
    ] = False,
    json: Json = False,
) -> None:
    """Index and learn from everything that waits, then exit; with a server running, have it do so."""
    settings = quiet_settings(config)
    with progress("learning") as shows:
        waiting = asyncio.run(mine(settings, shows, tenant=tenant, retry_parked=retry_parked))
    parked = f"; {waiting.parked} rows had been given up (GET /v1/memory/activity says why)" if waiting.parked else ""
    of = f"of tenant {tenant} " if tenant is not None else ""
    show(waiting, [f"Nothing {of}waits any more{parked}."], as_json=json)


@app.command("dream")
def dream_command(
    user: OneUser = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would be done, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Consolidate what is remembered of everybody or of one user: duplicates, what is outdated, noise."""
    settings = quiet_settings(config)
    with progress("dreaming") as shows:
        dreams = asyncio.run(dream(settings, shows, tenant=tenant, user=user, dry_run=dry_run))
    lines = (line for dreamt in dreams for line in _dream_lines(dreamt, everything=dry_run))
    show({"data": dreams}, lines if dreams else ["Nobody has memories here."], as_json=json)


@app.command("reindex")
def reindex_command(config: Config = None, tenant: Whole = None, *, json: Json = False) -> None:
    """Write all memories anew with the configured embedder, then switch to them.

    Needed after embedding.model or embedding.dimension changed. With a server running (started with that
    configuration) it does the work and goes on serving; writes meanwhile are not lost. Broken off, it goes on where it
    was when it is run again.
    """
    settings = quiet_settings(config)
    tell_of_all_tenants(tenant, "reindex")
    with progress("reindexing") as shows:
        answer = asyncio.run(reindex(settings, shows))
    earlier = f", {answer.kept} of them by an earlier run" if answer.kept else ""
    lines = [f"{answer.done} memories reindexed{earlier}; the new collection is in use."]
    if answer.damaged:
        lines.append(f"{answer.damaged} could not be read and are left out; the log names them.")
    show({"reindexed": answer.done, "kept": answer.kept, "damaged": answer.damaged}, lines, as_json=json)


@app.command("forget")
def forget_command(
    user: User,
    session: Annotated[str | None, named("--session", "Undo this conversation alone.", "S")] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget everything of a user, or undo one conversation. It cannot be taken back."""
    settings = quiet_settings(config)
    subject = f"session {session!r} of user {user!r}" if session is not None else f"everything of user {user!r}"
    forgetting = partial(forget, settings, tenant=tenant, user=user, session=session)
    told_forgotten(forgetting, subject, tenant, yes=yes, as_json=json)


@app.command("prune")
def prune_command(
    user: OneUser = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Tell what would go, and change nothing.")] = False,
    json: Json = False,
) -> None:
    """Erase what has expired or is over the limit (retention) now, of everybody or of one user."""
    settings = quiet_settings(config)
    with progress("pruning"):
        gone = asyncio.run(prune(settings, tenant=tenant, user=user, dry_run=dry_run))
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(gone.items()))
    count, became = sum(gone.values()), "would go" if dry_run else "pruned"
    result = {"pruned": count, "reasons": gone, "dry_run": dry_run}
    show(result, [f"{count} memories {became}{f' ({reasons})' if reasons else ''}."], as_json=json)


@app.command()
def audit(
    tenant: OneTenant = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Newest entries to show.")] = 100,
    config: Config = None,
    *,
    json: Json = False,
) -> None:
    """Show the audit log: administrative and erasing operations, newest first; never content."""
    rows = of_state(quiet_settings(config), lambda state: state.audit(tenant, before=None, limit=limit))
    entries = [row.entry for row in rows]
    show({"data": entries}, map(_audit_line, entries), as_json=json)
    if not entries:
        of = f" of tenant {tenant}" if tenant is not None else ""
        typer.echo(f"The audit log holds nothing{of}: nobody administered, read or erased anything yet.", err=True)


class WaitingWork(msgspec.Struct, frozen=True, kw_only=True):
    """What is left to do: rows that wait or run by lane, sessions not learned from; ``parked`` rows were given up."""

    index: int
    learn: int
    sessions: int
    parked: int

    @property
    def steps(self) -> int:
        """Rows and sessions together."""
        return self.index + self.learn + self.sessions

    @property
    def why_stalled(self) -> str:
        """What it may wait for."""
        return (
            f"{self.learn} rows of learning and {self.index} of indexing wait and nothing moves. They may wait "
            "for a model that does not answer, for its key (configure models.extract.api_key or upstream.api_key) or "
            "for the store; see the log."
        )


async def mine(settings: Settings, show: Show, *, tenant: str | None = None, retry_parked: bool = False) -> WaitingWork:
    """Index and learn until nothing waits (of a tenant); what is left is what was given up. ``retry_parked``: what was
    given up before is tried again.

    Raises:
        ConfigError: learning is switched off.
        MemproxyError: nothing moved for `STALLED_AFTER_S` seconds; the message says what waits.
    """
    if not settings.learn.enabled:
        raise ConfigError("learn.enabled is false: there is nothing to drain. Switch it on, for this run at least.")
    loop, warned = asyncio.get_running_loop(), False
    async with installation(settings) as running:
        waiting = await _waiting_work(running, tenant, retry_parked=retry_parked)
        total, moved = waiting.steps, loop.time()
        while waiting.steps:
            await asyncio.sleep(POLL_S)
            previous, waiting = waiting, await _waiting_work(running, tenant)
            total = max(total, waiting.steps)
            show(total - waiting.steps, total)
            if waiting != previous:
                moved = loop.time()
            elif loop.time() - moved > STALLED_AFTER_S:
                raise MemproxyError(f"{waiting.why_stalled} Nothing moved for {STALLED_AFTER_S:.0f} seconds.")
            elif loop.time() - moved > WARNED_AFTER_S and not warned:
                typer.echo(f"{waiting.why_stalled} Waiting for {STALLED_AFTER_S:.0f} seconds.", err=True)
                warned = True
    return waiting


async def _waiting_work(running: Installation, tenant: str | None, *, retry_parked: bool = False) -> WaitingWork:
    params = {"everybody": str(tenant is None).lower(), "retry_parked": str(retry_parked).lower()}
    answer = await running.call("POST", LEARNING_PATH, tenant=tenant, params=params)
    queues = answer["queues"]
    open_rows = {lane: states.get("waiting", 0) + states.get("running", 0) for lane, states in queues.items()}
    return WaitingWork(
        index=open_rows.get("index", 0),
        learn=open_rows.get("learn", 0),
        sessions=answer["sessions"],
        parked=sum(states.get("parked", 0) for states in queues.values()),
    )


async def forget(settings: Settings, *, tenant: str | None, user: str, session: str | None) -> int:
    """Forget everything of a user, or undo one of its conversations; how many memories went."""
    path = f"users/{piece_of_path(user)}" if session is None else f"sessions/{piece_of_path(session)}"
    answer = await call_once(settings, "DELETE", f"/v1/memory/{path}", tenant=tenant, user=user)
    return int(answer["deleted"])


async def reindex(settings: Settings, show: Show) -> ReindexTold:
    """Write every memory into a new collection with the configured embedder, and switch to it.

    With a server running, it does so, and serves meanwhile. What an earlier run left unfinished is gone on with.
    """
    embedding = settings.embedding
    request = ReindexAsked(provider=embedding.provider, model=embedding.model, dimension=embedding.dimension)
    async with installation(without_learning(settings), refused_too=True) as running:
        return await running.finish(REINDEX_PATH, request, ReindexTold, show)


async def prune(settings: Settings, *, tenant: str | None, user: str | None, dry_run: bool) -> dict[str, int]:
    """What was pruned (or would be), by reason."""
    async with installation(without_learning(settings)) as held:
        if held.in_process is not None:
            await held.in_process.pause_pruning()
        if user is not None:
            body = {"user_id": user, "dry_run": dry_run}
            return dict((await held.call("POST", "/v1/memory/prune", tenant=tenant, user=user, json=body))["reasons"])
        params = {"dry_run": str(dry_run).lower(), "everybody": str(tenant is None).lower()}
        return dict((await held.call("POST", PRUNE_PATH, tenant=tenant, params=params))["pruned"])


async def dream(
    settings: Settings, show: Show, *, tenant: str | None, user: str | None, dry_run: bool
) -> list[dict[str, Any]]:
    """The dreams of everybody (of a tenant) or of one user, one after the other, as the API tells of each.

    Raises:
        MemproxyError: one could not be begun; those before it are done.
    """
    async with installation(without_learning(settings)) as running:
        owners = [(tenant, user)]
        if user is None:
            params = {"everybody": str(tenant is None).lower()}
            owners = (await running.call("GET", OWNERS_PATH, tenant=tenant, params=params))["data"]
        dreams: list[dict[str, Any]] = []
        for index, (of, who) in enumerate(owners):
            whose: dict[str, Any] = {"tenant": of, "user": who}
            answer = await running.call("POST", "/v1/memory/dream", json={"dry_run": dry_run}, **whose)
            while answer["state"] in {"waiting", "running"}:
                if len(owners) == 1:
                    show(answer["looked_at"], answer["entries"])
                await asyncio.sleep(POLL_S)
                answer = await running.call("GET", f"/v1/memory/dreams/{answer['id']}", **whose)
            dreams.append({"tenant": of, **answer})
            show(index + 1, len(owners))
        return dreams


def _dream_lines(dreamt: dict[str, Any], *, everything: bool) -> Iterator[str]:
    counts = ", ".join(f"{count} {action}" for action, count in dreamt["counts"].items() if count)
    named = f" ({dreamt['id']})" if dreamt["id"] else ""
    looked = f"{dreamt['looked_at']} of {dreamt['entries']} entries"
    yield f"{dreamt['user_id']}: {looked}, {counts or 'nothing to do'}{named}"
    yield from (f"  {note}" for note in (dreamt["error"], *dreamt["notes"]) if note)
    for change in dreamt["diff"] if everything else ():
        yield f"  {change['action']} ({change['reason']}): {_beginning(change['content'])}"
        yield from (f"    - {_beginning(source['content'])}" for source in change["sources"])
        yield from (f"    {name}: {old} -> {new}" for name, (old, new) in change["fields"].items())


def _beginning(text: str | None) -> str:
    plain = one_line(text or "(gone)")
    return plain if len(plain) <= MOST_SHOWN else f"{plain[:MOST_SHOWN]}…"


def _audit_line(entry: AuditEntry) -> str:
    """One entry as the command line shows it."""
    about = [f"{name}={value}" for name, value in (*entry.scope.items(), *entry.counts.items())]
    return "  ".join([f"{entry.at:%Y-%m-%dT%H:%M:%SZ}", f"tenant {entry.tenant}", entry.by, entry.action, *about])
