"""docs/dependencies.md: every dependency has its row, and the processes import what it says."""

import re
import subprocess
import sys
import tomllib

import pytest

from tests.docs_check import ROOT
from tests.test_architecture import import_name

PROCESSES = {
    "s": "memproxy.commands.running, memproxy.settings.loading, memproxy.serve.supervisor",
    "r": "memproxy.serve.processes, memproxy.serve.server, memproxy.wiring.relay_parts",
    "e": "memproxy.serve.processes, memproxy.serve.server, memproxy.wiring.engine_parts, memproxy.engine.app",
    "w": "memproxy.serve.processes",
}
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/dependencies.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| `")
]


def declared() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = {"": project["dependencies"], **project["optional-dependencies"]}
    return {name: [re.split(r"[\s<>=!~;\[]", line, maxsplit=1)[0] for line in lines] for name, lines in groups.items()}


def test_every_dependency_has_its_row() -> None:
    groups = declared()
    names = [row[0].strip("`") for row in ROWS]
    assert [name for name in names if name not in groups] == groups[""]
    extras = {(row[0].strip("`"), package) for row in ROWS for package in re.findall(r"`([^`]+)`", row[1])}
    wanted = {(name, package) for name in groups.keys() - {"", "dev"} for package in groups[name]}
    assert {pair for pair in extras if pair[0] in groups.keys() - {"dev"}} == wanted


@pytest.mark.parametrize("process", PROCESSES)
def test_a_process_imports_what_is_said_of_it_and_no_more(process: str) -> None:
    program = f"import sys, {PROCESSES[process]}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    names = {row[0].strip("`"): re.sub(r"\(.*?\)", "", row[1]) for row in ROWS if row[0].strip("`") in declared()[""]}
    assert {name for name in names if import_name(name) in found} == {
        name for name, processes in names.items() if re.search(rf"\b{process}\b", processes)
    }
