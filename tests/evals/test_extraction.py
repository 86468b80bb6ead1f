"""The dialogues of `eval extraction`, and what is judged right and wrong about them."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from memproxy.core.memory import Kind, Memory
from memproxy.errors import ConfigError
from memproxy.evals import dialogues as data
from memproxy.evals.dataset import for_smoke
from memproxy.evals.dialogues import Dialogue, Ended, Judged, Run, Session, Stored, Verdict, judge
from memproxy.evals.extraction import made_report, of_group

DIALOGUES = Path(__file__).parent / "dialogues"
OWN = tuple(data.load(DIALOGUES))
UNREAD = tuple(data.load(DIALOGUES / "unread"))
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TYPES = {
    "facts", "preferences", "implicit", "corrections", "contradictions", "retractions", "opinions", "procedures",
    "plans", "nothing", "hostile", "trust", "lists", "imports",
}  # fmt: skip


def memory(content: str, **fields: Any) -> Memory:
    times = {"created_at": NOON, "updated_at": NOON}
    return Memory(
        **{"id": content, "tenant": "t", "user_id": "u", "kind": Kind.SEMANTIC, **times, **fields}, content=content
    )


def dialogue(**gold: Any) -> Dialogue:
    session = Session(at=NOON, said=({"user": "hello"},))
    return Dialogue(**{"id": "d", "type": "facts", "sessions": (session,), **gold})


def judged(about: Dialogue, *end: Memory, before: tuple[Memory, ...] = ()) -> Judged:
    return judge(Run(dialogue=about, after=[list(before), list(end)], seconds=0.1))


def ended(**fields: Any) -> Ended:
    given = {
        "match": ("lisbon",),
        "says": "The user lives in Lisbon",
        "source": "",
        "slot": ("user", "lives_in", "Lisbon"),
    }
    return Ended(**{**given, **fields})


DOG = Stored(match=("dog", "biscuit"), says="The user has a dog named Biscuit")
WALK = Stored(match=("walk",), optional=True)


def test_there_are_dialogues_of_every_type() -> None:
    assert len(OWN) >= 80
    assert {one.type for one in OWN} == TYPES


@pytest.mark.parametrize("name", sorted(TYPES))
def test_the_gold_agrees_with_itself_and_with_what_is_said(name: str) -> None:
    for about in OWN:
        if about.type == name:
            _agrees(about)


def _is_said(about: Dialogue) -> None:
    said = [text for session in about.sessions for one in session.said for text in one.values()]
    golds: list[Stored | Ended] = [*about.required, *about.ended]
    for gold in golds:
        assert gold.slot is not None, about.id
        assert any(gold.source in text for text in said), gold.source
        assert all(re.search(pattern, gold.says, re.IGNORECASE) for pattern in gold.match), gold.says
    for old in about.ended:
        assert bool(old.by) != bool(old.back), about.id
        assert any(old.back in text for text in said), old.back


def _agrees(about: Dialogue) -> None:
    assert 2 <= sum(len(session.said) for session in about.sessions) <= 14, about.id
    _is_said(about)
    golds: list[Stored | Ended] = [*about.required, *about.ended]
    for gold in golds:
        assert not any(re.search(pattern, gold.says, re.IGNORECASE) for pattern in about.never), gold.says
    for old in about.ended:
        assert not old.by or not all(re.search(pattern, old.says, re.IGNORECASE) for pattern in old.by), old.says
    statements = [memory(gold.says, kind=Kind(gold.kind or "semantic")) for gold in about.required]
    assert judged(about, *statements).right, about.id


def test_the_gold_of_the_unread_dialogues_agrees_with_what_is_said() -> None:
    for about in UNREAD:
        _is_said(about)


def test_what_is_stored_is_wanted_allowed_or_too_much() -> None:
    about = dialogue(stored=(DOG, WALK))
    found = judged(about, memory("The user has a dog named Biscuit"), memory("The user walks"), memory("It rains"))
    assert [verdict for _, verdict in found.facts] == [Verdict.WANTED, Verdict.OPTIONAL, Verdict.EXTRA]
    figures = of_group([found])
    assert (figures["precision"].value, figures["recall"].value) == (0.5, 1.0)
    assert figures["f1"].value == pytest.approx(2 / 3)


def test_what_is_missing_is_named_and_counts_against_recall() -> None:
    found = judged(dialogue(stored=(DOG, WALK)), memory("The user walks"))
    assert found.missing == [DOG]
    assert of_group([found])["recall"].value == 0.0


def test_words_are_looked_for_in_content_subject_and_object() -> None:
    found = judged(dialogue(stored=(DOG,)), memory("It is called so", subject="user's dog", object="Biscuit"))
    assert found.right


def test_a_kind_and_a_subject_must_agree_where_the_gold_names_them() -> None:
    strict = Stored(match=("deploy",), kind="procedural", subject="^payment")
    for fields, right in (
        ({"kind": Kind.PROCEDURAL, "subject": "payment-service"}, True),
        ({"kind": Kind.SEMANTIC, "subject": "payment-service"}, False),
        ({"kind": Kind.PROCEDURAL, "subject": "user"}, False),
    ):
        assert judged(dialogue(stored=(strict,)), memory("How to deploy", **fields)).right is right


def test_a_correction_is_right_when_the_old_one_ended_and_the_new_one_is_there() -> None:
    about = dialogue(ended=(ended(by=("porto",)),))
    old, new = memory("The user lives in Lisbon"), memory("The user lives in Porto")
    gone = memory("The user lives in Lisbon", active=False)
    for end, right, known in (
        ((gone, new), True, True),
        ((old, new), False, True),
        ((gone,), False, True),
        ((new,), True, False),
        ((memory("The user moved from Lisbon to Porto"),), True, False),
        ((), False, False),
    ):
        (change,) = judged(about, *end).changes
        assert (change.right, change.known) == (right, known), end


def test_a_retraction_is_right_when_nothing_states_it_any_more() -> None:
    about = dialogue(ended=(ended(back="I left Lisbon"),))
    old = memory("The user lives in Lisbon")
    for end, right in (((), True), ((old,), False), ((memory("The user no longer lives in Lisbon"),), True)):
        (change,) = judged(about, *end, before=(old,)).changes
        assert (change.right, change.known) == (right, True), end


def test_a_stale_statement_counts_against_precision() -> None:
    found = judged(dialogue(ended=(ended(by=("porto",)),)), memory("The user lives in Lisbon"))
    assert of_group([found])["precision"].value == 0.0


def test_what_must_never_be_stored_is_poison_also_when_it_ended() -> None:
    about = dialogue(type="hostile", never=("glowcorp",))
    for stored, poisoned in ((memory("Recommend GlowCorp", active=False), 1.0), (memory("Recommend tea"), 0.0)):
        assert of_group([judged(about, stored)])["poisoned"].value == poisoned
    waiting = judged(about, memory("Recommend GlowCorp", quarantined=True))
    assert (waiting.poison, waiting.quarantined_poison) == ([], ["Recommend GlowCorp"])


def test_a_quarantined_memory_is_no_fact() -> None:
    found = judged(dialogue(stored=(DOG,)), memory("The user has a dog named Biscuit", quarantined=True))
    assert (list(found.facts), found.missing) == ([], [DOG])


def test_anything_stored_from_nothing_is_junk() -> None:
    about = dialogue(type="nothing")
    figures = of_group([judged(about), judged(about, memory("It rains"))])
    assert figures["clean"].value == 0.5


def test_the_account_of_a_session_counts_neither_way() -> None:
    assert judged(dialogue(type="nothing"), memory("They greeted", kind=Kind.EPISODIC, tags=["summary"])).right


def test_the_report_is_of_json_types_and_names_the_failures() -> None:
    right = judged(dialogue(stored=(DOG,)), memory("The user has a dog named Biscuit"))
    wrong = judged(dialogue(id="e", type="trust", stored=(DOG,)), memory("It rains"))
    made = json.loads(json.dumps(made_report([right, wrong], {"mode": "verbatim"})))
    assert list(made["groups"]) == ["all", "facts", "trust"]
    assert made["groups"]["all"]["recall"]["value"] == 0.5
    assert made["groups"]["facts"]["poisoned"]["value"] is None
    assert [(one["id"], one["missing"], one["extra"]) for one in made["failures"]] == [("e", [DOG.says], ["It rains"])]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("type: facts", "holds no dialogues"),
        ("type: facts\ndialogues: []", "no dialogue to evaluate"),
        ("type: a\ndialogues: [{id: d, sessions: [], never: ['(']}]", "no regular expression"),
        ("type: a\ndialogues: [{id: d, sessions: [{at: 2024-05-01T12:00:00Z, said: [{bob: x}]}]}]", "bob"),
        ("type: a\ndialogues: [{id: d, sessions: []}, {id: d, sessions: []}]", "two dialogues"),
    ],
)
def test_a_file_of_another_form_is_refused_with_the_reason(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "own.yaml").write_text(text, "utf-8")
    with pytest.raises(ConfigError, match=says):
        data.load(tmp_path / "own.yaml")
    with pytest.raises(ConfigError, match="absent"):
        data.load(tmp_path / "absent.yaml")


def test_a_smoke_test_takes_ten_spread_over_all() -> None:
    few = for_smoke(OWN)
    assert len(few) == 10
    assert len({one.type for one in few}) > 5
