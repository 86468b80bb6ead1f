"""Everyday chats: a small set through the product's own parts by words alone, and figures that are known."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from memproxy.errors import ConfigError
from tests.evals import everyday_chats as data
from tests.evals.everyday_chats import NO_ANSWER, Outcome, figures, told
from tests.evals.probes import Given, Line, Probe, ended_at
from tests.fitting import chats
from tests.fitting.populations import populations

COMMAND = typer.Typer()
COMMAND.command()(data.main)

HEAD = """\
users:
  - user: ada
    language: en
    asked: 2025-06-01T12:00
"""
SMALL = f"""{HEAD}\
    templates:
      - name: swim
        first: 2025-01-30T07:00
        step_days: 2
        count: 3
        user: "swam {{far}} m"
        assistant: Noted.
        values: {{far: [1000, 500]}}
    chats: |
      = 2025-01-04 09:00
      u boat | My boat is called Ida.
      a | A fine name.
      = 2025-02-04 09:00
      u sister,dog | My sister's dog is called Rex.
    probes:
      - {{group: fact, ask: "What is my boat called?", gold: [boat], never: [dog]}}
      - {{group: log, ask: "When did I swim 1000 m?", gold: [swim=1000], acceptable: [swim@2025-02-01]}}
      - {{group: smalltalk, ask: "hello", gold: []}}
