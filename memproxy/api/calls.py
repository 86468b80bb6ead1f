"""One decorator makes a call of the API: `/openapi.json`, checking, permission, idempotency, ETags and the table in the
docs come from it and from the function under it.

    @operation("GET", "/v1/memory/things", "memory:read")
    async def list_things(api: Backends, call: Call, query: ThingsQuery) -> ThingPage:
        ...

The first line of its docstring says what it does. A parameter ``query`` has the model of the query string, ``body``
that of the JSON body; where the function reads them through the `Call` alone, they are named to the decorator. What it
returns says what is answered: a struct, a `Reply` with status and headers, or (JSON Lines) a `StreamingResponse`.

A memory's ETag changes with all that it says, not with how often it was recalled: two answers of one tag may differ in
``access_count`` and ``last_accessed_at``.
"""

import hashlib
import inspect
import re
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel
from starlette.requests import Request

from memproxy.api.context import Backends
from memproxy.api.models import Body
from memproxy.auth.headers import clean_id
from memproxy.auth.identity import administered_user, resolve_scope, resolve_user
from memproxy.core.memory import TEXT_FIELDS, Memory, to_public, version_of
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.errors import PreconditionFailed, RequestError

T = TypeVar("T")

ANY_TAG = "*"
MOST_TAGS = 100
_TAG = re.compile(r'\s*(?:W/)?"([^"\x00-\x20\x7f]*)"\s*(?:,|$)')


