"""`memproxy eval lived`: do questions of everyday life get what they need, fresh and after they were asked before?

People tell things over weeks, and ask in new sessions. Four states are measured: learning off and a perfect extractor
(the facts of the file, word for word), each with a fresh memory and after one round in which every question was asked
and answered through the product with capture on. The form of a file is in docs/evaluation.md.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

import memproxy
from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals import report
from memproxy.evals.dataset import Session
from memproxy.evals.progress import Step, progress
from memproxy.evals.unseen_chats.command import Options, opened_embedder
from memproxy.evals.unseen_chats.data import Chats, Probe
from memproxy.evals.unseen_chats.memory import ChatMemory, Given, Learn, chat_memory
from memproxy.learn.extract import EXTRACT_MARK
from memproxy.ports import Credential, Embedder, ModelReply
from memproxy.settings import Settings
from memproxy.settings.loading import load_settings
from memproxy.settings.yaml_file import parse_long

REPORT_VERSION = 1

_ROUND = timedelta(days=1)
"""After the first round everything is asked again this much later."""

_APART = timedelta(minutes=1)


class _Fact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``text`` is the statement, or with ``intent`` forget the earlier statement that is taken back."""

    text: str
    evidence: str
    replaces: str | None = None
    intent: str | None = None


class _Telling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    at: datetime
    said: tuple[dict[str, str], ...]
    facts: tuple[_Fact, ...] = ()


class _Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    id: str
    at: datetime
    ask: str
    reply: str
    reply_without: str
    needs: tuple[tuple[str, ...], ...]
    stale: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    kind: str = "direct"


class _Nothing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ask: str
    reply: str


