"""The tools and resources that an agent is offered, each of them one call of the memory API."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError
from mcp.types import ToolAnnotations
from pydantic import Field

import memproxy
from memproxy.core.dream import PERMISSION
from memproxy.core.memory import PLANTED, Trust
from memproxy.core.text import piece_of_path
from memproxy.core.working_memory import MAX_TTL_S

INSTRUCTIONS = (
    "Long-term memory of one user. Save what is worth knowing in later conversations, search before you ask the user "
    "again. Working memory is scratch space that agents of this user share for minutes: keys such as "
    "session/abc/notes, at most 50 entries below the same first two pieces."
)

_READS = ToolAnnotations(readOnlyHint=True, openWorldHint=False)
_ADDS = ToolAnnotations(readOnlyHint=False, destructiveHint=False, openWorldHint=False)
_REPLACES = ToolAnnotations(readOnlyHint=False, destructiveHint=True, idempotentHint=True, openWorldHint=False)

Limit = Annotated[int, Field(ge=1, le=200)]
Key = Annotated[str, Field(description="A path such as session/abc/notes; the first two pieces are its namespace.")]
Category = Annotated[str, Field(description="Such as user-preferences/timezone.")]


_SHOWN = (
    *("id", "kind", "content", "category", "tags", "trust", "created_at", "valid_from", "valid_to"),
    *("project_id", "agent_id", "session_id"),
)
"""Fields of a memory that a search shows, those that have a value."""

Answer = dict[str, Any]
"""What the API answers; an agent gets it as structured content."""


MemoryApi = Callable[..., Awaitable[Answer]]
"""Makes one call of the memory API: given the tool's `Context`, method, path, and httpx's ``params`` and ``json``. Its
answer is empty where the API answers nothing. Raises what `refused` makes of the API's message.
"""


def refused(message: str) -> ResourceError:
    """A refusal that the agent reads, of a tool as of a resource."""
    return ResourceError(message)


def make_server(api: MemoryApi) -> MCPServer[Any]:
    """A server of all tools and resources over these calls."""
    server: MCPServer[Any] = MCPServer("memproxy", instructions=INSTRUCTIONS, version=memproxy.__version__)
    _add_memory_tools(server, api)
    _add_working_tools(server, api)
    _add_resources(server, api)
    return server


def _add_memory_tools(server: MCPServer[Any], api: MemoryApi) -> None:
    @server.tool(annotations=_ADDS)
    async def save_memory(
        context: Context[Any, Any],
        content: Annotated[str, Field(description="One fact in a sentence that says whose it is.", max_length=100_000)],
        category: Category | None = None,
        tags: list[str] | None = None,
    ) -> Answer:
        """Remember something about the user or the work for later conversations."""
        fields = {"content": content, "category": category, "tags": tags, "trust": "tool", "refine": True}
        return await api(context, "POST", "/v1/memory", params={"omit": "null"}, json=_without_nulls(fields))

    @server.tool(annotations=_READS)
    async def search_memory(
        context: Context[Any, Any],
        query: Annotated[str, Field(description="What is to be known, in words.")],
        limit: Limit = 8,
        category: Annotated[
            str | None, Field(description="One of them; with a slash at its end (user-preferences/) all below it.")
        ] = None,
    ) -> Answer:
        """Find what is remembered, best first: facts, and the user's own words."""
        body = {"query": query, "limit": limit, "category": category, "omit": "null", "quarantined": False}
        answer = await api(context, "POST", "/v1/memory/search", json=_without_nulls(body))
        return {"data": [_shown_memory(hit) for hit in answer["data"] if not _is_withheld(hit["memory"])]}

    @server.tool(annotations=_REPLACES)
    async def delete_memory(context: Context[Any, Any], memory_id: str) -> Answer:
        """Forget one memory, by its id or the short one that a recalled line shows (m:1a2b3c4d)."""
        await api(context, "DELETE", f"/v1/memory/{piece_of_path(memory_id)}")
        return {"deleted": memory_id}

    @server.tool(annotations=_READS)
    async def list_memory_categories(context: Context[Any, Any]) -> Answer:
        """The categories and tags in use, with counts."""
        return await api(context, "GET", "/v1/memory/categories")