@dataclass(frozen=True)
class Reply(Generic[T]):
    """An answer with a status other than 200, or with headers. A memory in it is a dict made by `Call.show`."""

    data: T | dict[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Operation:
    """A call: how it is reached, which permission it needs, what it takes and answers. Applied to a function, it is the
    call that this function answers.

    ``takes_lines``: the body is JSON Lines, which the function reads itself. ``statuses``: of its successes.
    ``errors``: statuses beside those that follow from the rest. ``repeatable``: it takes an idempotency key (never a
    GET). ``etag``: the answer has one, and a GET heeds ``If-None-Match``; ``if_match``: the function checks it.
    ``or_admin``: that permission is enough, too. ``names_user``: the path's id is a user's. ``audited_read``: what the
    audit log calls it when it is made from the machine's own console.
    """

    method: str
    path: str
    permission: str
    _: KW_ONLY
    query: type[BaseModel] = Body
    body: type[BaseModel] | None = None
    body_optional: bool = False
    takes_lines: bool = False
    statuses: tuple[int, ...] = (200,)
    errors: tuple[int, ...] = ()
    repeatable: bool = True
    etag: bool = False
    if_match: bool = False
    or_admin: bool = False
    names_user: bool = False
    audited_read: str | None = None
    function: Callable[..., Awaitable[Any]] | None = None

    def __call__(self, function: Callable[..., Awaitable[Any]]) -> "Operation":
        models = function.__annotations__
        query, body = models.get("query", self.query), models.get("body", self.body)
        return replace(self, query=query, body=body, function=function)

    @property
    def permissions(self) -> tuple[str, ...]:
        """The permissions of which the caller needs one."""
        return (self.permission, "admin") if self.or_admin else (self.permission,)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return inspect.cleandoc(self.function.__doc__ or "").partition("\n")[0] if self.function else ""

    @property
    def takes_key(self) -> bool:
        """Whether it is answered again under its idempotency key."""
        return self.repeatable and self.method != "GET"

    @property
    def answer(self) -> Any:
        """The struct that is answered; `StreamingResponse` for JSON Lines."""
        answer = self.function.__annotations__["return"] if self.function is not None else None
        return get_args(answer)[0] if get_args(answer) else answer

    async def make(self, api: Backends, call: "Call") -> Any:
        """Run the function, with the parameters that it has."""
        if self.function is None:
            raise TypeError("decorates no function")
        arguments = {name: getattr(call, name) for name in ("query", "body") if name in self.function.__annotations__}
        return await self.function(api, call, **arguments)


operation = Operation
"""The decorator."""


@dataclass(frozen=True, kw_only=True)
class Call:
    """One request, checked: who makes it, and what it sends. ``seed``: 32 hex digits made of its idempotency key."""

    operation: Operation
    request: Request
    identity: Identity
    path: Mapping[str, str]
    query: Any
    body: Any
    seed: str | None = None

    @property
    def user(self) -> str:
        """Whose memory the call is about.

        Raises:
            Forbidden, RequestError: as `auth.resolve_user`.
        """
        resolve = administered_user if self.operation.or_admin else resolve_user
        return resolve(self.identity, self._named_user())

    def _named_user(self) -> str | None:
        if self.operation.names_user:
            return self.path["id"]
        in_query, in_body = getattr(self.query, "user_id", None), getattr(self.body, "user_id", None)
        if in_query is not None and in_body is not None and in_query != in_body:
            raise RequestError("user_id in the query and in the body disagree: name one user.", param="user_id")
        return in_body if in_query is None else in_query

    @property
    def session(self) -> str:
        """The session that the path names.

        Raises:
            RequestError: it is no usable name.
        """
        if not (name := clean_id(self.path["id"], "session_id")):
            raise RequestError("session_id: must not be empty.", param="session_id")
        return name

    def scope(self, session: str | None = None) -> Scope:
        """The scope named by ``project_id`` and ``agent_id`` of the query, or of the body where the query has no
        such field; ``session`` comes before the session of the header.

        Raises:
            Forbidden, RequestError: as `auth.resolve_scope`.
        """
        project, agent = self._named("project_id"), self._named("agent_id")
        return resolve_scope(self.identity, user=self._named_user(), project=project, agent=agent, session=session)

    def _named(self, name: str) -> str | None:
        source = self.query if hasattr(self.query, name) else self.body
        return getattr(source, name, None)

    @property
    def nulls(self) -> bool:
        """Whether memories are shown with their empty fields (``omit=null`` was not sent)."""
        return all(getattr(part, "omit", None) is None for part in (self.query, self.body))

    def show(self, memory: Memory) -> dict[str, Any]:
        """A memory in an answer; a key without ``memory:read`` sees it without its text."""
        shown = to_public(memory, nulls=self.nulls)
        if "memory:read" in self.identity.permissions:
            return shown
        return {name: value for name, value in shown.items() if name not in TEXT_FIELDS}

    def is_expected(
        self, version: str, words: str = "This is not the version that If-Match names: read it again."
    ) -> bool:
        """Whether ``If-Match`` names this version; False without that header.

        Raises:
            PreconditionFailed: it names another; in these words.
            RequestError: the header cannot be read.
        """
        tags = entity_tags(self.request, "if-match")
        if tags is not None and not tags & {ANY_TAG, version}:
            raise PreconditionFailed(words, param="if-match")
        return tags is not None

    def expected(self, memory: Memory, secret: bytes) -> dict[str, str]:
        """The version that a plan expects of the memory that it changes, as `is_expected`; empty without the header."""
        words = "The memory is not the version that If-Match names: read it again, and decide anew."
        return {memory.id: version_of(memory)} if self.is_expected(_tag(memory, secret), words) else {}

    def new_id(self, prefix: str) -> str:
        """An id for what the call creates: the same when the call is repeated under its idempotency key."""
        return f"{prefix}_{self.seed or uuid.uuid4().hex}"


def tagged(memory: Memory, secret: bytes) -> dict[str, str]:
    """The header of an answer that shows this memory."""
    return {"etag": f'"{_tag(memory, secret)}"'}


def _tag(memory: Memory, secret: bytes) -> str:
    """The version as callers know it: keyed, else who may not read the memory could try out what it says."""
    return hashlib.blake2b(version_of(memory).encode(), key=secret[:64], digest_size=16).hexdigest()


def entity_tags(request: Request, name: str) -> frozenset[str] | None:
    """The entity tags that ``If-Match`` or ``If-None-Match`` holds (`ANY_TAG` alone: all); None without that header.

    Raises:
        RequestError: it cannot be read.
    """
    values = request.headers.getlist(name)
    if not values:
        return None
    text = ", ".join(values).strip()
    if text == ANY_TAG:
        return frozenset({ANY_TAG})
    tags: list[str] = []
    position = 0
    while position < len(text) and len(tags) < MOST_TAGS and (match := _TAG.match(text, position)):
        tags.append(match[1])
        position = match.end()
    if not tags or position < len(text):
        raise RequestError(f'{name}: must be * or entity tags as ETag gives them ("…").', param=name)
    return frozenset(tags)
