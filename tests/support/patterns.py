"""All regular expressions of the package, and texts that make each of them work as hard as it can."""

import ast
import importlib
import pkgutil
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from re import _constants as sre
from re import _parser
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

import memproxy
from memproxy.core.bounded_regex import BoundedPattern

TRUSTED = ("tests.docs_check", "memproxy.settings.yaml_file", "memproxy.evals")
"""Modules whose patterns see only what the operator or a developer wrote himself: pages, configuration, data sets."""

_METHODS = frozenset({"compile", "search", "match", "fullmatch", "findall", "finditer", "split", "sub", "subn"})
_ANCHORED = frozenset({"match", "fullmatch"})
_LARGE = 100
"""A repetition that may go on for longer than this counts as one without an end."""

_LONG = 60
"""Repetitions within one fragment: of a long word, or of many blanks."""

GENERAL = (
    *" \n\"'“([{<>,.-_:/0aAé中",
    *(" \n", "!["),
    *("a ", "Aa ", "a, ", "a. ", "a-", "a'", "0,", "0 ", "a\n", "my ", "the ", "User's ", "not ", "and "),
)
"""What is tried on every pattern."""

Pattern = re.Pattern[Any] | BoundedPattern


class Found(NamedTuple):
    """A pattern, where it is from, and whether it is only ever matched at one place (never searched for)."""

    where: str
    pattern: Pattern
    anchored: bool = False

    @property
    def compiled(self) -> re.Pattern[Any]:
        return self.pattern.compiled if isinstance(self.pattern, BoundedPattern) else self.pattern

    @property
    def most(self) -> int | None:
        """Its bound on text, if it has one."""
        return self.pattern.most if isinstance(self.pattern, BoundedPattern) else None

    def run(self, text: str) -> None:
        """Let it do all that it can with a text."""
        read: Any = text.encode("utf-8", "replace") if isinstance(self.compiled.pattern, bytes) else text
        if self.anchored:
            self.pattern.match(read)
            self.pattern.fullmatch(read)
        else:
            deque(self.pattern.finditer(read), maxlen=0)


class Unknown(NamedTuple):
    """A pattern that is put together where it is used, of what only that place knows."""

    where: str
    source: str


@cache
def package_modules() -> tuple[ModuleType, ...]:
    """All modules of the package, imported."""
    walked = pkgutil.walk_packages(memproxy.__path__, "memproxy.")
    names = [one.name for one in walked if not one.name.endswith("__main__")]
    return (memproxy, *(importlib.import_module(name) for name in names))


@cache
def all_patterns() -> tuple[Found, ...]:
    """Every pattern that a module of the package holds, or makes where it is called."""
    found: dict[tuple[Any, ...], Found] = {}
    for one in (*_of_modules(), *_of_calls()):
        key = (one.compiled.pattern, one.compiled.flags, one.most)
        if key not in found or found[key].anchored:
            found[key] = one
    return tuple(found.values())


def unknown_patterns() -> list[Unknown]:
    """Calls of ``re`` within functions whose pattern is not known before they are called."""
    return [one for module in _untrusted() for one in _calls(module) if isinstance(one, Unknown)]


def _untrusted() -> list[ModuleType]:
    return [module for module in package_modules() if not module.__name__.startswith(TRUSTED)]


def _of_modules() -> Iterator[Found]:
    seen: set[int] = set()
    for module in _untrusted():
        for name, value in list(vars(module).items()):
            where = f"{module.__name__}.{name}"
            if isinstance(value, re.Pattern | BoundedPattern):
                yield Found(where, value, anchored=_uses(module, name) <= _ANCHORED)
            else:
                yield from (Found(where, pattern) for pattern in _held(value, seen))


def _of_calls() -> Iterator[Found]:
    for module in _untrusted():
        yield from (one for one in _calls(module) if isinstance(one, Found))


