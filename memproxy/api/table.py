"""Finds the call that a request is for: by its path as it was sent, piece by piece, and by its method.

Ids are the callers' own and may hold slashes, percent-encoded: `sessions%2Fone` is the id of a memory, and
`sessions/one` a conversation. Decoded, the two could not be told apart.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from memproxy.api.context import Endpoint
from memproxy.api.http import error_answer, method_refused
from memproxy.errors import NotFound

Call = tuple[str, str, Endpoint]
"""Method, path and endpoint. A piece of the path in braces is whatever is there, ``{name:path}`` all that is left."""

_REST = ":path}"


class CallTable:
    """Answers every request that none of our other routes takes; an ASGI application."""

    def __init__(self, calls: Iterable[Call]) -> None:
        found: dict[tuple[str, ...], dict[str, Endpoint]] = {}
        for method, path, endpoint in calls:
            found.setdefault(tuple(path.split("/")), {})[method] = endpoint
        # a piece that is written out goes before one that may be anything
        self._paths = sorted(found.items(), key=lambda each: [_is_open(piece) for piece in each[0]])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        pieces = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").split("/")
        for path, by_method in self._paths:
            if (names := _named(path, pieces)) is not None:
                scope["path_params"] = names
                endpoint = by_method.get("GET" if request.method == "HEAD" else request.method)
                answer = method_refused(request.method, by_method) if endpoint is None else await endpoint(request)
                break
        else:
            words = f"Nothing is served at {request.url.path[:200]}; /openapi.json lists the calls."
            answer = error_answer(NotFound(words))
        await answer(scope, receive, send)


def _is_open(piece: str) -> bool:
    return piece.startswith("{")


def _named(path: Sequence[str], pieces: Sequence[str]) -> dict[str, Any] | None:
    """What the pieces in braces are here; None when it is another path."""
    if path[-1].endswith(_REST) and len(pieces) >= len(path):
        pieces = [*pieces[: len(path) - 1], "/".join(pieces[len(path) - 1 :])]
    if len(path) != len(pieces):
        return None
    names = {}
    for wanted, piece in zip(path, pieces, strict=True):
        if not _is_open(wanted):
            if wanted != unquote(piece):
                return None
        elif not piece:
            return None
        else:
            names[wanted.strip("{}").removesuffix(_REST[:-1])] = unquote(piece)
    return names
