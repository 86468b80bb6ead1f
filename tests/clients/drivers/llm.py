"""Simon Willison's llm, its Python interface; variants ``chat`` and ``responses``."""

from collections.abc import AsyncIterator
from typing import Any

from llm.default_plugins.openai_models import AsyncChat, AsyncResponses  # type: ignore[import-not-found]

from tests.clients.drivers.case import KEY, MODEL, Case, weather


class Llm:
    """A model with its ``api_base`` set, as ``extra-openai-models.yaml`` makes it."""

    def __init__(self, variant: str) -> None:
        self._kind = AsyncResponses if variant == "responses" else AsyncChat

    def _model(self, case: Case) -> Any:
        return self._kind("test", key=KEY, model_name=MODEL, api_base=case.base_url, supports_tools=True)

    async def chat(self, case: Case) -> Any:
        answer = await self._model(case).prompt(case.question, key=KEY, stream=False)
        return await _shown(answer)

    async def stream(self, case: Case) -> AsyncIterator[Any]:
        answer = self._model(case).prompt(case.question, key=KEY)
        async for piece in answer:
            yield piece
        yield await _shown(answer)

    async def tools(self, case: Case) -> Any:
        return await self._chain(case, stream=False)

    async def tools_stream(self, case: Case) -> Any:
        return await self._chain(case, stream=True)

    async def _chain(self, case: Case, *, stream: bool) -> Any:
        chain = self._model(case).chain(case.question, tools=[weather], stream=stream, key=KEY)
        return [await _shown(answer) async for answer in chain.responses()]


async def _shown(answer: Any) -> Any:
    calls = [[call.name, call.arguments, call.tool_call_id] for call in await answer.tool_calls()]
    usage = await answer.usage()
    return [await answer.text(), calls, [usage.input, usage.output, usage.details], answer.response_json]


def make(variant: str) -> Llm:
    return Llm(variant)
