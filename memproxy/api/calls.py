"""One decorator makes a call of the API: `/openapi.json`, checking, permission, idempotency, ETags and the table in the
docs come from it and from the function under it.

    @call("GET", "/v1/memory/things", "memory:read", "List things.")
    async def list_things(api: Backends, asked: Call, query: ThingsQuery) -> ThingPage:

A parameter ``query`` has the model of the query string, ``body`` that of the JSON body; where the function reads them
through the `Call` alone, they are named to the decorator (``body=bytes``: the function itself reads JSON Lines). What
it returns says what is answered: a struct, a `Reply` with status and headers, or (JSON Lines) a `StreamingResponse`.
"""

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, get_args

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import StreamingResponse

from memproxy.api.models import NoQuery
from memproxy.auth import administered_user, resolve_scope, resolve_user
from memproxy.core.memory import TEXT_FIELDS, Memory, to_public
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.errors import RequestError

T = TypeVar("T")


@dataclass(frozen=True)
class Reply(Generic[T]):
    """An answer of another status than 200, or with headers. A memory is answered as `Call.show` made it."""

    data: T | dict[str, Any]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Operation:
    """A call: how it is reached, who may make it, what it takes and answers, and what is done with it. ``function`` is
    the decorated one, which ``takes`` these of query and body.
    """

    method: str
    path: str
    permissions: tuple[str, ...]
    summary: str
    function: Callable[..., Awaitable[Any]]
    takes: tuple[str, ...]
    query: type[BaseModel]
    body: type[BaseModel] | None
    takes_lines: bool
    answer: Any
    answers_lines: bool
    statuses: tuple[int, ...]
    errors: frozenset[int]
    body_optional: bool
    repeatable: bool
    etag: bool
    if_match: bool
    names_user: bool
    audited_read: str | None


def call(
    method: str,
    path: str,
    permissions: str | tuple[str, ...],
    summary: str,
    *,
    query: type[BaseModel] | None = None,
    body: type[BaseModel | bytes] | None = None,
    statuses: tuple[int, ...] = (200,),
    errors: tuple[int, ...] = (),
    body_optional: bool = False,
    repeatable: bool | None = None,
    etag: bool = False,
    if_match: bool = False,
    names_user: bool = False,
    audited_read: str | None = None,
) -> Callable[[Callable[..., Awaitable[Any]]], Operation]:
    """Make a function a call.

    ``permissions``: one of these is needed. ``statuses``: of its successes. ``errors``: statuses beside those that
    follow from the rest. ``repeatable``: takes an idempotency key (by default all but GET). ``etag``: the answer has
    one, and a GET heeds ``If-None-Match``; ``if_match``: the function checks it. ``names_user``: the path's id is a
    user's. ``audited_read``: what the audit log calls it when it is made from the machine's own console.
    """

    def decorate(function: Callable[..., Awaitable[Any]]) -> Operation:
        models = dict(function.__annotations__)
        answers = models.pop("return")
        taken: Any = body or models.get("body")
        return Operation(
            method=method,
            path=path,
            permissions=(permissions,) if isinstance(permissions, str) else permissions,
            summary=summary,
            function=function,
            takes=tuple(name for name in ("query", "body") if name in models),
            query=query or models.get("query", NoQuery),
            body=None if taken is bytes else taken,
            takes_lines=taken is bytes,
            answer=get_args(answers)[0] if get_args(answers) else answers,
            answers_lines=answers is StreamingResponse,
            statuses=statuses,
            errors=frozenset(errors),
            body_optional=body_optional,
            repeatable=method != "GET" if repeatable is None else repeatable,
            etag=etag,
            if_match=if_match,
            names_user=names_user,
            audited_read=audited_read,
        )

    return decorate


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call as it came, checked: who makes it, and what was sent. ``seed``: 32 hex digits of its idempotency key."""

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
        resolve = administered_user if "admin" in self.operation.permissions else resolve_user
        return resolve(self.identity, self._named_user())

    def _named_user(self) -> str | None:
        if self.operation.names_user:
            return self.path["id"]
        in_query, in_body = getattr(self.query, "user_id", None), getattr(self.body, "user_id", None)
        if in_query is not None and in_body is not None and in_query != in_body:
            raise RequestError("user_id in the query and in the body disagree: name one user.", param="user_id")
        return in_body if in_query is None else in_query

    def scope(self, session: str | None = None) -> Scope:
        """The place that the query's (else the body's) ``project_id`` and ``agent_id`` name, in this session (else in
        that of the header).

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
        """Whether memories are written with the fields that have no value."""
        return all(getattr(one, "omit", None) is None for one in (self.query, self.body))

    def show(self, memory: Memory) -> dict[str, Any]:
        """A memory in the answer: to a key that may not read, without what it says."""
        shown = to_public(memory, nulls=self.nulls)
        if "memory:read" in self.identity.permissions:
            return shown
        return {name: value for name, value in shown.items() if name not in TEXT_FIELDS}

    def new_id(self, prefix: str) -> str:
        """An id for what the call makes: the same when it is done again under its idempotency key."""
        return f"{prefix}_{self.seed or uuid.uuid4().hex}"
