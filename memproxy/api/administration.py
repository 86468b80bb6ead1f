"""`/v1/memory/settings`, `/stats` and `/audit`: what a user chose of memory, how much there is, and who did what."""

from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import BeforeValidator, Field, WithJsonSchema

from memproxy.api.calls import Call, operation
from memproxy.api.context import Backends, number_after, write_cursor
from memproxy.api.fields import Limit, Name
from memproxy.api.models import Body, Instant, PageQuery, UserQuery, one_of
from memproxy.auth.identity import speaks_for_all
from memproxy.core.choices import NOTHING_CHOSEN
from memproxy.core.choices import Choices as Chosen
from memproxy.core.experiment_arms import Comparison
from memproxy.core.memory import Kind, digest
from memproxy.core.scope import Scope
from memproxy.errors import Forbidden, RequestError
from memproxy.ports import MemoryFilter

_LAST_ENTRY = 2**53 - 1


Switch = Annotated[
    bool,
    BeforeValidator(lambda value: {"on": True, "off": False}.get(value, value) if isinstance(value, str) else value),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": ["on", "off"]}]}),
]


class SettingsQuery(Body):
    """`GET /v1/memory/settings`: whose, and of which agent."""

    user_id: Name | None = None
    agent_id: Name | None = None


class SettingsBody(Body):
    """`PUT /v1/memory/settings`: what is left out or null comes from the wider place (agent, user, configuration)."""

    user_id: Name | None = None
    agent_id: Name | None = None
    mode: Literal["on", "read", "write", "off"] | None = None
    limit: Limit | None = None
    rerank: Switch | None = None
    learning: Switch | None = None
    compress_above_tokens: Annotated[int, Field(ge=0, le=10_000_000)] | None = None
    memory_tools: Literal["none", "inject"] | None = None


class OwnChoices(msgspec.Struct):
    """What was chosen for just this place."""

    mode: Annotated[Any, one_of("on", "read", "write", "off", None)]
    limit: int | None
    rerank: bool | None
    learning: bool | None
    compress_above_tokens: int | UnsetType = UNSET
    memory_tools: Annotated[Any, one_of("none", "inject")] | UnsetType = UNSET


class Choices(msgspec.Struct, kw_only=True):
    """What holds for a user (an agent), with what was ``chosen`` for just this place and what comes from a wider."""

    user_id: str
    agent_id: str | None
    mode: Annotated[Any, one_of("on", "read", "write", "off")]
    limit: int
    rerank: bool
    learning: bool
    compress_above_tokens: int | UnsetType = UNSET
    memory_tools: Annotated[Any, one_of("none", "inject")]
    chosen: OwnChoices


@operation("GET", "/v1/memory/settings", "memory:read", query=SettingsQuery, etag=True)
async def read_settings(api: Backends, call: Call) -> Choices:
    """What a user (or one agent of a user) chose of memory, and what holds."""
    return await _settings(api, _settings_place(call))


@operation("PUT", "/v1/memory/settings", "memory:write", query=UserQuery, etag=True, if_match=True)
async def write_settings(api: Backends, call: Call, body: SettingsBody) -> Choices:
    """Choose whether memory recalls, keeps and learns; in place of what was chosen before.

    They hold in every process when this is answered.
    """
    scope = _settings_place(call)
    if call.identity.bound_project:
        raise Forbidden("Settings hold in all projects: a key that is bound to one cannot change them.")
    if body.rerank and api.parts.settings.recall.rerank == "none":
        raise RequestError("rerank: this server has no reranker (recall.rerank is none).", param="rerank")
    chosen = Chosen(**body.model_dump(exclude={"user_id", "agent_id"}))
    async with api.locks.of(*scope.owner):
        call.is_expected(digest(msgspec.json.encode(await _settings(api, scope))))
        await api.state.choose(scope, chosen, api.parts.clock.now())
        return await _settings(api, scope)


def _settings_place(call: Call) -> Scope:
    scope = call.scope()
    return Scope(tenant=scope.tenant, user=scope.user, agent=scope.agent)


