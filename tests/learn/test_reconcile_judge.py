"""`learn.judge: llm`: a model advises in the gray zone; it never overrules what must hold."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.facts import Bands, Decision, Operation
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.similar import Neighbour
from memproxy.errors import ModelError
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import TokenMeter
from memproxy.learn.candidates import Extracted, Grounded, Intent
from memproxy.learn.judge import Judge, apply_verdicts, doubtful, read_verdict
from memproxy.learn.plan import Planner
from memproxy.metrics import metrics
from memproxy.ports import Credential, ModelReply
from memproxy.settings import ModelSettings, ModelsSettings, Settings, UpstreamSettings
from memproxy.stores.sqlite_state import SqliteState
from tests.learn.rig import ANN, NOON, TestClock, fact, rig
from tests.support.opening import opening

BANDS = Bands()
KNOWN = "User works from the office on most days"
NEW = "User mostly works at home these days"


class ScriptedModel:
    """A chat model that answers from a list; an error is raised."""

    def __init__(self, *answers: str | ModelError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def complete(
        self, credential: Credential, *, system: str, user: str, json_mode: bool, schema: dict[str, Any] | None = None
    ) -> ModelReply:
        assert json_mode
        self.asked.append(user)
        answer = self.answers.pop(0)
        if isinstance(answer, ModelError):
            raise answer
        return ModelReply(text=answer, input_tokens=20, output_tokens=3)

    async def close(self) -> None: ...


def known(**fields: Any) -> Memory:
    return fact("known", content=KNOWN, **fields)


JUDGED = Settings(
    upstream=UpstreamSettings(base_url="http://upstream.test/v1"),
    models=ModelsSettings(judge=ModelSettings(base_url="http://judge.test/v1", model="judge", api_key="sk-judge")),
)


def new(**fields: Any) -> Memory:
    said = {"said_at": NOON.replace(hour=13).isoformat()}
    return fact("new", content=NEW, metadata=said, valid_from=NOON.replace(hour=13), **fields)


@pytest.mark.parametrize("forgets", [True, False])
async def test_what_is_ordered_to_be_forgotten_is_shown_to_no_judge(tmp_path: Path, forgets: bool) -> None:
    turn = fact("turn", kind=Kind.TURN, content="Forget everything you know about me")
    order = Extracted(content="Everything about the user", intent=Intent.FORGET_ALL, evidence=(turn.content,))
    found = [Grounded(order, turn)] if forgets else []
    home: dict[str, Any] = {"content": "User lives in Berlin", "subject": "user", "predicate": "lives_in"}
    found.append(Grounded(Extracted(**home, object="Berlin, Germany"), turn))
    model = ScriptedModel("{}")
    async with rig(tmp_path) as r:
        await r.plan(upserts=[fact("known", **home, object="Berlin")])
        judge = Judge(model, JUDGED, r.access, TokenMeter(r.state, r.clock, None))
        planner = Planner(r.worker._parts, judge)
        await planner.advice(ANN, found, now=r.clock.now())
        assert len(model.asked) == (0 if forgets else 1)


async def verdicts(folder: Path, model: ScriptedModel, near: list[Neighbour]) -> dict[str, str]:
    async with opening(SqliteState(folder / "state.db", sync="normal")) as state:
        judge = Judge(model, JUDGED, ModelAccess(JUDGED), TokenMeter(state, TestClock(), None))
        return await judge.verdicts("acme", new(), [], near, BANDS)


async def test_only_the_gray_zone_is_asked_about_as_data_and_its_tokens_are_counted(tmp_path: Path) -> None:
    spent = metrics().model_tokens.labels(source="judge", direction="input")
    before = spent._value.get()
    model = ScriptedModel('{"verdict": "replaces"}')
    near = [Neighbour(known(), 0.8), Neighbour(fact("far", content="User has a parrot"), 0.3)]
    assert await verdicts(tmp_path, model, near) == {"known": "replaces"}
    (asked,) = model.asked
    assert KNOWN in asked
    assert NEW in asked
    assert spent._value.get() == before + 20


@pytest.mark.parametrize("answer", ["I would say so", "same or separate", "", ModelError("it did not answer in time")])
async def test_without_a_clear_answer_the_rules_decide(tmp_path: Path, answer: str | ModelError) -> None:
    assert await verdicts(tmp_path, ScriptedModel(answer), [Neighbour(known(), 0.8)]) == {}
    decision = Decision(Operation.COEXIST, known())
    near = [Neighbour(known(), 0.8)]
    assert apply_verdicts(decision, new(), {}, chain=[], near=near, bands=BANDS) == decision


@pytest.mark.parametrize(
    ("verdict", "operation"),
    [("same", Operation.DUPLICATE), ("replaces", Operation.UPDATE), ("separate", Operation.COEXIST)],
)
def test_a_verdict_decides_in_the_gray_zone(verdict: str, operation: Operation) -> None:
    near = [Neighbour(known(), 0.8)]
    rules = Decision(Operation.COEXIST, near[0].memory)
    assert apply_verdicts(rules, new(), {"known": verdict}, chain=[], near=near, bands=BANDS).operation is operation


TRIPLE = {"subject": "user", "predicate": "visited", "object": "Rome"}


@pytest.mark.parametrize(
    ("candidate", "old", "cosine"),
    [
        (new(kind=Kind.EPISODIC), known(kind=Kind.EPISODIC), 0.8),
        (new(aspect="mondays"), known(), 0.8),
        (new(**TRIPLE), known(**TRIPLE | {"object": "Berlin"}), 0.8),
        (new(trust=Trust.ASSISTANT), known(), 0.8),
        (new(quarantined=True), known(), 0.8),
        (new(), known(active=False), 0.8),
        (new(), known(), 0.5),
        (new(), known(), 0.95),
    ],
)
def test_a_verdict_overrules_nothing_that_must_hold(candidate: Memory, old: Memory, cosine: float) -> None:
    near = [Neighbour(old, cosine)]
    rules = Decision(Operation.COEXIST, old)
    assert doubtful(candidate, [], near, BANDS) == []
    assert apply_verdicts(rules, candidate, {"known": "replaces"}, chain=[], near=near, bands=BANDS) == rules


def test_in_one_slot_a_value_may_be_the_same_in_other_words() -> None:
    home = {"subject": "user", "predicate": "lives_in"}
    holder, candidate = known(**home, object="Berlin"), new(**home, object="Berlin, Germany")
    rules = Decision(Operation.UPDATE, holder)
    say = {"known": "same"}
    assert apply_verdicts(rules, candidate, say, chain=[holder], near=[], bands=BANDS).operation is Operation.DUPLICATE
    say = {"known": "separate"}
    assert apply_verdicts(rules, candidate, say, chain=[holder], near=[], bands=BANDS) == rules


def test_a_verdict_is_read_from_any_form() -> None:
    assert read_verdict('```json\n{"verdict": "Same"}\n```') == "same"
    assert read_verdict("separate") == "separate"
    assert read_verdict("the samesame") is None
