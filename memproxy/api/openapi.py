"""`/openapi.json`: made from the calls themselves, so that it cannot say anything else."""

import functools
import re
from collections.abc import Mapping
from typing import Any

import msgspec
from pydantic.json_schema import models_json_schema
from starlette.responses import StreamingResponse

import memproxy
from memproxy.api import (
    administration,
    conflicts,
    dreams,
    feedback,
    forgetting,
    knowledge,
    memories,
    palace,
    recalling,
    receipts,
    sessions,
    transfer,
    turns,
    working,
)
from memproxy.api.calls import Operation
from memproxy.api.models import REF, Error
from memproxy.core.memory import INTERNAL_FIELDS, TEXT_FIELDS, Kind, Memory, Relation, Source, Trust
from memproxy.core.protocol import Citation
from memproxy.core.transfer_lines import MEDIA_TYPE

_MODULES = (
    *(memories, forgetting, turns, recalling, sessions, receipts, palace),
    *(knowledge, transfer, administration, feedback, working, dreams, conflicts),
)
OPERATIONS = tuple(value for module in _MODULES for value in vars(module).values() if isinstance(value, Operation))
"""Every call of the memory API, in the order of the description."""

SHARED = (Memory, Kind, Trust, Source, Relation, Citation)
"""Structs that are components of their own; all others are written out within the answers that hold them."""

PREDICATE = (
    "What is said of the subject. Of a learned memory it is the name that memproxy files the statement under, which is "
    "more exact than the learning model's own where that was vaguer than its sentence: `budget` of `User's roof budget "
    "is ...` is `roof budget`."
)

_MEANING = {
    200: "Done.",
    201: "Stored; it can be found.",
    202: "Journalled; it is done behind, for a write as soon as the memory store answers again.",
    204: "Done; the answer is empty.",
}
_REFUSALS = {
    400: "A field or header is wrong; `param` names it.",
    401: "Nobody who is known.",
    403: "The key does not allow it.",
    404: "Not there, or not the caller's.",
    409: "The state does not allow it, the answer to this idempotency key was erased, or a short id is not unique.",
    412: "It is not the version that `If-Match` names.",
    413: "The body is over `server.max_body_bytes`.",
    415: "Another content type than JSON.",
    422: "The idempotency key came with another call before.",
    429: "Over a limit; `retry-after` says when to come back.",
    503: "Memory does not work just now; `retry-after` says when to try again.",
}


