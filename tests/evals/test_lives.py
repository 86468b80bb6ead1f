"""Lives: the measurement on a small file, by words alone, and the form of the files that come with the tests."""

import json
from pathlib import Path

import pytest

from memproxy.errors import ConfigError
from tests.evals.lived_plots import FLOORS, calibration, frontier
from tests.evals.lives import load, main

LIVES = Path(__file__).parent / "lived"

SMALL = """
people:
  - user: kim
    tellings:
      - id: t1
        at: 2026-03-02T08:15:00Z
        said: [{user: "My locker code is 4471."}, {assistant: "Noted, kim!"}]
        facts: [{text: "User's locker code is 4471.", evidence: "My locker code is 4471"}]
      - id: t2
        at: 2026-03-19T08:15:00Z
        said: [{user: "My dog Moss is a whippet."}, {assistant: "Lovely."}]
        facts: [{text: "User's dog Moss is a whippet.", evidence: "My dog Moss is a whippet"}]
    questions:
      - {id: q1, at: 2026-05-01T10:00:00Z, ask: "What breed is my dog Moss?", reply: "A whippet.",
         reply_without: "I don't know.", needs: [[t2]]}
nothing:
  - {ask: "How tall is Mount Everest?", reply: "8,849 m."}
"""


def test_a_question_is_answered_when_what_it_needs_is_in_the_block(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    figures = tmp_path / "figures.json"
    main(["--data", str(tmp_path / "small.yaml"), "--json", str(figures)])
    states = json.loads(figures.read_text())["states"]
    assert list(states) == [
        "off, fresh",
        "off, after a round",
        "perfect extractor, fresh",
        "perfect extractor, after a round",
    ]
    assert all(state["questions"] == 1 and state["wanting nothing"] == 1 for state in states.values())
    assert states["off, fresh"]["answered"] == 1
    assert states["perfect extractor, fresh"]["answered"] == 1
    assert states["off, fresh"]["needless blocks"] == 0


def test_a_file_of_another_form_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "odd.yaml").write_text("people: [{user: kim}]")
    with pytest.raises(ConfigError, match=r"odd\.yaml"):
        load([tmp_path / "odd.yaml"])


@pytest.mark.parametrize("name", ["english_open", "english_closed", "other_open", "other_closed"])
def test_what_a_question_needs_was_told_in_the_files_that_come_with_the_tests(name: str) -> None:
    lives = load([LIVES / f"{name}.yaml"])
    turns = {message.id for life in lives for session in life.sessions for message in session.messages}
    needed = [part for life in lives for one in life.asked for part in one.probe.gold]
    assert needed
    assert all(part and part <= turns for part in needed)


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