def _held(value: Any, seen: set[int]) -> Iterator[Pattern]:
    """The patterns in a value: in containers, instances of our own, closures and defaults of functions."""
    stack = [value]
    while stack:
        one = stack.pop()
        if isinstance(one, re.Pattern | BoundedPattern):
            yield one
        elif id(one) not in seen and not isinstance(one, str | bytes | int | float | ModuleType):
            seen.add(id(one))
            stack.extend(_inside(one))


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return [*value.keys(), *value.values()]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, FunctionType):
        return [*_cells(value), *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, type):
        return list(vars(value).values()) if value.__module__.startswith("memproxy") else []
    if type(value).__module__.startswith("memproxy"):
        names = [*getattr(type(value), "__struct_fields__", ()), *getattr(type(value), "__slots__", ())]
        return [*getattr(value, "__dict__", {}).values(), *(getattr(value, name, None) for name in names)]
    return [inner for name in ("__wrapped__", "__func__", "func", "fget") if (inner := getattr(value, name, None))]


def _cells(function: FunctionType) -> list[Any]:
    try:
        return [cell.cell_contents for cell in function.__closure__ or ()]
    except ValueError:  # a name that is not bound yet
        return []


@cache
def _source(module: ModuleType) -> str:
    path = Path(module.__file__ or "")
    return path.read_text("utf-8") if path.suffix == ".py" else ""


@cache
def _nodes(module: ModuleType) -> tuple[ast.AST, ...]:
    """All of a module's syntax, what holds something before what it holds."""
    return tuple(ast.walk(ast.parse(_source(module))))


@cache
def _named_uses(module: ModuleType) -> dict[str, frozenset[str]]:
    """By the name of a value what of it is used in a module; `""` where it is used otherwise."""
    uses: dict[str, set[str]] = {}
    called = set[int]()
    for node in _nodes(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name | ast.Attribute):
            called.add(id(node.value))
            uses.setdefault(_name_of(node.value), set()).add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and id(node) not in called:
            uses.setdefault(node.id, set()).add("")
    return {name: frozenset(used) for name, used in uses.items()}


def _name_of(node: ast.Name | ast.Attribute) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr


def _uses(module: ModuleType, name: str) -> frozenset[str]:
    """What of a module's value is used, in it, and where its name is a public one in all of the package."""
    modules = [module] if name.startswith("_") else [one for one in package_modules() if name in _source(one)]
    return frozenset().union(*(_named_uses(one).get(name, frozenset()) for one in modules))


