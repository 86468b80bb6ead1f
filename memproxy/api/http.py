"""Between HTTP and the calls' models: bodies and query strings read, answers and errors written."""

import asyncio
import functools
import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any, TypeVar, get_args
from urllib.parse import unquote

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from memproxy.auth.identity import decode_identity, require
from memproxy.core.protocol import IDENTITY_HEADER, Identity
from memproxy.core.transfer_lines import MEDIA_TYPE, MEDIA_TYPES
from memproxy.errors import (
    BodyTooLarge,
    MemoryUnavailable,
    MemproxyError,
    MethodNotAllowed,
    RequestError,
    TooManyRequests,
    UnsupportedMedia,
)

Model = TypeVar("Model", bound=BaseModel)

RETRY_AFTER_S = 5
"""``retry-after`` of a 503: about as often is a store that is away tried again."""

MOST_JSON_BYTES = 8 * 1024 * 1024
"""Of a JSON body, and of one line of an import: as much as chat's memory reads. All that the fields of a call may hold
is less, but for conversations, which can be sent in parts.
"""

MOST_NAMES = 100_000
"""Limit for objects plus field names in one body: the largest conversation has half as many."""

OFF_LOOP_BYTES = 256 * 1024
"""Larger bodies are read in a thread: for each mebibyte others would wait for milliseconds, or tenths of a second where
a body is made for it.
"""

READ_ONLY = frozenset(
    {"id", "turn_ids", "created_at", "updated_at", "active", "supersedes", "superseded_by", "access_count"}
    | {"last_accessed_at", "source", "quarantined", "wing", "room", "closet", "pointer"}
)
"""Fields of a memory that the server sets."""

