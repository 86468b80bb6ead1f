"""A chat model whose client library is loaded when it is first asked: many deployments never ask one."""

import asyncio
from typing import Any

from memproxy.ports import ChatModel, Credential, ModelReply
from memproxy.settings import ModelSettings


class ChatModelWhenAsked:
    """`models.chat.OpenAIChatModel`, made at the first question. Its library takes most of a second to load, which an
    engine that starts again after a fault has better use for.
    """

    def __init__(self, settings: ModelSettings, *, role: str = "extract") -> None:
        """``role`` is told to the upstream in a header."""
        self._settings = settings
        self._role = role
        self._loading = asyncio.Lock()
        self._model: ChatModel | None = None

    async def complete(
        self,
        credential: Credential,
        *,
        system: str,
        user: str,
        json_mode: bool,
        schema: dict[str, Any] | None = None,
    ) -> ModelReply:
        """As `ports.ChatModel` has it."""
        model = self._model or await self._load()
        return await model.complete(credential, system=system, user=user, json_mode=json_mode, schema=schema)

    async def close(self) -> None:
        """Close all connections, if there are any."""
        if self._model is not None:
            await self._model.close()

    async def _load(self) -> ChatModel:
        async with self._loading:
            if self._model is None:
                self._model = await asyncio.to_thread(self._made)
            return self._model

    def _made(self) -> ChatModel:
        """In a thread: the certificates that its client trusts alone take a tenth of a second to read."""
        from memproxy.models.chat import OpenAIChatModel  # noqa: PLC0415 - loaded when it is first asked

        return OpenAIChatModel(self._settings, role=self._role)