@cache
def _calls(module: ModuleType) -> tuple[Found | Unknown, ...]:
    """The patterns of ``re.sub("...", ...)`` and the like within functions: the first argument, computed as there."""
    if "import re\n" not in _source(module):
        return ()
    functions = [node for node in _nodes(module) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    calls = {id(node): node for function in functions for node in ast.walk(function) if _is_regex_call(node)}
    return tuple(one for node in calls.values() if (one := _called(module, node)) is not None)


def _is_regex_call(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return False
    return node.func.attr in _METHODS and isinstance(node.func.value, ast.Name) and node.func.value.id == "re"


def _called(module: ModuleType, node: Any) -> Found | Unknown | None:
    where = f"{module.__name__}:{node.lineno}"
    flags = [one.value for one in node.keywords if one.arg == "flags"]
    try:
        value, *given = (_value(module, one) for one in (node.args[0], *flags))
    except NameError:
        return Unknown(where, ast.unparse(node.args[0]))
    if isinstance(value, re.Pattern):
        return None  # held by a module
    return Found(where, re.compile(value, *given), anchored=node.func.attr in _ANCHORED)


def _value(module: ModuleType, node: ast.expr) -> Any:
    return eval(compile(ast.Expression(node), module.__name__, "eval"), dict(vars(module)))


def fragments(pattern: re.Pattern[Any]) -> list[str]:
    """Pieces whose repetition is the hardest text for this pattern: what leads up to each repetition without an end,
    with what it repeats, once, twice, as a long word, as several long words; and `GENERAL`.
    """
    made = dict.fromkeys(GENERAL)
    for lead, item in _repeats(list(_parser.parse(pattern.pattern, pattern.flags)), ""):
        word = item * _LONG
        made |= dict.fromkeys((item, lead + item, f"{lead}{item} ", lead + word, lead + f"{word} " * 5))
    return [one for one in made if one]


def _repeats(items: list[Any], lead: str) -> Iterator[tuple[str, str]]:
    """For each repetition without an end what stands before it, and one of what it repeats."""
    for place, (op, argument) in enumerate(items):
        before = lead + _sample(items[:place])
        if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
            inner = list(argument[2])
            if argument[1] == sre.MAXREPEAT or argument[1] > _LARGE:
                for taken in _takes(inner):
                    yield before, taken
            yield from _repeats(inner, before)
        else:
            for branch in _branches(op, argument):
                yield from _repeats(branch, before)


def _branches(op: Any, argument: Any) -> list[list[Any]]:
    if op is sre.BRANCH:
        return [list(branch) for branch in argument[1]]
    if op is sre.SUBPATTERN:
        return [list(argument[3])]
    if op in (sre.ASSERT, sre.ASSERT_NOT):
        return [list(argument[1])]
    if op is sre.ATOMIC_GROUP:
        return [list(argument)]
    if op is sre.GROUPREF_EXISTS:
        return [list(one) for one in argument[1:] if one]
    return []


def _takes(inner: list[Any]) -> list[str]:
    """Samples of what is repeated: several kinds of character where it is a single class."""
    if len(inner) == 1 and inner[0][0] in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        return [one for one in " \na0A,'\"-.(<" if _fits(inner[0], one)][:3] or [_sample(inner)]
    return [_sample(inner)]


def _sample(items: Iterable[Any]) -> str:
    return "".join(_one(op, argument) for op, argument in items)


def _one(op: Any, argument: Any) -> str:
    if op is sre.LITERAL:
        return chr(argument)
    if op in (sre.IN, sre.ANY, sre.NOT_LITERAL):
        usual = "aA0 -,.'\"\n中_$€{}[]()<>:;?!/@+"
        return next((one for one in usual if _fits((op, argument), one)), None) or _first(op, argument)
    if op in (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT):
        return _sample(argument[2]) * int(argument[0])
    if op is sre.ASSERT:
        return _sample(argument[1]) if argument[0] < 0 else ""
    if op is sre.ASSERT_NOT:
        return ""
    branches = _branches(op, argument)
    return _sample(branches[0]) if branches else ""


def _first(op: Any, argument: Any) -> str:
    for kind, value in argument if op is sre.IN else ():
        if kind is sre.LITERAL:
            return chr(value)
        if kind is sre.RANGE:
            return chr(value[0])
    return "a"


def _fits(node: tuple[Any, Any], character: str) -> bool:
    op, argument = node
    if op is sre.ANY:
        return character != "\n"
    if op is sre.NOT_LITERAL:
        return chr(argument) != character
    positive, found = True, False
    for kind, value in argument:
        if kind is sre.NEGATE:
            positive = False
        elif kind is sre.LITERAL:
            found = found or chr(value) == character
        elif kind is sre.RANGE:
            found = found or value[0] <= ord(character) <= value[1]
        elif kind is sre.CATEGORY:
            found = found or _CATEGORIES[value](character)
    return found is positive


_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    sre.CATEGORY_DIGIT: str.isdigit,
    sre.CATEGORY_NOT_DIGIT: lambda one: not one.isdigit(),
    sre.CATEGORY_SPACE: str.isspace,
    sre.CATEGORY_NOT_SPACE: lambda one: not one.isspace(),
    sre.CATEGORY_WORD: lambda one: one.isalnum() or one == "_",
    sre.CATEGORY_NOT_WORD: lambda one: not (one.isalnum() or one == "_"),
}
