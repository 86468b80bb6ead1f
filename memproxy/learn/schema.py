"""The JSON schema of an extraction's answer, for providers that take one.

Only ``content`` and ``evidence`` are required, so that an answer within ``max_tokens`` holds as many candidates as
possible; hence it is not a "strict" one, in which every field must be written out.
"""

from typing import Any

from memproxy.core.predicates import OFFERED, OTHER
from memproxy.learn.candidates import Intent

_INTENTS = (Intent.STATE, Intent.CORRECT, Intent.FORGET)
"""What a model may say; the order to forget everything is read by code."""

_TEXT = {"type": "string"}
_MAYBE = {"type": ["string", "null"]}
_TEXTS = {"type": "array", "items": _TEXT}
_SHARE = {"type": "number", "minimum": 0, "maximum": 1}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_RELATION = _object(
    {"subject": _TEXT, "predicate": _TEXT, "object": _TEXT, "valid_from": _MAYBE, "valid_to": _MAYBE},
    ["subject", "predicate", "object"],
)
_CANDIDATE = _object(
    {
        "intent": {"type": "string", "enum": [intent.value for intent in _INTENTS]},
        "kind": {"type": "string", "enum": ["semantic", "procedural", "episodic"]},
        "content": _TEXT,
        "subject": _MAYBE,
        "predicate": {"type": ["string", "null"], "enum": [*OFFERED, OTHER, None]},
        "other_predicate": _MAYBE,
        "object": _MAYBE,
        "aspect": _MAYBE,
        "stance": {"type": ["string", "null"], "enum": ["positive", "negative", "mixed", "neutral", None]},
        "replaces": _MAYBE,
        "category": _MAYBE,
        "tags": _TEXTS,
        "entities": _TEXTS,
        "relations": {"type": "array", "items": _RELATION},
        "valid_from": _MAYBE,
        "valid_to": _MAYBE,
        "confidence": _SHARE,
        "importance": _SHARE,
        "evidence": _TEXT,
    },
    ["content", "evidence"],
)

ANSWER_SCHEMA: dict[str, Any] = _object({"candidates": {"type": "array", "items": _CANDIDATE}}, ["candidates"])
"""One object with the list ``candidates``, each as `candidates.Extracted` (quotes as one text)."""
