"""``python -m tests.fitting.later``: fits how likely a message is needed that was said later than a likely memory
(`recall.later_statements`), and prints the weights.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from memproxy.recall.later_statements import AMONG, MOST, later_odds
from memproxy.recall.recipes import DEFAULT
from memproxy.recall.scores import LIKELY
from tests.evals import lives
from tests.fitting import logistic
from tests.fitting.calibration import Document, Workshop, people
from tests.fitting.levels import LEVEL, told
from tests.fitting.lived_situations import tells, turns_of

_MODELS = {kind: LEVEL[kind] for kind in ("hybrid", "late")}


def main(
    files: Annotated[list[Path], typer.Argument(help="Files of lives (docs/evaluation.md).")],
    shared: Annotated[Path, typer.Option(help="Folder with eval/ and models/.")] = Path("../shared"),
) -> None:
    """Print the weights ``OWN``, ``FOLLOWS`` and ``WORTH`` (as fitted; the shipped one is 0.4 more)."""
    workshop = Workshop(shared / "models" / "all-MiniLM-L6-v2")
    rows: list[tuple[float, float]] = []
    needed: list[float] = []
    for corpus, question, gold in _questions(workshop, files, shared):
        table = workshop.table(corpus, question, dense=True, limit=DEFAULT.by_tokens)
        if table is None:
            continue
        example = workshop.judged(table, corpus, gold)
        odds = told(example, _MODELS)
        order = table.likeliest_messages(odds, AMONG)
        said = dict(zip(order, table.tokens(order), strict=True))
        for place in order[:MOST]:
            if odds[place] >= LIKELY:
                for other, follows in later_odds(place, said, table.memories, table.tells).items():
                    rows.append((float(odds[other]), follows))
                    needed.append(float(example.labels[other]))
    labels = np.array(needed)
    worth, own, follows = logistic.fit(np.array(rows), labels, np.ones(len(labels)))
    print(f"{len(labels)} pairs, {int(labels.sum())} needed: OWN {own:.2f}, FOLLOWS {follows:.2f}, WORTH {worth:.2f}")


def _questions(
    workshop: Workshop, files: Sequence[Path], shared: Path
) -> Iterator[tuple[list[Document], str, frozenset[str]]]:
    """What was told, a question, and the messages that are needed."""
    for life in lives.load(files):
        corpus = [one for one in turns_of(workshop, life.sessions) if tells(one)]
        for probe in (one.probe for one in life.asked if one.probe.gold):
            yield corpus, probe.ask, frozenset[str]().union(*probe.gold)
    for person in people(workshop, shared / "eval" / "locomo_dev.json"):
        for question in person.conversation.questions:
            if question.scored and question.gold_turns:
                yield person.turns, question.text, question.gold_turns


if __name__ == "__main__":
    typer.run(main)
