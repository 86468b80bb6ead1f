"""A chat model in one of recall's roles: whose key, how long, how often it may fail, and what it costs."""

import asyncio
import logging
from dataclasses import dataclass, field

from memproxy.core.bounded import BoundedCache
from memproxy.core.breaker import Breaker
from memproxy.errors import ModelError, ModelRefused, StateUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import TokenMeter
from memproxy.metrics import metrics
from memproxy.ports import ChatModel, Credential, ModelReply
from memproxy.settings import ModelSettings

log = logging.getLogger(__name__)

REST_S = 30.0
"""After some failures in a row a tenant's model is left alone for a while, because requests wait for it."""

COUNT_S = 0.5
"""The longest that a request waits until its tokens are written down."""

_TENANTS_BYTES, _BREAKER_BYTES = 4 * 1024 * 1024, 500


@dataclass(kw_only=True, eq=False)
class TenantModel:
    """Implements `ports.RoleModel` over a chat model and what is known of each tenant's way to it. ``source`` labels
    its tokens, which ``meter`` counts; ``timeout_s`` is how long a request waits for one answer.
    """

    model: ChatModel
    access: ModelAccess
    settings: ModelSettings
    source: str
    timeout_s: float
    meter: TokenMeter
    _breakers: BoundedCache[str, Breaker] = field(
        default_factory=lambda: BoundedCache(_TENANTS_BYTES, lambda _: _BREAKER_BYTES)
    )

    async def ask(self, tenant: str, *, system: str, user: str, json_mode: bool = False) -> str:
        credential = self.access.credential(tenant, self.settings)
        if credential is None:
            raise ModelRefused(f"no request of this tenant said yet how to reach a model for models.{self.source}")
        breaker = self._breakers.get(tenant) or Breaker(REST_S)
        if not breaker.may_try():
            raise ModelError(f"the model of models.{self.source} failed repeatedly and is left alone for a while")
        try:
            reply = await self._answer(credential, system, user, json_mode=json_mode)
        except ModelError:
            breaker.note_failure()
            self._breakers.put(tenant, breaker)
            raise
        self._breakers.pop(tenant)
        await self._count(tenant, reply, system + user)
        return reply.text

    async def _answer(self, credential: Credential, system: str, user: str, *, json_mode: bool) -> ModelReply:
        try:
            async with asyncio.timeout(self.timeout_s):
                return await self.model.complete(credential, system=system, user=user, json_mode=json_mode)
        except TimeoutError as error:
            message = f"the model of models.{self.source} did not answer within {self.timeout_s:g} s"
            raise ModelError(message) from error

    async def _count(self, tenant: str, reply: ModelReply, prompt: str) -> None:
        """Record the call's tokens. A request does not wait long for that: a failure is logged."""
        try:
            async with asyncio.timeout(COUNT_S):
                await self.meter.note(tenant, self.source, reply, prompt)
        except (StateUnavailable, TimeoutError) as error:
            metrics().internal_errors.labels(where="recall.tokens").inc()
            log.warning("the tokens of a %s call are not in the statistics: %r", self.source, error)