"""


def line(*turns: str, rejected: str | None = None) -> Line:
    return Line(memory="-".join(turns), turns=frozenset(turns), score=0.7, rejected=rejected)


def outcome(*lines: Line, gold: str = "", acceptable: str = "", never: str = "", behind: str = "") -> Outcome:
    probe = Probe(
        id="p",
        user="ada",
        language="en",
        size="tiny",
        group="fact" if gold else "absent",
        asked_at=datetime(2025, 6, 1, tzinfo=UTC),
        ask="?",
        gold=tuple(frozenset(part.split("|")) for part in gold.split()),
        acceptable=frozenset(acceptable.split()),
        never=frozenset(never.split()),
    )
    found = (*lines, *(line(turn, rejected="score") for turn in behind.split()))
    return Outcome(probe, Given(lines=lines, found=found))


def values(*outcomes: Outcome) -> dict[str, Any]:
    made = figures(outcomes)
    return {name: getattr(found, "value", found) for name, found in made.items()}


def test_a_set_is_measured_with_turns_alone_and_with_facts(tmp_path: Path) -> None:
    chats, out = tmp_path / "chats.yaml", tmp_path / "figures.json"
    chats.write_text(SMALL, "utf-8")
    result = CliRunner().invoke(COMMAND, ["--data", str(chats), "--json", str(out)], catch_exceptions=False)
    assert "all probes" in result.output
    report = json.loads(out.read_text("utf-8"))
    assert (report["users"], report["turns"], report["probes"], report["embedder"]) == (1, 9, 3, "none")
    assert set(report["runs"]) == {"default, learn off", "default, learn verbatim"}
    assert (report["runs"]["default, learn off"]["facts"], report["runs"]["default, learn verbatim"]["facts"] > 0) == (
        0,
        True,
    )
    for run in report["runs"].values():
        boat, swim, hello = run["probes"]
        assert (boat["any"], boat["gold"][0]["rank"]) == (True, 1)
        assert [gold["text"] for gold in swim["gold"]] == ["swam 1000 m", "swam 1000 m"]
        assert (hello["skipped"], hello["injected"], hello["any"]) == ("greeting", [], None)
        assert run["groups"]["group: smalltalk"]["needless"]["value"] == 0.0


def test_a_configuration_says_what_is_searched_and_how_much_is_used(tmp_path: Path) -> None:
    chats, config, out = tmp_path / "chats.yaml", tmp_path / "memproxy.yaml", tmp_path / "figures.json"
    chats.write_text(SMALL, "utf-8")
    config.write_text("gate: {enabled: false}\nrecall: {limit: 1, similarity_threshold: 0.0}", "utf-8")
    arguments = ["--data", str(chats), "--config", str(config), "--learn", "off", "--json", str(out)]
    CliRunner().invoke(COMMAND, arguments, catch_exceptions=False)
    boat, swim, hello = json.loads(out.read_text("utf-8"))["runs"]["default, learn off"]["probes"]
    assert (hello["skipped"], len(boat["injected"]), len(swim["injected"])) == (None, 1, 1)
    assert (swim["any"], swim["all"]) == (True, False)


def test_a_fact_counts_as_the_turns_it_came_from_and_one_of_two_alternatives_is_enough() -> None:
    made = outcome(line("a", "b"), line("x"), gold="a|z b c", acceptable="x", behind="y c")
    assert (values(made)["any"], values(made)["all"]) == (1.0, 0.0)
    assert (values(made)["precision"], values(made)["precision_lenient"]) == (0.5, 1.0)
    assert (values(made)["median_rank"], values(made)["first@1"], values(made)["all@8"]) == (1, 1.0, 1.0)
    assert told(made, dict.fromkeys("abcxyz", "text"))["gold"][2]["rejected"] == "score"


def test_what_misleads_and_what_nobody_needs_is_counted() -> None:
    misled = outcome(line("old"), gold="new", never="old", behind="new")
    needless, harmless, quiet = outcome(line("x")), outcome(line("y"), acceptable="y"), outcome()
    made = values(misled, needless, harmless, quiet)
    assert (made["misled"], made["needless"], made["needless_lenient"]) == (1.0, 2 / 3, 1 / 3)
    assert (made["any"], made["median_rank"], made["probes"], made["answerable"]) == (0.0, 2, 4, 1)
    assert figures([outcome(gold="lost")])["median_rank"] is None


@pytest.mark.parametrize(
    "broken",
    [
        "users: []",
        SMALL.replace("gold: [boat]", "gold: [ship]"),
        SMALL.replace("never: [dog]", "never: [boat]"),
        SMALL.replace("group: fact", "group: absent"),
        SMALL.replace("a | A fine", "b | A fine"),
    ],
)
def test_a_set_that_contradicts_itself_is_refused(tmp_path: Path, broken: str) -> None:
    path = tmp_path / "chats.yaml"
    path.write_text(broken, "utf-8")
    with pytest.raises(ConfigError):
        data.load(path)


def test_our_own_set_has_what_it_is_for() -> None:
    own = data.load(data.OWN)
    probes = [probe for one in own for probe in one.probes]
    assert len(own) >= 30
    assert all(8 <= len(one.probes) <= 12 for one in own)
    assert {probe.language for probe in probes} == {"en", "de", "es", "fr", "zh"}
    assert {probe.size for probe in probes} == {"tiny", "everyday", "large"}
    assert max(one.turns for one in own) > 300
    assert {probe.group for probe in probes if not probe.gold} == NO_ANSWER
    assert len(data.sampled(own)) <= data.SMOKE_PROBES == sum(len(one.probes) for one in data.sampled(own))
    dates = [ended_at(session) for one in own for session in one.sessions]
    assert min(dates).year >= 2025
    assert all(ended_at(session) < probe.asked_at for one in own for session in one.sessions for probe in one.probes)


def test_every_chat_can_be_read_and_a_third_is_held_out() -> None:
    told = chats.load()
    assert len(told) >= 40
    assert len(told) / 3 <= sum(one.held_out for one in told) <= len(told) / 2
    assert len({one.user for one in told}) == len(told)
    for chat in told:
        for question in chat.questions:
            assert bool(question.gold) is (question.kind not in ("none", "general", "smalltalk")), question


def test_a_question_about_a_message_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="'cat'"):
        list(chats.parse("# ann | en\n@ 2026-01-01\n[dog] We have a dog\n? direct | What is my cat called? | cat\n"))


def test_populations_are_the_same_each_time_and_answer_their_questions() -> None:
    made = populations((25,))
    assert made == populations((25,))
    assert all(place < len(one.messages) for one in made for question in one.questions for place in question.gold)
