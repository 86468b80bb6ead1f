"""Everyday chats: is what is injected relevant, complete and current? ``python -m tests.evals.everyday_chats``.

What invented people said over months, what they ask afterwards, and which turns an answer needs (``chats`` beside this
module; docs/evaluation.md has an example of a file).

A probe with an answer counts for ``any`` and ``all`` (gold that is injected; a fact counts as the turns it came from),
for ``precision`` (injected lines that are gold; lenient: or acceptable) and for the rank of the first gold among all
that was found; ``first@1`` and ``all@8`` tell what the order alone would give, without a floor. A probe without an
answer counts for ``needless``. Probes with turns that mislead count for ``misled``.
"""

import asyncio
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

import memproxy
from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals.cli import DEFAULT_CACHE
from memproxy.evals.dataset import Session
from memproxy.evals.output import make_console, make_table, progress, write_json
from memproxy.evals.scoring import Sample
from memproxy.evals.throwaway import Learning, settings_for
from memproxy.evals.vector_cache import opened_embedder
from memproxy.settings import Settings
from memproxy.settings.loading import load_settings
from memproxy.settings.yaml_file import parse_long
from tests.evals.probes import Given, Line, Probe, ProbedMemory, ended_at, probed_memory

OWN = Path(__file__).parent / "chats"
REPORT_VERSION = 1
SMOKE_PROBES = 10

NO_ANSWER = frozenset({"absent", "general", "smalltalk", "instruction"})
"""Groups whose probes nothing that was said helps with."""

Group = Literal[
    "fact",
    "paraphrase",
    "list",
    "time",
    "update",
    "advice",
    "reference",
    "someone-else",
    "log",
    "follow-up",
    "cross-language",
    "absent",
    "general",
    "smalltalk",
    "instruction",
]
Language = Literal["en", "de", "es", "fr", "zh"]
Size = Literal["tiny", "everyday", "large"]

_TINY = 3
_LARGE = 200
_ROLES = {"u": "user", "a": "assistant"}
_MESSAGE = re.compile(r"(?P<role>[ua])(?: (?P<labels>\S+))? \| (?P<text>.+)")
_APART = timedelta(minutes=1)


WITHIN = 8
"""The default of ``recall.limit``."""


_COLUMNS = {
    "any": "any",
    "all": "all",
    "precision": "precision",
    "precision_lenient": "lenient",
    "lines": "lines",
    "not_searched": "not searched",
    "median_rank": "rank",
    "first@1": "first@1",
    "all@8": "all@8",
    "needless": "needless",
    "needless_lenient": "lenient",
    "misled": "misled",
}


class Chats(msgspec.Struct, frozen=True, kw_only=True):
    """One person's sessions, in the order in which they ended, and probes. Turns have ids of their own."""

    user: str
    sessions: list[Session]
    probes: list[Probe]

    @property
    def turns(self) -> int:
        return sum(len(session.messages) for session in self.sessions)


