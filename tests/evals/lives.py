"""Lives: do questions of everyday life get what they need, fresh and after they were asked before?

    python -m tests.evals.lives --data FILE... [--config FILE] [--model-path DIR] [--json FILE]

People tell things over weeks, and ask in new sessions. Four states are measured: learning off and a perfect extractor
(the facts of the file, word for word), each with a fresh memory and after one round in which every question was asked
and answered through the product with capture on; `--others` has everybody send other messages, too. The form of a file
is in docs/evaluation.md.
"""

import argparse
import asyncio
import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

import memproxy
from memproxy.core.protocol import UpstreamAccess
from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals.cli import DEFAULT_CACHE
from memproxy.evals.dataset import Session
from memproxy.evals.output import Step, make_console, make_table, progress, write_json
from memproxy.evals.throwaway import Learning, settings_for
from memproxy.evals.vector_cache import opened_embedder
from memproxy.learn.extract import EXTRACT_MARK
from memproxy.ports import Credential, Embedder, ModelReply
from memproxy.settings import Settings
from memproxy.settings.loading import load_settings
from memproxy.settings.yaml_file import parse_long
from tests.evals.probes import Given, Probe, ProbedMemory, probed_memory

REPORT_VERSION = 1

_RECIPE = "default"
_LEARNING: Mapping[str, Learning] = {"off": "off", "perfect extractor": "model"}

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
    """One person: what is told, what a perfect extractor stores of it, what is asked, and what else is said then."""

    user: str
    sessions: list[Session]
    facts: tuple[_Fact, ...]
    asked: tuple[Asked, ...]
    others: tuple[Session, ...] = ()


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
    return Life(user=person.user, sessions=sessions, facts=facts, asked=tuple(asked))


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
        return self.given.covered(self.asked.probe.gold)

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


def measure_lives(
    paths: Sequence[Path],
    json_out: Path | None,
    *,
    config: Path | None = None,
    model_path: Path | None = None,
    cache: Path,
    others: Sequence[str] = (),
) -> None:
    """Measure the four states as ``config`` has it (None: the defaults), print and write the figures; ``model_path``
    None: by words alone. ``others`` are messages that everybody sends, too, between the two askings.

    Raises:
        MemproxyError: the data, the configuration or the model are not what they must be.
    """
    lives = load(paths)
    settings = Settings() if config is None else load_settings(config)
    made = asyncio.run(_measured([_with_others(life, others) for life in lives], settings, model_path, cache))
    made = {"version": REPORT_VERSION, "memproxy": memproxy.__version__, "evaluation": "lived", **made}
    show(made, make_console())
    write_json(json_out, made)


async def _measured(lives: Sequence[Life], settings: Settings, model_path: Path | None, cache: Path) -> dict[str, Any]:
    states: dict[str, Any] = {}
    async with opened_embedder(model_path, cache) as embedder:
        for name, learning in _LEARNING.items():
            fresh, after = await _rounds(lives, settings, embedder, learning)
            states |= {f"{name}, fresh": fresh, f"{name}, after a round": after}
        return {"embedder": embedder.name, "people": len(lives), "states": states}


async def _rounds(
    lives: Sequence[Life], settings: Settings, embedder: Embedder, learning: Learning
) -> tuple[dict[str, Any], dict[str, Any]]:
    model = PerfectExtractor(lives)
    total = sum(len(life.sessions) + 3 * len(life.asked) for life in lives)
    access = UpstreamAccess(base_url="http://127.0.0.1:9/v1", model="scripted", api_key="scripted")
    async with probed_memory(
        settings_for(settings, learning), embedder, [_RECIPE], model=model, access=access
    ) as memory:
        with progress(Console(stderr=True), f"lives (learn {learning})", total) as step:
            for life in lives:
                await memory.live(life.user, life.sessions)
                step(len(life.sessions))
            fresh = await ask_all(lives, memory, step, timedelta())
            by_id = {one.asked.probe.id: one for one in fresh}
            for life in lives:
                await memory.live(life.user, _round(life, by_id))
                step(len(life.asked))
            after = await ask_all(lives, memory, step, 2 * _ROUND)
    texts = {
        message.id or "": message.content
        for life in lives
        for session in (*life.sessions, *_round(life, by_id))
        for message in session.messages
    }
    return figures(fresh, texts), figures(after, texts)


