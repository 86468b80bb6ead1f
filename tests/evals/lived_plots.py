"""What a floor costs and what a score means, drawn from a report of lives.

    python -m tests.evals.lives --data FILE... --config FILE --json REPORT.json  # recall.similarity_threshold: 0.1
    python -m tests.evals.lived_plots REPORT.json --out docs/pictures

Writes ``frontier.svg``, the part of the questions that are answered over the lines a question that it does not need, a
point for each floor, and ``calibration.svg``, the part of the lines that are needed over what their scores say.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

FLOORS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7)
RIGHT = 1.5
"""What a right candidate weighs where scores are fitted (`tests.fitting.levels.RIGHT`)."""

LEAST_LINES = 10
"""A tenth with fewer lines is not drawn."""

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 640, 400, 60, 20, 50
_COLOURS = ("#1b6ca8", "#6fb1dc", "#b3541e", "#e0a070")

Point = tuple[float, float, str]


class Plot(msgspec.Struct, kw_only=True):
    """Named lines of points ``(x, y, label)`` on axes that begin at 0."""

    x_name: str
    y_name: str
    most_x: float
    lines: Mapping[str, Sequence[Point]]

    def svg(self) -> str:
        return "\n".join(
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}"',
                ' font-family="sans-serif" font-size="12">',
                f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#fff"/>',
                *self._axes(),
                *self._curves(),
                "</svg>",
                "",
            )
        )

    def _at(self, x: float, y: float) -> tuple[int, int]:
        wide, high = _WIDTH - _LEFT - 20, _HEIGHT - _TOP - _BOTTOM
        return round(_LEFT + wide * x / self.most_x), round(_TOP + high * (1 - y))

    def _axes(self) -> Iterator[str]:
        for step in range(6):
            share = step / 5
            x, y = self._at(share * self.most_x, share)
            yield f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - 20}" y2="{y}" stroke="#ddd"/>'
            yield f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{share:.1f}</text>'
            yield f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{share * self.most_x:.1f}</text>'
        yield f'<text x="{_WIDTH // 2}" y="{_HEIGHT - 10}" text-anchor="middle">{self.x_name}</text>'
        middle = _HEIGHT // 2
        yield f'<text x="14" y="{middle}" transform="rotate(-90 14 {middle})" text-anchor="middle">{self.y_name}</text>'

    def _curves(self) -> Iterator[str]:
        for place, ((name, points), colour) in enumerate(zip(self.lines.items(), _COLOURS, strict=False)):
            corners = " ".join(f"{x},{y}" for x, y in (self._at(x, y) for x, y, _ in points))
            yield f'<polyline points="{corners}" fill="none" stroke="{colour}" stroke-width="2"/>'
            for x, y, label in points:
                at, down = self._at(x, y)
                yield f'<circle cx="{at}" cy="{down}" r="3" fill="{colour}"><title>{label}</title></circle>'
            down = _HEIGHT - _BOTTOM - 12 - 16 * place
            yield f'<text x="{_WIDTH - 28}" y="{down}" text-anchor="end" fill="{colour}">{name}</text>'


def frontier(states: Mapping[str, Any]) -> Plot:
    """Each state at each floor: the lines below it are taken out of the blocks of the report."""
    lines = {name: [_at_floor(state["each"], floor) for floor in FLOORS] for name, state in states.items()}
    most = max(x for points in lines.values() for x, _, _ in points)
    return Plot(x_name="lines a question that it does not need", y_name="questions answered", most_x=most, lines=lines)


def _at_floor(each: Sequence[Any], floor: float) -> Point:
    questions = [one for one in each if one["needed"]]
    answered = sum(
        all(part["rejected"] is None and (part["score"] or 0.0) >= floor for part in one["needed"]) for one in questions
    )
    needless = sum(line["score"] >= floor and not line["is_needed"] for one in questions for line in one["injected"])
    label = f"floor {floor}: {answered} of {len(questions)}, {needless} lines that are not needed"
    return needless / len(questions), answered / len(questions), label


def calibration(states: Mapping[str, Any]) -> Plot:
    """The fresh states: of the lines of each tenth of probability the part that is needed, beside the ideal. Profiles,
    whose lines all have one score, are left out.
    """
    drawn: dict[str, list[Point]] = {"as it says": [(0.0, 0.0, ""), (1.0, 1.0, "")]}
    for name in (name for name in states if name.endswith("fresh")):
        said = [
            (_probability(line["score"]), line["is_needed"])
            for one in states[name]["each"]
            if one["kind"] != "inventory"
            for line in one["injected"]
        ]
        tenths = [[one for one in said if int(10 * min(one[0], 0.999)) == tenth] for tenth in range(10)]
        drawn[name] = [_share(some) for some in tenths if len(some) >= LEAST_LINES]
    return Plot(x_name="probability that a score says", y_name="lines that are needed", most_x=1.0, lines=drawn)


def _probability(score: float) -> float:
    return score / (score + RIGHT * (1 - score))


def _share(said: Sequence[tuple[float, bool]]) -> Point:
    mean, needed = sum(one for one, _ in said) / len(said), sum(is_needed for _, is_needed in said)
    return mean, needed / len(said), f"{needed} of {len(said)} lines, said {mean:.2f}"


def main() -> None:
    """Draw what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    parser.add_argument("--out", type=Path, default=Path())
    given = parser.parse_args()
    states = json.loads(given.report.read_text("utf-8"))["states"]
    for name, plot in (("frontier", frontier(states)), ("calibration", calibration(states))):
        (given.out / f"{name}.svg").write_text(plot.svg(), "utf-8")
        for curve, points in plot.lines.items():
            print(f"{name}, {curve}: " + "; ".join(label for _, _, label in points if label))


if __name__ == "__main__":
    main()
