"""``memproxy memories``: what is remembered of a user, for the operator of the installation.

No key is asked for: like ``export`` these commands go through the running server's private socket or open the store's
files, which only the account that memproxy runs under can do. ``admin`` keys, which reach over the network, still show
nobody's text. The audit log says what was looked at from here (`api.audit`).
"""

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Any, Literal

import typer

from memproxy.commands.installation import Installation, Refused, installation, without_learning
from memproxy.commands.options import (
    Config,
    Json,
    Session,
    Tenant,
    User,
    Yes,
    quiet_settings,
    show,
    tell_of_tenants,
    told_forgotten,
    whose,
)
from memproxy.commands.upkeep import forget as forget_user
from memproxy.core.text import piece_of_path
from memproxy.errors import MemproxyError
from memproxy.settings import Settings

app = typer.Typer(help="What is remembered of a user: look, search, forget.", no_args_is_help=True)

PAGE = 200
MOST_SHOWN = 50

Kind = Literal["semantic", "procedural", "episodic", "reflective", "turn"]
OneKind = Annotated[Kind | None, typer.Option("--kind", help="Of this kind alone.", show_default=False)]
MemoryId = Annotated[str, typer.Argument(help="Id of a memory, or its short form in a block.", metavar="ID")]

Memory = dict[str, Any]


@app.command("list")
def list_command(
    *,
    user: User,
    tenant: Tenant = None,
    kind: OneKind = None,
    session: Session = None,
    limit: Annotated[int, typer.Option("--limit", min=0, help="Newest memories to show; 0: all.")] = MOST_SHOWN,
    config: Config = None,
    json: Json = False,
) -> None:
    """List what is remembered of a user, newest first: facts, also those that hold no more, and messages."""
    query: dict[str, Any] = {
        "kind": [kind] if kind is not None else [],
        "session_id": [session] if session is not None else [],
    }
    memories, more = asyncio.run(_listed(quiet_settings(config), tenant, user, query, limit))
    show({"data": memories, "more": more}, map(_line, memories), as_json=json)
    if more:
        typer.echo(f"There are more than these {len(memories)}: --limit 0 lists all.", err=True)
    _end_if_nothing(memories, user, tenant)


async def _listed(
    settings: Settings, tenant: str | None, user: str, query: dict[str, Any], limit: int
) -> tuple[list[Memory], bool]:
    """The newest memories, and whether there are more."""
    memories: list[Memory] = []
    cursor: str | None = None
    async with installation(without_learning(settings)) as here:
        while True:
            page = {"limit": min(PAGE, limit - len(memories)) if limit else PAGE} | (
                {"cursor": cursor} if cursor else {}
            )
            answer = await here.call("GET", "/v1/memory", tenant=tenant, user=user, params=query | page)
            memories += answer["data"]
            cursor = answer["next_cursor"]
            if cursor is None or len(memories) == limit:
                return memories, cursor is not None


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to search for.", metavar="QUERY")],
    *,
    user: User,
    tenant: Tenant = None,
    kind: OneKind = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=PAGE, help="Most memories to show.")] = 10,
    config: Config = None,
    json: Json = False,
) -> None:
    """Search a user's memory as recall does, without its floor: score, kind, date and text, best first."""
    body = {"query": query, "kind": [kind] if kind is not None else [], "limit": limit}
    hits = asyncio.run(_searched(quiet_settings(config), tenant, user, body))
    show({"data": hits}, (f"{hit['score']:.2f}  {_line(hit['memory'])}" for hit in hits), as_json=json)
    _end_if_nothing(hits, user, tenant)


