"""Chats and probes: what invented people said over months, what they ask afterwards, and which turns an answer needs.

A file is YAML, its form is in docs/evaluation.md; our own lie in ``data`` beside this module.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec

from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals.dataset import Session
from memproxy.evals.own_files import texts
from memproxy.settings.yaml_file import parse_long

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
_LINE = re.compile(r"(?P<role>[ua])(?: (?P<labels>\S+))? \| (?P<text>.+)")
_APART = timedelta(minutes=1)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """One question in a new session of its user, ``before`` being earlier user messages of that session.

    ``gold`` is all that a helpful assistant needs: of each set of turns one. Empty: nothing that was said helps.
    ``acceptable`` turns do no harm; ``never`` are those that mislead (superseded, somebody else's, merely similar).
    """

    id: str
    user: str
    asked_at: datetime
    ask: str
    language: Language = "en"
    size: Size = "everyday"
    group: Group = "general"
    before: tuple[str, ...] = ()
    gold: tuple[frozenset[str], ...] = ()
    acceptable: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


class Chats(msgspec.Struct, frozen=True, kw_only=True):
    """One person's sessions, in the order in which they ended, and probes. Turns have ids of their own."""

    user: str
    sessions: list[Session]
    probes: list[Probe]

    @property
    def turns(self) -> int:
        """How many messages there are."""
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


def load(path: Path | None) -> list[Chats]:
    """The chats of a file, or our own.

    Raises:
        ConfigError: the file is not there, or not of this form.
    """
    return _checked(
        [one for name, text in texts(path, "memproxy.evals.unseen_chats", "chats") for one in _read(name, text)]
    )


def smoke(chats: Sequence[Chats]) -> list[Chats]:
    """Ten probes, spread evenly, and only the people they are of."""
    probes = [probe for one in chats for probe in one.probes]
    kept = {probe.id for probe in probes[:: max(1, len(probes) // SMOKE_PROBES)][:SMOKE_PROBES]}
    fewer = (msgspec.structs.replace(one, probes=[probe for probe in one.probes if probe.id in kept]) for one in chats)
    return [one for one in fewer if one.probes]


def _read(name: str, text: str) -> list[Chats]:
    value: Any = parse_long(text, name)
    try:
        file = msgspec.convert(value, _File)
        return [_chats(user) for user in file.users]
    except (msgspec.ValidationError, ValueError, KeyError) as error:
        raise ConfigError(f"{name} holds no chats ({error}); see docs/evaluation.md for their form") from error


def _checked(chats: list[Chats]) -> list[Chats]:
    users = [one.user for one in chats]
    if not users or len(set(users)) != len(users):
        raise ConfigError("there must be chats, and each person must have a name of their own")
    return chats


def _chats(user: _User) -> Chats:
    labels: dict[str, list[str]] = {}
    sessions = [*_written(user, labels), *(one for each in user.templates for one in _templated(user, each, labels))]
    sessions.sort(key=ended_at)
    made = Chats(user=user.user, sessions=sessions, probes=[])
    probes = [_probe(user, number, _size(made.turns), labels) for number in range(len(user.probes))]
    return msgspec.structs.replace(made, probes=probes)


def ended_at(session: Session) -> datetime:
    """When its last message was said."""
    return session.messages[-1].timestamp or session.date


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
            found = _LINE.fullmatch(line.strip())
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
