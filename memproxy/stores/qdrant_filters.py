"""Conditions in the words of `qdrant-client`."""

from qdrant_client import models

from memproxy.stores.filters import AnyOf, Between, Condition, HasId, Missing, OneOf, Where


def translated(where: Where) -> models.Filter:
    """The client's filter for ``where``."""
    return models.Filter(
        must=[_condition(one) for one in where.must],
        must_not=[_condition(one) for one in where.must_not] or None,
    )


def _condition(condition: Condition) -> models.Condition:
    match condition:
        case OneOf(key, (value,)):
            return models.FieldCondition(key=key, match=models.MatchValue(value=value))
        case OneOf(key, values):
            return models.FieldCondition(key=key, match=models.MatchAny(any=[str(value) for value in values]))
        case Missing(key):
            return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))
        case Between():
            return models.FieldCondition(key=condition.key, range=_range(condition))
        case HasId(ids):
            return models.HasIdCondition(has_id=list(ids))
        case AnyOf(conditions):
            return models.Filter(should=[_condition(one) for one in conditions])


def _range(between: Between) -> models.DatetimeRange:
    return models.DatetimeRange(
        gt=between.after,
        gte=between.at_or_after,
        lte=between.at_or_before,
        lt=between.before,
    )
