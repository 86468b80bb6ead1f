"""A running memproxy under evaluation: pushed to and asked through its API, like any client's memory."""

import time
import uuid
from collections.abc import Mapping
from typing import Any

import httpx

from memproxy.errors import RequestError
from memproxy.evals.dataset import Question, Session
from memproxy.evals.subject import DEPTH, Found


class RemoteMemory:
    """`subject.Subject` behind a base URL. Users of an evaluation get names of their own, and are forgotten after it.

    The gate and the deadline of that installation apply. Its recipe is what it is configured with: ``recipe`` of `ask`
    only names the figures.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self._run = uuid.uuid4().hex[:8]
        self._users: set[str] = set()

    async def ingest(self, session: Session) -> None:
        messages = [
            {"role": message.role, "id": message.id, "content": message.content}
            | ({"name": message.name} if message.name else {})
            for message in session.messages
        ]
        user = self._user(session.user)
        self._users.add(user)
        body = {
            "user_id": user,
            "session_id": session.name,
            "timestamp": session.date.isoformat(),
            "messages": messages,
        }
        await self._call("POST", "/v1/memory/turns", json=body)

    async def settle(self) -> None:
        """Nothing to wait for: the API answers when the turns are searchable."""

    async def ask(self, question: Question, recipe: str) -> Found:  # noqa: ARG002 - as the protocol has it
        user = self._user(question.user)
        start = time.perf_counter()
        block = await self._call("POST", "/v1/memory/recall", json={"user_id": user, "query": question.text})
        milliseconds = (time.perf_counter() - start) * 1000
        query = {"user_id": user, "query": question.text, "limit": DEPTH, "kind": "turn"}
        found = await self._call("POST", "/v1/memory/search", json=query)
        return Found(
            turns=[(one["memory"]["id"], one["memory"]["session_id"]) for one in found["data"]],
            injected=[citation["memory_id"] for citation in block["citations"]],
            context=block["context"],
            tokens=block["tokens"],
            degraded=block.get("degraded"),
            milliseconds=milliseconds,
            embedding_ms=None,
        )

    async def forget(self) -> None:
        """Delete what was pushed."""
        for user in sorted(self._users):
            await self._call("DELETE", "/v1/memory", params={"user_id": user})
        self._users.clear()

    def _user(self, name: str) -> str:
        return f"evaluation-{self._run}-{name}"

    async def _call(self, method: str, path: str, **arguments: Mapping[str, Any]) -> Any:
        response = await self._http.request(method, path, **arguments)  # type: ignore[arg-type]
        if response.is_error:
            raise RequestError(f"{method} {response.url} answered {response.status_code}: {response.text[:300]}")
        return response.json()
