"""Who is held out, and how sure the difference between the arms is."""

import random

import pytest

from memproxy.core.experiment_arms import HOLDOUT, MEMORY, Interval, arm_of, compare, wilson

SECRET = b"an installation's secret"
USERS = [f"user-{number}" for number in range(4000)]


def held_out(share: float, *, secret: bytes = SECRET, tenant: str = "acme") -> set[str]:
    return {user for user in USERS if arm_of(secret, tenant, user, share) == HOLDOUT}


def test_a_share_of_users_is_held_out_and_always_the_same_ones() -> None:
    found = held_out(0.05)
    assert 140 <= len(found) <= 260
    assert held_out(0.05) == found
    assert held_out(0.0) == set()
    assert held_out(1.0) == set(USERS)


def test_a_larger_share_lets_nobody_out_and_others_are_drawn_with_another_secret_or_tenant() -> None:
    found = held_out(0.05)
    assert found < held_out(0.1)
    for other in (held_out(0.05, secret=b"another"), held_out(0.05, tenant="other")):
        assert len(found & other) < len(found) / 2


@pytest.mark.parametrize(
    ("hits", "of", "expected"),
    # Newcombe, Statistics in Medicine 17 (1998), table I, method 3
    [(81, 263, (0.2553, 0.3662)), (15, 148, (0.0624, 0.1605)), (0, 20, (0.0, 0.1611)), (1, 29, (0.0061, 0.1718))],
)
def test_a_share_has_wilsons_interval(hits: int, of: int, expected: tuple[float, float]) -> None:
    found = wilson(hits, of)
    assert found is not None
    assert (found.low, found.high) == pytest.approx(expected, abs=0.0001)


def test_nothing_judged_has_no_share() -> None:
    assert wilson(0, 0) is None


def test_the_interval_of_a_mean_holds_the_truth_as_often_as_it_says_though_a_users_requests_are_alike() -> None:
    draw, hits, runs, truth = random.Random(4), 0, 400, 900.0
    for _ in range(runs):
        users = []
        for _ in range(60):
            requests, own = draw.choice([1, 1, 2, 4, 8, 20]), draw.gauss(truth, 300)
            milliseconds = round(sum(draw.gauss(own, 50) for _ in range(requests)))
            users.append({"requests": requests, "milliseconds": milliseconds})
        found = compare(0.5, {MEMORY: users}).arms[MEMORY].per_request["milliseconds"]
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= truth <= found.high
    assert 0.90 <= hits / runs <= 0.97


def test_arms_stand_side_by_side_and_their_difference_is_memory_less_holdout() -> None:
    memory = [{"requests": 2, "priced": 2, "input_tokens": 200 + n, "helpful": 1} for n in range(20)]
    holdout = [{"requests": 1, "priced": 1, "input_tokens": 80, "followups": n % 2, "wrong": 1} for n in range(20)]
    found = compare(0.5, {MEMORY: memory, HOLDOUT: holdout})
    assert (found.arms[MEMORY].users, found.arms[MEMORY].requests) == (20, 40)
    assert found.arms[MEMORY].feedback == {"helpful": 20, "wrong": 0, "correction": 0}
    share = found.arms[HOLDOUT].helpful_share
    assert share is not None
    assert share.mean == 0.0
    followups = found.arms[HOLDOUT].per_request["followups"]
    assert followups is not None
    assert (followups.mean, followups.low, followups.high) == pytest.approx((0.5, 0.2752, 0.7248), abs=0.001)
    tokens = found.difference["input_tokens"]
    assert tokens is not None
    assert tokens.mean == pytest.approx(104.75 - 80)
    assert tokens.low is not None
    assert tokens.low < tokens.mean


def test_few_users_have_a_mean_and_no_interval_and_nobody_has_neither() -> None:
    found = compare(0.5, {MEMORY: [{"requests": 5, "milliseconds": 50}] * 3})
    assert found.arms[MEMORY].per_request["milliseconds"] == Interval(10.0, None, None)
    assert found.arms[MEMORY].per_request["input_tokens"] is None
    assert found.arms[HOLDOUT].users == 0
    assert found.difference["milliseconds"] is None
