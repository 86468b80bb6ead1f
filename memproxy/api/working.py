"""Working memory: entries that agents hand to each other for some minutes (`core.working_memory`)."""

import asyncio
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, Field

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import Backends, foreign_cursor, read_cursor, write_cursor
from memproxy.api.fields import Label, Limit, Name, Query, check_text
from memproxy.api.models import Body, Cursor, Instant, PlaceQuery
from memproxy.core.redact import redact
from memproxy.core.scope import Scope
from memproxy.core.working_memory import MAX_KEY, MAX_TTL_S, Place, WorkingEntry, check_key, may_write, words_of
from memproxy.errors import BodyTooLarge, Conflict, Forbidden, NotFound, RequestError
from memproxy.recall.documents import word_scores

LOOKED_THROUGH = 2_000
"""Entries that a search looks at: those changed last, or with a prefix, category or tag the first such ones by key."""

READ_AT_ONCE = 1_000
"""Entries that are read at once where few of them are shown; others use the state between two readings."""

SNIPPET = 200
"""Characters of an entry that a search shows."""


Prefix = Annotated[str, Field(max_length=MAX_KEY), AfterValidator(check_text)]


class WorkingBody(Body):
    """`PUT /v1/memory/working/{key}`. ``data`` is any JSON. Without ``ttl_s`` an entry lives ``working.default_ttl_s``
    seconds.
    """

    data: Any
    ttl_s: Annotated[float, Field(gt=0, le=MAX_TTL_S)] | None = None
    category: Label | None = None
    tags: Annotated[list[Label], Field(max_length=100)] | None = None
    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None


class WorkingQuery(PlaceQuery):
    """`GET /v1/memory/working`."""

    prefix: Prefix = ""
    category: Label | None = None
    tag: Label | None = None
    limit: Limit = 50
    cursor: Cursor | None = None


class WorkingSearch(Body):
    """`POST /v1/memory/working/search`."""

    query: Query
    prefix: Prefix = ""
    category: Label | None = None
    tag: Label | None = None
    limit: Limit = 10
    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None


class WorkingInfo(msgspec.Struct):
    """An entry without its data; ``size`` is that of the data's JSON, in bytes."""

    key: str
    namespace: str
    size: int
    category: str | None
    tags: list[str]
    project_id: str | None
    agent_id: str | None
    created_at: Instant
    updated_at: Instant
    expires_at: Instant


class WorkingItem(WorkingInfo):
    """An entry with its data."""

    data: Any


class EntryPage(msgspec.Struct):
    """Entries by their keys."""

    data: list[WorkingInfo]
    next_cursor: str | None


class WorkingHit(msgspec.Struct):
    """An entry that a search found, its score (BM25, within these entries), and how its text begins."""

    entry: WorkingInfo
    score: float
    snippet: str


class WorkingHits(msgspec.Struct):
    """Best first."""

    data: list[WorkingHit]


@operation("PUT", "/v1/memory/working/{key:path}", "memory:write", statuses=(200, 201), errors=(409, 413))
async def put_entry(api: Backends, call: Call, body: WorkingBody) -> Reply[WorkingInfo]:
    """Keep an entry of working memory."""
    key, scope, settings = _key(call), call.scope(), api.parts.settings.working
    if not may_write(scope, key):
        raise Forbidden(
            f"{key}: another session's or agent's namespace. Write below session/{scope.session or '…'} or agent/"
            f"{scope.agent or '…'}; every key of the same user can be read."
        )
    data = redact(msgspec.json.encode(body.data).decode(), api.redacted)
    if (size := len(data.encode())) > settings.max_value_bytes:
        raise BodyTooLarge(
            f"data: {size:,} bytes of JSON, at most {settings.max_value_bytes:,} are kept (working.max_value_bytes)."
        )
    now = api.parts.clock.now()
    ttl_s = settings.default_ttl_s if body.ttl_s is None else body.ttl_s
    entry = WorkingEntry(
        key=key,
        created_at=now,
        updated_at=now,
        expires_at=now + timedelta(seconds=ttl_s),
        size=size,
        category=body.category,
        tags=body.tags or [],
        project=scope.project,
        agent=scope.agent,
        data=data.encode(),
        words=words_of(key, body.category, body.tags or [], msgspec.json.decode(data)),
    )
    api.require("state")
    new = await api.working.put_working(scope, entry, most=settings.max_entries_per_namespace)
    if new is None:
        raise Conflict(
            f"{entry.namespace}: the namespace holds {settings.max_entries_per_namespace} entries, the most that it "
            "may (working.max_entries_per_namespace). Delete one, or wait until one expires."
        )
    return Reply(_info(entry), 201 if new else 200)


