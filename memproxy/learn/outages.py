"""Outages of the extraction model: it is left alone for a while, then asked by one job at a time until it answers.

What a provider says about one account (429, 402, 404) holds for that account and model; what is wrong with the model
itself (no connection, a timeout, 5xx) for everybody who asks it.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec

from memproxy.core.bounded import BoundedCache
from memproxy.errors import MemproxyError, ModelAwaited, ModelUnavailable
from memproxy.learn.backoff import model_delay
from memproxy.metrics import metrics
from memproxy.ports import ChatModel, Clock, Credential, ModelReply

log = logging.getLogger(__name__)

_PROBE_S = 30.0
"""How long the others wait while one job asks; they go on at once when that one is answered."""

_MOST_RETRY_AFTER_S = 3600.0
"""No provider's word makes learning wait for longer; it is asked again then."""

_MOST_PLACES = 2_000
"""Models and accounts whose outages are remembered; names and keys of theirs are bounded where they come in."""

_ANSWERS_BYTES = 1024 * 1024
"""For how often models answered."""

_Place = tuple[str | None, ...]


class _Outage(msgspec.Struct, kw_only=True):
    number: int
    of_all: bool
    until: datetime
    reason: str
    tries: int = 1
    probing: bool = False


class ModelOutages:
    """Knows which models are left alone, in memory only: after a restart each is asked at once.

    Args:
        over: called with an outage's number when its model answered.
    """

    def __init__(self, clock: Clock, over: Callable[[int], None]) -> None:
        self._clock = clock
        self._over = over
        self._outages: OrderedDict[_Place, _Outage] = OrderedDict()
        self._answers: BoundedCache[_Place, int] = BoundedCache(_ANSWERS_BYTES)
        self._begun = 0
        metrics().learn_model_outages.set(0)

    @property
    def state(self) -> str:
        """``ready``, or ``degraded: why`` while a model is away that everybody would ask."""
        away = [outage.reason for outage in self._outages.values() if outage.of_all]
        return f"degraded: learning waits for its model: {away[0]}" if away else "ready"

    def is_over(self, number: int) -> bool:
        """Whether the model has answered since."""
        return all(outage.number != number for outage in self._outages.values())

    def require(self, credential: Credential) -> None:
        """Return when the model may be asked now.

        Raises:
            ModelAwaited: it is left alone, or another job asks it.
        """
        now = self._clock.now()
        for outage in self._of(credential):
            until = now + timedelta(seconds=_PROBE_S) if outage.probing else outage.until
            if until > now:
                raise ModelAwaited(outage.reason, until=until, outage=outage.number)

    def begin(self, credential: Credential) -> "Asking":
        """One call begins; during an outage it is the only one.

        Raises:
            ModelAwaited: as `require`.
        """
        self.require(credential)
        probed = list(self._of(credential))
        for outage in probed:
            outage.probing = True
        return Asking(credential, frozenset(outage.number for outage in probed))

    def answered(self, asking: "Asking") -> None:
        """The model answered, be it with a refusal of what it was asked."""
        shared, own = _places_of(asking.credential)
        self._answers.put(shared, (self._answers.get(shared) or 0) + 1)
        for place in (shared, own):
            outage = self._outages.get(place)
            # a call that was under way when the outage began says nothing of what is now
            if outage is not None and outage.number in asking.probes:
                log.info("the model answers again after %d tries; learning goes on", outage.tries)
                self._end(place)

    def failed(self, asking: "Asking", error: ModelUnavailable) -> ModelAwaited:
        """The model did not answer, or takes nothing more of this account; what is to be told to the job."""
        self.gave_up(asking)
        shared, own = _places_of(asking.credential)
        place = own if error.limited else shared
        outage = self._outages.get(place)
        if outage is None:
            outage = self._began(place, error)
        elif outage.number in asking.probes:
            outage.tries += 1
        else:
            # several calls were under way when it began
            return self._awaited(outage, error, shared)
        wait_s = max(model_delay(outage.tries), min(error.retry_after_s or 0.0, _MOST_RETRY_AFTER_S))
        outage.until = self._clock.now() + timedelta(seconds=wait_s)
        outage.reason = error.message
        return self._awaited(outage, error, shared)

    def gave_up(self, asking: "Asking") -> None:
        """The call ended without telling anything of the model (the engine stops)."""
        for outage in self._of(asking.credential):
            outage.probing = outage.probing and outage.number not in asking.probes

    def _began(self, place: _Place, error: ModelUnavailable) -> _Outage:
        self._begun += 1
        outage = _Outage(number=self._begun, of_all=not error.limited, until=self._clock.now(), reason=error.message)
        self._outages[place] = outage
        log.warning("learning waits for its model: %s", error.message)
        if len(self._outages) > _MOST_PLACES:
            self._end(next(iter(self._outages)))
        metrics().learn_model_outages.set(len(self._outages))
        return outage

    def _end(self, place: _Place) -> None:
        outage = self._outages.pop(place)
        metrics().learn_model_outages.set(len(self._outages))
        self._over(outage.number)

    def _awaited(self, outage: _Outage, error: ModelUnavailable, shared: _Place) -> ModelAwaited:
        answers = None if error.limited else self._answers.get(shared) or 0
        return ModelAwaited(error.message, until=outage.until, outage=outage.number, asked=True, answers=answers)

    def _of(self, credential: Credential) -> list[_Outage]:
        return [self._outages[place] for place in _places_of(credential) if place in self._outages]


class Asking(msgspec.Struct, frozen=True):
    """A call under way, and the outages whose end it may be."""

    credential: Credential
    probes: frozenset[int]


class SparedModel:
    """Implements `ports.ChatModel` over another one, which is left alone during its outages.

    Raises:
        ModelAwaited: in place of `errors.ModelUnavailable`, and when the model is left alone.
    """

    def __init__(self, model: ChatModel, outages: ModelOutages) -> None:
        self._model = model
        self._outages = outages

    async def complete(
        self,
        credential: Credential,
        *,
        system: str,
        user: str,
        json_mode: bool,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        asking = self._outages.begin(credential)
        try:
            reply = await self._model.complete(credential, system=system, user=user, json_mode=json_mode, schema=schema)
        except ModelUnavailable as error:
            raise self._outages.failed(asking, error) from error
        except MemproxyError:
            self._outages.answered(asking)
            raise
        except BaseException:
            self._outages.gave_up(asking)
            raise
        self._outages.answered(asking)
        return reply

    async def close(self) -> None:
        """Close the model's connections."""
        await self._model.close()


def _places_of(credential: Credential) -> tuple[_Place, _Place]:
    """The model, and the account at it: keys are held in memory only, as they are in the credential."""
    shared = (credential.base_url, credential.model)
    return shared, (*shared, credential.api_key)