async def _searched(settings: Settings, tenant: str | None, user: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    async with installation(without_learning(settings)) as here:
        answer = await here.call("POST", "/v1/memory/search", tenant=tenant, user=user, json=body)
    hits: list[dict[str, Any]] = answer["data"]
    return hits


@app.command("show")
def show_command(
    memory_id: MemoryId, user: User, tenant: Tenant = None, config: Config = None, *, json: Json = False
) -> None:
    """Show one memory: what it says, what it was before, and the messages that it comes from."""
    details = asyncio.run(_shown(quiet_settings(config), tenant, user, memory_id))
    show(details, _sheet(details), as_json=json)


async def _shown(settings: Settings, tenant: str | None, user: str, memory_id: str) -> dict[str, Any]:
    async with installation(without_learning(settings)) as here:
        memory = await here.call("GET", f"/v1/memory/{piece_of_path(memory_id)}", tenant=tenant, user=user)
        path = f"/v1/memory/{piece_of_path(memory['id'])}/history"
        history = (await here.call("GET", path, tenant=tenant, user=user))["data"]
        names = [name for name in memory["turn_ids"] if name != memory["id"]]
        turns = {name: await _turn(here, tenant, user, name) for name in names}
    sources = [turn for turn in turns.values() if turn is not None]
    gone = [name for name, turn in turns.items() if turn is None]
    return {"memory": memory, "history": history, "sources": sources, "gone": gone}


async def _turn(here: Installation, tenant: str | None, user: str, name: str) -> Memory | None:
    """A message that a memory comes from; None: it was forgotten, or has expired."""
    try:
        turn: Memory = await here.call("GET", f"/v1/memory/{piece_of_path(name)}", tenant=tenant, user=user)
    except Refused as refused:
        if refused.status != 404:
            raise
        return None
    return turn


@app.command()
def forget(
    user: User,
    memory_ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of memories; without one everything of the user.", metavar="[ID]...", show_default=False
        ),
    ] = None,
    tenant: Tenant = None,
    config: Config = None,
    *,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Forget memories by their ids, or everything of a user. It cannot be taken back.

    With a message goes what was learned from it alone.
    """
    settings = quiet_settings(config)
    what = f"{', '.join(memory_ids)} of user {user!r}" if memory_ids else f"everything of user {user!r}"
    whole = partial(forget_user, settings, tenant=tenant, user=user, session=None)
    forgetting = partial(_forgotten, settings, tenant, user, memory_ids) if memory_ids else whole
    told_forgotten(forgetting, what, tenant, yes=yes, as_json=json)


async def _forgotten(settings: Settings, tenant: str | None, user: str, memory_ids: list[str]) -> int:
    """How many went. Raises `MemproxyError` when some were not there, and says how many went all the same."""
    gone, missing = 0, list[str]()
    async with installation(without_learning(settings)) as here:
        for memory_id in dict.fromkeys(memory_ids):
            try:
                answer = await here.call("DELETE", f"/v1/memory/{piece_of_path(memory_id)}", tenant=tenant, user=user)
            except Refused as refused:
                if refused.status != 404:
                    raise
                missing.append(memory_id)
            else:
                gone += int(answer["deleted"])
    if missing:
        others = f"; {gone} memories were forgotten" if gone else ""
        raise MemproxyError(f"No memory has the id {', '.join(map(repr, missing))}{others}.")
    return gone


def _end_if_nothing(results: list[Any], user: str, tenant: str | None) -> None:
    """Say that nothing was found, and end with 1, as a search that finds nothing does elsewhere."""
    if results:
        return
    typer.echo(f"Nothing was found of user {user!r} of {whose(tenant)}.", err=True)
    tell_of_tenants(tenant)
    raise typer.Exit(1)


def _line(memory: Memory) -> str:
    """Kind, date and text of a memory on one line, its id last."""
    until = f" (until {memory['valid_to'][:10]})" if memory["valid_to"] else "" if memory["active"] else " (no more)"
    return f"{memory['kind']:10}  {_date(memory)}{until}  {_plain(memory['content'])}  [{_plain(memory['id'])}]"


def _date(memory: Memory) -> str:
    return str(memory["valid_from"] or memory["created_at"])[:10]


def _plain(text: str) -> str:
    """What somebody said as one line, without what a terminal would obey."""
    return "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in " ".join(text.split())
    )


def _sheet(details: dict[str, Any]) -> Iterator[str]:
    memory = details["memory"]
    yield _plain(memory["content"])
    yield ""
    for name in ("id", "kind", "category", "source", "trust", "confidence", "session_id", "project_id", "agent_id"):
        if memory[name] is not None:
            yield f"{name:11} {_plain(str(memory[name]))}"
    yield f"{'learned':11} {memory['created_at']}"
    holds = " to ".join(filter(None, (memory["valid_from"] or memory["created_at"], memory["valid_to"])))
    yield f"{'holds':11} {holds if memory['active'] or memory['valid_to'] else f'{holds}, no more'}"
    if len(details["history"]) > 1:
        yield from ("", "History, oldest first:", *(f"  {_line(version)}" for version in details["history"]))
    if details["sources"] or details["gone"]:
        yield from ("", "It comes from:")
        for turn in details["sources"]:
            who = turn["metadata"].get("role", "turn")
            yield f"  {_date(turn)}  {who}: {_plain(turn['content'])}  [{_plain(turn['id'])}]"
        if details["gone"]:
            yield f"  {len(details['gone'])} messages that are not kept any more"