_JSON_TYPE = re.compile(r"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
_INTEGER = re.compile(r"-?\d{1,18}")
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


def caller(request: Request, permission: str, *alternatives: str) -> Identity:
    """The caller, who must have this permission or one of the others.

    Raises:
        Unauthenticated: no identity.
        Forbidden: without such a permission.
    """
    identity = decode_identity(request.headers.get(IDENTITY_HEADER))
    if identity.permissions.isdisjoint(alternatives):
        require(identity, permission)
    return identity


async def read_body(request: Request, model: type[Model], max_bytes: int, *, optional: bool = False) -> Model:
    """The JSON body, checked; where it is ``optional``, no body at all is one without fields.

    Raises:
        UnsupportedMedia: it is not declared as JSON (a web page's form cannot declare that).
        BodyTooLarge: over ``max_bytes``, or `MOST_JSON_BYTES`.
        RequestError: it is not JSON, or a field is wrong (named in ``param``).
    """
    if optional and not await whole_body(request, max_bytes):
        return validate(model, {})
    content_type = request.headers.get("content-type", "").split(";")[0].strip()
    if not _JSON_TYPE.fullmatch(content_type):
        got = f"not {content_type[:100]!r}" if content_type else "and none was named"
        raise UnsupportedMedia(f"This call takes content-type: application/json, {got}.")
    _require_uncompressed(request)
    body = await whole_body(request, max_bytes)
    if len(body) < OFF_LOOP_BYTES:
        return validate(model, _decode(body))
    return await asyncio.to_thread(lambda: validate(model, _decode(body)))


async def read_lines_body(request: Request, max_bytes: int) -> bytes:
    """A body of JSON Lines.

    Raises:
        UnsupportedMedia: it is not declared as that (a web page's form cannot declare it).
        BodyTooLarge: over ``max_bytes``.
    """
    content_type = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if content_type not in MEDIA_TYPES:
        raise UnsupportedMedia(f"This call takes content-type: {MEDIA_TYPE} (JSON Lines), not {content_type[:100]!r}.")
    _require_uncompressed(request)
    return await _read(request, max_bytes)


def _require_uncompressed(request: Request) -> None:
    encoding = request.headers.get("content-encoding", "").strip().lower()
    if encoding not in {"", "identity"}:
        raise UnsupportedMedia(
            f"This call takes no content-encoding (here {encoding[:100]!r}): send the body uncompressed, without it."
        )


async def whole_body(request: Request, max_bytes: int) -> bytes:
    """A JSON call's body as it came; it can be read again afterwards.

    Raises:
        BodyTooLarge: over ``max_bytes``, or `MOST_JSON_BYTES`.
        RequestError: it was cut off.
    """
    if getattr(request.state, "body", None) is None:
        request.state.body = await _read(request, min(max_bytes, MOST_JSON_BYTES), of_json=max_bytes > MOST_JSON_BYTES)
    return bytes(request.state.body)


async def _read(request: Request, max_bytes: int, *, of_json: bool = False) -> bytes:
    chunks, size = [], 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > max_bytes:
                why = "the most of a JSON call: send it in parts" if of_json else "server.max_body_bytes"
                raise BodyTooLarge(f"The body is larger than {max_bytes} bytes ({why}).")
            chunks.append(chunk)
    except ClientDisconnect as error:
        raise RequestError("The body was cut off.") from error
    return b"".join(chunks)


def _decode(body: bytes) -> object:
    try:
        check_names(body)
        return msgspec.json.decode(body)
    except RecursionError as error:
        raise RequestError("The body is nested too deeply.") from error
    except UnicodeDecodeError as error:
        raise RequestError("The body is not UTF-8.") from error
    except msgspec.DecodeError as error:
        raise RequestError(f"The body is not JSON that can be read (RFC 8259, valid Unicode): {error}.") from error


def check_names(body: bytes) -> None:
    """Pass JSON whose objects have each name once, and not too many of them. What else is wrong is not told here.

    Of two values of a name our decoder takes the last, others (a gateway that checks ``user_id``) the first.

    Raises:
        RequestError: a name is given twice, or there are more than `MOST_NAMES`.
    """
    names_left = MOST_NAMES

    def each_once(pairs: list[tuple[str, object]]) -> None:
        nonlocal names_left
        names_left -= 1 + len(pairs)
        if names_left < 0:
            raise RequestError(f"More than {MOST_NAMES} objects and fields are too many: send it in parts.")
        if len(names := dict(pairs)) < len(pairs):
            counts = Counter(name for name, _ in pairs)
            twice = next(name for name in names if counts[name] > 1)[:100]
            raise RequestError(f"{twice}: is given twice; which one counts cannot be known.", param=twice)

    with suppress(json.JSONDecodeError, UnicodeDecodeError, RecursionError):
        json.loads(body, object_pairs_hook=each_once, parse_float=str, parse_int=str)


def read_query(request: Request, model: type[Model]) -> Model:
    """The query string, checked.

    Raises:
        RequestError: a parameter is unknown or wrong (named in ``param``), or something in it is not UTF-8.
    """
    try:
        unquote(request.scope["query_string"].decode("latin-1"), errors="strict")
    except UnicodeDecodeError as error:  # two such names would become one
        raise RequestError("The query is not UTF-8, percent-encoded.") from error
    kinds = _kinds(model)
    values: dict[str, list[object]] = {}
    for name, text in request.query_params.multi_items():
        values.setdefault(name, []).append(_typed_value(text, kinds.get(name, frozenset())))
    return validate(model, {name: texts[0] if len(texts) == 1 else texts for name, texts in values.items()})


@functools.cache
def _kinds(model: type[BaseModel]) -> dict[str, frozenset[object]]:
    """The types within each field's annotation."""

    def parts(annotation: object) -> Iterator[object]:
        yield annotation
        for inner in get_args(annotation):
            yield from parts(inner)

    return {
        name: frozenset(part for part in parts(field.annotation) if isinstance(part, type))
        for name, field in model.model_fields.items()
    }


def _typed_value(text: str, kinds: frozenset[object]) -> object:
    """A parameter's text as the number, flag or time that its field takes; unchanged where it cannot be one."""
    if bool in kinds:
        return _FLAGS.get(text.lower(), text)
    if int in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if datetime in kinds and "T" in text:
        return text.replace(" ", "+")  # a plus sign that was not percent-encoded arrives as a space
    return text


def validate(model: type[Model], data: object) -> Model:
    """The data as this model.

    Raises:
        RequestError: naming the first wrong field, and how many more there are.
    """
    if not isinstance(data, dict):
        raise RequestError("The body must be a JSON object.")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False)
        path = problems[0]["loc"]
        if len(path) > 1 and isinstance(path[1], int) and not isinstance(data.get(str(path[0])), list):
            path = (path[0], *path[2:])  # one value that was taken for a list of one
        param = ".".join(str(part)[:100] for part in path) or None
        more = f" (Wrong fields besides this one: {len(problems) - 1}.)" if len(problems) > 1 else ""
        message = f"{_reason(problems[0])}.{more}"
        raise RequestError(f"{param}: {message}" if param else message, param=param) from error


def _reason(problem: Mapping[str, Any]) -> str:
    if problem["type"] == "extra_forbidden":
        name = str(problem["loc"][-1])
        return "is set by the server" if name in READ_ONLY else "is not a field of this call"
    if problem["type"] == "missing":
        return "is required"
    return str(problem["msg"]).removeprefix("Value error, ")


def answer(data: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer; one of status 204 has no body."""
    if status == 204:
        return Response(status_code=status, headers=headers)
    return Response(msgspec.json.encode(data), status_code=status, headers=headers, media_type="application/json")


def error_answer(error: MemproxyError) -> Response:
    """An OpenAI-shaped error answer, with ``retry-after`` where the error is temporary."""
    if isinstance(error, TooManyRequests):
        return answer(error.body(), error.status, {"retry-after": str(error.retry_after_s)})
    headers = {"retry-after": str(RETRY_AFTER_S)} if isinstance(error, MemoryUnavailable) else None
    return answer(error.body(), error.status, headers)


def method_refused(method: str, allowed: Collection[str] = ()) -> Response:
    """405 for a path without this method; ``allowed`` are the methods that it has."""
    error = MethodNotAllowed(f"{method} is not a method of this path; /openapi.json lists the calls.")
    named = {*allowed, *(["HEAD"] if "GET" in allowed else [])}
    return answer(error.body(), error.status, {"allow": ", ".join(sorted(named))})
