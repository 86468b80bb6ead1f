"""Chooses the engine of this machine to ask: the relay's own first, another one while that is away, starting or busy.

Any engine answers for any user, because they share their servers. A recall goes to the engine with the fewest under
way, and among equals to the relay's own; so single requests all meet one engine, and a load is spread over all.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from memproxy.core.protocol import Captured, RecallAnswer, RecallRequest, ReplayAsked, ReplayTold
from memproxy.core.receipt import ReceiptPart
from memproxy.core.scope import Scope
from memproxy.errors import EngineUnavailable
from memproxy.relay.engine_client import HOP_ALLOWANCE_S, LOADING, EngineClient, NotSent

_ASKED_ELSEWHERE = frozenset({"engine", "busy", LOADING})
"""Reasons for which another engine may answer a recall."""

_READ_ONLY = frozenset({"GET", "HEAD"})


class Engines:
    """One client each."""

    def __init__(self, sockets: Sequence[Path], *, deadline_s: float) -> None:
        """``sockets``: where they listen, the own one first."""
        self._clients = [EngineClient(socket, deadline_s=deadline_s) for socket in sockets]
        self._deadline_s = deadline_s + HOP_ALLOWANCE_S

    async def open(self) -> None:
        for client in self._clients:
            await client.open()

    async def close(self) -> None:
        """Let notices finish, close the connections."""
        await asyncio.gather(*(client.close() for client in self._clients))

    def notify(self, captured: Captured) -> None:
        """Tell all of a new journal row, because whichever claims its turn needs to know how the model is reached."""
        for client in self._clients:
            client.notices.notify(captured)

    def share_access(self, captured: Captured) -> None:
        """Tell all how the current request reaches its model."""
        for client in self._clients:
            client.notices.share_access(captured)

    def report(self, part: ReceiptPart) -> None:
        """Tell one of them the relay's part of a receipt."""
        self._there()[0].notices.report(part)

    async def recall(self, request: RecallRequest) -> RecallAnswer:
        """As `EngineClient.recall`, of the first one that takes it in, within one deadline."""
        until = time.monotonic() + self._deadline_s
        answers: list[RecallAnswer] = []
        for client in sorted(self._clients, key=lambda client: client.load):
            answer = await client.recall(request, until)
            if answer.reason not in _ASKED_ELSEWHERE:
                return answer
            answers.append(answer)
            if time.monotonic() >= until:
                break
        return next((answer for answer in answers if answer.reason != "engine"), answers[0])

    async def full(self, scope: Scope) -> str | None:
        """Whose quota of memories is full, as the first one says that answers: ``user``, ``tenant`` or nobody's."""
        until = time.monotonic() + self._deadline_s
        for client in self._there():
            if (answer := await client.full(scope)) is not None:
                return answer.whose
            if time.monotonic() >= until:
                break
        return None

    async def replay(self, request: ReplayAsked) -> ReplayTold:
        """As `EngineClient.replay`, of the first one that answers."""
        answer = ReplayTold(reason="engine")
        for client in self._there():
            answer = await client.replay(request)
            if answer.reason != "engine":
                break
        return answer

    def _there(self) -> list[EngineClient]:
        """All clients, those that answered lately first."""
        return sorted(self._clients, key=lambda client: not client.is_there)

    async def readiness(self) -> dict[str, str]:
        """The parts of the first engine that is ready, else of the own one; and whether all are there and loaded."""
        engines = await asyncio.gather(*(client.readiness() for client in self._clients))
        parts = min(engines, key=_trouble)
        away = [state for other in engines if (state := _beside(parts, other)) != "ready"]
        if away and parts["engine"] == "ready":
            worst = LOADING if all(state == LOADING for state in away) else "degraded"
            parts = {**parts, "engine": f"{worst}: {len(away)} of {len(engines)} engines, the others answer"}
        return parts

    async def api(
        self, method: str, raw_path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, list[tuple[bytes, bytes]], AsyncIterator[bytes]]:
        """As `EngineClient.api`, by the first one that is ready. What may have been carried out is not sent again."""
        for client in self._clients if len(self._clients) > 1 else ():
            if not await client.is_ready():
                continue
            try:
                return await client.api(method, raw_path, headers, body)
            except EngineUnavailable as error:
                if not isinstance(error, NotSent) and method not in _READ_ONLY:
                    raise
        return await self._clients[0].api(method, raw_path, headers, body)


def _trouble(parts: Mapping[str, str]) -> int:
    """How many of an engine's parts are not ready; one that does not answer has the most."""
    return sum(not state.startswith(("ready", "off")) for state in parts.values()) + 100 * (parts["engine"] != "ready")


def _beside(parts: Mapping[str, str], other: Mapping[str, str]) -> str:
    """An engine's state; one that still loads what the engine of these ``parts`` has loaded cannot answer yet."""
    loads = any(state == LOADING and parts.get(part) != LOADING for part, state in other.items())
    return LOADING if loads and other["engine"] == "ready" else other["engine"]
