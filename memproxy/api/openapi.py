"""`/openapi.json`: generated from the models that check the calls, so that it cannot say anything else."""

import functools
import re
from typing import Any

import msgspec
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

import memproxy
from memproxy.api import described, queries, schemas
from memproxy.api.answers import ANSWERS, PREDICATE, REF
from memproxy.core.memory import INTERNAL_FIELDS, TEXT_FIELDS, Memory
from memproxy.core.protocol import Citation
from memproxy.core.transfer import MEDIA_TYPE


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One call: what it takes and what a success answers (status to schema name). Lines are JSON Lines."""

    method: str
    path: str
    summary: str
    body: type[BaseModel] | None = None
    body_required: bool = True
    query: type[BaseModel] | None = None
    answers: dict[int, str]
    takes_lines: bool = False
    answers_lines: bool = False


OPERATIONS = (
    Operation(
        method="post",
        path="/v1/memory",
        summary="Store one memory.",
        body=schemas.NewMemory,
        query=schemas.Shown,
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
        query=queries.ScopeQuery,
        answers={200: "Deleted", 202: "Deleted"},
    ),
    Operation(
        method="get",
        path="/v1/memory/{id}",
        summary="Read one memory.",
        query=queries.OneShownQuery,
        answers={200: "Memory"},
    ),
    Operation(
        method="patch",
        path="/v1/memory/{id}",
        summary="Edit one memory: only the given fields change.",
        body=schemas.MemoryEdit,
        query=queries.OneShownQuery,
        answers={200: "ChangedMemory", 202: "ChangedMemory"},
    ),
    Operation(
        method="delete",
        path="/v1/memory/{id}",
        summary="Forget one memory.",
        query=queries.OneQuery,
        answers={200: "Deleted", 202: "Deleted"},
    ),
    Operation(
        method="post",
        path="/v1/memory/turns",
        summary="Ingest a conversation as verbatim turns.",
        body=schemas.NewTurns,
        query=queries.TurnsQuery,
        answers={201: "TurnIds", 202: "TurnIds"},
    ),
    Operation(
        method="post",
        path="/v1/memory/search",
        summary="Search, best first.",
        body=schemas.SearchBody,
        query=schemas.Shown,
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
        method="get",
        path="/v1/memory/sessions",
        summary="A user's conversations, that in which something was said last first.",
        query=queries.SessionsQuery,
        answers={200: "SessionPage"},
    ),
    Operation(
        method="delete",
        path="/v1/memory/sessions/{id}",
        summary="Undo a conversation: what was learned from it alone goes, what that superseded is active again.",
        query=queries.SessionQuery,
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
        query=queries.OneQuery,
        answers={200: "Receipt"},
    ),
    Operation(
        method="get",
        path="/v1/memory/activity",
        summary="What was learned lately, newest first.",
        query=queries.ActivityQuery,
        answers={200: "Activity"},
    ),
    Operation(
        method="post",
        path="/v1/memory/activity/retry",
        summary="Try again what was given up after its retries.",
        query=queries.SessionQuery,
        answers={200: "Retried"},
    ),
    Operation(
        method="get",
        path="/v1/memory/stats",
        summary="How many memories there are, and what waits to be written.",
        query=queries.SessionQuery,
        answers={200: "Stats"},
    ),
    Operation(
        method="get",
        path="/v1/memory/{id}/history",
        summary="The supersession chain of a memory, oldest first.",
        query=queries.OneShownQuery,
        answers={200: "History"},
    ),
    Operation(
        method="post",
        path="/v1/memory/sessions/{id}/end",
        summary="The session is over: learn from it now.",
        body=schemas.LearnScope,
        body_required=False,
        query=queries.LearnQuery,
        answers={200: "Learned", 202: "Learned"},
    ),
    Operation(
        method="post",
        path="/v1/memory/sessions/{id}/mine",
        summary="Learn from the session again; the second time changes nothing.",
        body=schemas.LearnScope,
        body_required=False,
        query=queries.LearnQuery,
        answers={200: "Learned", 202: "Learned"},
    ),
    Operation(
        method="get",
        path="/v1/memory/palace",
        summary="What is in a place of the palace: wings, a wing's rooms, a room's closets, a closet's drawers.",
        query=queries.PalaceQuery,
        answers={200: "PalaceLevel"},
    ),
    Operation(
        method="get",
        path="/v1/memory/entities",
        summary="The people, places, events, items and times that memories name, most often named first.",
        query=queries.EntitiesQuery,
        answers={200: "Entities"},
    ),
    Operation(
        method="get",
        path="/v1/memory/entities/{name}/timeline",
        summary="Every relation of an entity with its validity, oldest first.",
        query=queries.TimelineQuery,
        answers={200: "Timeline"},
    ),
    Operation(
        method="get",
        path="/v1/memory/export",
        summary="Everything of a user as JSON Lines: memories with their history, turns, the palace's numbers.",
        query=queries.ExportQuery,
        answers={200: "Lines"},
        answers_lines=True,
    ),
    Operation(
        method="post",
        path="/v1/memory/import",
        summary="Take over an export, or a part of one; the same lines twice change nothing.",
        query=queries.ImportQuery,
        takes_lines=True,
        answers={200: "Imported", 202: "Imported"},
    ),
    Operation(
        method="get",
        path="/v1/memory/categories",
        summary="How many memories each category has.",
        query=queries.CategoriesQuery,
        answers={200: "Categories"},
    ),
    Operation(
        method="post",
        path="/v1/memory/prune",
        summary="Erase what has expired or is over the limit, or tell what would go.",
        body=schemas.PruneBody,
        body_required=False,
        answers={200: "Pruned"},
    ),
    Operation(
        method="get",
        path="/v1/memory/settings",
        summary="What a user (or one agent of a user) chose of memory, and what holds.",
        query=queries.SettingsQuery,
        answers={200: "Choices"},
    ),
    Operation(
        method="put",
        path="/v1/memory/settings",
        summary="Choose whether memory recalls, keeps and learns; in place of what was chosen before.",
        body=schemas.SettingsBody,
        query=queries.SessionQuery,
        answers={200: "Choices"},
    ),
    Operation(
        method="post",
        path="/v1/memory/feedback",
        summary="Say that a memory, or what a request was given, was helpful or wrong, or what is right instead.",
        body=schemas.FeedbackBody,
        query=queries.FeedbackQuery,
        answers={201: "Judged", 202: "Judged"},
    ),
    Operation(
        method="get",
        path="/v1/memory/audit",
        summary="Administrative and erasing operations on the tenant, newest first; never content.",
        query=queries.AuditQuery,
        answers={200: "AuditPage"},
    ),
)


@functools.cache
def describe() -> dict[str, Any]:
    """The OpenAPI 3.1 description of the calls that this version answers."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    paths |= described.HEALTH
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
    method, path = operation.method, operation.path
    has_body = operation.body is not None or operation.takes_lines
    successes = {str(status): _content(name, _MEANING[status]) for status, name in operation.answers.items()}
    for success in successes.values():
        success["headers"] = described.answered_headers(method, path)
    call: dict[str, Any] = {
        "summary": operation.summary,
        "description": described.permission(method, path),
        "parameters": [*_parameters(operation), *described.headers(method, path)],
        "responses": {
            **successes,
            **described.not_modified(method, path),
            **described.refusals(method, path, body=has_body),
            "default": described.refusal("Another error, OpenAI-shaped."),
        },
    }
    if operation.takes_lines:
        call["requestBody"] = {"required": True, "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
    if operation.answers_lines:
        call["responses"]["200"]["content"] = {MEDIA_TYPE: {"schema": {"type": "string"}}}
    if operation.body is not None:
        schema = {"$ref": REF + operation.body.__name__}
        call["requestBody"] = {
            "required": operation.body_required,
            "content": {"application/json": {"schema": schema}},
        }
    return call


_MEANING = {
    200: "Done.",
    201: "Stored; it can be found.",
    202: "Journalled; it is done behind, for a write as soon as the memory store answers again.",
}


def _content(name: str, description: str) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": {"$ref": REF + name}}}}


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    named = re.findall(r"{(\w+)}", operation.path)
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named
    ]
    if operation.path.startswith("/v1/memory/{id}"):
        found[0]["description"] = "The id, or the short one that a block cites (`m:1a2b3c4d`)."
    if operation.query is not None:
        properties = operation.query.model_json_schema()["properties"]
        found += [{"name": name, "in": "query", "schema": schema} for name, schema in properties.items()]
    found.append({"name": "X-Memproxy-User", "in": "header", "schema": {"type": "string"}})
    return found


def _may_be_null(schema: dict[str, Any]) -> bool:
    return {"type": "null"} in schema.get("anyOf", [])


def _components() -> dict[str, Any]:
    bodies = [operation.body for operation in OPERATIONS if operation.body is not None]
    _, taken = models_json_schema([(body, "validation") for body in bodies], ref_template=REF + "{model}")
    _, given = msgspec.json.schema_components([Memory, Citation], ref_template=REF + "{name}")
    memory = given["Memory"]
    shown = {name: schema for name, schema in memory["properties"].items() if name not in INTERNAL_FIELDS}
    shown["predicate"] = shown["predicate"] | {"description": PREDICATE}
    given["Memory"] = memory | {
        "properties": shown,
        "required": [name for name, schema in shown.items() if not _may_be_null(schema)],
        "description": "A field without a value is null, or not there where the call had `omit=null`.",
    }
    given["ChangedMemory"] = given["Memory"] | {
        "required": [name for name in given["Memory"]["required"] if name not in TEXT_FIELDS],
        "description": "A memory; to a key without memory:read it comes without what it says.",
    }
    return {**taken["$defs"], **given, **ANSWERS}
