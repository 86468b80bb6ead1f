"""The fenced blocks of README.md and docs/: what each is, and what can be said of one that is not run.

A block's first word is its language. What follows says why it is not run by `tests/house/test_docs_blocks.py`:
``not-run: REASON``, ``clients: PACKAGE`` (run by `make test-clients`), or ``form: NAME`` for YAML that is no settings.
"""

import importlib.util
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.main import get_command

from memproxy.commands import app
from tests.docs_check import BLOCK, ROOT, markdown_files

FENCE = re.compile(r"^(?P<fence>```+)(?P<info>[^\n]*)\n(?P<text>.*?)^(?P=fence)[ ]*$", re.MULTILINE | re.DOTALL)
ATTRIBUTE = re.compile(r"(?P<name>not-run|clients|form): (?P<value>\S.*)")
RUN = frozenset({"bash", "python", "js", "yaml", "json", "sql"})
SHOWN = frozenset({"text", "nginx", "promql", "{include}"})
COMMAND = re.compile(r"^\s*(\$ )?(memproxy|make|curl|python3?|pip|docker|git|kubectl|sudo|export|npm) ", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    attribute: str
    """``not-run``, ``clients``, ``form``, or nothing."""
    value: str
    text: str

    @property
    def where(self) -> str:
        """What a test is called by."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def lines(self) -> list[str]:
        """The commands of a shell block: what stands on one line, or goes on behind a backslash."""
        joined = re.sub(r"\\\n", "\\\n", self.text)
        return [line for line in re.split(r"(?<!\\)\n", joined) if line.strip() and not line.lstrip().startswith("#")]


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, but for those that are generated from the code."""
    text = BLOCK.sub(lambda match: "\n" * match[0].count("\n"), page.read_text(encoding="utf-8"))
    found = []
    for match in FENCE.finditer(text):
        language, _, rest = match["info"].strip().partition(" ")
        attribute = ATTRIBUTE.fullmatch(rest.strip())
        name, value = (attribute["name"], attribute["value"]) if attribute else ("", rest.strip())
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, language, name, value, match["text"]))
    return found


def all_blocks() -> list[Block]:
    return [block for page in markdown_files() for block in blocks_of(page)]


def faults(block: Block) -> list[str]:
    """What is wrong with a block as it stands, without running it."""
    if block.language not in RUN | SHOWN:
        return [f"a block of {block.language or 'no language'}: {', '.join(sorted(RUN))} are run, {sorted(SHOWN)} not"]
    if block.language == "{include}":
        return [] if (block.page.parent / block.value).is_file() else [f"{block.value} is not there"]
    if block.value and not block.attribute:
        return [f"{block.value!r} is neither `not-run: REASON` nor `clients: PACKAGE` nor `form: NAME`"]
    if block.language == "text" and COMMAND.search(block.text):
        return ["commands stand in a block of text, which nobody runs: call it bash"]
    if block.language == "bash":
        return [*_shell_faults(block.text), *(fault for line in block.lines for fault in _command_faults(line))]
    if block.language == "python":
        compile(block.text, block.where, "exec", flags=0)
    return []


def _shell_faults(text: str) -> Iterator[str]:
    done = subprocess.run(["bash", "-n"], input=text, capture_output=True, text=True, check=False)
    yield from done.stderr.splitlines()


def script_faults(block: Block, folder: Path) -> list[str]:
    """What Node.js says of a block of JavaScript; nothing where it is not installed."""
    if (node := shutil.which("node")) is None:
        return []
    path = folder / "block.mjs"
    path.write_text(block.text, encoding="utf-8")
    done = subprocess.run([node, "--check", path], capture_output=True, text=True, check=False)
    return done.stderr.splitlines()


def _command_faults(line: str) -> Iterator[str]:
    """Options, modules, targets and files that a line names, and that are not there."""
    words = shlex.split(line, comments=True)
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    for place, word in enumerate(words):
        rest, begins = words[place + 1 :], not place or words[place - 1] in {"|", "&&", ";"}
        if begins and (word == "memproxy" or word.endswith("/bin/memproxy")):
            yield from _own_command_faults(rest)
        elif word == "make" and rest and rest[0] not in targets:
            yield f"make {rest[0]}: no such target"
        elif word == "-m" and rest and rest[0].startswith("tests.") and importlib.util.find_spec(rest[0]) is None:
            yield f"python -m {rest[0]}: no such module"
        elif re.match(r"(deploy|config|tests)/[\w./-]+$", word) and not (ROOT / word).exists():
            made = place and words[0] == "cp"  # what a copy makes
            yield from [] if made or word.endswith("/.env") else [f"{word} is not there"]


def _own_command_faults(words: list[str]) -> Iterator[str]:
    end = next((place for place, word in enumerate(words) if word in {"|", "&&", ";", ">", "||"}), len(words))
    command: Any = get_command(app)
    rest = words[:end]
    while rest and hasattr(command, "commands"):
        name = rest.pop(0)
        found = command.get_command(command.make_context("memproxy", [], resilient_parsing=True), name)
        if found is None:
            yield f"memproxy has no command {name}"
            return
        command = found
    known = {option for parameter in command.params for option in parameter.opts}
    for word in rest:
        option = word.partition("=")[0]
        if option.startswith("--") and option not in known | {"--help"}:
            yield f"memproxy {command.name} has no option {option}"
