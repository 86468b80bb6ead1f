"""How long a row waits before it is tried again."""

import tenacity

_COUNTED = tenacity.wait_exponential(multiplier=2, exp_base=4, max=600) + tenacity.wait_random(0, 1)
"""2, 8, 32, 128 s and up to a second more: five tries span three minutes."""

_OUTAGE = tenacity.wait_exponential(multiplier=0.25, exp_base=2, max=10) + tenacity.wait_random(0, 0.25)
"""0.25 s, doubled up to 10 s: what waits for a store goes on soon after it heals."""

_MODEL = tenacity.wait_exponential(multiplier=1, exp_base=2, max=240) + tenacity.wait_random_exponential(
    multiplier=0.25, exp_base=2, max=60
)
"""1 s, doubled up to 4 minutes, and up to a quarter more: a model that everybody asks is not asked by all at once."""


def counted_delay(tries: int) -> float:
    """Seconds before the next try after the ``tries``-th counted failure (1 is the first)."""
    return _delay(_COUNTED, tries)


def outage_delay(tries: int) -> float:
    """Seconds before the next look at a store that did not answer ``tries`` times."""
    return _delay(_OUTAGE, tries)


def model_delay(tries: int) -> float:
    """Seconds before a model is asked again that did not answer ``tries`` times (1 is the first)."""
    return _delay(_MODEL, tries)


def _delay(wait: tenacity.wait.wait_base, tries: int) -> float:
    retrying = tenacity.Retrying()
    state = tenacity.RetryCallState(retry_object=retrying, fn=None, args=(), kwargs={})
    state.attempt_number = tries
    return wait(state)
