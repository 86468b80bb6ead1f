"""`GET` and `PUT /v1/memory/settings`: what a user, or one agent of a user, chose of memory."""

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import Backends, OwnerLocks
from memproxy.api.http import answer, caller, named_once, read_body, read_query
from memproxy.api.queries import SessionQuery, SettingsQuery
from memproxy.api.schemas import SettingsBody
from memproxy.api.versions import check_expected, list_answer
from memproxy.auth import resolve_scope
from memproxy.core.choices import NOTHING_CHOSEN, Choices
from memproxy.core.protocol import Identity
from memproxy.core.scope import Scope
from memproxy.core.version import digest
from memproxy.errors import Forbidden, RequestError


class ChoicesApi:
    """The calls about settings."""

    def __init__(self, backends: Backends, locks: OwnerLocks) -> None:
        self._backends = backends
        self._locks = locks
        self._max_bytes = backends.settings.server.max_body_bytes

    async def read(self, request: Request) -> Response:
        """`GET`: what holds, with what was ``chosen`` for just this place and what comes from a wider one."""
        identity = caller(request, "memory:read")
        query = read_query(request, SettingsQuery)
        scope = _place(identity, query.user_id, query.agent_id)
        self._backends.require_state()
        return list_answer(request, await self._told(scope))

    async def write(self, request: Request) -> Response:
        """`PUT`: takes the place of what was chosen; a field that is left out or null comes from the wider place. It
        holds in every process when this is answered.
        """
        identity = caller(request, "memory:write")
        user = read_query(request, SessionQuery).user_id
        body = await read_body(request, SettingsBody, self._max_bytes)
        scope = _place(identity, named_once(user, body.user_id), body.agent_id)
        if identity.bound_project:
            raise Forbidden("Settings hold in all projects: a key that is bound to one cannot change them.")
        chosen = Choices(mode=body.mode, limit=body.limit, rerank=body.rerank, learning=body.learning)
        if chosen.rerank and self._backends.settings.recall.rerank == "none":
            raise RequestError("rerank: this server has no reranker (recall.rerank is none).", param="rerank")
        self._backends.require_state()
        async with self._locks.of(scope):
            check_expected(request, digest(msgspec.json.encode(await self._told(scope))))
            await self._backends.state.choose(scope, chosen, self._backends.clock.now())
            told = await self._told(scope)
        return answer(told, 200, {"etag": f'W/"{digest(msgspec.json.encode(told))}"'})

    async def _told(self, scope: Scope) -> dict[str, object]:
        state, recall = self._backends.state, self._backends.settings.recall
        own = await state.own_choices(scope) or NOTHING_CHOSEN
        holds = await state.choices(scope)
        return {
            "user_id": scope.user,
            "agent_id": scope.agent,
            "mode": holds.mode or "on",
            "limit": holds.limit if holds.limit is not None else recall.limit,
            "rerank": holds.rerank is not False and recall.rerank != "none",
            "learning": holds.learns and self._backends.settings.learn.enabled,
            "chosen": {"mode": own.mode, "limit": own.limit, "rerank": own.rerank, "learning": own.learning},
        }


def _place(identity: Identity, user: str | None, agent: str | None) -> Scope:
    scope = resolve_scope(identity, user=user, agent=agent)
    return Scope(tenant=scope.tenant, user=scope.user, agent=scope.agent)
