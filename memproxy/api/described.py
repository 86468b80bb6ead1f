"""What many calls share, for `/openapi.json`: headers for repeating and for versions, refusals; and the calls that are
not the memory API's.
"""

from typing import Any

from memproxy.api.answers import REF

NOT_REPEATED = frozenset({"/v1/memory/search", "/v1/memory/recall", "/v1/memory/import"})
"""Calls that are POSTs and take no idempotency key: two only read, and the same lines twice change nothing."""

TAGGED = frozenset({"/v1/memory", "/v1/memory/{id}", "/v1/memory/{id}/history", "/v1/memory/settings"})
"""Reads whose answers have an ETag."""

MATCHED = frozenset(
    {("patch", "/v1/memory/{id}"), ("delete", "/v1/memory/{id}"), ("put", "/v1/memory/settings")},
)
"""Writes that heed ``If-Match``."""

_LIMITED = frozenset(
    {
        "/v1/memory",
        "/v1/memory/turns",
        "/v1/memory/import",
        "/v1/memory/feedback",
        "/v1/memory/sessions/{id}/end",
        "/v1/memory/sessions/{id}/mine",
    }
)
_NEVER_MISSING = frozenset(
    {
        "/v1/memory/sessions/{id}/end",
        "/v1/memory/sessions/{id}/mine",
        "/v1/memory/users/{id}",
        "/v1/memory/entities/{name}/timeline",
    }
)
"""Calls about whom or what nothing may be known: that is no error, there is nothing to do or to tell."""

_ADMIN = frozenset({"/v1/memory/audit"})

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


def refusals(method: str, path: str, *, body: bool) -> dict[str, Any]:
    """The errors that a call may answer, by status."""
    named = ("{" in path and path not in _NEVER_MISSING) or path.endswith("feedback")
    wanted = {400, 401, 403, 503} | ({404} if named else set())
    wanted |= {413, 415} if body else set()
    wanted |= {409, 422} if is_repeated(method, path) else set()
    wanted |= {409} if path.startswith("/v1/memory/{id}") else set()
    wanted |= {412} if (method, path) in MATCHED else set()
    wanted |= {429} if method == "post" and path in _LIMITED else set()
    return {str(status): refusal(_REFUSALS[status]) for status in sorted(wanted)}


def refusal(words: str) -> dict[str, Any]:
    """An error, OpenAI-shaped."""
    return {"description": words, "content": {"application/json": {"schema": {"$ref": REF + "Error"}}}}


def is_repeated(method: str, path: str) -> bool:
    """Whether a call takes an idempotency key."""
    return method != "get" and path not in NOT_REPEATED


def headers(method: str, path: str) -> list[dict[str, Any]]:
    """The headers that a call heeds, beside the user's."""
    found = []
    if is_repeated(method, path):
        words = "Sent again within 24 hours with the same call, it is answered again and done once."
        found.append(_header("Idempotency-Key", words, maxLength=256))
    if (method, path) in MATCHED:
        found.append(_header("If-Match", "ETag of the version that may be changed, or *."))
    if method == "get" and path in TAGGED:
        found.append(_header("If-None-Match", "ETag of the version that is known: 304 when it is this."))
    return found


def _header(name: str, words: str, **schema: Any) -> dict[str, Any]:
    return {"name": name, "in": "header", "description": words, "schema": {"type": "string", **schema}}


def answered_headers(method: str, path: str) -> dict[str, Any]:
    """The headers of a success."""
    tagged = path in TAGGED and method != "delete" and (method, path) != ("post", "/v1/memory/settings")
    etag = {"etag": {"description": "The version that is shown.", "schema": {"type": "string"}}} if tagged else {}
    if not is_repeated(method, path):
        return etag
    words = "`true`: this is the answer of the first call with this idempotency key."
    return etag | {"idempotency-replayed": {"description": words, "schema": {"enum": ["true"]}}}


def not_modified(method: str, path: str) -> dict[str, Any]:
    """The answer without a body to who knows the version."""
    known = method == "get" and path in TAGGED
    return {"304": {"description": "The caller has this version (`If-None-Match`)."}} if known else {}


def permission(method: str, path: str) -> str:
    """What a key needs for the call."""
    if path in _ADMIN:
        return "Needs the permission `admin`."
    reads = method == "get" or path in {"/v1/memory/search", "/v1/memory/recall"}
    also = " or `admin`" if path in {"/v1/memory/stats", "/v1/memory/users/{id}"} else ""
    return f"Needs the permission `memory:{'read' if reads else 'write'}`{also}."


_STATES = {"type": "object", "additionalProperties": {"type": "string"}}

HEALTH: dict[str, Any] = {
    "/healthz": {
        "get": {
            "summary": "The process lives.",
            "security": [],
            "responses": {
                "200": {
                    "description": "It does.",
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["status"],
                                "properties": {"status": {"const": "ok"}},
                            }
                        }
                    },
                }
            },
        }
    },
    "/readyz": {
        "get": {
            "summary": "Whether chat can be relayed, and how each part is.",
            "security": [],
            "responses": {
                status: {
                    "description": words,
                    "content": {
                        "application/json": {
                            "schema": {
                                "type": "object",
                                "required": ["status", "parts"],
                                "properties": {
                                    "status": {"enum": ["ready", "loading", "degraded", "draining"]},
                                    "parts": _STATES,
                                },
                            }
                        }
                    },
                }
                for status, words in {"200": "Chat can be relayed.", "503": "Starting or draining."}.items()
            },
        }
    },
    "/metrics": {
        "get": {
            "summary": "Prometheus's text, of all processes.",
            "description": "Needs the token of `telemetry.metrics_token` where one is set.",
            "security": [{"key": []}, {}],
            "responses": {
                "200": {"description": "The metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}},
                "401": refusal("Without the token."),
                "404": refusal("Metrics are switched off (`telemetry.metrics`)."),
            },
        }
    },
    "/openapi.json": {
        "get": {
            "summary": "This description.",
            "security": [],
            "responses": {
                "200": {
                    "description": "OpenAPI 3.1.",
                    "content": {"application/json": {"schema": {"type": "object", "required": ["openapi", "paths"]}}},
                }
            },
        }
    },
}
"""Calls that need no identity."""
