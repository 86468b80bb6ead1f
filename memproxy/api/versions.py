"""ETag, If-None-Match and If-Match: which version of a memory or list a caller knows.

A memory's tag changes with all that it says, not with how often it was recalled; so reading it between an editor's GET
and PATCH does no harm, and two answers of one tag may differ in ``access_count`` and ``last_accessed_at``.
"""

import re
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.calls import Reply
from memproxy.core.memory import Memory, digest, version_of
from memproxy.errors import PreconditionFailed, RequestError

ANY = "*"
MOST_TAGS = 100

_TAGS = re.compile(r'\s*(?:W/)?"([^"\x00-\x20\x7f]*)"\s*(?:,|$)')


def tagged(memory: Memory) -> dict[str, str]:
    """The header of an answer that shows this memory."""
    return {"etag": f'"{version_of(memory)}"'}


def answer_unless_known(request: Request, reply: Reply[Any]) -> Response:
    """The answer with its ETag: that of its headers, else a digest of its bytes. A GET whose caller has this version is
    answered 304, without a body.
    """
    body = msgspec.json.encode(reply.data)
    headers = {"etag": f'W/"{digest(body)}"', **reply.headers}
    tags = _tags(request, "if-none-match") if request.method in {"GET", "HEAD"} else None
    if tags is not None and (ANY in tags or headers["etag"].removeprefix("W/").strip('"') in tags):
        return Response(status_code=304, headers={"etag": headers["etag"]})
    return Response(body, headers=headers, media_type="application/json")


def expected(request: Request, memory: Memory) -> dict[str, str]:
    """The version that a plan expects of the memory that it changes, from ``If-Match``; empty without that header.

    Raises:
        PreconditionFailed: it is another version already.
        RequestError: the header cannot be read.
    """
    version = version_of(memory)
    words = "The memory is not the version that If-Match names: read it again, and decide anew."
    return {memory.id: version} if is_expected(request, version, words) else {}


def is_expected(
    request: Request, version: str, words: str = "This is not the version that If-Match names: read it again."
) -> bool:
    """Whether ``If-Match`` names this version; False without that header.

    Raises:
        PreconditionFailed: it names another; in these words.
        RequestError: the header cannot be read.
    """
    tags = _tags(request, "if-match")
    if tags is not None and ANY not in tags and version not in tags:
        raise PreconditionFailed(words, param="if-match")
    return tags is not None


def _tags(request: Request, name: str) -> frozenset[str] | None:
    values = request.headers.getlist(name)
    if not values:
        return None
    text = ", ".join(values).strip()
    if text == ANY:
        return frozenset({ANY})
    tags: list[str] = []
    position = 0
    while position < len(text) and len(tags) < MOST_TAGS:
        match = _TAGS.match(text, position)
        if match is None:
            break
        tags.append(match[1])
        position = match.end()
    if not tags or position < len(text):
        raise RequestError(f'{name}: must be * or entity tags as ETag gives them ("…").', param=name)
    return frozenset(tags)
