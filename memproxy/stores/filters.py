"""What a read or a delete is limited to, as plain conditions that each vector engine translates for itself.

Every `Where` made here starts with the owner: there is no way to build one without tenant and user (but to count).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec

from memproxy.core.memory import Kind
from memproxy.core.scope import OwnerKey, Scope
from memproxy.ports import MemoryFilter

TELLS_NOTHING = "tells_nothing"
"""Payload field of a turn that only asks or supposes (`core.telling`): true, or not there."""


class OneOf(msgspec.Struct, frozen=True):
    """The field (or one element of a list field) is one of these strings or booleans."""

    key: str
    values: tuple[str | bool, ...]


class Missing(msgspec.Struct, frozen=True):
    """The field is absent, null or an empty list."""

    key: str


class Between(msgspec.Struct, frozen=True, kw_only=True):
    """The time lies within the bounds given (aware datetimes)."""

    key: str
    after: datetime | None = None
    at_or_after: datetime | None = None
    at_or_before: datetime | None = None
    before: datetime | None = None


class HasId(msgspec.Struct, frozen=True):
    """The point is one of these point ids."""

    ids: tuple[str, ...]


class AnyOf(msgspec.Struct, frozen=True):
    """At least one of these holds."""

    conditions: "tuple[Condition, ...]"


_FACT_KINDS = tuple(kind.value for kind in Kind if kind is not Kind.TURN)

Condition = OneOf | Missing | Between | HasId | AnyOf


class Where(msgspec.Struct, frozen=True):
    """All of ``must`` hold and none of ``must_not``."""

    must: tuple[Condition, ...]
    must_not: tuple[Condition, ...] = ()

    def also(self, *conditions: Condition) -> "Where":
        """The same, narrowed further."""
        return Where((*self.must, *conditions), self.must_not)


SILENT = OneOf(TELLS_NOTHING, (True,))

FACTS = OneOf("kind", _FACT_KINDS)
"""What is no verbatim message."""


def owner_of(where: Where) -> OwnerKey | None:
    """The owner that a `Where` is limited to; None when it names none, or several."""
    named = {condition.key: condition.values for condition in where.must if isinstance(condition, OneOf)}
    tenant, user = named.get("tenant", ()), named.get("user_id", ())
    return (str(tenant[0]), str(user[0])) if len(tenant) == len(user) == 1 else None


def of_owner(scope: Scope) -> Where:
    """Everything of the scope's owner: the start of every other filter."""
    return Where((OneOf("tenant", (scope.tenant,)), OneOf("user_id", (scope.user,))))


def telling(where: Where) -> Where:
    """Without what tells nothing."""
    return Where(where.must, (*where.must_not, SILENT))


def facts(where: Where) -> Where:
    """Without verbatim messages."""
    return where.also(FACTS)


def of_tenant(tenant: str) -> Where:
    """Everything of a tenant, to be counted and not read."""
    return Where((OneOf("tenant", (tenant,)),))


def readable(scope: Scope, where: MemoryFilter, time_to_live: timedelta | None = None) -> Where:
    """What the scope may see: with a project (agent) set, that one's memories and those that have none. Where ``now``
    is given, without what has expired, also by the tenant's ``time_to_live``.
    """
    visible = [AnyOf((OneOf(key, (name,)), Missing(key))) for key, name in _narrower(scope)]
    return _narrow(of_owner(scope).also(*visible), where, time_to_live)


def erasable(scope: Scope, where: MemoryFilter, time_to_live: timedelta | None = None) -> Where:
    """What a delete covers: with a project (agent) set, exactly that one's memories."""
    exactly = [OneOf(key, (name,)) for key, name in _narrower(scope)]
    return _narrow(of_owner(scope).also(*exactly), where, time_to_live)


def turns_of(scope: Scope, session: str | None) -> Where:
    """The turns of one session that the scope may see."""
    within: Condition = OneOf("session_id", (session,)) if session is not None else Missing("session_id")
    return readable(scope, MemoryFilter(kinds=(Kind.TURN,))).also(within)


def _narrower(scope: Scope) -> list[tuple[str, str]]:
    """What a scope is limited to beside its owner."""
    places = (("project_id", scope.project), ("agent_id", scope.agent))
    return [(key, name) for key, name in places if name is not None]


def _narrow(base: Where, where: MemoryFilter, time_to_live: timedelta | None) -> Where:
    flags = (("active", where.active), ("quarantined", where.quarantined))
    must = [*_list_conditions(where), *(OneOf(key, (value,)) for key, value in flags if value is not None)]
    must += _times(where, time_to_live)
    narrowed = base.also(*must)
    return telling(narrowed) if where.telling else narrowed


def _list_conditions(where: MemoryFilter) -> list[Condition]:
    # every memory has one of all kinds, and to compare it takes as long as a cosine
    kinds = [] if set(where.kinds) == set(Kind) else [kind.value for kind in where.kinds]
    allowed: list[tuple[str, Sequence[str]]] = [
        ("id", where.ids),
        ("kind", kinds),
        ("session_id", where.session_ids),
        ("project_id", where.project_ids),
        ("agent_id", where.agent_ids),
        ("category", where.categories),
        ("tags", where.tags),
        ("slot", where.slots),
        ("turn_ids", where.turn_ids),
        ("entities", where.entities),
        ("wing", where.wings),
        ("room", where.rooms),
        ("closet", where.closets),
    ]
    return [OneOf(key, tuple(values)) for key, values in allowed if values]


def _times(where: MemoryFilter, time_to_live: timedelta | None) -> list[Condition]:
    conditions: list[Condition] = []
    if where.as_of is not None:
        held = Between(key="valid_from", at_or_before=where.as_of)
        conditions.append(AnyOf((Missing("valid_from"), held)))
        # a fact that does not say since when it holds always did; a message is there since it was said
        spoken = Between(key="created_at", at_or_before=where.as_of)
        conditions.append(AnyOf((OneOf("kind", _FACT_KINDS), spoken, held)))
        conditions.append(AnyOf((Missing("valid_to"), Between(key="valid_to", after=where.as_of))))
    if where.now is not None:
        later = Between(key="expires_at", after=where.now)
        conditions.append(AnyOf((Missing("expires_at"), later)))
        if time_to_live is not None:
            conditions.append(AnyOf((Between(key="created_at", after=where.now - time_to_live), later)))
    return conditions
