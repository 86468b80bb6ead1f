"""`/v1/memory/entities`, their timelines, and `/categories`: what is known, of whom, and since when."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from memproxy.api.calls import Call, operation
from memproxy.api.context import Backends, each_page, page_of
from memproxy.api.fields import Limit, Phrase
from memproxy.api.models import Cursor, Instant, PlacePageQuery, PlaceQuery, one_of
from memproxy.core.entities import Census, edges
from memproxy.core.memory import FACTS, Memory, Relation
from memproxy.core.palace import slug, subject_name
from memproxy.core.scope import Scope
from memproxy.ports import MemoryFilter


class EntitiesQuery(PlaceQuery):
    """`GET /v1/memory/entities`."""

    type: Literal["person", "place", "event", "item", "time"] | None = None
    prefix: Phrase | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class NamedEntity(msgspec.Struct):
    """What memories name, how often, and when last."""

    name: str
    type: Annotated[Any, one_of("person", "place", "event", "item", "time")]
    count: int
    last_seen: Instant


class Entities(msgspec.Struct):
    """One page of entities."""

    data: list[NamedEntity]
    next_cursor: str | None


@operation("GET", "/v1/memory/entities", "memory:read")
async def entities(api: Backends, call: Call, query: EntitiesQuery) -> Entities:
    """The people, places, events, items and times that memories name, most often named first.

    Counted over the newest memories that the caller sees.
    """
    scope = call.scope()
    census = Census(await api.state.palace_names(scope))

    def count(memories: list[Memory]) -> None:
        for memory in memories:
            census.add(memory)

    async for memories in each_page(api, scope, MemoryFilter(now=api.parts.clock.now())):
        # off the event loop: names are looked for in every word of what may be long texts
        await asyncio.to_thread(count, memories)
    prefix = slug(query.prefix) if query.prefix is not None else ""
    matching = [
        entity
        for key, entity in sorted(census.entities().items(), key=lambda item: (-item[1].count, item[0]))
        if query.type in {None, entity.type.value} and (key.startswith(prefix) or slug(entity.name).startswith(prefix))
    ]
    page, cursor = page_of("entities", matching, query.cursor, query.limit)
    data = [NamedEntity(entity.name, entity.type.value, entity.count, entity.last_seen) for entity in page]
    return Entities(data, cursor)


class TimelineEntry(msgspec.Struct, kw_only=True):
    """A relation of an entity, and the memory that tells it."""

    subject: str
    predicate: str
    object: str
    valid_from: datetime | None
    valid_to: datetime | None
    active: bool
    memory_id: str
    content: str | UnsetType = UNSET
    created_at: Instant | UnsetType = UNSET
    superseded_by: str | UnsetType | None = UNSET


class Timeline(msgspec.Struct):
    """One page of an entity's relations."""

    name: str
    data: list[TimelineEntry]
    next_cursor: str | None


@operation("GET", "/v1/memory/entities/{name}/timeline", "memory:read")
async def timeline(api: Backends, call: Call, query: PlacePageQuery) -> Timeline:
    """Every relation of an entity with its validity, oldest first."""
    scope, name = call.scope(), call.path["name"]
    main_names = await api.state.palace_names(scope)
    key, now = _main_name(main_names, name), api.parts.clock.now()

    def naming(memories: list[Memory]) -> list[tuple[datetime, Memory, Relation]]:
        return [
            (edge.valid_from or memory.created_at, memory, edge)
            for memory in memories
            for edge in edges(memory)
            if key in {_main_name(main_names, edge.subject), _main_name(main_names, edge.object)}
        ]

    entries: list[tuple[datetime, Memory, Relation]] = []
    async for memories in each_page(api, scope, MemoryFilter(kinds=FACTS, now=now)):
        # off the event loop: relations are read from what may be long texts
        entries += await asyncio.to_thread(naming, memories)
    entries.sort(key=lambda entry: (entry[0], entry[1].created_at))
    page, cursor = page_of("timeline", entries, query.cursor, query.limit)
    data = [
        TimelineEntry(
            **msgspec.structs.asdict(edge),
            active=memory.active and memory.superseded_by is None and (edge.valid_to is None or edge.valid_to > now),
            memory_id=memory.id,
            content=memory.content,
            created_at=memory.created_at,
            superseded_by=memory.superseded_by,
        )
        for _, memory, edge in page
    ]
    return Timeline(name, data, cursor)


def _main_name(main_names: Mapping[str, str], name: str) -> str:
    """The name by which an entity is known that may be called otherwise (its aliases and their main names)."""
    key = subject_name(name) if slug(name) else name.strip()  # of "?!" subject_name would make the user
    return main_names.get(key, key)


async def with_subcategories(api: Backends, scope: Scope, where: MemoryFilter) -> MemoryFilter:
    """The filter with everything below a category that is named with a slash at its end (``user-preferences/``)."""
    prefixes = tuple(f"{name.rstrip('*').rstrip('/')}/" for name in where.categories if name.endswith(("/", "/*")))
    if not prefixes:
        return where
    names = [name for name in where.categories if not name.endswith(("/", "/*"))]
    async for page in each_page(api, scope, MemoryFilter(kinds=FACTS, now=where.now)):
        names += [memory.category for memory in page if memory.category and memory.category.startswith(prefixes)]
    # prefixes are no category: they match nothing, where no category at all would match everything
    return msgspec.structs.replace(where, categories=tuple(dict.fromkeys(names)) or prefixes)


class CategoriesQuery(PlaceQuery):
    """`GET /v1/memory/categories`: the largest ``limit``, by default all."""

    limit: Limit | None = None


class Category(msgspec.Struct):
    """How many memories a category has."""

    category: str
    count: int
    active: int


class Categories(msgspec.Struct):
    """The categories, the largest first."""

    data: list[Category]


@operation("GET", "/v1/memory/categories", "memory:read")
async def categories(api: Backends, call: Call, query: CategoriesQuery) -> Categories:
    """How many memories each category has.

    Counted over the newest memories that the caller sees.
    """
    scope = call.scope()
    totals: Counter[str] = Counter()
    active: Counter[str] = Counter()
    async for page in each_page(api, scope, MemoryFilter(kinds=FACTS, now=api.parts.clock.now())):
        totals.update(memory.category for memory in page if memory.category)
        active.update(memory.category for memory in page if memory.category and memory.active)
    ordered = sorted(totals.items(), key=lambda item: (-item[1], item[0]))[: query.limit]
    return Categories([Category(name, count, active[name]) for name, count in ordered])
