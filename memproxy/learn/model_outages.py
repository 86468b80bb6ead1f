"""Outages of the extraction model: it is left alone for a while, then asked by one job at a time until it answers. Also
the journal rows that wait for it: since when, until when, and whether the model or the row is at fault.

A limit of one account (429, 402, 404) holds for that account and model; a failure of the model itself (no connection, a
timeout, 5xx) holds for all accounts.
"""

import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import tenacity

from memproxy.core.bounded import BoundedCache
from memproxy.errors import MemproxyError, ModelAwaited, ModelUnavailable
from memproxy.metrics import metrics
from memproxy.ports import ChatModel, Clock, Credential, JournalRow, ModelReply

COUNTED = tenacity.wait_exponential(multiplier=2, exp_base=4, max=600) + tenacity.wait_random(0, 1)
"""After a counted failure: 2, 8, 32, 128 s and up to a second more, so that five tries span three minutes."""

OUTAGE = tenacity.wait_exponential(multiplier=0.25, exp_base=2, max=10) + tenacity.wait_random(0, 0.25)
"""0.25 s, doubled up to 10 s: what waits for a store goes on soon after it heals."""

MODEL = tenacity.wait_exponential(multiplier=1, exp_base=2, max=240) + tenacity.wait_random_exponential(
    multiplier=0.25, exp_base=2, max=60
)
"""1 s, doubled up to 4 minutes, and up to a quarter more: a model that everybody asks is not asked by all at once."""


def delay_s(wait: tenacity.wait.wait_base, tries: int) -> float:
    """Seconds before the next try after the ``tries``-th failure (1 is the first)."""
    retrying = tenacity.Retrying()
    state = tenacity.RetryCallState(retry_object=retrying, fn=None, args=(), kwargs={})
    state.attempt_number = tries
    return wait(state)


log = logging.getLogger(__name__)

_PROBE_S = 30.0  # how long other jobs wait while one asks; they go on at once when it is answered
_MOST_RETRY_AFTER_S = 3600.0  # longest wait that a provider's ``retry-after`` can ask for
_MOST_ACCOUNTS = 2_000  # models and accounts whose outages are remembered; their names are bounded where they come in
_ANSWERS_BYTES = 1024 * 1024  # for how often models answered

_Account = tuple[str | None, ...]


class _Outage(msgspec.Struct, kw_only=True):
    number: int
    of_all: bool
    until: datetime
    reason: str
    tries: int = 1
    probing: bool = False


class ModelOutages:
    """Knows, in memory only, which models are not called for now. ``over`` gets the outage that an answer ended."""

    def __init__(self, clock: Clock, over: Callable[[int], None]) -> None:
        self._clock = clock
        self._over = over
        self._outages: OrderedDict[_Account, _Outage] = OrderedDict()
        self._answers: BoundedCache[_Account, int] = BoundedCache(_ANSWERS_BYTES)
        self._begun = 0
        metrics().learn_model_outages.set(0)

    @property
    def state(self) -> str:
        """``ready``, or ``degraded: why`` while a model that all tenants use does not answer."""
        away = [outage.reason for outage in self._outages.values() if outage.of_all]
        return f"degraded: learning waits for its model: {away[0]}" if away else "ready"

    def is_over(self, number: int) -> bool:
        """Whether the model has answered since."""
        return all(outage.number != number for outage in self._outages.values())

    def require(self, credential: Credential) -> None:
        """Return if the model may be asked now. Raises `ModelAwaited` while it is left alone or another job asks."""
        now = self._clock.now()
        for outage in self._of(credential):
            until = now + timedelta(seconds=_PROBE_S) if outage.probing else outage.until
            if until > now:
                raise ModelAwaited(outage.reason, until=until, outage=outage.number)

    def begin(self, credential: Credential) -> "Asking":
        """Begin a call, during an outage the only one. Raises `ModelAwaited` as `require`."""
        self.require(credential)
        probed = list(self._of(credential))
        for outage in probed:
            outage.probing = True
        return Asking(credential, frozenset(outage.number for outage in probed))

    def answered(self, asking: "Asking") -> None:
        """The model answered, be it with a refusal of what it was asked."""
        shared, own_account = _accounts_of(asking.credential)
        self._answers.put(shared, (self._answers.get(shared) or 0) + 1)
        for account in (shared, own_account):
            outage = self._outages.get(account)
            # a call that was under way when the outage began says nothing of what is now
            if outage is not None and outage.number in asking.probes:
                log.info("the model answers again after %d tries; learning goes on", outage.tries)
                self._end(account)

    def failed(self, asking: "Asking", error: ModelUnavailable) -> ModelAwaited:
        """The model did not answer, or takes nothing more of this account; answers the error to raise for the job."""
        self.gave_up(asking)
        shared, own_account = _accounts_of(asking.credential)
        account = own_account if error.limited else shared
        outage = self._outages.get(account)
        is_new = outage is None
        outage = outage or self._began(account, error)
        if is_new or outage.number in asking.probes:  # else several calls were under way when it began
            outage.tries += not is_new
            wait_s = max(delay_s(MODEL, outage.tries), min(error.retry_after_s or 0.0, _MOST_RETRY_AFTER_S))
            outage.until = self._clock.now() + timedelta(seconds=wait_s)
            outage.reason = error.message
        answers = None if error.limited else self._answers.get(shared) or 0
        return ModelAwaited(error.message, until=outage.until, outage=outage.number, asked=True, answers=answers)

    def gave_up(self, asking: "Asking") -> None:
        """The call ended without telling anything of the model (the engine stops)."""
        for outage in self._of(asking.credential):
            outage.probing = outage.probing and outage.number not in asking.probes

    def _began(self, account: _Account, error: ModelUnavailable) -> _Outage:
        self._begun += 1
        outage = _Outage(number=self._begun, of_all=not error.limited, until=self._clock.now(), reason=error.message)
        self._outages[account] = outage
        log.warning("learning waits for its model: %s", error.message)
        if len(self._outages) > _MOST_ACCOUNTS:
            self._end(next(iter(self._outages)))
        metrics().learn_model_outages.set(len(self._outages))
        return outage

    def _end(self, account: _Account) -> None:
        outage = self._outages.pop(account)
        metrics().learn_model_outages.set(len(self._outages))
        self._over(outage.number)

    def _of(self, credential: Credential) -> list[_Outage]:
        return [self._outages[account] for account in _accounts_of(credential) if account in self._outages]


