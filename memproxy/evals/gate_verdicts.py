"""The gate on lines of known kinds: how often each is searched for, and how long the verdict takes.

A line of the data is JSON with ``text``, ``kind``, ``source`` and, if there are any, ``earlier`` (the user's messages
before it, oldest first). The share of ``personal-memory`` that is searched should be near 1, that of greetings, small
talk, tools and general facts near 0. Lines with first-person words are counted apart: "what is my balance" is a tool's
business to its labeller, and personal here.
"""

import re
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, get_args

import msgspec
from rich.console import Console

from memproxy.core import gate
from memproxy.core.message_kinds import fitted
from memproxy.errors import ConfigError
from memproxy.evals.output import make_console, make_table, write_json
from memproxy.evals.scoring import percentiles
from memproxy.settings import GateCategory, GateSettings, Settings
from memproxy.settings.loading import load_settings

SKIP = frozenset[str](get_args(GateCategory))
"""Every kind is skipped, as is the default."""

NOT_NEEDED = frozenset({"greeting", "general-fact", "tool", "small-talk-about-bot"})
"""Kinds that need no memory."""

_FIRST_PERSON = re.compile(r"\b(?:i|me|my|mine|myself|we|us|our|ours|ourselves)\b", re.IGNORECASE)


class Line(msgspec.Struct, frozen=True):
    """One message and what it is; ``earlier`` are the user's messages before it, oldest first."""

    text: str
    kind: str
    source: str = ""
    earlier: tuple[str, ...] = ()


class Judged(msgspec.Struct, frozen=True):
    """A message, the gate's verdict and how long that took in milliseconds."""

    line: Line
    verdict: gate.Verdict
    milliseconds: float

    @property
    def first_person(self) -> bool:
        """Whether it has words like "I" and "my"."""
        return _FIRST_PERSON.search(self.line.text) is not None

    @property
    def needless(self) -> bool:
        """Whether it is searched for although its kind needs no memory."""
        return self.verdict.searched and self.line.kind in NOT_NEEDED

    @property
    def wrong(self) -> bool:
        """Worth reading: a needless search, or a memory that is not looked for."""
        return self.needless or (self.line.kind == "personal-memory" and not self.verdict.searched)


def load(path: Path) -> list[Line]:
    """Read a file of lines.

    Raises:
        ConfigError: it is not there, empty, or not of this form.
    """
    try:
        lines = msgspec.json.Decoder(Line).decode_lines(path.read_bytes())
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"--data {path} is no gate data ({error}); give a file like gate_dev.jsonl") from error
    if not lines:
        raise ConfigError(f"--data {path} holds no line; give a file like gate.jsonl")
    return lines


def evaluate(lines: Sequence[Line], skip: frozenset[str] = SKIP) -> list[Judged]:
    """The verdict on every line; the weights are read before, as at a proxy's start."""
    fitted()
    judged = []
    for line in lines:
        start = time.perf_counter()
        verdict = gate.judge(line.text, skip, follows=bool(line.earlier))
        judged.append(Judged(line, verdict, (time.perf_counter() - start) * 1000))
    return judged


def measure_gate(data: Path, json_out: Path | None, *, config: Path | None = None) -> None:
    """Measure the gate (of a configuration, by default all of it), print and write the figures."""
    settings = Settings() if config is None else load_settings(config)
    report = made_report(evaluate(load(data), skipped(settings.gate)), data.name)
    show(report, make_console())
    write_json(json_out, report)


def skipped(settings: GateSettings) -> frozenset[str]:
    """The kinds of messages that a gate of these settings skips."""
    return frozenset[str](settings.skip) if settings.enabled else frozenset()


def made_report(judged: Sequence[Judged], data: str) -> dict[str, Any]:
    """All figures as JSON types."""
    kinds = sorted({item.line.kind for item in judged})
    sources = sorted({item.line.source for item in judged})
    return {
        "evaluation": "gate",
        "data": data,
        "lines": len(judged),
        "kinds": {kind: _rates(item for item in judged if item.line.kind == kind) for kind in kinds},
        "sources": {source: _rates(item for item in judged if item.line.source == source) for source in sources},
        "latency_ms": percentiles([item.milliseconds for item in judged]),
        "wrong": [
            {
                "text": item.line.text,
                "kind": item.line.kind,
                "source": item.line.source,
                "reason": item.verdict.reason,
                "first_person": item.first_person,
            }
            for item in judged
            if item.wrong
        ],
    }


def _rates(group: Iterable[Judged]) -> dict[str, Any]:
    judged = list(group)
    return {
        "all": _searched_share(judged),
        "first_person": _searched_share([item for item in judged if item.first_person]),
        "no_first_person": _searched_share([item for item in judged if not item.first_person]),
        "reasons": dict(Counter(item.verdict.reason for item in judged).most_common()),
    }


def _searched_share(judged: Sequence[Judged]) -> dict[str, Any]:
    searched = sum(item.verdict.searched for item in judged)
    rate = round(searched / len(judged), 4) if judged else None
    return {"lines": len(judged), "searched": searched, "rate": rate}


def show(report: dict[str, Any], console: Console) -> None:
    """Print the tables."""
    for by in ("kinds", "sources"):
        table = make_table(
            by[:-1], "lines", "searched", "first person", "no first person", title=f"searched, by {by[:-1]}"
        )
        for name, rates in report[by].items():
            cells = (_share(rates[column]) for column in ("all", "first_person", "no_first_person"))
            table.add_row(name, str(rates["all"]["lines"]), *cells)
        console.print(table)
    times = report["latency_ms"]
    console.print(f"verdict: p50 {times['p50']} ms, p95 {times['p95']} ms, p99 {times['p99']} ms")


def _share(rates: dict[str, Any]) -> str:
    return "-" if rates["rate"] is None else f"{rates['rate']:.3f} ({rates['searched']} of {rates['lines']})"
