"""docs/troubleshooting.md has every reason that `x-memproxy-recall` can give, and none that it cannot."""

import ast
import re
from collections.abc import Iterator

from memproxy import errors
from memproxy.auth import limits
from memproxy.core import experiment_arms
from memproxy.relay import controls
from memproxy.settings import Settings
from tests.docs_check import ROOT, error_classes

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
    "HOLDOUT": experiment_arms.HOLDOUT,
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
    if called(node) == "answer_without" and len(node.args) > 2:
        yield from values(node.args[2])
    searched = given.get("searched")
    if called(node) == "Verdict" and not (isinstance(searched, ast.Constant) and searched.value is False):
        return  # searched for: no reason in the header (or one of the kinds, which `kinds` has)
    if called(node) in {*DECISIONS, "without_memory"} or (
        called(node) == "replace" and {"result", "reason"} & set(given)
    ):
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


def table(first: str) -> list[list[str]]:
    """The rows of the page's table whose first column has this name."""
    rows = PAGE.read_text(encoding="utf-8").partition(f"| {first} |")[2].partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows]


def in_page() -> set[str]:
    return {reason for row in table("header") for reason in re.findall(r"reason=(\w+)", row[0])}


def error_codes() -> set[str]:
    """Every `code` that the body of an error of ours may have."""
    named = {each.code for each in error_classes(errors.MemproxyError) if each.code}
    given = re.compile(r"""\bcode="(\w+)"|^QUOTA = "(\w+)\"""", re.MULTILINE)
    modules = (ROOT / "memproxy").rglob("*.py")
    texts = [path.read_text(encoding="utf-8") for path in modules]
    return named | {first or second for text in texts for first, second in given.findall(text)}


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


def test_every_code_of_an_error_has_its_row_and_no_other_has_one() -> None:
    assert {code for row in table("code") for code in re.findall(r"`(\w+)`", row[0])} == error_codes()


def test_every_row_tells_when_and_at_which_level_and_what_to_do() -> None:
    for row in table("header") + table("code"):
        when, log, remedy = row[1], row[2], row[-1]
        assert when, row[0]
        assert remedy, row[0]
        assert re.match(r"(none|debug|info|warning|error)\b", log), f"{row[0]}: which level? {log}"
