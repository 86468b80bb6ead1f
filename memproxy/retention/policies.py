"""What the settings say of retention, for each tenant."""

from datetime import timedelta

from memproxy.core.retention import Policy, Weights
from memproxy.settings import RetentionSettings


class Policies:
    """The policy of each tenant: its own, else the deployment's."""

    def __init__(self, settings: RetentionSettings) -> None:
        self._settings = settings
        written = settings.weights
        self.weights = Weights(
            confidence=written.confidence,
            recency=written.recency,
            retrievals=written.retrievals,
            importance=written.importance,
            feedback=written.feedback,
            half_life_h=written.half_life_h,
            most_retrievals=written.most_retrievals,
            turn_confidence=written.turn_confidence,
        )
        self.every_s = settings.prune_every_s

    @property
    def wanted(self) -> bool:
        """Whether anything is pruned at all."""
        settings = self._settings
        return settings.prune or bool(settings.tenants) or (settings.ttl_days or settings.max_per_user) is not None

    def of(self, tenant: str) -> Policy:
        """What holds for this tenant."""
        days, most = self._settings.ttl_days, self._settings.max_per_user
        if (own := self._settings.tenants.get(tenant)) is not None:
            days = own.ttl_days if own.ttl_days is not None else days
            most = own.max_per_user if own.max_per_user is not None else most
        return Policy(ttl=timedelta(days=days) if days is not None else None, most=most)

    def time_to_live(self, tenant: str) -> timedelta | None:
        """How long this tenant's memories are kept; None: for ever."""
        return self.of(tenant).ttl

    @property
    def has_time_to_live(self) -> bool:
        """Whether any tenant's memories expire by themselves."""
        own = (one.ttl_days for one in self._settings.tenants.values())
        return any(days is not None for days in (self._settings.ttl_days, *own))
