"""Reads a configuration file: YAML with its mistakes named by line, then `${ENV}` filled in from the environment."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import yaml

from memproxy.errors import ConfigError

MAX_BYTES = 1024 * 1024
MAX_VALUES = 20_000  # most values of a file, aliases counted as often as they are used

VARIABLE = re.compile(
    r"\$(?:(?P<dollar>\$)|\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|(?P<open>\{))"
)

UNSET = object()  # stands for a text that could not be filled, until it is left out


class _Strict:
    """A mixin for safe loaders that refuses likely mistakes: a key given twice, a value that contains itself."""

    yaml_implicit_resolvers: ClassVar = {
        # Dates stay text: no setting is a date, and PyYAML fails on those that do not exist.
        first: [(tag, pattern) for tag, pattern in rules if tag != "tag:yaml.org,2002:timestamp"]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def get_single_node(self: Any) -> yaml.Node | None:
        node: yaml.Node | None = super().get_single_node()  # type: ignore[misc] # the loader's
        if node is not None:
            _weigh(node, {})
        return node

    def construct_object(self: Any, node: yaml.Node, deep: bool = False) -> Any:
        if isinstance(node, yaml.MappingNode):
            _refuse_twice(node)
        try:
            return super().construct_object(node, deep=deep)  # type: ignore[misc] # the loader's
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
            # PyYAML lets the errors of its converters through, for instance for `!!int "x"`.
            raise yaml.constructor.ConstructorError(
                None, None, f"a value that is not of its type ({node.tag})", node.start_mark
            ) from error


class _Loader(_Strict, yaml.SafeLoader):
    """Its messages name line, column and problem."""


class _QuickLoader(_Strict, getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """By libyaml, where PyYAML was built with it: five times as fast."""


def _weigh(node: yaml.Node, weights: dict[int, int]) -> int:
    """How many values ``node`` stands for; refuses a file that aliases blow up, or that contains itself."""
    if (weight := weights.get(id(node))) is not None:
        if weight < 0:
            raise yaml.MarkedYAMLError(problem="a value that contains itself", problem_mark=node.start_mark)
        return weight
    weights[id(node)] = -1
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        children = [child_node for pair in node.value for child_node in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    weight = 1 + sum(_weigh(child, weights) for child in children)
    if weight > MAX_VALUES:
        raise yaml.MarkedYAMLError(problem=f"more than {MAX_VALUES} values", problem_mark=node.start_mark)
    weights[id(node)] = weight
    return weight


def _refuse_twice(node: yaml.MappingNode) -> None:
    lines: dict[str, int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if key.value in lines:
            problem = f"the key `{key.value}` a second time (first in line {lines[key.value]})"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        lines[key.value] = key.start_mark.line + 1


def _remedy(text: str, number: int) -> str:
    """What to do about a line that cannot be read, where that can be guessed."""
    line = (text.splitlines()[number : number + 1] or [""])[0]
    if "\t" in line[: len(line) - len(line.lstrip())]:
        return "; YAML takes no tabs there: indent with spaces"
    return "; within { } and [ ], put ${NAME} in quotes" if "${" in line else ""


def parse(text: str, where: str) -> Any:
    """The YAML value of ``text``.

    Raises:
        ConfigError: it is no YAML; the message has ``where``, line and column, never the text.
    """
    try:
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        explanation = f"{error.problem or error.context}{_remedy(text, mark.line) if mark else ''}"
        raise ConfigError(f"{where}{place}: cannot be read as YAML: {explanation}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: cannot be read as YAML: it holds characters that YAML does not allow") from error
    except RecursionError as error:
        raise ConfigError(f"{where}: cannot be read as YAML: it is nested too deeply") from error


def parse_long(text: str, where: str) -> Any:
    """As `parse`, for long files of data: read by libyaml, whose words for a mistake are others.

    Raises:
        ConfigError: as `parse`.
    """
    try:
        return yaml.load(text, Loader=_QuickLoader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, RecursionError):
        return parse(text, where)


def read(path: Path) -> dict[Any, Any]:
    """The mapping in a file; an empty file is an empty mapping.

    Raises:
        ConfigError: missing, unreadable, too long, no UTF-8, no YAML, or no mapping.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = "it is not UTF-8 text" if isinstance(error, UnicodeDecodeError) else getattr(error, "strerror", error)
        raise ConfigError(f"{path}: cannot be read ({reason}); give the path of a YAML file") from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(f"{path}: is longer than {MAX_BYTES} bytes; a configuration is short")
    value = parse(text, str(path))
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: must hold sections such as `server:` and `upstream:`, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """What a value is, in words."""
    names: dict[type, str] = {dict: "a mapping", list: "a list", str: "text", bool: "true or false"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "an empty value")


class Substitution:
    """Fills `${NAME}` and `${NAME:-default}` into texts (`$$` is a dollar sign), else tells ``problem``."""

    def __init__(self, environ: Mapping[str, str], problem: Callable[[str, str], None]) -> None:
        self._environ = environ
        self._problem = problem

    def fill(self, value: Any, path: str = "") -> Any:
        """``value`` with all its texts filled, at any depth; keys that are no text are reported and left out."""
        if isinstance(value, str):
            return self._fill_text(value, path)
        if isinstance(value, list):
            items = [self.fill(item, f"{path}.{index}") for index, item in enumerate(value)]
            return [item for item in items if item is not UNSET]
        if isinstance(value, dict):
            pairs = [(key, self.fill(item, f"{path}.{key}".lstrip("."))) for key, item in self._named(value, path)]
            return {key: item for key, item in pairs if item is not UNSET}
        return value

    def _named(self, value: dict[Any, Any], path: str) -> list[tuple[str, Any]]:
        for key in value:
            if not isinstance(key, str):
                self._problem(path or "the file", f"a key is {kind_of(key)}; put it in quotes")
        return [(key, item) for key, item in value.items() if isinstance(key, str)]

    def _fill_text(self, text: str, path: str) -> Any:
        problems: list[str] = []

        def value(match: re.Match[str]) -> str:
            name, default = match["name"], match["default"]
            if match["dollar"]:
                return "$"
            if name and (default is not None or name in self._environ):
                return self._environ.get(name) or default or ""
            problems.append(
                f"the environment variable {name} is not set; set it or write ${{{name}:-default}}"
                if name
                else "`${` must be followed by a name and `}`: `${NAME}` or `${NAME:-default}` (`$$` is a dollar)"
            )
            return ""

        filled = VARIABLE.sub(value, text)
        for problem in problems:
            self._problem(path, problem)
        return UNSET if problems else filled
