"""docs/troubleshooting.md has every reason that `x-memproxy-recall` can give, and none that it cannot."""

import ast
import re
from collections.abc import Iterator

from memproxy.auth import limits
from memproxy.core import experiment
from memproxy.relay import controls
from memproxy.settings import Settings
from tests.docs_check import ROOT

PAGE = ROOT / "docs" / "troubleshooting.md"
MODULES = ("relay/decide", "relay/controls", "relay/handler", "relay/engine_client", "recall/pipeline",
           "engine/engine", "core/gate")  # fmt: skip
"""Where decisions are made; `test_no_other_module_decides` looks for others."""

DECISIONS = {"Decision", "RecallAnswer", "Controls", "Verdict"}
ANSWER_REASONS = {"_nothing_said", "user_named", "_user", "refused"}
"""Functions that answer with a reason."""

NAMED = {
    **{name: value for name, value in vars(controls).items() if name.isupper() and isinstance(value, str)},
    "TURNS": limits.TURNS,
    "MEMORIES": limits.MEMORIES,
    "HOLDOUT": experiment.HOLDOUT,
}
HANDED_ON = {
    *("controls.problem", "reason", "full", "decision.reason or full", "verdict.reason", "answer.reason", "problem"),
    "self.reason",
    "_kind(head, text, offered, follows=follows)",  # `kinds`
}
"""Expressions that hold a reason which was given elsewhere, in what is looked at here."""


def called(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def values(node: ast.expr) -> Iterator[str]:
    """The reasons that an expression may be."""
    if isinstance(node, ast.IfExp):
        yield from values(node.body)
        yield from values(node.orelse)
    elif isinstance(node, ast.Constant):
        yield from [node.value] if isinstance(node.value, str) and node.value else []
    elif isinstance(node, ast.Name) and node.id in NAMED:
        yield NAMED[node.id]
    else:
        assert ast.unparse(node) in HANDED_ON, f"which reasons can {ast.unparse(node)} be? Say it here."


def in_call(node: ast.Call) -> Iterator[str]:
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if called(node) == "without" and len(node.args) > 2:
        yield from values(node.args[2])
    searched = given.get("searched")
    if called(node) == "Verdict" and not (isinstance(searched, ast.Constant) and searched.value is False):
        return  # searched for: no reason in the header (or one of the kinds, which `kinds` has)
    if called(node) in DECISIONS or (called(node) == "replace" and {"result", "reason"} & set(given)):
        for name in ("reason", "problem"):
            yield from values(given[name]) if name in given else ()


def in_return(node: ast.Return) -> Iterator[str]:
    answered = node.value.elts[-1] if isinstance(node.value, ast.Tuple) else node.value
    if answered is not None and not isinstance(answered, ast.Subscript | ast.Call):
        yield from values(answered)


def in_module(name: str) -> Iterator[str]:
    tree = ast.parse((ROOT / "memproxy" / f"{name}.py").read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield from in_call(node)
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "reason":
            if isinstance(node.value, ast.IfExp) and isinstance(node.value.body, ast.Constant):
                yield from values(node.value)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name in ANSWER_REASONS:
            for inner in ast.walk(node):
                yield from in_return(inner) if isinstance(inner, ast.Return) else ()


def kinds() -> set[str]:
    """Kinds of messages that the gate can be told to skip."""
    allowed = Settings().gate.skip
    return set(allowed)


def in_code() -> set[str]:
    return {reason for name in MODULES for reason in in_module(name)} | kinds()


def in_page() -> set[str]:
    table = PAGE.read_text(encoding="utf-8").partition("| header |")[2].partition("\n\n")[0]
    first_cells = "\n".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))
    return set(re.findall(r"reason=(\w+)", first_cells))


def test_every_reason_of_the_header_is_explained() -> None:
    missing = in_code() - in_page()
    assert not missing, f"docs/troubleshooting.md: say what it means and what to do: {sorted(missing)}"


def test_no_reason_is_explained_that_there_is_not() -> None:
    assert not in_page() - in_code()


def test_what_is_looked_through_has_the_reasons_that_tests_elsewhere_see() -> None:
    seen = {"timeout", "busy", "engine", "store", "loading", "state", "internal", "upstream_rejected", "greeting"}
    seen |= {"no_user", "user_not_allowed", "unusable_user", "no_identity", "unreadable", "no_user_message"}
    seen |= {"housekeeping", "fact", "empty", "write", "settings", "session_total", "turns_per_minute", "memories"}
    assert in_code() >= seen


def test_no_other_module_decides() -> None:
    looked_at = {ROOT / "memproxy" / f"{name}.py" for name in MODULES}
    others = set()
    for room in ("relay", "recall", "engine"):
        for path in set((ROOT / "memproxy" / room).rglob("*.py")) - looked_at:
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and called(node) in DECISIONS and any(in_call(node)):
                    others.add(path.name)
    assert not others
