"""A report of lives becomes pictures of what a floor costs and of what a score means."""

from tests.evals.lived_plots import FLOORS, calibration, frontier


def lines(score: float, needed: int, count: int) -> list[dict[str, object]]:
    return [{"score": score, "is_needed": place < needed} for place in range(count)]


def test_a_line_below_a_floor_is_neither_an_answer_nor_needless() -> None:
    part = {"rejected": None, "score": 0.45}
    asked = {"kind": "direct", "needed": [part], "injected": [*lines(0.45, 1, 1), *lines(0.25, 0, 2)]}
    (curve,) = frontier({"off, fresh": {"each": [asked]}}).lines.values()
    found = dict(zip(FLOORS, curve, strict=True))
    assert [found[floor][:2] for floor in (0.1, 0.3, 0.5)] == [(2.0, 1.0), (0.0, 1.0), (0.0, 0.0)]


def test_each_tenth_of_probability_has_the_part_of_its_lines_that_is_needed() -> None:
    asked = {"kind": "direct", "needed": [], "injected": lines(0.6, 4, 10)}  # right ones weigh 1.5: it says one half
    profile = {"kind": "inventory", "needed": [], "injected": lines(0.9, 0, 10)}
    plot = calibration({"off, fresh": {"each": [asked, profile]}})
    ((said, needed, _),) = plot.lines["off, fresh"]
    assert (round(said, 6), needed) == (0.5, 0.4)
    assert plot.svg().count("<circle") == 3
