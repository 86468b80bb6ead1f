"""Which upstream a request goes to: the first route whose patterns its model matches, else the default one."""

from memproxy.relay.upstream import Upstream
from memproxy.settings import UpstreamSettings


class Upstreams:
    """The default upstream and those of ``upstream.routes``."""

    def __init__(self, settings: UpstreamSettings, *, takes_client_key: bool = True) -> None:
        """``takes_client_key`` False: the client's key is one of ours, which no upstream may see."""
        self.default = Upstream(settings, takes_client_key=takes_client_key)
        self._settings = settings
        self._routes = [
            Upstream(settings.of_route(route), takes_client_key=False, route=place)
            for place, route in enumerate(settings.routes)
        ]

    @property
    def routed(self) -> bool:
        """Whether the model decides where a request goes."""
        return bool(self._routes)

    def of(self, model: str | None) -> Upstream:
        """The upstream for this model."""
        route = self._settings.route_of(model)
        return self.default if route is None else self._routes[route]

    async def open(self) -> None:
        """Make the pools."""
        for upstream in self._all():
            await upstream.open()

    async def close(self) -> None:
        """Close the pools."""
        for upstream in self._all():
            await upstream.close()

    def _all(self) -> list[Upstream]:
        return [self.default, *self._routes]
