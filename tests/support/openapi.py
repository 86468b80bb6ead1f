"""Request bodies that an OpenAPI schema allows, written as clients write them, with fields it does not know."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from tests.wire.strategies import NUMBERS, VALUES, arrays, objects, strings

Schema = dict[str, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]

_DEEP = 5
"""From this depth on only what a schema requires is written."""

_UNKNOWN = ("x_unknown", "provider", "\u00e9\u2028", "reasoning_effort_2")
_SAID = st.sampled_from(["What is my budget?", [{"type": "text", "text": "What is my budget?"}]]) | st.text(max_size=9)
"""What users say; left to the schema alone, few requests have anything to recall for."""

_FORMS = {"integer": st.integers(0, 10**20).map(str), "number": NUMBERS, "boolean": st.sampled_from(["true", "false"])}


@cache
def schemas_of(path: Path) -> dict[str, Schema]:
    """The components of an OpenAPI document."""
    with path.open(encoding="utf-8") as file:
        found: dict[str, Schema] = yaml.load(file, Loader=yaml.CSafeLoader)["components"]["schemas"]
    return found


@st.composite
def bodies(draw: st.DrawFn, path: Path, name: str) -> bytes:
    """A request that the schema of this name allows, but for unknown fields."""
    text: str = _Writer(schemas_of(path), draw).written({"$ref": f"/{name}"}, 0)
    return text.encode()


class _Writer:
    """Writes one value, asking hypothesis at every choice."""

    def __init__(self, schemas: dict[str, Schema], draw: st.DrawFn) -> None:
        self._schemas = schemas
        self._draw = draw

    def written(self, schema: Schema, depth: int) -> str:
        schema = self._chosen(schema, depth)
        if "enum" in schema:
            return str(self._draw(strings(str(self._draw(st.sampled_from(schema["enum"]))))))
        kind = schema.get("type") or ("object" if "properties" in schema else None)
        if kind == "object":
            return self._object(schema, depth)
        if kind == "array":
            return self._array(schema, depth)
        return str(self._draw(self._plain(schema, kind)))

    def _plain(self, schema: Schema, kind: str | None) -> st.SearchStrategy[str]:
        if kind == "string":
            least, most = schema.get("minLength", 0), min(schema.get("maxLength", 20), 20)
            return st.text(min_size=min(least, most), max_size=most).flatmap(strings)
        return st.just("null") if kind == "null" else _FORMS.get(kind or "", VALUES)

    def _chosen(self, schema: Schema, depth: int) -> Schema:
        """The schema without references and choices."""
        while "$ref" in schema:
            schema = self._schemas[schema["$ref"].rpartition("/")[2]]
        options = schema.get("anyOf") or schema.get("oneOf")
        rest = {name: value for name, value in schema.items() if name not in {"anyOf", "oneOf", "allOf"}}
        parts = list(schema.get("allOf", ()))
        if options:
            parts.append(options[0] if depth > _DEEP else self._draw(st.sampled_from(options)))
        for part in parts:
            rest = _merged(rest, self._chosen(part, depth))
        return rest

    def _object(self, schema: Schema, depth: int) -> str:
        properties = schema.get("properties") or {}
        wanted = set(schema.get("required", ())) | ({"input"} & set(properties) if depth == 0 else set())
        if depth <= _DEEP and properties:
            wanted |= self._draw(st.sets(st.sampled_from(sorted(properties)), max_size=4))
        members = [(name, self._member(name, properties.get(name, {}), depth)) for name in sorted(wanted)]
        if depth <= 2:
            names = self._draw(st.sets(st.sampled_from(_UNKNOWN), max_size=1))
            members += [(name, self._draw(VALUES)) for name in names if name not in properties]
        return str(self._draw(objects(self._draw(st.permutations(members)))))

    def _member(self, name: str, schema: Schema, depth: int) -> str:
        if depth == 0 and name in {"messages", "input"} and self._draw(st.integers(0, 3)):
            said = {"role": "user", "content": self._draw(_SAID)}
            others = [
                self.written((self._chosen(schema, 0).get("items") or {}), 2)
                for _ in range(self._draw(st.integers(0, 2)))
            ]
            return str(self._draw(arrays(self._draw(st.permutations([*others, json.dumps(said)])))))
        return self.written(schema, depth + 1)

    def _array(self, schema: Schema, depth: int) -> str:
        least = schema.get("minItems", 0)
        count = least if depth > _DEEP else self._draw(st.integers(least, least + 3))
        items = schema.get("items") or {}
        return str(self._draw(arrays([self.written(items, depth + 1) for _ in range(count)])))


def _merged(one: Schema, other: Schema) -> Schema:
    """Both at once, as ``allOf`` means it."""
    properties = {**(one.get("properties") or {}), **(other.get("properties") or {})}
    required = [*one.get("required", ()), *other.get("required", ())]
    return {**one, **other, "properties": properties, "required": required} if properties else {**one, **other}
