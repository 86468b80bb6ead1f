"""The rules of the house, read from the source: import directions, tasks, caught errors, dependencies."""

import ast
import re
import subprocess
import sys
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

from memproxy.settings.reference import settings_of

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "memproxy"

ALL = frozenset({"*"})
SEAMS = frozenset({"core", "errors", "ports", "settings", "metrics", "tasks", "logs", "traces"})
MAY_IMPORT: dict[str, frozenset[str]] = {
    # pure
    "core": frozenset(),
    "errors": frozenset(),
    "logs": frozenset(),
    "metrics": frozenset(),
    # the seams
    "ports": frozenset({"core", "errors"}),
    "settings": frozenset({"core", "errors"}),
    "tasks": frozenset({"metrics", "errors", "logs"}),
    "traces": frozenset(),
    # rooms that do not know each other
    "wire": SEAMS,
    "auth": SEAMS,
    "recall": SEAMS,
    "models": SEAMS,
    "stores": SEAMS,
    "retention": SEAMS,
    "learn": SEAMS | {"recall", "retention"},
    "page": frozenset(),
    # process one knows the journal (a port) and the engine's address; process two everything but concrete parts
    "relay": SEAMS | {"wire", "auth", "page"},
    "api": SEAMS | {"retention", "auth", "recall", "learn"},
    "mcp": SEAMS,
    "engine": SEAMS | {"retention", "auth", "recall", "learn", "api", "mcp"},
    # the only importer of concrete stores and models
    "wiring": SEAMS | {"retention", "auth", "wire", "recall", "models", "stores", "learn", "relay", "api", "engine"},
    "serve": SEAMS | {"wiring", "relay", "engine"},
    "importers": frozenset({"errors"}),
    "evals": ALL,
    "demo": ALL,
    "commands": ALL,
    "__main__": ALL,
}
NOT_EVEN_ALL = {"evals": {"commands", "demo"}, "demo": {"commands", "evals"}}

LAYERS: tuple[frozenset[str], ...] = (
    frozenset({"core"}),
    frozenset({"ports", "errors", "settings", "metrics", "tasks", "logs", "traces"}),
    frozenset({"wire", "auth", "models", "stores", "recall", "page"}),
    frozenset({"retention", "learn"}),
    frozenset({"relay"}),
    frozenset({"api", "mcp", "engine"}),
    frozenset({"wiring", "serve"}),
    frozenset({"commands", "demo", "evals", "importers", "__main__"}),
)
"""From the innermost outwards; what a room may import is in `MAY_IMPORT`."""

MOST_FILES = {
    "api": 24,
    "auth": 10,
    "commands": 14,
    "core": 38,
    "demo": 3,
    "engine": 8,
    "evals": 14,
    "learn": 44,
    "mcp": 3,
    "models": 9,
    "page": 1,
    "ports": 4,
    "recall": 26,
    "relay": 25,
    "retention": 5,
    "serve": 6,
    "settings": 5,
    "stores": 49,
    "wire": 15,
    "wiring": 8,
}
"""Files of each room. A new one is a new idea, not a part of another module: raise the number and say why."""

SHORT_LINES = 60
SHORT_WITH_ONE_IMPORTER: dict[str, str] = {
    "memproxy/stores/postgres_state_sealed.py": "loads both the client of PostgreSQL and cryptography"
}
"""Modules of fewer than `SHORT_LINES` that only one other imports, each with the reason that it is one."""

SAME_NAME: dict[str, str] = {}
"""Base names that two modules of a layer may have, each with what they mean."""

CORE_MAY_IMPORT = {"fusion": {"numpy"}, "vectors": {"numpy"}}
"""Scores are arithmetic over hundreds of candidates at once."""

NOT_IMPORTED_BUT_USED = {
    "httptools": "uvicorn's parser, chosen by name",
    "uvloop": "uvicorn's event loop, chosen by name",
}
INNER_PARTS = frozenset({"aiohttp", "jwt", "uvicorn", "httptools"})
"""Packages whose classes are not made to be inherited from: a new minor version may change what ours override."""

EXTRAS = {
    "fastembed": "models/(encoder|query_precision)",
    "qdrant": "stores/qdrant",
    "postgres": "stores/postgres",
    "redis": "stores/redis",
    "mcp": "mcp/",
    "otel": "wiring/open_telemetry",
}
"""Extras, and the modules that need what they bring; whoever imports one of these does so when it is wanted."""

