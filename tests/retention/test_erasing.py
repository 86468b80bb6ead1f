"""How long deleted text may stay in the files where nobody waits."""

import pytest

from memproxy.retention.erasing import LONGEST_REST_S, rest_after


@pytest.mark.parametrize("took_s", [0.01, 0.1, 0.5, 1.0, 2.5])
def test_where_files_are_written_quickly_text_waits_ten_seconds_at_most(took_s: float) -> None:
    assert rest_after(took_s) <= LONGEST_REST_S == 10


@pytest.mark.parametrize("took_s", [3.0, 60.0, 600.0])
def test_where_files_are_written_slowly_that_takes_a_fifth_of_the_time_at_most(took_s: float) -> None:
    assert took_s / (took_s + rest_after(took_s)) == pytest.approx(0.2)


def test_where_files_are_written_at_once_that_takes_a_twentieth_of_the_time() -> None:
    assert rest_after(0.3) == pytest.approx(6)
