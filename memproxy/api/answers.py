"""The shapes of the answers, as JSON schemas, for `/openapi.json`."""

from typing import Any

OUTCOMES = [
    "stored",
    "superseded",
    "duplicate",
    "rejected",
    "edited",
    "deleted",
    "retracted",
    "pending",
    "kept",
    "nothing",
    "feedback",
]
"""What is told of a candidate of learning, of a memory that a call wrote, or that somebody judged."""

PREDICATE = (
    "What is said of the subject. Of a learned memory it is the name that memproxy files the statement under, which is "
    "more exact than the learning model's own where that was vaguer than its sentence: `budget` of `User's roof budget "
    "is ...` is `roof budget`."
)

REF = "#/components/schemas/"


def _object(required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _array(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_TEXT: dict[str, Any] = {"type": "string"}
_OPTIONAL_TEXT: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
_NUMBER: dict[str, Any] = {"type": "number"}
_INTEGER: dict[str, Any] = {"type": "integer"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_MEMORY: dict[str, Any] = {"$ref": REF + "Memory"}

_COUNTS = {"type": "object", "additionalProperties": _INTEGER}
_OUTCOME = _object(
    ["result", "content"],
    result={"enum": OUTCOMES},
    reason=_TEXT,
    memory_id=_TEXT,
    kind=_TEXT,
    content=_OPTIONAL_TEXT,
    turn_id=_TEXT,
    request_ids=_array(_TEXT),
    supersedes=_TEXT,
    superseded_by=_TEXT,
)
_PLACED = {"project_id": _OPTIONAL_TEXT, "agent_id": _OPTIONAL_TEXT}
_PLACE = {"session_id": _OPTIONAL_TEXT, **_PLACED}
_TIME: dict[str, Any] = {"type": "string", "format": "date-time"}
_ANY_OR_NONE: dict[str, Any] = {"anyOf": [{"type": "object"}, {"type": "null"}]}

_COST = {
    "type": "object",
    "additionalProperties": _object(["input_tokens", "output_tokens"], input_tokens=_INTEGER, output_tokens=_INTEGER),
}

ANSWERS: dict[str, dict[str, Any]] = {
    "MemoryPage": _object(["data", "next_cursor"], data=_array(_MEMORY), next_cursor=_OPTIONAL_TEXT),
    "Deleted": _object(["deleted"], deleted=_INTEGER, queued=_FLAG),
    "History": _object(["data"], data=_array(_MEMORY)),
    "SessionPage": _object(
        ["data", "next_cursor"],
        data=_array(
            _object(
                ["id", *_PLACED, "begun_at", "last_turn_at", "turns", "memories", "ended"],
                id=_TEXT,
                **_PLACED,
                begun_at=_TIME,
                last_turn_at={"anyOf": [_TIME, {"type": "null"}]},
                turns=_INTEGER,
                memories=_INTEGER,
                ended=_FLAG,
            )
        ),
        next_cursor=_OPTIONAL_TEXT,
    ),
    "Learned": _object(["session_id", "learning"], session_id=_TEXT, learning={"enum": ["done", "pending"]}),
    "PalaceLevel": _object(
        ["level", "data", "next_cursor"],
        level={"enum": ["wing", "room", "closet", "drawer"]},
        data=_array(
            _object(
                ["level", "name", "pointer"],
                level={"enum": ["wing", "room", "closet", "drawer"]},
                name=_TEXT,
                pointer=_OPTIONAL_TEXT,
                aliases=_array(_TEXT),
                memories=_INTEGER,
                turns=_INTEGER,
                facts=_INTEGER,
                memory=_MEMORY,
            )
        ),
        next_cursor=_OPTIONAL_TEXT,
    ),
    "Entities": _object(
        ["data", "next_cursor"],
        data=_array(
            _object(
                ["name", "type", "count", "last_seen"],
                name=_TEXT,
                type={"enum": ["person", "place", "event", "item", "time"]},
                count=_INTEGER,
                last_seen=_TIME,
            )
        ),
        next_cursor=_OPTIONAL_TEXT,
    ),
    "Timeline": _object(
        ["name", "data", "next_cursor"],
        name=_TEXT,
        data=_array(
            _object(
                ["subject", "predicate", "object", "valid_from", "valid_to", "active", "memory_id"],
                subject=_TEXT,
                predicate=_TEXT,
                object=_TEXT,
                valid_from=_OPTIONAL_TEXT,
                valid_to=_OPTIONAL_TEXT,
                active=_FLAG,
                memory_id=_TEXT,
                content=_TEXT,
                created_at=_TIME,
                superseded_by=_OPTIONAL_TEXT,
            )
        ),
        next_cursor=_OPTIONAL_TEXT,
    ),
    "Categories": _object(
        ["data"],
        data=_array(
            _object(["category", "count", "active"], category=_TEXT, count=_INTEGER, active=_INTEGER),
        ),
    ),
    "Lines": _TEXT,
    "Imported": _object(
        ["dry_run", "imported", "replaced", "unchanged", "turns", "rejected", "errors", "notes"],
        dry_run=_FLAG,
        imported=_INTEGER,
        replaced=_INTEGER,
        unchanged=_INTEGER,
        turns=_INTEGER,
        rejected=_INTEGER,
        errors=_array(_object(["line", "message"], line=_INTEGER, message=_TEXT)),
        notes=_array(_TEXT),
    ),
    "TurnIds": _object(
        ["turn_ids", "session_id"],
        turn_ids=_array(_TEXT),
        session_id=_TEXT,
        conflicts=_array(_TEXT),
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
        citations=_array({"$ref": REF + "Citation"}),
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
        tokens={"anyOf": [_INTEGER, {"type": "null"}]},
        candidates=_array({"type": "object"}),
        timings={"type": "object", "additionalProperties": _NUMBER},
        upstream=_ANY_OR_NONE,
        captured=_FLAG,
        turn_ids=_array(_TEXT),
        feedback=_array(_object(["signal", "memory_id"], signal=_TEXT, memory_id=_TEXT)),
        learned=_object(
            ["state", "outcomes"],
            state={"enum": ["none", "off", "pending", "parked", "done"]},
            reason=_TEXT,
            outcomes=_array(_OUTCOME),
            tokens=_COST,
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
    "Pruned": _object(
        ["pruned", "reasons", "dry_run"],
        pruned=_INTEGER,
        reasons=_COUNTS,
        dry_run=_FLAG,
        data=_array(
            _object(
                ["memory_id", "kind", "active", "reason", "score"],
                memory_id=_TEXT,
                kind=_TEXT,
                active=_FLAG,
                reason={"enum": ["expired", "limit"]},
                score=_NUMBER,
            )
        ),
    ),
    "Retried": _object(["retried"], retried=_INTEGER),
    "Stats": _object(
        ["memories", "queues", "cost"],
        memories=_object(
            ["active", "total", "kinds"],
            active=_INTEGER,
            total=_INTEGER,
            kinds={"type": "object", "additionalProperties": _COUNTS},
        ),
        queues={"type": "object", "additionalProperties": _COUNTS},
        cost={"anyOf": [_object(["today", "year"], today=_COST, year=_COST), {"type": "null"}]},
        erasure={"enum": ["complete", "pending"]},
    ),
    "Choices": _object(
        ["user_id", "agent_id", "mode", "limit", "rerank", "learning", "chosen"],
        user_id=_TEXT,
        agent_id=_OPTIONAL_TEXT,
        mode={"enum": ["on", "read", "write", "off"]},
        limit=_INTEGER,
        rerank=_FLAG,
        learning=_FLAG,
        chosen=_object(
            ["mode", "limit", "rerank", "learning"],
            mode={"enum": ["on", "read", "write", "off", None]},
            limit={"anyOf": [_INTEGER, {"type": "null"}]},
            rerank={"anyOf": [_FLAG, {"type": "null"}]},
            learning={"anyOf": [_FLAG, {"type": "null"}]},
        ),
    ),
    "Judged": _object(
        ["signal", "memory_ids", "data"],
        signal={"enum": ["helpful", "wrong", "correction"]},
        memory_ids=_array(_TEXT),
        data=_array({"$ref": REF + "ChangedMemory"}),
    ),
    "AuditPage": _object(
        ["data", "next_cursor"],
        data=_array(
            _object(
                ["at", "by", "action", "scope", "counts"],
                at=_TIME,
                by=_TEXT,
                action=_TEXT,
                scope={"type": "object", "additionalProperties": _TEXT},
                counts=_COUNTS,
            )
        ),
        next_cursor=_OPTIONAL_TEXT,
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
