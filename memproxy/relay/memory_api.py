"""Passes memory API requests to the engine, with the caller's identity in a private header; serves the memory page."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field

from memproxy.auth.identity import encode_identity
from memproxy.auth.modes import Authenticator
from memproxy.core.changes import ChangeNotices
from memproxy.core.protocol import IDENTITY_HEADER, Captured
from memproxy.core.scope import Scope
from memproxy.errors import MethodNotAllowed, NotFound, RequestError
from memproxy.page import PATH as PAGE
from memproxy.page import PageFile, page_files
from memproxy.relay.engines import Engines
from memproxy.relay.request import Hangups, Request
from memproxy.relay.upstream import HOP_BY_HOP, Upstream

_PASSED = (b"content-type", b"content-encoding", b"accept", b"if-match", b"if-none-match", b"idempotency-key")
_PASSED_TO_MCP = (*_PASSED, b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_SINGLE = frozenset({b"content-type", b"idempotency-key"})
_LEARNED_FROM = frozenset({"end", "mine"})
"""Calls of a session that learn from it."""

_HOLD_SESSIONS = frozenset({"sessions", "users"})
"""Deletions below these paths delete conversations too, as a deletion by scope does."""

_OPEN_PATHS = frozenset({"/openapi.json"})
_PAGES = frozenset({PAGE, "/openapi.json"})


@dataclass(eq=False)
class MemoryApi:
    """Answers ``/v1/memory*``, ``/mcp`` and ``/openapi.json``, and serves the page at ``/memory``, which asks the rest
    as any other client does.
    """

    engine: Engines
    authenticator: Authenticator
    upstream: Upstream
    hangups: Hangups
    max_body_bytes: int
    changes: ChangeNotices
    page: Mapping[str, PageFile] = field(default_factory=page_files)

    @staticmethod
    def claims(path: str) -> bool:
        return path in {"/v1/memory", *_PAGES, "/mcp"} or path.startswith(("/v1/memory/", f"{PAGE}/"))

    @staticmethod
    def is_page(path: str) -> bool:
        """Whether people open it in a browser."""
        return path in _PAGES

    async def handle(self, request: Request, ends: Callable[[], bool]) -> int:
        """Pass the request on; the status that went out. Server-sent events, which have no end of their own, are cut
        between two of them once ``ends`` says so.

        Raises:
            EngineUnavailable: the engine does not answer.
            Unauthenticated: nobody is identified, and the path needs somebody.
            RequestError: a header of ours cannot be read, or names nobody.
            MethodNotAllowed, NotFound: no such file of the page.
        """
        if request.path == PAGE or request.path.startswith(f"{PAGE}/"):
            return await self._serve_page(request)
        names = _PASSED_TO_MCP if request.path == "/mcp" else _PASSED
        passed = {
            name: request.headers.single(name) if name in _SINGLE else ", ".join(request.headers.all(name)) or None
            for name in names
        }
        headers = {name.decode(): value for name, value in passed.items() if value is not None}
        if request.path not in _OPEN_PATHS:
            identity = await self.authenticator.identify(request.headers)
            bound_or_named = identity.named_user or identity.bound_user
            if not bound_or_named and request.headers.get(b"x-memproxy-user") is not None:
                # who names a user and sends no name has lost it: that is not the default user
                raise RequestError(
                    "The header X-Memproxy-User is empty: name a user, or leave it out.", param="X-Memproxy-User"
                )
            headers[IDENTITY_HEADER] = encode_identity(identity)
            if self.upstream.takes_client_key and _is_learned_from(request.pieces):
                # turns of this call are learned from like those of a chat: with the key of the request itself
                scope = Scope(tenant=identity.tenant, user=identity.named_user or identity.default_user or "")
                self.engine.share_access(Captured(scope=scope, access=self.upstream.access(request.headers, None)))
        body = await request.body(self.max_body_bytes)
        path = request.raw_path.decode("latin-1")
        status, answered, chunks = await self.engine.api(request.method, path, headers, body)
        if request.method == "DELETE" and (request.pieces[3:] == [] or request.pieces[3] in _HOLD_SESSIONS):
            self.changes.tell(None)  # without a state server nobody else tells this process of it
        await request.begin(status, [(name, value) for name, value in answered if name.lower() not in HOP_BY_HOP])
        kinds = [value for name, value in answered if name.lower() == b"content-type"]
        is_stream = any(kind.startswith(b"text/event-stream") for kind in kinds)
        with self.hangups.watching(request) if is_stream else nullcontext():
            async for chunk in chunks:
                await request.write(chunk)
                if is_stream and ends():
                    break
        await request.end()
        return status

    async def _serve_page(self, request: Request) -> int:
        """A file of the page, which holds nobody's data: a browser's first request cannot carry a key."""
        if request.method not in {"GET", "HEAD"}:
            raise MethodNotAllowed(f"{PAGE} is a page to look at: GET it. Its calls are below /v1/memory.")
        if request.path == f"{PAGE}/":
            await request.answer(308, [(b"location", b"../memory")], b"")
            return 308
        file = self.page.get(request.path)
        if file is None:
            raise NotFound(f"{request.path[:200]} is no file of the memory page, which is at {PAGE}.")
        is_known = file.is_known(request.headers.get(b"if-none-match"))
        if is_known:
            await request.answer(304, file.headers, b"")
            return 304
        await request.answer(200, [*file.headers, (b"content-length", b"%d" % len(file.body))], file.body)
        return 200


def _is_learned_from(pieces: Sequence[str]) -> bool:
    """Whether a call brings turns, or asks to learn from a session, or may save what is refined."""
    match pieces:
        case ["", "v1", "memory", "turns"] | ["", "mcp"]:
            return True
        case ["", "v1", "memory", "sessions", session, call]:
            return bool(session) and call in _LEARNED_FROM
    return False
