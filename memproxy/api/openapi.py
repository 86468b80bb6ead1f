"""`/openapi.json`: generated from the models that check the calls, so that it cannot say anything else."""

import functools
import re
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
    Operation(
        method="get",
        path="/v1/memory/receipts/{request_id}",
        summary="Why a request got the memories it got, and what was learned from it.",
        query=schemas.OneQuery,
        answers={200: "Receipt"},
    ),
    Operation(
        method="get",
        path="/v1/memory/activity",
        summary="What was learned lately, newest first.",
        query=schemas.ActivityQuery,
        answers={200: "Activity"},
    ),
    Operation(
        method="get",
        path="/v1/memory/stats",
        summary="How many memories there are, and what waits to be written.",
        query=schemas.SessionQuery,
        answers={200: "Stats"},
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

_COUNTS = {"type": "object", "additionalProperties": _INTEGER}
_OUTCOME = _object(
    ["result", "content"],
    result={"enum": ["stored", "superseded", "duplicate", "rejected"]},
    reason=_TEXT,
    memory_id=_TEXT,
    kind=_TEXT,
    content=_OPTIONAL_TEXT,
    turn_id=_TEXT,
    request_ids=_array(_TEXT),
    supersedes=_TEXT,
    superseded_by=_TEXT,
)
_PLACE = {"session_id": _OPTIONAL_TEXT, "project_id": _OPTIONAL_TEXT, "agent_id": _OPTIONAL_TEXT}
_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_ANY_OR_NONE: dict[str, Any] = {"anyOf": [{"type": "object"}, {"type": "null"}]}

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
        data=_array(
            _object(
                ["memory", "score", "signals"],
                memory=_MEMORY,
                score=_NUMBER,
                signals={"type": "object", "additionalProperties": _NUMBER},
                rejected=_OPTIONAL_TEXT,
            )
        ),
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
    "Receipt": _object(
        ["request_id", "created_at", "user_id", "result", "memories", "tokens", "candidates", "timings", "learned"],
        request_id=_TEXT,
        created_at=_TIME,
        user_id=_TEXT,
        **_PLACE,
        result=_OPTIONAL_TEXT,
        reason=_OPTIONAL_TEXT,
        mode=_OPTIONAL_TEXT,
        decision=_ANY_OR_NONE,
        query=_OPTIONAL_TEXT,
        memories=_array(
            _object(
                ["memory_id", "content"],
                memory_id=_TEXT,
                turn_id=_TEXT,
                score=_NUMBER,
                repeated=_FLAG,
                content=_OPTIONAL_TEXT,
            )
        ),
        tokens=_INTEGER,
        candidates=_array({"type": "object"}),
        timings={"type": "object", "additionalProperties": _NUMBER},
        upstream=_ANY_OR_NONE,
        captured=_FLAG,
        turn_ids=_array(_TEXT),
        learned=_object(
            ["state", "outcomes"],
            state={"enum": ["none", "off", "pending", "parked", "done"]},
            reason=_TEXT,
            outcomes=_array(_OUTCOME),
        ),
    ),
    "Activity": _object(
        ["data"],
        data=_array(
            {
                "anyOf": [
                    _OUTCOME,
                    _object(["at", "result", "what", "reason"], at=_TIME, result=_TEXT, what=_TEXT, reason=_TEXT),
                ]
            }
        ),
    ),
    "Stats": _object(
        ["memories", "queues"],
        memories=_object(
            ["active", "total", "kinds"],
            active=_INTEGER,
            total=_INTEGER,
            kinds={"type": "object", "additionalProperties": _COUNTS},
        ),
        queues={"type": "object", "additionalProperties": _COUNTS},
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
    named = re.findall(r"{(\w+)}", operation.path)
    found: list[dict[str, Any]] = [{"name": name, "in": "path", "required": True, "schema": _TEXT} for name in named]
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
