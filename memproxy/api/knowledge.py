"""`/v1/memory/entities`, their timelines, `/categories` and `/{id}/history`: what is known, of whom, and since when."""

import asyncio
from collections import Counter
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends, find
from memproxy.api.http import answer, caller, read_query
from memproxy.api.pages import each_page, number_after, opened_place, read_cursor, sealed_place, write_cursor
from memproxy.api.queries import CategoriesQuery, EntitiesQuery, OneShownQuery, TimelineQuery
from memproxy.api.versions import list_answer
from memproxy.auth import resolve_scope
from memproxy.core.entities import Census, Edge, Entity, EntityType, edges, key_of
from memproxy.core.memory import Kind, Memory, to_public
from memproxy.core.palace import slug
from memproxy.core.scope import Scope
from memproxy.errors import NotFound, RequestError
from memproxy.ports import MemoryFilter

FACTS = tuple(kind for kind in Kind if kind is not Kind.TURN)
LONGEST_HISTORY = 1_000


class Knowledge:
    """The calls about what memories say of things, over all of them."""

    def __init__(self, backends: Backends) -> None:
        self._backends = backends

    async def history(self, request: Request) -> Response:
        """`GET /v1/memory/{id}/history`: the supersession chain, oldest first, as far as it is still there."""
        identity = caller(request, "memory:read")
        query = read_query(request, OneShownQuery)
        scope = resolve_scope(
            identity, user=query.user_id, project=query.project_id, agent=query.agent_id, session=query.session_id
        )
        memory = await find(self._backends, scope, request.path_params["memory_id"])
        seen = {memory.id}
        before = await self._followed(scope, memory, "supersedes", seen)
        after = await self._followed(scope, memory, "superseded_by", seen)
        chain = (*before[::-1], memory, *after)
        return list_answer(request, {"data": [to_public(one, nulls=query.nulls) for one in chain]})

    async def _followed(self, scope: Scope, memory: Memory, link: str, seen: set[str]) -> list[Memory]:
        found: list[Memory] = []
        name: str | None = getattr(memory, link)
        while name is not None and name not in seen and len(found) < LONGEST_HISTORY:
            seen.add(name)
            try:
                following = await find(self._backends, scope, name)
            except NotFound:  # forgotten or expired: the chain ends there
                break
            found.append(following)
            name = getattr(following, link)
        return found

    async def entities(self, request: Request) -> Response:
        """`GET /v1/memory/entities`: what memories name, most often named first."""
        identity = caller(request, "memory:read")
        query = read_query(request, EntitiesQuery)
        scope = resolve_scope(identity, user=query.user_id, project=query.project_id, agent=query.agent_id)
        after = self._after(query.cursor)
        known = await self._census(scope)
        wanted = sorted((-one.count, key, one) for key, one in known.items() if _is_wanted(key, one, query))
        following = [each for each in wanted if each[:2] > after]
        page, more = following[: query.limit], following[query.limit :]
        cursor = self._cursor(*page[-1][:2]) if more else None
        return answer({"data": [one for _, _, one in page], "next_cursor": cursor})

    def _cursor(self, count: int, key: str) -> str:
        # the key may be a name for it that was told in another project than the caller's
        return write_cursor("entities", count, sealed_place(self._backends.secret, key))

    def _after(self, cursor: str | None) -> tuple[int, str]:
        place = read_cursor("entities", cursor)
        if cursor is None:
            return -(2**62), ""
        if len(place) != 2 or not isinstance(place[0], int):
            raise RequestError("cursor: is not one of this list; take next_cursor of its last page.", param="cursor")
        return place[0], opened_place(self._backends.secret, place[1])

    async def _census(self, scope: Scope) -> dict[str, Entity]:
        self._backends.require_store()
        self._backends.require_state()
        census = Census(await self._backends.state.palace_names(scope))
        where = MemoryFilter(now=self._backends.clock.now())
        async for page in each_page(self._backends, scope, where):
            # off the event loop: names are looked for in every word of what may be long texts
            await asyncio.to_thread(_count, census, page)
        return census.entities()

    async def timeline(self, request: Request) -> Response:
        """`GET /v1/memory/entities/{name}/timeline`: every relation of it, oldest first, what ended included."""
        identity = caller(request, "memory:read")
        query = read_query(request, TimelineQuery)
        scope = resolve_scope(identity, user=query.user_id, project=query.project_id, agent=query.agent_id)
        after = number_after("timeline", query.cursor)
        name = request.path_params["name"]
        found = await self._edges(scope, name)
        page = found[after : after + query.limit]
        more = len(found) > after + query.limit
        cursor = write_cursor("timeline", after + query.limit) if more else None
        return answer({"name": name, "data": page, "next_cursor": cursor})

    async def _edges(self, scope: Scope, name: str) -> list[dict[str, Any]]:
        self._backends.require_store()
        self._backends.require_state()
        same = await self._backends.state.palace_names(scope)
        wanted, now = _key(same, name), self._backends.clock.now()
        found: list[tuple[datetime, Memory, Edge]] = []
        async for page in each_page(self._backends, scope, MemoryFilter(kinds=FACTS, now=now)):
            # off the event loop: relations are read from what may be long texts
            found += await asyncio.to_thread(_naming, page, wanted, same)
        found.sort(key=lambda each: (each[0], each[1].created_at))
        return [_told(memory, edge, ended=_ended(edge, now)) for _, memory, edge in found]

    async def categories(self, request: Request) -> Response:
        """`GET /v1/memory/categories`: how many memories each category has, the largest first."""
        identity = caller(request, "memory:read")
        query = read_query(request, CategoriesQuery)
        scope = resolve_scope(identity, user=query.user_id, project=query.project_id, agent=query.agent_id)
        self._backends.require_store()
        totals: Counter[str] = Counter()
        active: Counter[str] = Counter()
        where = MemoryFilter(kinds=FACTS, now=self._backends.clock.now())
        async for page in each_page(self._backends, scope, where):
            totals.update(memory.category for memory in page if memory.category)
            active.update(memory.category for memory in page if memory.category and memory.active)
        ordered = sorted(totals.items(), key=lambda each: (-each[1], each[0]))[: query.limit]
        return answer({"data": [{"category": name, "count": n, "active": active[name]} for name, n in ordered]})


