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

from memproxy.api.fields import CALL_NAMES
from memproxy.commands.installation import call_once, installation, without_learning
from memproxy.commands.options import (
    Config,
    Json,
    Session,
    Tenant,
    User,
    Yes,
    one_line,
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


def reachable(ids: str | list[str] | None) -> str | list[str] | None:
    """Ids of memories as a path can name them. Raises `BadParameter`: one would lead to another call of the API."""
    for memory_id in [ids] if isinstance(ids, str) else ids or ():
        if not memory_id or memory_id in CALL_NAMES:
            raise typer.BadParameter(f"{memory_id!r}: no memory has such an id.")
    return ids


MemoryId = Annotated[
    str, typer.Argument(help="Id of a memory, or its short form in a block.", metavar="ID", callback=reachable)
]

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
    query = {name: value for name, value in (("kind", kind), ("session_id", session)) if value is not None}
    memories, more = asyncio.run(_list(quiet_settings(config), tenant, user, query, limit))
    show({"data": memories, "more": more}, map(_line, memories), as_json=json)
    if more:
        typer.echo(f"There are more than these {len(memories)}: --limit 0 lists all.", err=True)
    _end_if_nothing(memories, user, tenant)


async def _list(
    settings: Settings, tenant: str | None, user: str, query: dict[str, str], limit: int
) -> tuple[list[Memory], bool]:
    """The newest memories, and whether there are more."""
    memories: list[Memory] = []
    params: dict[str, Any] = dict(query)
    async with installation(without_learning(settings)) as running:
        while True:
            params["limit"] = min(PAGE, limit - len(memories)) if limit else PAGE
            answer = await running.call("GET", "/v1/memory", tenant=tenant, user=user, params=params)
            memories += answer["data"]
            params["cursor"] = answer["next_cursor"]
            if params["cursor"] is None or len(memories) == limit:
                return memories, params["cursor"] is not None


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
    searching = call_once(quiet_settings(config), "POST", "/v1/memory/search", tenant=tenant, user=user, json=body)
    hits: list[dict[str, Any]] = asyncio.run(searching)["data"]
    show({"data": hits}, (f"{hit['score']:.2f}  {_line(hit['memory'])}" for hit in hits), as_json=json)
    _end_if_nothing(hits, user, tenant)


@app.command("show")
def show_command(
    memory_id: MemoryId, user: User, tenant: Tenant = None, config: Config = None, *, json: Json = False
) -> None:
    """Show one memory: what it says, what it was before, and the messages that it comes from."""
    details = asyncio.run(_memory_fields(quiet_settings(config), tenant, user, memory_id))
    show(details, _sheet(details), as_json=json)


async def _memory_fields(settings: Settings, tenant: str | None, user: str, memory_id: str) -> dict[str, Any]:
    whose = {"tenant": tenant, "user": user}
    async with installation(without_learning(settings)) as running:
        memory = await running.call("GET", f"/v1/memory/{piece_of_path(memory_id)}", **whose)
        history = await running.call("GET", f"/v1/memory/{piece_of_path(memory['id'])}/history", **whose)
        turns = {
            name: await running.call_if_there("GET", f"/v1/memory/{piece_of_path(name)}", **whose)
            for name in memory["turn_ids"]
            if name != memory["id"]
        }
    sources = [turn for turn in turns.values() if turn is not None]
    gone = [name for name, turn in turns.items() if turn is None]  # forgotten, or expired
    return {"memory": memory, "history": history["data"], "sources": sources, "gone": gone}


@app.command()
def forget(
    user: User,
    memory_ids: Annotated[
        list[str] | None,
        typer.Argument(
            help="Ids of memories; without one everything of the user.",
            metavar="[ID]...",
            show_default=False,
            callback=reachable,
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
    subject = f"{', '.join(memory_ids)} of user {user!r}" if memory_ids else f"everything of user {user!r}"
    whole = partial(forget_user, settings, tenant=tenant, user=user, session=None)
    forgetting = partial(_forget, settings, tenant, user, memory_ids) if memory_ids else whole
    told_forgotten(forgetting, subject, tenant, yes=yes, as_json=json)


async def _forget(settings: Settings, tenant: str | None, user: str, memory_ids: list[str]) -> int:
    """How many went. Raises `MemproxyError` when some were not there, and says how many went all the same."""
    gone, missing = 0, list[str]()
    async with installation(without_learning(settings)) as running:
        for memory_id in dict.fromkeys(memory_ids):
            path = f"/v1/memory/{piece_of_path(memory_id)}"
            answer = await running.call_if_there("DELETE", path, tenant=tenant, user=user)
            if answer is None:
                missing.append(memory_id)
            else:
                gone += int(answer["deleted"])
    if missing:
        done = f"; {gone} memories were forgotten" if gone else ""
        raise MemproxyError(f"No memory has the id {', '.join(map(repr, missing))}{done}.")
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
    return f"{memory['kind']:10}  {_date(memory)}{until}  {one_line(memory['content'])}  [{one_line(memory['id'])}]"


def _date(memory: Memory) -> str:
    return str(memory["valid_from"] or memory["created_at"])[:10]


def _sheet(details: dict[str, Any]) -> Iterator[str]:
    memory = details["memory"]
    yield one_line(memory["content"])
    yield ""
    for name in ("id", "kind", "category", "source", "trust", "confidence", "session_id", "project_id", "agent_id"):
        if memory[name] is not None:
            yield f"{name:11} {one_line(str(memory[name]))}"
    yield f"{'learned':11} {memory['created_at']}"
    holds = " to ".join(filter(None, (memory["valid_from"] or memory["created_at"], memory["valid_to"])))
    yield f"{'holds':11} {holds if memory['active'] or memory['valid_to'] else f'{holds}, no more'}"
    if len(details["history"]) > 1:
        yield from ("", "History, oldest first:", *(f"  {_line(version)}" for version in details["history"]))
    if details["sources"] or details["gone"]:
        yield from ("", "It comes from:")
        for turn in details["sources"]:
            who = turn["metadata"].get("role", "turn")
            yield f"  {_date(turn)}  {who}: {one_line(turn['content'])}  [{one_line(turn['id'])}]"
        if details["gone"]:
            yield f"  {len(details['gone'])} messages that are not kept any more"
