"""Every alert fires and is silent as deploy/alerts_test.yml says, and what that says notices a rule that is broken."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.docs_check import ROOT

RULES = ROOT / "deploy" / "alerts.yml"
TESTS = ROOT / "deploy" / "alerts_test.yml"
PROMTOOL = shutil.which("promtool")

needs_promtool = pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not installed (Debian: apt-get install --no-install-recommends prometheus)"
)


@cache
def cases_file() -> dict[str, Any]:
    """The file of tests, every value as it is written: else 0x20, which is twenty times 0, is 32."""
    loaded: dict[str, Any] = yaml.load(TESTS.read_text(encoding="utf-8"), yaml.BaseLoader)
    return loaded


def rules() -> list[dict[str, Any]]:
    loaded = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in loaded["groups"] for rule in group["rules"]]


def written(folder: Path, changed: list[dict[str, Any]], *, only: str | None = None) -> Path:
    """The file of tests beside these rules; of one alert's cases, if it is named."""
    cases = [case for case in cases_file()["tests"] if only in {None, case["alert_rule_test"][0]["alertname"]}]
    folder.mkdir()
    # as JSON, which is YAML too, and written a hundred times as fast
    (folder / RULES.name).write_text(json.dumps({"groups": [{"name": "memproxy", "rules": changed}]}), "utf-8")
    (folder / TESTS.name).write_text(json.dumps({**cases_file(), "tests": cases}), "utf-8")
    return folder / TESTS.name


def succeeded(files: Sequence[Path]) -> set[Path]:
    """Those of the files of tests whose cases are all so; one run for all, for its start takes longer than a case."""
    command = [PROMTOOL or "promtool", "test", "rules", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    told = re.findall(r"^Unit Testing: +(\S+)\n(?: +(SUCCESS))?", done.stdout, re.MULTILINE)
    assert len(told) == len(files), done.stdout + done.stderr
    return {Path(path) for path, success in told if success}


def mutations(rule: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rule, broken: each label, bound and comparison of its expression in turn, its patience, and the whole."""
    for span, other in _edits(rule["expr"]):
        changed = rule["expr"][: span[0]] + other + rule["expr"][span[1] :]
        yield f"{rule['expr'][span[0] : span[1]]!r} is {other!r}", {**rule, "expr": changed}
    if "for" in rule:
        yield "at once", {name: value for name, value in rule.items() if name != "for"}
        yield "after a day", {**rule, "for": "1d"}


def _edits(expression: str) -> Iterator[tuple[tuple[int, int], str]]:
    for match in re.finditer(r'(?<==|~)"([\w|]+)"', expression):
        words = match[1].split("|")
        for word in words:
            yield match.span(1), "|".join(one for one in words if one != word) or "nothing"
    for match in re.finditer(r"(?<=[<>=] )[\d.]+", expression):
        bound = float(match[0])
        yield match.span(), str(bound * 2 or 1000)
        yield match.span(), str(bound / 2 or -1)
    for match in re.finditer(r" ([<>]) ", expression):
        yield match.span(1), "<" if match[1] == ">" else ">"
    for match in re.finditer(r"memproxy_\w+", expression):
        yield match.span(), f"{match[0]}_misspelt"
    for match in re.finditer(r" unless \w+ offset \w+|\s+or .*", expression, re.DOTALL):
        yield match.span(), ""


def test_every_alert_has_a_case_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    fires: set[str] = set()
    silent: set[str] = set()
    for case in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]:
        for one in case["alert_rule_test"]:
            (fires if one["exp_alerts"] else silent).add(one["alertname"])
    names = {rule["alert"] for rule in rules()}
    assert fires == names
    assert silent == names


@needs_promtool
def test_the_alerts_fire_and_are_silent_as_their_cases_say(tmp_path: Path) -> None:
    file = written(tmp_path / "rules", rules())
    assert succeeded([file]) == {file}


@needs_promtool
def test_recorded_series_are_what_their_cases_say() -> None:
    command = [PROMTOOL or "promtool", "check", "rules", str(RULES), str(RULES.with_name("recording.yml"))]
    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    cases = RULES.with_name("recording_test.yml")
    assert succeeded([cases]) == {cases}
    names = {rule["record"] for group in yaml.safe_load(RULES.with_name("recording.yml").read_text())["groups"]
             for rule in group["rules"]}  # fmt: skip
    assert all(name in cases.read_text(encoding="utf-8") for name in names)


@needs_promtool
def test_every_broken_rule_is_noticed(tmp_path: Path) -> None:
    whole: set[Path] = set()
    broken: dict[Path, str] = {}
    for rule in rules():
        alert = rule["alert"]
        whole.add(written(tmp_path / alert, [rule], only=alert))
        for what, other in mutations(rule):
            broken[written(tmp_path / f"{alert}-{len(broken)}", [other], only=alert)] = f"{alert}: {what}"
    assert len(broken) > 5 * len(whole)
    passed = succeeded([*whole, *broken])
    assert [what for file, what in broken.items() if file in passed] == []
    assert whole <= passed
