"""How learning reaches a chat model: the configured one, else the upstream with the request's own model and key."""

from collections import OrderedDict

import msgspec

from memproxy.core.protocol import UpstreamAccess
from memproxy.ports import Credential
from memproxy.settings import ModelSettings, Settings

_MOST_TENANTS = 10_000


class ModelAccess:
    """Remembers, in memory only, how each tenant's last request reached its model. Nothing of it is ever written."""

    def __init__(self, settings: Settings) -> None:
        self._upstream = settings.upstream
        upstream = settings.upstream
        self._keys = {route.base_url.rstrip("/"): route.api_key for route in upstream.routes}
        self._keys[upstream.base_url.rstrip("/")] = upstream.api_key
        self._latest: OrderedDict[str, UpstreamAccess] = OrderedDict()

    def remember(self, tenant: str, access: UpstreamAccess) -> bool:
        """Note how a request reached its model; True when that is new for the tenant (`Worker.new_key` is due)."""
        former = self._latest.get(tenant)
        if not access.model and former is not None and former.base_url == access.base_url:
            access = msgspec.structs.replace(access, model=former.model)
        changed = former != access
        self._latest[tenant] = access
        self._latest.move_to_end(tenant)
        if len(self._latest) > _MOST_TENANTS:
            self._latest.popitem(last=False)
        return changed

    def model_of(self, tenant: str) -> str | None:
        """The model that the tenant's last request named."""
        access = self._latest.get(tenant)
        return access.model or None if access else None

    def credential(self, tenant: str, role: ModelSettings, model: str | None = None) -> Credential | None:
        """How to call the model of ``role`` for this tenant, or None while that is not known.

        ``model`` is a name noted earlier (a journal row's), for when the tenant made no request since the start. The
        request's own key goes to the host it was meant for and to no other one.
        """
        access = self._latest.get(tenant)
        base_url = role.base_url or (access.base_url if access else self._upstream.base_url)
        name = role.model or self.model_of(tenant) or model
        if not name:
            return None
        if role.api_key is not None:
            return Credential(base_url=base_url, model=name, api_key=role.api_key.get_secret_value())
        own_host = access.base_url if access else self._upstream.base_url
        if role.base_url is not None and role.base_url.rstrip("/") != own_host.rstrip("/"):
            return Credential(base_url=base_url, model=name)
        return self._upstream_credential(base_url, name, access)

    def _upstream_credential(self, base_url: str, model: str, access: UpstreamAccess | None) -> Credential | None:
        configured = self._keys.get(base_url.rstrip("/"))
        if configured is not None:
            return Credential(base_url=base_url, model=model, api_key=configured.get_secret_value())
        if access is None:
            return None
        return Credential(base_url=base_url, model=model, api_key=access.api_key)
