"""The figures of ``tests.bench.learn``."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.learn import median_interval
from tests.bench.learn_load import Traffic


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [(1, 1, 1, 0.0), (5, 1, 5, 0.9375), (6, 1, 6, 0.96875), (9, 2, 8, 0.9609375), (20, 6, 15, 0.9586105346679688)],
)
def test_the_interval_of_a_median_is_of_order_statistics(count: int, low: int, high: int, coverage: float) -> None:
    assert median_interval([float(value) for value in range(1, count + 1)]) == (low, high, coverage)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40))
def test_the_interval_holds_the_median_of_what_was_measured(values: list[float]) -> None:
    low, high, coverage = median_interval(values)
    ordered = sorted(values)
    assert low <= ordered[len(ordered) // 2] <= high or low <= ordered[(len(ordered) - 1) // 2] <= high
    assert 0 <= coverage < 1


def test_the_slowest_percent_is_told_in_the_order_of_sending() -> None:
    took = [1.0] * 200
    took[150], took[20] = 70.0, 50.0
    run = Traffic(sent_s=[number / 100 for number in range(200)], alone_ms=took)
    assert run.slowest() == [(0.2, 50.0), (1.5, 70.0)]
    assert Traffic().slowest() == []