async def ask_all(lives: Sequence[Life], memory: ProbedMemory, step: Step, later: timedelta) -> list[_Outcome]:
    """What everybody gets who asks all his questions, so much later than the file says."""
    outcomes = []
    for one in (one for life in lives for one in life.asked):
        probe = msgspec.structs.replace(one.probe, asked_at=one.probe.asked_at + later)
        outcomes.append(_Outcome(one, await memory.request(probe, _RECIPE)))
        step(1)
    return outcomes


def _with_others(life: Life, others: Sequence[str]) -> Life:
    """The life with these messages, each in a session of its own, behind what is asked."""
    last = max(one.probe.asked_at for one in life.asked)
    messages = [
        [
            Message(role=role, content=text, id=f"{life.user}!{number}#{place}", timestamp=last + number * _APART)
            for place, (role, text) in enumerate((("user", other), ("assistant", "Sure, here you go.")))
        ]
        for number, other in enumerate(others)
    ]
    sessions = [
        Session(user=life.user, name=f"{life.user}!{number}", date=last + number * _APART, messages=said)
        for number, said in enumerate(messages)
    ]
    return msgspec.structs.replace(life, others=tuple(sessions))


def _round(life: Life, outcomes: Mapping[str, _Outcome]) -> list[Session]:
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
    return sorted([*sessions, *life.others], key=lambda session: session.date)


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
        "stale alone": sum(bool(one.stale and not one.covered) for one in questions),
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
    gold = frozenset[str]().union(*probe.gold)
    return {
        "id": probe.id,
        "kind": outcome.asked.kind,
        "ask": probe.ask,
        "answered": outcome.answered,
        "skipped": given.skipped,
        "injected": [
            {
                "score": line.score,
                "is_needed": bool(line.turns & gold),
                "text": " / ".join(texts.get(turn, turn) for turn in sorted(line.turns)),
            }
            for line in given.lines
        ],
        "needed": [given.place_of(part, texts) for part in probe.gold],
    }


def show(made: Mapping[str, Any], console: Console) -> None:
    """Print the four states side by side."""
    table = make_table("figure", *made["states"], title=f"{made['people']} people; embedder {made['embedder']}")
    rows = [name for name in next(iter(made["states"].values())) if name not in {"by kind", "each"}]
    for name in rows:
        table.add_row(name, *(str(state[name]) for state in made["states"].values()))
    for kind in next(iter(made["states"].values()))["by kind"]:
        table.add_row(f"answered: {kind}", *(state["by kind"][kind] for state in made["states"].values()))
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, help="files of people")
    parser.add_argument("--config", type=Path, help="configuration whose gate, recall and dedup are measured")
    parser.add_argument("--json", type=Path, help="write the figures there")
    parser.add_argument("--model-path", type=Path, help="folder of a local ONNX embedding model (default: words alone)")
    parser.add_argument("--cache", type=Path, default=DEFAULT_CACHE, help="folder that keeps vectors between runs")
    parser.add_argument("--others", type=Path, nargs="+", default=[], help="JSON lines whose texts are sent in between")
    parser.add_argument("--most", type=int, default=1_000, help="of these so many, drawn")
    given = parser.parse_args(arguments)
    measure_lives(
        given.data,
        given.json,
        config=given.config,
        model_path=given.model_path,
        cache=given.cache,
        others=_drawn(given.others, given.most),
    )


def _drawn(paths: Sequence[Path], most: int) -> list[str]:
    texts = [json.loads(line)["text"] for path in paths for line in path.read_text("utf-8").splitlines()]
    once = list(dict.fromkeys(texts))
    random.Random(5).shuffle(once)
    return once[:most]


if __name__ == "__main__":
    main()