IMPORT_NAMES = {
    "grpcio": "grpc",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry",
    "opentelemetry-sdk": "opentelemetry",
    "pyjwt": "jwt",
    "pyyaml": "yaml",
    "qdrant-edge-py": "qdrant_edge",
}


@dataclass(frozen=True)
class Module:
    path: Path
    source: str
    tree: ast.Module

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree: walking it takes longer than what is looked for."""
        return tuple(ast.walk(self.tree))

    @property
    def room(self) -> str:
        parts = self.path.relative_to(PACKAGE).with_suffix("").parts
        return parts[0] if parts else "__init__"

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    @property
    def lines(self) -> list[str]:
        return self.source.splitlines()


@cache
def modules() -> tuple[Module, ...]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        found.append(Module(path, source, ast.parse(source)))
    return tuple(found)


def imports(module: Module) -> Iterator[tuple[str, int]]:
    """Every imported module's dotted name with its line; `from memproxy import x` names `memproxy.x`."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            if node.module == "memproxy":
                yield from ((f"memproxy.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


def own_imports(module: Module) -> Iterator[tuple[str, int]]:
    """The rooms of ours that a module imports."""
    for name, line in imports(module):
        package, _, rest = name.partition(".")
        room = rest.partition(".")[0]
        if package == "memproxy" and room not in {"", "__version__", module.room}:
            yield room, line


def test_every_room_has_its_place() -> None:
    rooms = {module.room for module in modules()} - {"__init__"}
    assert rooms == set(MAY_IMPORT) == frozenset().union(*LAYERS)


def test_imports_point_one_way() -> None:
    wrong = []
    for module in modules():
        allowed = MAY_IMPORT.get(module.room, frozenset())
        for room, line in own_imports(module):
            refused = room in NOT_EVEN_ALL.get(module.room, set())
            if refused or (allowed != ALL and "*" not in allowed and room not in allowed):
                wrong.append(f"{module.name}:{line} imports {room}")
    assert not wrong, "\n".join(wrong)


def test_the_table_of_imports_has_no_circle() -> None:
    def reach(room: str, path: tuple[str, ...]) -> None:
        assert room not in path, f"a circle: {path} -> {room}"
        for each in MAY_IMPORT.get(room, frozenset()) - {"*"}:
            reach(each, (*path, room))

    for room in MAY_IMPORT:
        reach(room, ())


def test_the_relay_knows_neither_recall_nor_learning_nor_models_nor_stores() -> None:
    assert not MAY_IMPORT["relay"] & {"recall", "learn", "models", "stores", "wiring", "engine", "api"}


def test_the_core_is_pure() -> None:
    """No I/O, no async. What else a module of the core may import is said in CORE_MAY_IMPORT, with the reason."""
    impure = {"asyncio", "socket", "subprocess", "threading", "sqlite3", "tempfile", "http", "urllib.request"}
    own = {*sys.stdlib_module_names, "msgspec", "memproxy"}
    wrong = [
        f"{module.name}:{line} imports {name}"
        for module in modules()
        if module.room == "core"
        for name, line in imports(module)
        if name in impure or name.split(".")[0] not in own | CORE_MAY_IMPORT.get(module.path.stem, set())
    ]
    assert not wrong, "\n".join(wrong)
    has_async = [module.name for module in modules() if module.room == "core" and "async def" in module.source]
    assert not has_async


def test_no_room_has_more_files_than_ideas() -> None:
    found = Counter(module.room for module in modules() if module.path.parent != PACKAGE)
    assert found.keys() == MOST_FILES.keys()
    more = {room: count for room, count in found.items() if count > MOST_FILES[room]}
    assert not more, f"more files than MOST_FILES says: {more}"


def importers_of(module: Module) -> set[str]:
    """The modules that import this one."""
    dotted = module.name.removesuffix(".py").replace("/", ".")
    return {
        other.name
        for other in modules()
        for node in other.nodes
        if isinstance(node, ast.ImportFrom)
        and dotted in {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    }


def test_a_module_is_more_than_a_part_of_its_only_importer() -> None:
    short = [
        module for module in modules() if len(module.lines) < SHORT_LINES and not module.path.stem.startswith("__")
    ]
    wrong = {module.name for module in short if len(importers_of(module)) == 1}
    assert wrong == set(SHORT_WITH_ONE_IMPORTER), "merge it into its importer, or give the reason; drop what is mended"


def test_a_name_means_one_module_of_a_layer() -> None:
    twice = set()
    for layer in LAYERS:
        names = [module.path.stem for module in modules() if module.room in layer and module.path.stem != "__init__"]
        twice |= {name for name in names if names.count(name) > 1}
    assert twice == set(SAME_NAME), "rename one, or say what both mean; drop what is mended"


def test_tasks_have_owners() -> None:
    """`create_task` and its like are called in tasks.py alone (a TaskGroup owns what it starts)."""
    wrong = []
    for module in modules():
        for node in module.nodes:
            if not isinstance(node, ast.Call) or module.name.endswith("memproxy/tasks.py"):
                continue
            called = ast.unparse(node.func)
            owned = called.rpartition(".")[0].endswith(("group", "tasks"))
            if called.rpartition(".")[2] in {"create_task", "ensure_future"} and not owned:
                wrong.append(f"{module.name}:{node.lineno} {called}")
    assert not wrong, "\n".join(wrong)


def broad(handler: ast.ExceptHandler) -> bool:
    caught = ast.unparse(handler.type) if handler.type else "BaseException"
    return bool(re.search(r"\b(Base)?Exception\b", caught))


def reraises(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], ast.Raise)


def test_broad_handlers_have_a_reason_and_tell() -> None:
    """Whatever is not raised again is logged and counted, or handed to whoever waits for it; a comment says why."""
    wrong = []
    for module in modules():
        for node in module.nodes:
            if not isinstance(node, ast.ExceptHandler) or not broad(node) or reraises(node):
                continue
            near = module.lines[max(0, node.lineno - 2) : node.lineno + 1]
            body = "\n".join(ast.unparse(statement) for statement in node.body)
            told = re.search(r"\blog\.\w+\(", body) and "internal_errors" in body
            handed_on = re.search(r"set_exception|_fail\(|_acknowledger\.failed\(", body)
            if not any("#" in line for line in near) or not (told or handed_on):
                wrong.append(f"{module.name}:{node.lineno}")
    assert not wrong, "give a reason, a log line and a metric: " + ", ".join(wrong)


def test_imports_are_absolute() -> None:
    wrong = [
        f"{module.name}:{node.lineno}"
        for module in modules()
        for node in module.nodes
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert not wrong


def test_nothing_changes_at_module_level() -> None:
    """No `global` statement: state lives in objects that somebody made."""
    wrong = [
        f"{module.name}:{node.lineno}" for module in modules() for node in module.nodes if isinstance(node, ast.Global)
    ]
    assert not wrong


def shipped_files() -> list[Path]:
    """What goes into a commit, tests excepted (they may speak of such paths)."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout")
    paths = [ROOT / line for line in listed.stdout.splitlines() if not line.startswith("tests/")]
    return [path for path in paths if path.is_file()]


MACHINE_PATH = re.compile(r"(?<![\w.~}$-])/(work|home/[a-z]+|root|Users/\w+)/")
SCRATCH_PATH = re.compile(r"(?<![\w.~}$-])/tmp/\w")
SECRET = re.compile(r"sk-[A-Za-z0-9_-]{20,}|AKIA[0-9A-Z]{16}|ghp_[A-Za-z0-9]{30,}|-----BEGIN [A-Z ]*PRIVATE KEY")


def test_no_file_names_a_machine_or_holds_a_secret() -> None:
    wrong = []
    for path in shipped_files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        wrong += [
            f"{path.relative_to(ROOT)}: {match[0]}"
            for pattern in (MACHINE_PATH, SCRATCH_PATH, SECRET)
            for match in pattern.finditer(text)
        ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_locks_hold_versions_and_hashes_and_no_address(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    assert not re.search(r"https?://|--(extra-)?index-url|--find-links|--trusted-host", text)
    pinned = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?(==)?", text, re.MULTILINE)
    assert pinned
    assert all(exact for package, exact in pinned if package)
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(pinned)


@cache
def declared(section: str = "") -> frozenset[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = project["optional-dependencies"][section] if section else project["dependencies"]
    return frozenset(re.split(r"[\s<>=!~;\[]", line, maxsplit=1)[0].lower() for line in lines)


def shipped() -> frozenset[str]:
    """What is needed at run time, with or without an extra."""
    return declared().union(*map(declared, EXTRAS))


def import_name(distribution: str) -> str:
    return IMPORT_NAMES.get(distribution, distribution.replace("-", "_"))


@cache
def third_party() -> dict[str, str]:
    """Every foreign package that our code imports, with one place."""
    return {
        name.split(".")[0]: f"{module.name}:{line}"
        for module in modules()
        for name, line in imports(module)
        if name.split(".")[0] not in {*sys.stdlib_module_names, "memproxy"}
    }


SCHEMA = {"settings"}
REFUSED = {"telemetry.log_content"}
"""Settings that stop the start with any value but their default (`settings.loading.conflicts`)."""


def test_every_setting_is_read_or_refused() -> None:
    """By its name only, so that one reader can stand for several settings of one name; none may have no reader."""
    sources = "\n".join(module.source for module in modules() if module.room not in SCHEMA)
    ignored = [
        setting.path
        for setting in settings_of()
        if setting.path not in REFUSED and not re.search(rf"\.{setting.path.rpartition('.')[2]}\b", sources)
    ]
    assert not ignored, f"read them, or refuse them: {ignored}"


def test_what_is_imported_is_declared() -> None:
    known = {import_name(each) for each in shipped()}
    missing = {name: place for name, place in third_party().items() if name not in known}
    assert not missing, f"declare in pyproject.toml: {missing}"


@pytest.mark.parametrize("extra", EXTRAS)
def test_what_an_extra_brings_is_imported_when_it_is_wanted(extra: str) -> None:
    brought = {import_name(each) for each in declared(extra)}
    needing = {module.name for module in modules() if any(name.split(".")[0] in brought for name, _ in imports(module))}
    elsewhere = {name for name in needing if not re.match(f"memproxy/{EXTRAS[extra]}", name)}
    assert not elsewhere, f"only {EXTRAS[extra]} may need the extra {extra}: {elsewhere}"
    rooms = {name.removesuffix(".py").replace("/", ".") for name in needing}
    at_once = {
        module.name
        for module in modules()
        if module.room != "evals" and not re.match(f"memproxy/{EXTRAS[extra]}", module.name)
        for node in module.tree.body
        if isinstance(node, ast.ImportFrom) and node.module in rooms
    }
    assert not at_once, f"import it where it is used: {at_once}"


def test_the_build_backend_has_an_upper_bound() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]
    assert all(">=" in line and ",<" in line for line in build["requires"])


def overridden() -> Iterator[str]:
    """Packages whose classes ours inherit from."""
    for module in modules():
        foreign = {
            alias.asname or alias.name: (node.module or "")
            for node in module.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                for base in map(ast.unparse, node.bases):
                    yield foreign.get(base, base).split(".")[0]


def test_packages_whose_inner_parts_are_overridden_have_an_upper_bound() -> None:
    lines = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["dependencies"]
    found = set(overridden()) & INNER_PARTS
    assert found == {"aiohttp", "uvicorn"}
    for package in found:
        assert [line for line in lines if line.startswith(f"{package}>=") and ",<" in line], package


def test_what_is_declared_is_used() -> None:
    unused = {each for each in shipped() if import_name(each) not in third_party()}
    assert unused <= set(NOT_IMPORTED_BUT_USED), unused


def test_what_is_shipped_is_small() -> None:
    """A wheel is these files, compressed: under 2 MB."""
    shipped_bytes = [path.read_bytes() for path in shipped_files() if path.is_relative_to(PACKAGE)]
    assert sum(len(zlib.compress(each)) for each in shipped_bytes) < 2_000_000


def test_what_is_declared_is_locked() -> None:
    for lock, wanted in (("requirements.lock", shipped()), ("requirements-dev.lock", shipped() | declared("dev"))):
        text = (ROOT / lock).read_text(encoding="utf-8").lower()
        missing = [each for each in wanted if not re.search(rf"^{re.escape(each)}(\[.*\])?==", text, re.MULTILINE)]
        assert not missing, f"{lock} lacks {missing}; run: make lock"