@operation("GET", "/v1/memory/working/{key:path}", "memory:read", query=PlaceQuery, errors=(404,))
async def get_entry(api: Backends, call: Call) -> WorkingItem:
    """Read an entry of working memory."""
    key = _key(call)
    api.require("state")
    entry = await api.working.working(call.scope(), key, api.parts.clock.now())
    if entry is None:
        raise _not_there(key)
    return WorkingItem(**msgspec.structs.asdict(_info(entry)), data=msgspec.json.decode(entry.data or b"null"))


@operation("DELETE", "/v1/memory/working/{key:path}", "memory:write", query=PlaceQuery, statuses=(204,), errors=(404,))
async def delete_entry(api: Backends, call: Call) -> Reply[None]:
    """Delete an entry of working memory."""
    key, scope = _key(call), call.scope()
    if not may_write(scope, key):
        raise Forbidden(f"{key}: another session's or agent's namespace, which can be read and not written.")
    api.require("state")
    if not await api.working.drop_working(scope, key, api.parts.clock.now()):
        raise _not_there(key)
    return Reply(None, 204)


@operation("GET", "/v1/memory/working", "memory:read")
async def list_entries(api: Backends, call: Call, query: WorkingQuery) -> EntryPage:
    """List what is in working memory, without the data.

    In the order of their keys; where they are encrypted, in another one that stays the same.
    """
    api.require("state")
    match read_cursor("working", query.cursor):
        case []:
            begin = None
        case [str(key), str(project)]:
            begin = (key, project)
        case _:
            raise foreign_cursor()
    entries, after = await _entries(api, call.scope(), query, after=begin, most=query.limit)
    return EntryPage([_info(entry) for entry in entries], write_cursor("working", *after) if after else None)


@operation("POST", "/v1/memory/working/search", "memory:read", repeatable=False)
async def search_entries(api: Backends, call: Call, body: WorkingSearch) -> WorkingHits:
    """Search working memory by words.

    Keys, categories, tags and the texts of the data, of the entries changed last.
    """
    api.require("state")
    scope = call.scope()
    if body.prefix or body.category or body.tag:
        entries, _ = await _entries(api, scope, body, most=LOOKED_THROUGH, words=True)
    else:
        entries = await api.working.newest_working(scope, api.parts.clock.now(), most=LOOKED_THROUGH, words=True)
    scores = await asyncio.to_thread(word_scores, api.parts.lexical, body.query, [entry.words for entry in entries])
    best = sorted(zip(scores, entries, strict=True), key=lambda hit: (-hit[0], hit[1].key))
    hits = [WorkingHit(_info(entry), score, entry.words[:SNIPPET]) for score, entry in best[: body.limit] if score > 0]
    return WorkingHits(hits)


async def _entries(
    api: Backends,
    scope: Scope,
    where: WorkingQuery | WorkingSearch,
    *,
    after: Place | None = None,
    most: int,
    words: bool = False,
) -> tuple[list[WorkingEntry], Place | None]:
    """The first entries behind a place, and the place behind which there are more."""
    entries: list[WorkingEntry] = []
    now, at_once, last = api.parts.clock.now(), min(most + 1, READ_AT_ONCE), after
    while True:
        page = await api.working.working_page(scope, where.prefix, now, after=after, most=at_once, words=words)
        for entry, place in zip(page.entries, page.places, strict=True):
            if where.category in {None, entry.category} and (where.tag is None or where.tag in entry.tags):
                if len(entries) == most:
                    return entries, last
                entries.append(entry)
                last = place
        if page.after is None:
            return entries, None
        after, at_once = page.after, READ_AT_ONCE


def _key(call: Call) -> str:
    try:
        return check_key(call.path["key"])
    except ValueError as error:
        raise RequestError(f"key: {error}.", param="key") from error


def _not_there(key: str) -> NotFound:
    return NotFound(f"{key}: nothing is kept under this key; it may have expired.", param="key")


def _info(entry: WorkingEntry) -> WorkingInfo:
    return WorkingInfo(
        key=entry.key,
        namespace=entry.namespace,
        size=entry.size,
        category=entry.category,
        tags=entry.tags,
        project_id=entry.project,
        agent_id=entry.agent,
        created_at=entry.created_at,
        updated_at=entry.updated_at,
        expires_at=entry.expires_at,
    )
