"""Does memory help? A share of users, by a keyed hash, gets none; the results of both arms with 95 % confidence. A user
is one draw: a mean per request is a ratio of two sums over users, its variance that of a ratio estimator (Cochran,
Sampling Techniques, 1977, 2.11 and 6.4). Shares of judgements have Wilson's interval (1927).
"""

import hmac
import math
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

Arm = Literal["memory", "holdout"]
MEMORY: Arm = "memory"
HOLDOUT: Arm = "holdout"
ARMS = (MEMORY, HOLDOUT)

Z = 1.96  # standard deviations from a normal mean within which 95 % lie
FEWEST_USERS = 10  # with fewer users of an arm nothing is said of its mean's interval: a normal one would be too narrow

MEASURES = {
    "followups": "requests",
    "input_tokens": "priced",
    "output_tokens": "priced",
    "cached_tokens": "priced",
    "milliseconds": "requests",
}
"""What is compared, and per how many of what: ``priced`` are requests of which the upstream told the tokens."""

SIGNALS = ("helpful", "wrong", "correction")
COUNTED = ("requests", "priced", *MEASURES, *SIGNALS)  # what is counted of a user
Counts = Mapping[str, int]  # of one user, by the names in `COUNTED`


def arm_of(secret: bytes, tenant: str, user: str, share: float) -> Arm:
    """A user's arm, as long as secret and share stay. A larger share only takes more users into the holdout."""
    parts = [part.encode("utf-8", "surrogatepass") for part in ("holdout", tenant, user)]
    digest = hmac.digest(secret, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")
    return HOLDOUT if int.from_bytes(digest[:8], "big") < share * 2**64 else MEMORY


class Interval(msgspec.Struct, frozen=True):
    """An estimate and the 95 % interval around it; ``low`` and ``high`` None where there are too few users."""

    mean: float
    low: float | None
    high: float | None


class ArmResult(msgspec.Struct, frozen=True, kw_only=True):
    """One arm: counts of judgements, the helpful share of them, and means by the names in `MEASURES`."""

    users: int
    requests: int
    feedback: dict[str, int]
    helpful_share: Interval | None
    per_request: dict[str, Interval | None]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Both arms side by side; ``difference`` is memory less holdout, None where one of both is not known."""

    share: float
    arms: dict[str, ArmResult]
    difference: dict[str, Interval | None]


def compare(share: float, users: Mapping[str, Sequence[Counts]]) -> Comparison:
    """What the users of each arm came to."""
    means = {arm: {name: _mean(users.get(arm, ()), name, per) for name, per in MEASURES.items()} for arm in ARMS}
    results: dict[str, ArmResult] = {}
    for arm in ARMS:
        total = {name: sum(counts.get(name, 0) for counts in users.get(arm, ())) for name in COUNTED}
        judged = sum(total[name] for name in SIGNALS)
        results[arm] = ArmResult(
            users=len(users.get(arm, ())),
            requests=total["requests"],
            feedback={name: total[name] for name in SIGNALS},
            helpful_share=wilson(total["helpful"], judged),
            per_request={name: _interval(mean) for name, mean in means[arm].items()},
        )
    difference = {name: _interval(_less(means[MEMORY][name], means[HOLDOUT][name])) for name in MEASURES}
    return Comparison(share=share, arms=results, difference=difference)


def wilson(hits: int, of: int) -> Interval | None:
    """A share with Wilson's score interval; None of nothing."""
    if not of:
        return None
    share, spread = hits / of, Z * Z / of
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * math.sqrt(share * (1 - share) / of + spread / (4 * of))
    return Interval(round(share, 4), round(max(0.0, middle - half), 4), round(min(1.0, middle + half), 4))


_Mean = tuple[float, float | None] | None  # the ratio of two sums over users, and its variance


def _mean(users: Sequence[Counts], name: str, per: str) -> _Mean:
    pairs = [(counts.get(name, 0), counts.get(per, 0)) for counts in users]
    below = sum(count for _, count in pairs)
    if not below:
        return None
    ratio = sum(value for value, _ in pairs) / below
    drawn = sum(count > 0 for _, count in pairs)
    if drawn < FEWEST_USERS:
        return ratio, None
    squares = sum((value - ratio * count) ** 2 for value, count in pairs)
    return ratio, squares * drawn / (drawn - 1) / below**2


def _less(mean: _Mean, other: _Mean) -> _Mean:
    if mean is None or other is None:
        return None
    return mean[0] - other[0], None if mean[1] is None or other[1] is None else mean[1] + other[1]


def _interval(mean: _Mean) -> Interval | None:
    if mean is None:
        return None
    value, variance = mean
    if variance is None:
        return Interval(round(value, 4), None, None)
    half = Z * math.sqrt(variance)
    return Interval(round(value, 4), round(value - half, 4), round(value + half, 4))
