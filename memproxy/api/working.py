"""Working memory: entries that agents hand to each other for some minutes (`core.working`)."""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import msgspec
from pydantic import AfterValidator, Field

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import Backends
from memproxy.api.fields import Id, Label, Limit, Query, check_text
from memproxy.api.models import Body, Cursor, Instant, PlaceQuery
from memproxy.core.redact import redact
from memproxy.core.working import MAX_KEY, MAX_TTL_S, WorkingEntry, check_key, may_write, words_of
from memproxy.errors import BodyTooLarge, Conflict, Forbidden, NotFound, RequestError
from memproxy.ports import LexicalEncoder

LOOKED_THROUGH = 2_000
"""Entries that a search looks at, those changed last; a prefix chooses others."""

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
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None


class WorkingQuery(PlaceQuery):
    """`GET /v1/memory/working`."""

    prefix: Prefix = ""
    category: Label | None = None
    tag: Label | None = None
    limit: Limit = 50
    cursor: Annotated[Cursor, AfterValidator(check_text)] | None = None


class WorkingSearch(Body):
    """`POST /v1/memory/working/search`."""

    query: Query
    prefix: Prefix = ""
    category: Label | None = None
    tag: Label | None = None
    limit: Limit = 10
    user_id: Id | None = None
    project_id: Id | None = None
    agent_id: Id | None = None


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


class WorkingPage(msgspec.Struct):
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


@operation(
    "PUT",
    "/v1/memory/working/{key:path}",
    "memory:write",
    statuses=(200, 201),
    errors=(409, 413),
)
async def put_entry(api: Backends, call: Call, body: WorkingBody) -> Reply[WorkingInfo]:
    """Keep an entry of working memory.

    201 for a new key, 200 where an earlier entry is replaced.
    """
    key, scope, settings = _key(call), call.scope(), api.settings.working
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
    now = api.clock.now()
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
    api.require_state()
    new = await api.state.put_working(scope, entry, most=settings.max_entries_per_namespace)
    if new is None:
        raise Conflict(
            f"{entry.namespace}: the namespace holds {settings.max_entries_per_namespace} entries, the most that it "
            "may (working.max_entries_per_namespace). Delete one, or wait until one expires."
        )
    return Reply(_info(entry), 201 if new else 200)


@operation(
    "GET",
    "/v1/memory/working/{key:path}",
    "memory:read",
    query=PlaceQuery,
    errors=(404,),
)
async def get_entry(api: Backends, call: Call) -> WorkingItem:
    """Read an entry of working memory.

    With its data.
    """
    key = _key(call)
    api.require_state()
    entry = await api.state.working(call.scope(), key, api.clock.now())
    if entry is None:
        raise _not_there(key)
    return WorkingItem(**msgspec.structs.asdict(_info(entry)), data=msgspec.json.decode(entry.data or b"null"))


@operation(
    "DELETE",
    "/v1/memory/working/{key:path}",
    "memory:write",
    query=PlaceQuery,
    statuses=(204,),
    errors=(404,),
)
async def delete_entry(api: Backends, call: Call) -> Reply[None]:
    """Delete an entry of working memory.

    Only of a namespace that the caller may write.
    """
    key, scope = _key(call), call.scope()
    if not may_write(scope, key):
        raise Forbidden(f"{key}: another session's or agent's namespace, which can be read and not written.")
    api.require_state()
    if not await api.state.drop_working(scope, key, api.clock.now()):
        raise _not_there(key)
    return Reply(None, 204)


@operation(
    "GET",
    "/v1/memory/working",
    "memory:read",
)
async def list_entries(api: Backends, call: Call, query: WorkingQuery) -> WorkingPage:
    """List what is in working memory, without the data.

    In the order of their keys.
    """
    found = await _entries(api, call, query.prefix, query.category, query.tag)
    behind = sorted((one for one in found if one.key > (query.cursor or "")), key=lambda one: one.key)
    shown = behind[: query.limit]
    more = len(behind) > len(shown)
    return WorkingPage([_info(one) for one in shown], shown[-1].key if more else None)


@operation("POST", "/v1/memory/working/search", "memory:read", repeatable=False)
async def search_entries(api: Backends, call: Call, body: WorkingSearch) -> WorkingHits:
    """Search working memory by words.

    Keys, categories, tags and the texts of the data, of the entries changed last.
    """
    found = await _entries(api, call, body.prefix, body.category, body.tag, words=True)
    scores = await asyncio.to_thread(scored, api.lexical, body.query, [one.words for one in found])
    best = sorted(zip(scores, found, strict=True), key=lambda each: (-each[0], each[1].key))
    hits = [WorkingHit(_info(one), score, one.words[:SNIPPET]) for score, one in best[: body.limit] if score > 0]
    return WorkingHits(hits)


async def _entries(
    api: Backends, call: Call, prefix: str, category: str | None, tag: str | None, *, words: bool = False
) -> list[WorkingEntry]:
    api.require_state()
    limit = LOOKED_THROUGH if words and category is None and tag is None else None
    found = await api.state.working_entries(call.scope(), prefix, api.clock.now(), words=words, limit=limit)
    return [one for one in found if category in {None, one.category} and (tag is None or tag in one.tags)]


def scored(lexical: LexicalEncoder, query: str, texts: Sequence[str]) -> list[float]:
    """BM25 of each text, its IDF counted over them: ln(1 + (n - df + .5) / (df + .5)), as the stores count it."""
    terms = set(lexical.encode_query(query).indices)
    documents = [lexical.encode_document(text) for text in texts]
    weights = [
        {term: weight for term, weight in zip(one.indices, one.values, strict=True) if term in terms}
        for one in documents
    ]
    held = Counter(term for one in weights for term in one)
    idf = {term: math.log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for term, count in held.items()}
    return [sum(weight * idf[term] for term, weight in one.items()) for one in weights]


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
