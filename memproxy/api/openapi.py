"""`/openapi.json`: generated from the models that check the calls, so that it cannot say anything else."""

import functools
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import memproxy
from memproxy.api import schemas
from memproxy.core.memory import INTERNAL_FIELDS, Memory
from memproxy.core.protocol import Citation

_REF = "#/components/schemas/"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call: what it takes and what a success answers (status to schema name)."""

    method: str
    path: str
    summary: str
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    answers: dict[int, str]


OPERATIONS = (
    Operation(
        method="post",
        path="/v1/memory",
        summary="Store one memory.",
        body=schemas.NewMemory,
        answers={201: "Memory", 202: "Memory"},
    ),
    Operation(
        method="get",
        path="/v1/memory",
        summary="List memories, newest first.",
        query=schemas.ListQuery,
        answers={200: "MemoryPage"},
    ),
    Operation(
        method="delete",
        path="/v1/memory",
        summary="Forget by scope.",
        query=schemas.ScopeQuery,
        answers={200: "Deleted", 202: "Deleted"},
    ),
    Operation(
        method="get",
        path="/v1/memory/{id}",
        summary="Read one memory.",
        query=schemas.OneQuery,
        answers={200: "Memory"},
    ),
    Operation(
        method="patch",
        path="/v1/memory/{id}",
        summary="Edit one memory: only the given fields change.",
        body=schemas.MemoryEdit,
        query=schemas.OneQuery,
        answers={200: "Memory", 202: "Memory"},
    ),
    Operation(
        method="delete",
        path="/v1/memory/{id}",
        summary="Forget one memory.",
        query=schemas.OneQuery,
        answers={200: "Deleted", 202: "Deleted"},
    ),
    Operation(
        method="post",
        path="/v1/memory/turns",
        summary="Ingest a conversation as verbatim turns.",
        body=schemas.NewTurns,
        query=schemas.TurnsQuery,
        answers={201: "TurnIds", 202: "TurnIds"},
    ),
    Operation(
        method="post",
        path="/v1/memory/search",
        summary="Search, best first.",
        body=schemas.SearchBody,
        answers={200: "Found"},
    ),
    Operation(
        method="post",
        path="/v1/memory/recall",
        summary="What the proxy would inject.",
        body=schemas.RecallBody,
        answers={200: "Recalled"},
    ),
    Operation(
        method="delete",
        path="/v1/memory/sessions/{id}",
        summary="Forget a session.",
        query=schemas.SessionQuery,
        answers={200: "Deleted", 202: "Deleted"},
    ),
    Operation(
        method="delete",
        path="/v1/memory/users/{id}",
        summary="Forget everything of a user.",
        answers={200: "Deleted", 202: "Deleted"},
    ),
)


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _array(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_TEXT: dict[str, Any] = {"type": "string"}
_OPTIONAL_TEXT: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_NUMBER: dict[str, Any] = {"type": "number"}
_INTEGER: dict[str, Any] = {"type": "integer"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_MEMORY: dict[str, Any] = {"$ref": _REF + "Memory"}

ANSWERS: dict[str, dict[str, Any]] = {
    "MemoryPage": _object(["data", "next_cursor"], data=_array(_MEMORY), next_cursor=_OPTIONAL_TEXT),
    "Deleted": _object(["deleted"], deleted=_INTEGER, queued=_FLAG),
    "TurnIds": _object(
        ["turn_ids", "session_id"],
        turn_ids=_array(_TEXT),
        session_id=_TEXT,
        learning={"enum": ["done", "pending"]},
    ),
    "Found": _object(
        ["data"],
        data=_array(_object(["memory", "score", "signals"], memory=_MEMORY, score=_NUMBER, signals={"type": "object"})),
    ),
    "Recalled": _object(
        ["context", "tokens", "citations", "decision", "timings"],
        context=_TEXT,
        tokens=_INTEGER,
        citations=_array({"$ref": _REF + "Citation"}),
        decision=_object(["searched", "reason"], searched=_FLAG, reason=_TEXT),
        timings={"type": "object", "additionalProperties": _NUMBER},
        degraded=_OPTIONAL_TEXT,
        query=_TEXT,
        candidates=_array({"type": "object"}),
    ),
    "Error": _object(
        ["error"],
        error=_object(
            ["message", "type", "param", "code"],
            message=_TEXT,
            type=_TEXT,
            param=_OPTIONAL_TEXT,
            code=_OPTIONAL_TEXT,
        ),
    ),
}


@functools.cache
def describe() -> dict[str, Any]:
    """The OpenAPI 3.1 description of the calls that this version answers."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "memproxy memory API", "version": memproxy.__version__, "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "schemas": _components(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}, {}],
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": {
            **{str(status): _content(name, _MEANING[status]) for status, name in operation.answers.items()},
            "default": _content("Error", "An error, OpenAI-shaped."),
        },
    }
    if operation.body is not None:
        schema = {"$ref": _REF + operation.body.__name__}
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
    return described


_MEANING = {
    200: "Done.",
    201: "Stored; it can be found.",
    202: "Journalled; it is applied when the memory store answers again.",
}


def _content(name: str, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": _REF + name}}}}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    if "{id}" in operation.path:
        found.append({"name": "id", "in": "path", "required": True, "schema": _TEXT})
    if operation.query is not None:
        properties = operation.query.model_json_schema()["properties"]
        found += [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]
    found.append({"name": "X-Memproxy-User", "in": "header", "schema": _TEXT})
    return found


def _components() -> dict[str, Any]:
    bodies = [operation.body for operation in OPERATIONS if operation.body is not None]
    _, taken = models_json_schema([(body, "validation") for body in bodies], ref_template=_REF + "{model}")
    _, given = msgspec.json.schema_components([Memory, Citation], ref_template=_REF + "{name}")
    memory = given["Memory"]
    shown = {name: schema for name, schema in memory["properties"].items() if name not in INTERNAL_FIELDS}
    given["Memory"] = memory | {"properties": shown, "required": list(shown)}
    return {**taken["$defs"], **given, **ANSWERS}