class Asking(msgspec.Struct, frozen=True):
    """A call under way, and the outages whose end it may be."""

    credential: Credential
    probes: frozenset[int]


class SparedModel:
    """`ports.ChatModel` over another one, which is left alone in its outages: then it raises `ModelAwaited`."""

    def __init__(self, model: ChatModel, outages: ModelOutages) -> None:
        self._model = model
        self._outages = outages

    async def complete(
        self, credential: Credential, *, system: str, user: str, json_mode: bool, schema: dict[str, Any] | None = None
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


def _accounts_of(credential: Credential) -> tuple[_Account, _Account]:
    """The model, and the account at it: keys are held in memory only, as they are in the credential."""
    shared = (credential.base_url, credential.model)
    return shared, (*shared, credential.api_key)


_OTHERS_FIRST_S = 2.0  # extra delay of a row whose own call failed: another one shows whether the model is at fault
_GIVES_WAY = 3  # how often such a row lets others go first; some of these may have been erased
_FIND_OUT = 16  # rows claimed again as soon as the model may be asked; others when it answers, or after `_LOOK_AGAIN`

_LOOK_AGAIN = timedelta(minutes=5)

_MOST = 100_000  # rows that are remembered; one that was forgotten begins to wait anew


class _Wait(msgspec.Struct):
    since: datetime
    answers: int | None = None
    outage: int | None = None
    reason: str = ""
    gave_way: int = 0
    finds_out: bool = False


class WaitingRows:
    """The journal's rows that wait for a model, up to ``most_s``. In memory only: after a restart every row is due."""

    def __init__(self, outages: ModelOutages, clock: Clock, most_s: float) -> None:
        self.most_s = most_s
        self._outages = outages
        self._clock = clock
        self._waits: OrderedDict[int, _Wait] = OrderedDict()
        self._of: dict[int, set[int]] = {}  # which rows wait for the end of each outage
        self._last_asked: dict[int, int] = {}  # for which row each outage's model was asked last

    def give_way(self, row: JournalRow) -> None:
        """Return if the model may be asked for this row. Raises `ModelAwaited` where it just failed and others wait."""
        wait = self._waits.get(row.number)
        if wait is None or wait.outage is None or self._last_asked.get(wait.outage) != row.number:
            return
        if len(self._of[wait.outage]) > 1 and wait.gave_way < _GIVES_WAY:
            wait.gave_way += 1
            until = self._clock.now() + timedelta(seconds=_OTHERS_FIRST_S)
            raise ModelAwaited(wait.reason, until=until, outage=wait.outage)
        wait.gave_way = 0

    def is_its_own(self, row: JournalRow, error: ModelAwaited) -> bool:
        """Whether the model answered others since it last failed for this row: then the row is at fault."""
        wait = self._wait(row)
        if not error.asked or error.answers is None:
            return False
        earlier_answers, wait.answers = wait.answers, error.answers
        return earlier_answers is not None and error.answers > earlier_answers

    def waited_s(self, row: JournalRow) -> float:
        """Seconds since the row began to wait."""
        return (self._clock.now() - self._wait(row).since).total_seconds()

    def due(self, row: JournalRow, error: ModelAwaited) -> datetime:
        """When the row is claimed again at the latest; it waits for the end of the outage from now on."""
        now = self._clock.now()
        if self._outages.is_over(error.outage):
            return now + timedelta(seconds=_OTHERS_FIRST_S if error.asked else 0)
        wait = self._wait(row)
        if wait.outage != error.outage:
            self._leave(row.number, wait)
            waiting = self._of.setdefault(error.outage, set())
            wait.finds_out = len(waiting) < _FIND_OUT
            waiting.add(row.number)
        wait.outage, wait.reason = error.outage, error.message
        if error.asked:
            self._last_asked[error.outage] = row.number
            return error.until + timedelta(seconds=_OTHERS_FIRST_S)
        return error.until if wait.finds_out else max(error.until, now + _LOOK_AGAIN)

    def over(self, outage: int) -> list[int]:
        """The numbers of the rows that waited for the end of this outage, in their order."""
        self._last_asked.pop(outage, None)
        numbers = sorted(self._of.pop(outage, ()))
        for number in numbers:
            self._waits[number].outage = None
        return numbers

    def ended(self, row: JournalRow) -> None:
        """The row is done, or given up."""
        if (wait := self._waits.pop(row.number, None)) is not None:
            self._leave(row.number, wait)

    def _leave(self, number: int, wait: _Wait) -> None:
        if wait.outage is not None:
            self._of[wait.outage].discard(number)
            wait.outage = None

    def _wait(self, row: JournalRow) -> _Wait:
        wait = self._waits.setdefault(row.number, _Wait(self._clock.now()))
        if len(self._waits) > _MOST:
            self._leave(*self._waits.popitem(last=False))
        return wait
