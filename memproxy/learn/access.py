"""How learning reaches a chat model: the configured one, else the upstream with the request's own model and key."""

import msgspec

from memproxy.core.bounded import BoundedCache
from memproxy.core.protocol import UpstreamAccess
from memproxy.ports import Credential
from memproxy.settings import ModelSettings, Settings

_ACCESS_BYTES = 16 * 1024 * 1024  # for the ways that tenants' requests took: some 15,000 tenants


class ModelAccess:
    """Remembers, in memory only, how each tenant's last request reached its model. No key is ever written."""

    def __init__(self, settings: Settings) -> None:
        self._upstream = settings.upstream
        self._latest: BoundedCache[str, UpstreamAccess] = BoundedCache(_ACCESS_BYTES)

    def remember(self, tenant: str, access: UpstreamAccess) -> bool:
        """Note how a request reached its model; True when that is new for the tenant (`Worker.new_key` is due)."""
        former = self._latest.get(tenant)
        if not access.model and former is not None and former.base_url == access.base_url:
            access = msgspec.structs.replace(access, model=former.model)
        self._latest.put(tenant, access)
        return former != access

    def model_of(self, tenant: str) -> str | None:
        """The model that the tenant's last request named."""
        access = self._latest.get(tenant)
        return access.model or None if access else None

    def credential(self, tenant: str, role: ModelSettings, model: str | None = None) -> Credential | None:
        """How to call the model of ``role`` for this tenant; None while that is not known. ``model`` is a journal row's
        name, for before the tenant's first request. A key goes to the host it was meant for and to no other one.
        """
        access = self._latest.get(tenant)
        name = role.model or self.model_of(tenant) or model
        if not name:
            return None
        own_url = access.base_url if access else self._upstream.base_url
        base_url = role.base_url or own_url
        if role.api_key is not None:
            return Credential(base_url=base_url, model=name, api_key=role.api_key.get_secret_value())
        if base_url.rstrip("/") != own_url.rstrip("/"):
            return Credential(base_url=base_url, model=name)
        configured = self._upstream.api_key
        if configured is not None and base_url.rstrip("/") == self._upstream.base_url.rstrip("/"):
            return Credential(base_url=base_url, model=name, api_key=configured.get_secret_value())
        if access is None:
            return None
        return Credential(base_url=base_url, model=name, api_key=access.api_key)