def _naming(memories: list[Memory], wanted: str, same: dict[str, str]) -> list[tuple[datetime, Memory, Edge]]:
    """The relations that name it, each with its memory and since when it holds."""
    return [
        (edge.valid_from or memory.created_at, memory, edge)
        for memory in memories
        for edge in edges(memory)
        if wanted in {_key(same, edge.subject), _key(same, edge.object)}
    ]


def _count(census: Census, memories: list[Memory]) -> None:
    for memory in memories:
        census.add(memory)


def _key(same: dict[str, str], name: str) -> str:
    key = key_of(name) if slug(name) else name.strip()  # a name without letters or numbers is not the user's
    return same.get(key, key)


def _is_wanted(key: str, one: Entity, query: EntitiesQuery) -> bool:
    if query.type is not None and one.type is not EntityType(query.type):
        return False
    prefix = slug(query.prefix) if query.prefix is not None else ""
    return key.startswith(prefix) or slug(one.name).startswith(prefix)


def _ended(edge: Edge, now: Any) -> bool:
    return not edge.active or (edge.valid_to is not None and edge.valid_to <= now)


def _told(memory: Memory, edge: Edge, *, ended: bool) -> dict[str, Any]:
    return {
        "subject": edge.subject,
        "predicate": edge.predicate,
        "object": edge.object,
        "valid_from": edge.valid_from,
        "valid_to": edge.valid_to,
        "active": not ended,
        "memory_id": memory.id,
        "content": memory.content,
        "created_at": memory.created_at,
        "superseded_by": memory.superseded_by,
    }