def _add_working_tools(server: MCPServer[Any], api: MemoryApi) -> None:
    @server.tool(annotations=_REPLACES)
    async def save_to_working_memory(  # noqa: PLR0917 - an agent names them
        context: Context[Any, Any],
        key: Key,
        data: Annotated[Any, Field(description="Any JSON.")],
        ttl_minutes: Annotated[
            float | None, Field(gt=0, le=MAX_TTL_S / 60, description="How long it lives; 5 minutes by default.")
        ] = None,
        category: str | None = None,
        tags: list[str] | None = None,
    ) -> Answer:
        """Keep something for other agents, or for a later step, for some minutes."""
        options = _without_nulls({"ttl_s": ttl_minutes and ttl_minutes * 60, "category": category, "tags": tags})
        return await api(context, "PUT", _working_path(key), json={"data": data, **options})

    @server.tool(annotations=_READS)
    async def get_from_working_memory(context: Context[Any, Any], key: Key) -> Answer:
        """Read one entry with its data, of any namespace of this user."""
        return await api(context, "GET", _working_path(key))

    @server.tool(annotations=_READS)
    async def list_working_memory(
        context: Context[Any, Any],
        prefix: str = "",
        category: str | None = None,
        tag: str | None = None,
        cursor: Annotated[str | None, Field(description="The next_cursor of the page before.")] = None,
    ) -> Answer:
        """What is there, without the data, 200 entries a page."""
        params = _without_nulls({"prefix": prefix, "category": category, "tag": tag, "limit": 200, "cursor": cursor})
        return await api(context, "GET", "/v1/memory/working", params=params)

    @server.tool(annotations=_READS)
    async def search_working_memory(
        context: Context[Any, Any], query: str, prefix: str = "", limit: Limit = 10
    ) -> Answer:
        """Find entries by words in keys, categories, tags and data."""
        body = {"query": query, "prefix": prefix, "limit": limit}
        return await api(context, "POST", "/v1/memory/working/search", json=body)


def _add_resources(server: MCPServer[Any], api: MemoryApi) -> None:
    @server.resource("memory://memories/{memory_id}", mime_type="application/json")
    async def memory(context: Context[Any, Any], memory_id: str) -> Any:
        """One memory."""
        return await api(context, "GET", f"/v1/memory/{piece_of_path(memory_id)}")

    @server.resource("memory://memories/{memory_id}/history", mime_type="application/json")
    async def history(context: Context[Any, Any], memory_id: str) -> Any:
        """What a memory replaced and what replaced it, oldest first."""
        return await api(context, "GET", f"/v1/memory/{piece_of_path(memory_id)}/history")

    @server.resource("memory://receipts/{request_id}", mime_type="application/json")
    async def receipt(context: Context[Any, Any], request_id: str) -> Any:
        """Why a request was given what it was given."""
        return await api(context, "GET", f"/v1/memory/receipts/{piece_of_path(request_id)}")

    @server.resource("memory://entities/{name}/timeline", mime_type="application/json")
    async def timeline(context: Context[Any, Any], name: str) -> Any:
        """What is known of a person or thing, and when it held."""
        return await api(context, "GET", f"/v1/memory/entities/{piece_of_path(name)}/timeline")


def _is_withheld(memory: dict[str, Any]) -> bool:
    """Whether a memory is given to no model yet (`recall.select`): a person who searches is shown it."""
    by_user, metadata = memory["trust"] == Trust.USER, memory["metadata"]
    return metadata.get(PERMISSION) is True or (not by_user and metadata.get(PLANTED) is True)


def _shown_memory(hit: dict[str, Any]) -> Answer:
    """What a model needs of a memory that was found: it reads all of it, and the rest is a resource."""
    shown = {name: hit["memory"][name] for name in _SHOWN if hit["memory"].get(name)}
    return {"memory": shown, "score": round(hit["score"], 3)}


def _without_nulls(fields: dict[str, Any]) -> Answer:
    return {name: value for name, value in fields.items() if value is not None}


def _working_path(key: str) -> str:
    return "/".join(["/v1/memory/working", *map(piece_of_path, key.split("/"))])