async def _settings(api: Backends, scope: Scope) -> Choices:
    recall = api.parts.settings.recall
    own = await api.state.own_choices(scope) or NOTHING_CHOSEN
    holds = await api.state.choices(scope)
    compress = api.parts.settings.compress
    above = holds.compress_above_tokens
    if above is None:
        above = compress.tenants.get(scope.tenant, compress.above_tokens)
    own_above = UNSET if own.compress_above_tokens is None else own.compress_above_tokens
    return Choices(
        user_id=scope.user,
        agent_id=scope.agent,
        mode=holds.mode or "on",
        limit=holds.limit if holds.limit is not None else recall.limit,
        rerank=holds.rerank is not False and recall.rerank != "none",
        learning=holds.learns and api.parts.settings.learn.enabled,
        compress_above_tokens=above or UNSET,
        memory_tools=holds.memory_tools or api.parts.settings.tools.memory,
        chosen=OwnChoices(own.mode, own.limit, own.rerank, own.learning, own_above, own.memory_tools or UNSET),
    )


class Tokens(msgspec.Struct):
    """What model calls used."""

    input_tokens: int
    output_tokens: int


Cost = dict[str, Tokens]
"""By what the models were asked for."""


class StoredCounts(msgspec.Struct):
    """Memories by kind."""

    active: int
    total: int
    kinds: dict[str, dict[str, int]]


class TenantCost(msgspec.Struct):
    """What the tenant's model calls used today (UTC), and in the last year."""

    today: Cost
    year: Cost


class Stats(msgspec.Struct):
    """How much there is of a user. ``cost`` and ``experiment`` (null where no share of users is held out) are the
    tenant's, for who speaks for all of it.
    """

    memories: StoredCounts
    queues: dict[str, dict[str, int]]
    cost: TenantCost | None
    experiment: Comparison | None
    erasure: Annotated[Any, one_of("complete", "pending")] | UnsetType = UNSET


@operation("GET", "/v1/memory/stats", "memory:read", query=UserQuery, or_admin=True)
async def stats(api: Backends, call: Call) -> Stats:
    """How many memories there are, and what waits to be written."""
    identity = call.identity
    scope = Scope(tenant=identity.tenant, user=call.user, project=identity.project, agent=identity.agent)
    counts = StoredCounts(0, 0, {})
    for kind in Kind:
        where = MemoryFilter(kinds=(kind,), now=api.parts.clock.now())
        total = await api.store.count(scope, where)
        active = await api.store.count(scope, msgspec.structs.replace(where, active=True)) if total else 0
        counts.kinds[kind.value] = {"active": active, "total": total}
        counts.active += active
        counts.total += total
    return Stats(
        memories=counts,
        # how many of the user's rows wait says how much is said in other projects
        queues={} if identity.bound_project else await api.state.backlog(scope),
        # what a tenant's learning costs says how much its other users talk
        cost=await _cost(api, scope.tenant) if speaks_for_all(identity) else None,
        experiment=await api.experiment.results(scope.tenant) if speaks_for_all(identity) else None,
        erasure="pending" if api.eraser.pending else "complete",
    )


async def _cost(api: Backends, tenant: str) -> TenantCost:
    today = api.parts.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    spent = [await api.state.tokens_spent(tenant, since=since) for since in (today, today - timedelta(days=365))]
    return TenantCost(*({source: Tokens(*used) for source, used in by_source.items()} for by_source in spent))


class AuditedOperation(msgspec.Struct):
    """Who did what, when: ids and counts, never content."""

    at: Instant
    by: str
    action: str
    scope: dict[str, str]
    counts: dict[str, int]


class AuditPage(msgspec.Struct):
    """One page of the audit log."""

    data: list[AuditedOperation]
    next_cursor: str | None


@operation("GET", "/v1/memory/audit", "admin")
async def audit_log(api: Backends, call: Call, query: PageQuery) -> AuditPage:
    """Administrative and erasing operations on the tenant, newest first; never content."""
    below = number_after("audit", query.cursor) if query.cursor is not None else _LAST_ENTRY
    rows = await api.state.audit(call.identity.tenant, before=below, limit=query.limit + 1)
    page, more = rows[: query.limit], rows[query.limit :]
    data = [msgspec.convert(row.entry, AuditedOperation, from_attributes=True) for row in page]
    return AuditPage(data, write_cursor("audit", page[-1].number) if more else None)