class _Probe(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: Group
    ask: str
    before: tuple[str, ...] = ()
    gold: tuple[str, ...]
    acceptable: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


class _Template(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Entries of a log: ``count`` of them, ``step_days`` apart, each field going round its values."""

    name: str
    first: str
    step_days: int
    count: int
    user: str
    assistant: str
    values: dict[str, tuple[str | int | float, ...]]


class _User(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str
    language: Language
    asked: str
    chats: str
    templates: tuple[_Template, ...] = ()
    probes: tuple[_Probe, ...]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    users: tuple[_User, ...]


def load(path: Path) -> list[Chats]:
    """The chats of a file, or of all YAML files of a folder.

    Raises:
        ConfigError: a file is not there, or not of this form.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    chats = [one for file in files for one in _read(file)]
    users = [one.user for one in chats]
    if not users or len(set(users)) != len(users):
        raise ConfigError("there must be chats, and each person must have a name of their own")
    return chats


def sampled(chats: Sequence[Chats]) -> list[Chats]:
    """Ten probes, spread evenly, and only the people they are of."""
    probes = [probe for one in chats for probe in one.probes]
    kept = {probe.id for probe in probes[:: max(1, len(probes) // SMOKE_PROBES)][:SMOKE_PROBES]}
    fewer = (msgspec.structs.replace(one, probes=[probe for probe in one.probes if probe.id in kept]) for one in chats)
    return [one for one in fewer if one.probes]


def _read(path: Path) -> list[Chats]:
    try:
        file = msgspec.convert(parse_long(path.read_text("utf-8"), path.name), _File)
        return [_chats(user) for user in file.users]
    except (OSError, msgspec.ValidationError, ValueError, KeyError) as error:
        raise ConfigError(f"{path.name} holds no chats ({error}); see docs/evaluation.md for their form") from error


def _chats(user: _User) -> Chats:
    labels: dict[str, list[str]] = {}
    sessions = [*_written(user, labels), *(one for each in user.templates for one in _templated(user, each, labels))]
    sessions.sort(key=ended_at)
    made = Chats(user=user.user, sessions=sessions, probes=[])
    probes = [_probe(user, number, _size(made.turns), labels) for number in range(len(user.probes))]
    return msgspec.structs.replace(made, probes=probes)


def _size(turns: int) -> Size:
    if turns <= _TINY:
        return "tiny"
    return "large" if turns > _LARGE else "everyday"


def _written(user: _User, labels: dict[str, list[str]]) -> Iterator[Session]:
    """Sessions begin with ``= date``; then a message is a line: role, its labels if it has any, text."""
    for number, part in enumerate(re.split(r"^= ", user.chats, flags=re.MULTILINE)[1:]):
        date, *lines = part.strip().splitlines()
        name = f"{user.user}/{number}"
        messages = []
        for place, line in enumerate(lines):
            found = _MESSAGE.fullmatch(line.strip())
            if found is None:
                raise ValueError(f"{user.user}: {line!r} is no message")
            turn = f"{name}#{place}"
            _label(labels, turn, (found["labels"] or "").split(","))
            said_at = _time(date) + place * _APART
            messages.append(Message(role=_ROLES[found["role"]], content=found["text"], id=turn, timestamp=said_at))
        yield Session(user=user.user, name=name, date=_time(date), messages=messages)


def _templated(user: _User, template: _Template, labels: dict[str, list[str]]) -> Iterator[Session]:
    """A session for each month. An entry is found by ``name@date`` and by ``name=value`` of each of its fields."""
    months: dict[str, list[Message]] = {}
    for number in range(template.count):
        at = _time(template.first) + timedelta(days=number * template.step_days)
        filled = {name: str(values[number % len(values)]) for name, values in template.values.items()}
        messages = months.setdefault(f"{at:%Y-%m}", [])
        for role, text in (("user", template.user), ("assistant", template.assistant)):
            turn = f"{user.user}/{template.name}-{at:%Y-%m-%d}.{role}"
            messages.append(Message(role=role, content=text.format(**filled), id=turn, timestamp=at))
            at += _APART
        told = [f"{template.name}={value}" for value in filled.values() if value]
        _label(labels, messages[-2].id or "", [f"{template.name}@{at:%Y-%m-%d}", *told])
    for month, messages in months.items():
        date = messages[0].timestamp or _time(template.first)
        yield Session(user=user.user, name=f"{user.user}/{template.name}-{month}", date=date, messages=messages)


def _label(labels: dict[str, list[str]], turn: str, names: Sequence[str]) -> None:
    for name in dict.fromkeys(names):
        if name:
            labels.setdefault(name, []).append(turn)


def _probe(user: _User, number: int, size: Size, labels: Mapping[str, Sequence[str]]) -> Probe:
    told = user.probes[number]
    gold = tuple(part for name in told.gold for part in _gold(name, labels))
    members = frozenset[str]().union(*gold)
    never = _turns(told.never, labels)
    if never & members or bool(gold) == (told.group in NO_ANSWER):
        raise ValueError(f"{user.user}: {told.ask!r} has a gold that its group or its other turns contradict")
    return Probe(
        id=f"{user.user}?{number}",
        user=user.user,
        language=user.language,
        size=size,
        group=told.group,
        asked_at=_time(user.asked),
        ask=told.ask,
        before=told.before,
        gold=gold,
        acceptable=_turns(told.acceptable, labels) - members,
        never=never,
    )


def _gold(name: str, labels: Mapping[str, Sequence[str]]) -> list[frozenset[str]]:
    """``a|b`` is one of both; a label that several turns have is all of them."""
    if "|" in name:
        return [_turns(name.split("|"), labels)]
    return [frozenset({turn}) for turn in sorted(_turns([name], labels))]


def _turns(names: Sequence[str], labels: Mapping[str, Sequence[str]]) -> frozenset[str]:
    return frozenset(turn for name in names for turn in labels[name])


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.strip()).replace(tzinfo=UTC)


class Outcome(msgspec.Struct, frozen=True):
    """A probe and what it got."""

    probe: Probe
    given: Given

    @property
    def answerable(self) -> bool:
        """Whether something that was said helps."""
        return bool(self.probe.gold)

    @property
    def covered(self) -> int:
        """How many of the needed turns are injected."""
        return self.given.covered(self.probe.gold)

    def found_within(self, places: int) -> int:
        """How many of the needed turns are among the first so many that were found, whatever the floor says."""
        turns = frozenset[str]().union(*(line.turns for line in self.given.found[:places]))
        return sum(bool(part & turns) for part in self.probe.gold)

    @property
    def first_rank(self) -> float:
        """The place of the first gold among all that was found; infinite when there is none."""
        ranks = (rank for rank, line in enumerate(self.given.found, start=1) if kind_of(line, self.probe) == "gold")
        return next(ranks, math.inf)


def kind_of(line: Line, probe: Probe) -> str:
    """``gold``, ``misleading``, ``acceptable`` or ``other``: what a found memory is to a probe."""
    if any(part & line.turns for part in probe.gold):
        return "gold"
    if line.turns & probe.never:
        return "misleading"
    return "acceptable" if line.turns & probe.acceptable else "other"


def _lines(outcome: Outcome, *kinds: str) -> float:
    return float(sum(kind_of(line, outcome.probe) in kinds for line in outcome.given.lines))


Metric = Callable[[Outcome], tuple[float, float]]
"""Numerator and denominator of one probe; a figure is the sum of the first by the sum of the second."""


def _of_answerable(measure: Callable[[Outcome], float]) -> Metric:
    return lambda one: (float(measure(one)), 1.0) if one.answerable else (0.0, 0.0)


def _of_unanswerable(measure: Callable[[Outcome], float]) -> Metric:
    return lambda one: (0.0, 0.0) if one.answerable else (float(measure(one)), 1.0)


def _precision(*kinds: str) -> Metric:
    return lambda one: (_lines(one, *kinds), float(len(one.given.lines))) if one.answerable else (0.0, 0.0)


METRICS: Mapping[str, Metric] = {
    "any": _of_answerable(lambda one: one.covered > 0),
    "all": _of_answerable(lambda one: one.covered == len(one.probe.gold)),
    "precision": _precision("gold"),
    "precision_lenient": _precision("gold", "acceptable"),
    "lines": _of_answerable(lambda one: len(one.given.lines)),
    "not_searched": _of_answerable(lambda one: one.given.skipped is not None),
    "first@1": _of_answerable(lambda one: one.first_rank == 1),
    "all@8": _of_answerable(lambda one: one.found_within(WITHIN) == len(one.probe.gold)),
    "needless": _of_unanswerable(lambda one: bool(one.given.lines)),
    "needless_lenient": _of_unanswerable(lambda one: _lines(one, "other", "misleading") > 0),
    "misled": lambda one: (float(_lines(one, "misleading") > 0), 1.0) if one.probe.never else (0.0, 0.0),
}


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All figures of these probes, with 95 % intervals from resampling the people (probes of one are alike)."""
    people: dict[str, list[Outcome]] = {}
    for one in outcomes:
        people.setdefault(one.probe.user, []).append(one)
    sample = Sample(
        {name: [_summed(metric, people[user]) for user in sorted(people)] for name, metric in METRICS.items()}
    )
    made: dict[str, Any] = {"probes": len(outcomes), "answerable": sum(one.answerable for one in outcomes)}
    made |= sample.figures()
    ranks = [one.first_rank for one in outcomes if one.answerable]
    middle = median(ranks) if ranks else math.inf
    return made | {"median_rank": None if math.isinf(middle) else middle}


def _summed(metric: Metric, outcomes: Sequence[Outcome]) -> tuple[float, float]:
    above, below = zip(*map(metric, outcomes), strict=True)
    return sum(above), sum(below)


def by_groups(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The figures of all probes, and of each group, language and size of memory."""
    made = {"all": figures(outcomes)}
    for of in ("group", "language", "size"):
        for name in dict.fromkeys(sorted(getattr(one.probe, of) for one in outcomes)):
            chosen = [one for one in outcomes if getattr(one.probe, of) == name]
            made[f"{of}: {name}"] = figures(chosen)
    return made


def told(outcome: Outcome, texts: Mapping[str, str]) -> dict[str, Any]:
    """One probe, for looking into: where its gold is, what speaks against it, and what is injected."""
    probe, given = outcome.probe, outcome.given
    return {
        "id": probe.id,
        "group": probe.group,
        "before": list(probe.before),
        "ask": probe.ask,
        "any": outcome.covered > 0 if probe.gold else None,
        "all": outcome.covered == len(probe.gold) if probe.gold else None,
        "skipped": given.skipped,
        "degraded": given.degraded,
        "tokens": given.tokens,
        "gold": [given.place_of(part, texts) for part in probe.gold],
        "injected": [
            {
                "kind": kind_of(line, probe),
                "score": line.score,
                "memory": line.memory,
                "text": texts.get(line.memory) or " / ".join(texts[turn] for turn in sorted(line.turns)),
            }
            for line in given.lines
        ],
    }


async def measured(
    found: Sequence[Chats],
    settings: Settings,
    *,
    recipes: Sequence[str],
    learning: Sequence[Learning],
    model_path: Path | None,
    cache: Path,
) -> dict[str, Any]:
    """All figures of each recipe with each way of learning, as JSON types; ``model_path`` None: by words alone."""
    console = Console(stderr=True)
    runs: dict[str, Any] = {}
    async with opened_embedder(model_path, cache) as embedder:
        for learn in learning:
            async with probed_memory(settings_for(settings, learn), embedder, recipes) as memory:
                outcomes = await _run(found, memory, recipes, learn, console)
            facts = len(memory.sources)
            runs |= {f"{recipe}, learn {learn}": _report(found, those, facts) for recipe, those in outcomes.items()}
        name = embedder.name
    made = {
        "version": REPORT_VERSION,
        "memproxy": memproxy.__version__,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "evaluation": "chats",
        "embedder": name,
        "users": len(found),
        "turns": sum(one.turns for one in found),
        "probes": sum(len(one.probes) for one in found),
        "runs": runs,
    }
    return msgspec.json.decode(msgspec.json.encode(made), type=dict[str, Any])  # NaN becomes null


async def _run(
    found: Sequence[Chats], memory: ProbedMemory, recipes: Sequence[str], learn: Learning, console: Console
) -> dict[str, list[Outcome]]:
    """The outcomes of every probe by recipe."""
    outcomes: dict[str, list[Outcome]] = {recipe: [] for recipe in recipes}
    with progress(console, f"chats (learn {learn})", sum(one.turns for one in found)) as step:
        for one in found:
            await memory.live(one.user, one.sessions)
            step(one.turns)
    with progress(console, "probes", len(recipes) * sum(len(one.probes) for one in found)) as step:
        for recipe in recipes:
            for probe in (probe for one in found for probe in one.probes):
                outcomes[recipe].append(Outcome(probe, await memory.request(probe, recipe)))
                step(1)
    return outcomes


def _report(found: Sequence[Chats], outcomes: Sequence[Outcome], facts: int) -> dict[str, Any]:
    texts = {
        message.id or "": message.content for one in found for session in one.sessions for message in session.messages
    }
    return {
        "facts": facts,
        "degraded": sum(one.given.degraded is not None for one in outcomes),
        "groups": by_groups(outcomes),
        "probes": [told(one, texts) for one in outcomes],
    }


def show(made: Mapping[str, Any], console: Console) -> None:
    """Print the totals of all runs side by side, then each run by group, language and size of memory."""
    console.print(
        f"chats ({made['data']}): {made['users']} people, {made['turns']} turns, {made['probes']} probes; "
        f"embedder {made['embedder']}"
    )
    console.print(_totals(made["runs"]))
    for name, run in made["runs"].items():
        console.print(_groups(name, run))
        if run["degraded"]:
            console.print(f"recall gave up on {run['degraded']} probes")


def _totals(runs: Mapping[str, Any]) -> Table:
    table = make_table("figure", *runs, title="all probes, with 95 % intervals")
    for name in _COLUMNS:
        table.add_row(name, *(_cell(run["groups"]["all"][name], interval=True) for run in runs.values()))
    return table


def _groups(name: str, run: Mapping[str, Any]) -> Table:
    table = make_table("probes", "n", "with gold", *_COLUMNS.values(), title=f"{name} ({run['facts']} facts)")
    for group, found in run["groups"].items():
        cells = (_cell(found[name]) for name in _COLUMNS)
        table.add_row(group, str(found["probes"]), str(found["answerable"]), *cells)
    return table


def _cell(found: Mapping[str, float | None] | float | None, *, interval: bool = False) -> str:
    if found is None:
        return "-"
    if not isinstance(found, Mapping):
        return f"{found:g}"
    if found["value"] is None:
        return "-"
    return f"{found['value']:.3f}" + (f" [{found['low']:.3f}, {found['high']:.3f}]" if interval else "")


def main(
    *,
    data: Annotated[Path, typer.Option(help="A file of chats with their probes, or a folder of them.")] = OWN,
    recipe: Annotated[list[str] | None, typer.Option(help="Recipes to compare. Default: default.")] = None,
    learn: Annotated[
        Literal["off", "verbatim", "both"], typer.Option(help="off: turns alone. verbatim: also facts by rules.")
    ] = "both",
    config: Annotated[Path | None, typer.Option(help="Whose gate, recall and dedup are measured.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="Ten probes only.")] = False,
    json_out: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
    model_path: Annotated[Path | None, typer.Option(help="Folder of a local ONNX model. Default: words alone.")] = None,
    cache: Annotated[Path, typer.Option(help="Folder that keeps vectors between runs.")] = DEFAULT_CACHE,
) -> None:
    """Measure what is injected into everyday questions, print and write the figures."""
    found = load(data)
    found = sampled(found) if smoke else found
    settings = Settings() if config is None else load_settings(config)
    made = asyncio.run(
        measured(
            found,
            settings,
            recipes=list(dict.fromkeys(recipe or ["default"])),
            learning=("off", "verbatim") if learn == "both" else (learn,),
            model_path=model_path,
            cache=cache,
        )
    )
    made = {"data": data.name, "smoke": smoke, **made}
    show(made, make_console())
    write_json(json_out, made)


if __name__ == "__main__":
    typer.run(main)