@functools.cache
def describe() -> dict[str, Any]:
    """The OpenAPI 3.1 description of the calls that this version answers."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        path = operation.path.replace(":path}", "}")
        paths.setdefault(path, {})[operation.method.lower()] = _operation_object(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "memproxy memory API", "version": memproxy.__version__, "license": {"name": "Apache-2.0"}},
        "paths": paths | _UNCHECKED,
        "components": {"schemas": _components(), "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}},
        "security": [{"key": []}, {}],
    }


def _operation_object(operation: Operation) -> dict[str, Any]:
    answered, media = {"$ref": REF + operation.answer.__name__}, "application/json"
    if operation.answer is StreamingResponse:
        answered, media = {"type": "string"}, MEDIA_TYPE
    headers: dict[str, Any] = {}
    if operation.etag:
        headers["etag"] = {"description": "The version that is shown.", "schema": {"type": "string"}}
    if operation.takes_key:
        words = "`true`: this is the answer of the first call with this idempotency key."
        headers["idempotency-replayed"] = {"description": words, "schema": {"enum": ["true"]}}
    responses: dict[str, Any] = {
        str(status): {"description": _MEANING[status], "headers": headers}
        | ({} if status == 204 else {"content": {media: {"schema": answered}}})
        for status in operation.statuses
    }
    if operation.etag and operation.method == "GET":
        responses["304"] = {"description": "The caller has this version (`If-None-Match`)."}
    errors = {400, 401, 403, 503, *operation.errors}
    errors |= {413, 415} if operation.body is not None or operation.takes_lines else set()
    errors |= {409, 422} if operation.takes_key else set()
    errors |= {412} if operation.if_match else set()
    responses |= {str(status): _refusal(_REFUSALS[status]) for status in sorted(errors)}
    described: dict[str, Any] = {
        "summary": operation.summary,
        "description": f"Needs the permission {' or '.join(f'`{name}`' for name in operation.permissions)}.",
        "parameters": _parameters(operation),
        "responses": responses | {"default": _refusal("Another error, OpenAI-shaped.")},
    }
    if operation.takes_lines:
        described["requestBody"] = {"required": True, "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
    elif operation.body is not None:
        content = {"application/json": {"schema": {"$ref": REF + operation.body.__name__}}}
        described["requestBody"] = {"required": not operation.body_optional, "content": content}
    return described


def _refusal(words: str) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": {"$ref": REF + "Error"}}}}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    named = re.findall(r"{(\w+)(?::path)?}", operation.path)
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
    ]
    if operation.path.startswith("/v1/memory/{id}"):
        parameters[0]["description"] = "The id, or the short one that a block cites (`m:1a2b3c4d`)."
    properties = operation.query.model_json_schema()["properties"]
    parameters += [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]
    parameters.append({"name": "X-Memproxy-User", "in": "header", "schema": {"type": "string"}})
    if operation.takes_key:
        words = "Sent again within 24 hours with the same call, it is answered again and done once."
        parameters.append(_header("Idempotency-Key", words, maxLength=256))
    if operation.if_match:
        parameters.append(_header("If-Match", "ETag of the version that may be changed, or *."))
    if operation.etag and operation.method == "GET":
        parameters.append(_header("If-None-Match", "ETag of the version that is known: 304 when it is this."))
    return parameters


def _header(name: str, words: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": words, "schema": {"type": "string", **schema}}


def _components() -> dict[str, Any]:
    bodies = [operation.body for operation in OPERATIONS if operation.body is not None]
    _, validated = models_json_schema([(body, "validation") for body in bodies], ref_template=REF + "{model}")
    without_schema = (StreamingResponse, type(None))
    answers = [operation.answer for operation in OPERATIONS if operation.answer not in without_schema]
    _, structs = msgspec.json.schema_components([*SHARED, *answers, Error], ref_template=REF + "{name}")
    shared = {struct.__name__ for struct in SHARED}
    schemas = {name: structs[name] for name in sorted(shared)}  # the same bytes in every process
    for name in sorted({struct.__name__ for struct in (*answers, Error)} - shared):
        schemas[name] = _in_one(structs[name], structs, shared)
    return {**validated["$defs"], **schemas, **_memories(structs["Memory"])}


def _in_one(schema: Any, structs: Mapping[str, Any], shared: set[str]) -> Any:
    """An answer's schema with the structs within it written out, without their names and docstrings."""
    if isinstance(schema, list):
        return [_in_one(item, structs, shared) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = str(schema.get("$ref", "")).removeprefix(REF)
    if name in structs and name not in shared | {"ChangedMemory"}:
        return _in_one(structs[name], structs, shared)
    if name:
        return {"$ref": schema["$ref"]}
    described = {key: _in_one(value, structs, shared) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict):
        described.pop("title", None)
        described.pop("description", None)
    return described


def _memories(memory: dict[str, Any]) -> dict[str, Any]:
    """The schemas of a memory as a reader sees it, and as a key without ``memory:read`` does."""
    shown = {name: schema for name, schema in memory["properties"].items() if name not in INTERNAL_FIELDS}
    shown["predicate"] = shown["predicate"] | {"description": PREDICATE}
    required = [name for name, schema in shown.items() if {"type": "null"} not in schema.get("anyOf", [])]
    whole = memory | {
        "properties": shown,
        "required": required,
        "description": "A field without a value is null, or not there where the call had `omit=null`.",
    }
    changed = whole | {
        "required": [name for name in required if name not in TEXT_FIELDS],
        "description": "A memory; to a key without memory:read it comes without what it says.",
    }
    return {"Memory": whole, "ChangedMemory": changed}


def _unchecked(summary: str, responses: dict[str, Any], *, keyed: bool = False, **more: Any) -> dict[str, Any]:
    return {"get": {"summary": summary, "security": [{"key": []}, {}] if keyed else [], "responses": responses, **more}}


def _json(words: str, required: list[str], **properties: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "required": required}
    if properties:
        schema["properties"] = properties
    return {"description": words, "content": {"application/json": {"schema": schema}}}


def _readiness(words: str) -> dict[str, Any]:
    parts = {"type": "object", "additionalProperties": {"type": "string"}}
    status = {"enum": ["ready", "loading", "degraded", "draining"]}
    return _json(words, ["status", "parts"], status=status, parts=parts)


_UNCHECKED = {
    "/healthz": _unchecked("The process lives.", {"200": _json("It does.", ["status"], status={"const": "ok"})}),
    "/readyz": _unchecked(
        "Whether chat can be relayed, and how each part is.",
        {"200": _readiness("Chat can be relayed."), "503": _readiness("Starting or draining.")},
    ),
    "/metrics": _unchecked(
        "Prometheus's text, of all processes.",
        {
            "200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}},
            "401": _refusal("Without the token."),
            "404": _refusal("Metrics are switched off (`telemetry.metrics`)."),
        },
        keyed=True,
        description="Needs the token of `telemetry.metrics_token` where one is set.",
    ),
    "/openapi.json": _unchecked("This description.", {"200": _json("OpenAPI 3.1.", ["openapi", "paths"])}),
}
"""Calls that the relay answers, to anybody."""
