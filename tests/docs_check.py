"""Keeps documentation and code the same: `python -m tests.docs_check` compares, `--write` writes anew.

Generated are `config.example.yaml` as a whole, and in `docs/` what stands between the lines
``<!-- generated: NAME -->`` and ``<!-- end -->``. Also checked: that links between the pages lead somewhere.
"""

import ast
import inspect
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import memproxy.metrics
from memproxy import errors
from memproxy.api.calls import Operation
from memproxy.api.openapi import OPERATIONS
from memproxy.serve.supervisor import RELOADED
from memproxy.settings import Section, Settings
from memproxy.settings.reference import Setting, is_section, settings_of

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"(<!-- generated: (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
WIDTH = 110
MOST_LINES = 200

HEADER = """\
# Every setting of memproxy with its default. Generated from memproxy/settings: change it there, then run
# `python -m tests.docs_check --write`. Copy what you change; a setting that is left out has its default.
#
# Values may hold ${NAME} and ${NAME:-default} from the environment ($$ is a dollar sign). An environment variable
# MEMPROXY__SECTION__KEY overrides the file; lists and mappings are then written as YAML or JSON. An empty text means
# "not set". A setting that is "not built yet" takes no other value for now.
"""


def yaml_value(value: Any) -> str:
    """One value on one line of YAML."""
    if isinstance(value, list):
        return f"[{', '.join(yaml_value(each) for each in value)}]"
    if isinstance(value, Section):
        value = value.model_dump()
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")


def example_config() -> str:
    return "\n".join([HEADER, *_example_section(Settings, "", "")]) + "\n"


def _example_section(section: type[Section], prefix: str, indent: str) -> Iterator[str]:
    settings = {setting.path: setting for setting in settings_of(section, prefix)}
    for name, field in section.model_fields.items():
        path = f"{prefix}{name}"
        if not is_section(field.annotation):
            yield from _example_setting(settings[path], name, indent)
            continue
        inner: type[Section] = field.annotation  # type: ignore[assignment]
        if not indent:
            yield ""
        words = field.description or inspect.cleandoc(inner.__doc__ or "")
        yield from _comment(words, indent)
        yield f"{indent}{name}:"
        yield from _example_section(inner, f"{path}.", f"{indent}  ")


def _example_setting(setting: Setting, name: str, indent: str) -> Iterator[str]:
    yield from _comment(f"{setting.description} Allowed: {setting.allowed}.".replace("`", ""), indent)
    yield f"{indent}{name}: {yaml_value(setting.example)}"