class _Person(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    user: str
    tellings: tuple[_Telling, ...]
    questions: tuple[_Question, ...] = ()
    nothing: tuple[_Nothing, ...] = ()


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    people: tuple[_Person, ...]
    nothing: tuple[_Nothing, ...] = ()


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A question (``needs`` empty: one that wants nothing) and the replies of an assistant with memory and without."""

    probe: Probe
    kind: str
    reply: str
    reply_without: str


class Life(msgspec.Struct, frozen=True, kw_only=True):
    """One person: what is told, what a perfect extractor stores of it, and what is asked."""

    chats: Chats
    facts: tuple[_Fact, ...]
    asked: tuple[Asked, ...]


class PerfectExtractor:
    """A chat model that extracts the facts whose evidence the new messages hold, and sums up nothing."""

    def __init__(self, lives: Sequence[Life]) -> None:
        self._facts = [fact for life in lives for fact in life.facts]

    async def complete(
        self, credential: Credential, *, system: str, user: str, json_mode: bool, schema: dict[str, Any] | None = None
    ) -> ModelReply:
        """As a model would answer; the credential is not looked at."""
        del credential, json_mode, schema
        if not system.startswith(EXTRACT_MARK):
            return ModelReply(text='{"summary": ""}')
        lines = [json.loads(line) for line in user.splitlines() if line.startswith("{")]
        said = "\n".join(line["text"] for line in lines if line.get("new") and line["role"] == "user")
        candidates = [_candidate(fact) for fact in self._facts if " ".join(fact.evidence.split()) in said]
        return ModelReply(text=json.dumps({"candidates": candidates}))

    async def close(self) -> None:
        """Nothing to close."""


def _candidate(fact: _Fact) -> dict[str, Any]:
    made: dict[str, Any] = {"content": fact.text, "evidence": fact.evidence}
    if fact.intent == "forget":
        return made | {"intent": "forget", "subject": "user"}
    return made | ({"intent": "correct", "replaces": fact.replaces} if fact.replaces else {})


def load(paths: Sequence[Path]) -> list[Life]:
    """The people of some files.

    Raises:
        ConfigError: a file is not there, or not of this form.
    """
    lives: list[Life] = []
    for path in paths:
        try:
            file = msgspec.convert(parse_long(path.read_text("utf-8"), path.name), _File)
            lives += [_life(person, file.nothing if not number else ()) for number, person in enumerate(file.people)]
        except (OSError, msgspec.ValidationError, KeyError) as error:
            raise ConfigError(
                f"{path.name} cannot be read as lives ({error}); see docs/evaluation.md for their form"
            ) from error
    return lives


def _life(person: _Person, nothing: Sequence[_Nothing]) -> Life:
    sessions = [_session(person.user, telling) for telling in person.tellings]
    told = {telling.id: _telling_turns(person.user, telling) for telling in person.tellings}
    last = max(session.date for session in sessions) + _ROUND
    asked = [
        Asked(
            probe=Probe(
                id=f"{person.user}?{one.id}",
                user=person.user,
                group="fact",
                asked_at=max(one.at, last),
                ask=one.ask,
                gold=tuple(frozenset().union(*(told[name] for name in part)) for part in one.needs),
                never=frozenset().union(*(told[name] for name in one.stale)),
            ),
            kind=one.kind,
            reply=one.reply,
            reply_without=one.reply_without,
        )
        for one in person.questions
    ]
    asked += [_wants_nothing(person.user, number, one, last) for number, one in enumerate([*person.nothing, *nothing])]
    facts = tuple(fact for telling in person.tellings for fact in telling.facts)
    return Life(chats=Chats(user=person.user, sessions=sessions, probes=[]), facts=facts, asked=tuple(asked))


def _wants_nothing(user: str, number: int, one: _Nothing, at: datetime) -> Asked:
    probe = Probe(id=f"{user}?nothing-{number}", user=user, asked_at=at, ask=one.ask)
    return Asked(probe=probe, kind="nothing", reply=one.reply, reply_without=one.reply)


def _session(user: str, telling: _Telling) -> Session:
    messages = []
    for place, message in enumerate(telling.said):
        ((role, text),) = message.items()
        at = telling.at + place * _APART
        messages.append(Message(role=role, content=text, id=_turn(user, telling.id, place), timestamp=at))
    return Session(user=user, name=f"{user}/{telling.id}", date=telling.at, messages=messages)


def _turn(user: str, telling: str, place: int) -> str:
    return f"{user}/{telling}#{place}"


def _telling_turns(user: str, telling: _Telling) -> frozenset[str]:
    """The user's messages that say what the telling is for: those with evidence, or all where nothing is extracted."""
    own = {
        _turn(user, telling.id, place): message["user"]
        for place, message in enumerate(telling.said)
        if "user" in message
    }
    held = {turn for turn, text in own.items() if any(fact.evidence in text for fact in telling.facts)}
    return frozenset(held or own)


class _Outcome(msgspec.Struct, frozen=True):
    asked: Asked
    given: Given

    @property
    def covered(self) -> int:
        turns = frozenset[str]().union(*(line.turns for line in self.given.lines))
        return sum(bool(part & turns) for part in self.asked.probe.gold)

    @property
    def answered(self) -> bool:
        return self.covered == len(self.asked.probe.gold)

    @property
    def stale(self) -> int:
        """Lines that say what does not hold any more and nothing that is needed."""
        needed = frozenset[str]().union(*self.asked.probe.gold)
        return sum(bool(line.turns & self.asked.probe.never - needed) for line in self.given.lines)

    @property
    def irrelevant(self) -> int:
        """Lines that are neither needed nor stale."""
        known = frozenset[str]().union(*self.asked.probe.gold) | self.asked.probe.never
        return sum(not line.turns & known for line in self.given.lines)


def lived(paths: Sequence[Path], options: Options, json_out: Path | None) -> None:
    """Measure the four states, print and write the figures.

    Raises:
        MemproxyError: the data, the configuration or the model are not what they must be.
    """
    lives = load(paths)
    settings = Settings() if options.config is None else load_settings(options.config)
    made = asyncio.run(_measured(lives, settings, options))
    made = {"version": REPORT_VERSION, "memproxy": memproxy.__version__, "evaluation": "lived", **made}
    show(made, report.make_console())
    if json_out is not None:
        report.write_json(json_out, made)


async def _measured(lives: Sequence[Life], settings: Settings, options: Options) -> dict[str, Any]:
    states: dict[str, Any] = {}
    async with opened_embedder(options) as embedder:
        for learn in options.learn:
            fresh, after = await _rounds(lives, settings, embedder, options.recipes[0], learn)
            name = "off" if learn == "off" else "perfect extractor"
            states |= {f"{name}, fresh": fresh, f"{name}, after a round": after}
        return {"embedder": embedder.name, "people": len(lives), "states": states}


async def _rounds(
    lives: Sequence[Life], settings: Settings, embedder: Embedder, recipe: str, learn: Learn
) -> tuple[dict[str, Any], dict[str, Any]]:
    model = PerfectExtractor(lives)
    total = sum(len(life.chats.sessions) + 3 * len(life.asked) for life in lives)
    async with chat_memory(settings, embedder, [recipe], learn, model=model) as memory:
        with progress(Console(stderr=True), f"lives (learn {learn})", total) as step:
            for life in lives:
                await memory.take(life.chats)
                step(len(life.chats.sessions))
            fresh = await _ask_all(lives, memory, recipe, step, timedelta())
            by_id = {one.asked.probe.id: one for one in fresh}
            for life in lives:
                await memory.take(_round(life, by_id))
                step(len(life.asked))
            after = await _ask_all(lives, memory, recipe, step, 2 * _ROUND)
    texts = {
        message.id or "": message.content
        for life in lives
        for session in (*life.chats.sessions, *_round(life, by_id).sessions)
        for message in session.messages
    }
    return figures(fresh, texts), figures(after, texts)


async def _ask_all(
    lives: Sequence[Life], memory: ChatMemory, recipe: str, step: Step, later: timedelta
) -> list[_Outcome]:
    outcomes = []
    for one in (one for life in lives for one in life.asked):
        probe = msgspec.structs.replace(one.probe, asked_at=one.probe.asked_at + later)
        outcomes.append(_Outcome(one, await memory.ask(probe, recipe)))
        step(1)
    return outcomes


def _round(life: Life, outcomes: Mapping[str, _Outcome]) -> Chats:
    """Every question and what an assistant answered to it, each in a session of its own."""
    sessions = []
    for one in life.asked:
        probe = one.probe
        reply = one.reply if outcomes[probe.id].answered else one.reply_without
        messages = [
            Message(role=role, content=text, id=f"{probe.id}#{place}", timestamp=probe.asked_at + place * _APART)
            for place, (role, text) in enumerate((("user", probe.ask), ("assistant", reply)))
        ]
        sessions.append(Session(user=probe.user, name=probe.id, date=probe.asked_at, messages=messages))
    sessions.sort(key=lambda session: session.date)
    return Chats(user=life.chats.user, sessions=sessions, probes=[])


def figures(outcomes: Sequence[_Outcome], texts: Mapping[str, str]) -> dict[str, Any]:
    """Questions by what they got; lines that are stale or irrelevant; what was given to what wants nothing."""
    questions = [one for one in outcomes if one.asked.probe.gold]
    others = [one for one in outcomes if not one.asked.probe.gold]
    return {
        "questions": len(questions),
        "answered": sum(one.answered for one in questions),
        "without any": sum(bool(one.given.lines) and not one.covered for one in questions),
        "empty": sum(not one.given.lines for one in questions),
        "not searched": sum(one.given.skipped is not None for one in questions),
        "stale lines": sum(one.stale for one in questions),
        "irrelevant lines": sum(one.irrelevant for one in questions),
        "lines": sum(len(one.given.lines) for one in questions),
        "tokens": sum(one.given.tokens for one in questions),
        "wanting nothing": len(others),
        "needless blocks": sum(bool(one.given.lines) for one in others),
        "by kind": _by_kind(questions),
        "each": [_told(one, texts) for one in outcomes],
    }


def _by_kind(questions: Sequence[_Outcome]) -> dict[str, str]:
    kinds = sorted({one.asked.kind for one in questions})
    members = {kind: [one.answered for one in questions if one.asked.kind == kind] for kind in kinds}
    return {kind: f"{sum(answered)} of {len(answered)}" for kind, answered in members.items()}


def _told(outcome: _Outcome, texts: Mapping[str, str]) -> dict[str, Any]:
    probe, given = outcome.asked.probe, outcome.given
    return {
        "id": probe.id,
        "kind": outcome.asked.kind,
        "ask": probe.ask,
        "answered": outcome.answered,
        "skipped": given.skipped,
        "injected": [
            {"score": line.score, "text": " / ".join(texts.get(turn, turn) for turn in sorted(line.turns))}
            for line in given.lines
        ],
        "needed": [_where(part, given, texts) for part in probe.gold],
    }


def _where(part: frozenset[str], given: Given, texts: Mapping[str, str]) -> dict[str, Any]:
    text = " | ".join(texts[turn] for turn in sorted(part))
    for rank, line in enumerate(given.found, start=1):
        if part & line.turns:
            return {"text": text, "rank": rank, "score": line.score, "rejected": line.rejected}
    return {"text": text, "rank": None, "score": None, "rejected": None}


def show(made: Mapping[str, Any], console: Console) -> None:
    """Print the four states side by side."""
    table = report.make_table("figure", *made["states"], title=f"{made['people']} people; embedder {made['embedder']}")
    rows = [name for name in next(iter(made["states"].values())) if name not in {"by kind", "each"}]
    for name in rows:
        table.add_row(name, *(str(state[name]) for state in made["states"].values()))
    for kind in next(iter(made["states"].values()))["by kind"]:
        table.add_row(f"answered: {kind}", *(state["by kind"][kind] for state in made["states"].values()))
    console.print(table)
