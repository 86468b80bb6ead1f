"""Conditions in the words of Qdrant Edge."""

from datetime import datetime

import qdrant_edge as edge

from memproxy.stores.filters import AnyOf, Between, Condition, HasId, Missing, OneOf, Where


def translated(where: Where) -> edge.Filter:
    """The engine's filter for ``where``."""
    return edge.Filter(
        must=[_condition(one) for one in where.must],
        must_not=[_condition(one) for one in where.must_not] or None,
    )


def _condition(condition: Condition) -> "edge.ConditionType":  # the name exists in the stubs alone
    match condition:
        case OneOf(key, (value,)):
            # Edge 0.9 takes a boolean here for an integer, so flags are stored as 0 and 1
            return edge.FieldCondition(key, match=edge.MatchValue(int(value) if isinstance(value, bool) else value))
        case OneOf(key, values):
            return edge.FieldCondition(key, match=edge.MatchAny([str(value) for value in values]))
        case Missing(key):
            return edge.IsEmptyCondition(key)
        case Between():
            return edge.FieldCondition(condition.key, range=_range(condition))
        case HasId(ids):
            return edge.HasIdCondition(set(ids))
        case AnyOf(conditions):
            return edge.Filter(should=[_condition(one) for one in conditions])


def _range(between: Between) -> edge.RangeDateTime:
    return edge.RangeDateTime(
        gt=_text(between.after),
        gte=_text(between.at_or_after),
        lte=_text(between.at_or_before),
        lt=_text(between.before),
    )


def _text(time: datetime | None) -> str | None:
    return time.isoformat() if time is not None else None