def _comment(text: str, indent: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def settings_table() -> str:
    """All settings: path, default, what is allowed, what for."""
    return _table(("setting", "default", "allowed", "meaning"), map(_setting_row, settings_of()))


def _setting_row(each: Setting) -> tuple[str, ...]:
    return f"`{each.path}`", f"`{yaml_value(each.default)}`", each.allowed, each.description


def reloaded_list() -> str:
    """What a running server takes of a changed configuration."""
    return textwrap.fill(", ".join(f"`{path}`" for path in RELOADED), 125)


def metrics_in_code() -> list[tuple[str, str, tuple[str, ...], str]]:
    """(name as scraped, type, labels, help) of every metric, read from the source of `memproxy.metrics`."""
    found = []
    for node in ast.walk(ast.parse(inspect.getsource(memproxy.metrics))):
        if not isinstance(node, ast.Call):
            continue
        texts = [str(each.value) for each in node.args if isinstance(each, ast.Constant)]
        if not texts or not texts[0].startswith("memproxy_"):
            continue
        kind = ast.unparse(node.func).rpartition(".")[2].lower()
        labels = [ast.literal_eval(each) for each in node.args[2:]]
        name = f"{texts[0]}_total" if kind == "counter" else texts[0]
        found.append((name, kind, tuple(labels[0] if labels else ()), texts[1]))
    return found


def metrics_table() -> str:
    rows = (
        (f"`{name}`", kind, ", ".join(f"`{label}`" for label in labels), text)
        for name, kind, labels, text in sorted(metrics_in_code())
    )
    return _table(("metric", "type", "labels", "meaning"), rows)


def errors_table() -> str:
    """The errors and what each looks like in an answer."""
    rows = map(_error_row, error_classes(errors.MemproxyError))
    return _table(("error", "status", "type", "code", "meaning"), rows)


def _error_row(each: type[errors.MemproxyError]) -> tuple[str, ...]:
    code = f"`{each.code}`" if each.code else ""
    return f"`{each.__name__}`", str(each.status), f"`{each.kind}`", code, _summary(each)


def error_classes(root: type[errors.MemproxyError]) -> Iterator[type[errors.MemproxyError]]:
    """The classes of the tree below ``root``."""
    for each in root.__subclasses__():
        if each.__module__ == errors.__name__:
            yield each
            yield from error_classes(each)


def _summary(each: type) -> str:
    return " ".join(inspect.cleandoc(each.__doc__ or "").split("\n\n")[0].split())


def calls_table() -> str:
    """The memory API's calls as `/openapi.json` describes them, with what their query strings take."""
    return _table(("call", "query", "does"), map(_call_row, sorted(OPERATIONS, key=lambda one: one.path)))


def _call_row(each: Operation) -> tuple[str, ...]:
    return f"`{each.method} {each.path}`", ", ".join(f"`{name}`" for name in each.query.model_fields), each.summary


def command_line() -> str:
    """The command line's help as Markdown, from typer's own generator; ``--help`` itself is on every level."""
    words = ("--app", "app", "memproxy.commands", "utils", "docs", "--name", "memproxy")
    command = [sys.executable, "-m", "typer", *words]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
    text = done.stdout.partition("\n")[2].replace("* `--help`: Show this message and exit.\n", "")
    return text.replace("**Options**:\n\n\n", "").strip()


def generated(name: str) -> str:
    """The text of a block by its name."""
    makers = {
        "settings": settings_table,
        "reloaded": reloaded_list,
        "metrics": metrics_table,
        "errors": errors_table,
        "calls": calls_table,
        "cli": command_line,
    }
    return makers[name]()


def filled(page: str) -> str:
    """A page with its generated blocks as they should be."""

    def block(match: re.Match[str]) -> str:
        return f"{match[1]}\n{generated(match['name'])}\n\n{match[3]}"

    return BLOCK.sub(block, page)


def wanted(root: Path = ROOT) -> dict[Path, str]:
    """Every file that has generated parts, with the text it should have."""
    pages = {path: path.read_text(encoding="utf-8") for path in markdown_files(root)}
    found = {path: filled(text) for path, text in pages.items() if BLOCK.search(text)}
    return {root / "config.example.yaml": example_config(), **found}


def markdown_files(root: Path = ROOT) -> list[Path]:
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def broken_links(root: Path = ROOT) -> list[str]:
    """Links between files that lead nowhere."""
    return [
        f"{page.relative_to(root)}: the link {match['target']} leads nowhere"
        for page in markdown_files(root)
        for match in LINK.finditer(page.read_text(encoding="utf-8"))
        if "://" not in match["target"]
        and not match["target"].startswith("#")
        and not (page.parent / match["target"].partition("#")[0]).exists()
    ]


def long_pages(root: Path = ROOT) -> list[str]:
    """Pages that are more than a sitting: what is generated aside."""
    found = {page: BLOCK.sub("", page.read_text(encoding="utf-8")).count("\n") for page in markdown_files(root)}
    return [
        f"{page.relative_to(root)} has {lines} lines, over {MOST_LINES}"
        for page, lines in found.items()
        if lines > MOST_LINES
    ]


def main(arguments: list[str]) -> int:
    """Compare, or write with ``--write``; 1 when something is not as it should be."""
    changed = [path for path, text in wanted().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    problems = broken_links() + long_pages()
    if "--write" in arguments:
        for path in changed:
            path.write_text(wanted()[path], encoding="utf-8")
            sys.stdout.write(f"written: {path.relative_to(ROOT)}\n")
    else:
        remedy = "is not what the code says; run: python -m tests.docs_check --write"
        problems += [f"{path.relative_to(ROOT)} {remedy}" for path in changed]
    sys.stdout.writelines(f"{problem}\n" for problem in problems)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
