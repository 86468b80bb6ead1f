"""pydantic-ai; variants ``chat`` and ``responses``."""

import json
from collections.abc import AsyncIterator
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent  # type: ignore[import-not-found]
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # type: ignore[import-not-found]
from pydantic_ai.providers.openai import OpenAIProvider  # type: ignore[import-not-found]

from tests.clients.drivers.case import KEY, MODEL, TIMEOUT_S, Case, weather

_OF_THE_RUN = {"timestamp", "run_id", "conversation_id", "provider_url"}
"""What pydantic-ai itself adds to messages: when, in which of its runs, and which address it was given."""


class PydanticAi:
    """An `Agent` over an `OpenAIProvider`."""

    def __init__(self, variant: str) -> None:
        self._kind = OpenAIResponsesModel if variant == "responses" else OpenAIChatModel

    def _agent(self, case: Case, tools: list[Any]) -> Agent:
        client = AsyncOpenAI(base_url=case.base_url, api_key=KEY, max_retries=0, timeout=TIMEOUT_S)
        return Agent(self._kind(MODEL, provider=OpenAIProvider(openai_client=client)), tools=tools, retries=0)

    async def chat(self, case: Case) -> Any:
        return _shown(await self._agent(case, []).run(case.question))

    async def stream(self, case: Case) -> AsyncIterator[Any]:
        async with self._agent(case, []).run_stream(case.question) as result:
            async for text in result.stream_text(delta=True, debounce_by=None):
                yield text
            yield _shown(result)

    async def tools(self, case: Case) -> Any:
        return _shown(await self._agent(case, [weather]).run(case.question))

    async def tools_stream(self, case: Case) -> Any:
        async with self._agent(case, [weather]).run_stream(case.question) as result:
            return [[text async for text in result.stream_text(delta=True, debounce_by=None)], _shown(result)]


def _shown(result: Any) -> Any:
    return _without_run(json.loads(result.all_messages_json()))


def _without_run(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_run(inner) for name, inner in value.items() if name not in _OF_THE_RUN}
    return [_without_run(inner) for inner in value] if isinstance(value, list) else value


def make(variant: str) -> PydanticAi:
    return PydanticAi(variant)
