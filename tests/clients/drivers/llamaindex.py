"""LlamaIndex (llama-index-llms-openai); variants ``chat`` and ``responses``."""

from collections.abc import AsyncIterator
from typing import Any

from llama_index.core.llms import ChatMessage, ChatResponse  # type: ignore[import-not-found]
from llama_index.core.tools import FunctionTool  # type: ignore[import-not-found]
from llama_index.llms.openai import OpenAI, OpenAIResponses  # type: ignore[import-not-found]

from tests.clients.drivers.case import KEY, MODEL, TIMEOUT_S, Case, weather

_WEATHER = FunctionTool.from_defaults(weather)


class LlamaIndex:
    """`OpenAI` or `OpenAIResponses` with its ``api_base`` set."""

    def __init__(self, variant: str) -> None:
        self._kind = OpenAIResponses if variant == "responses" else OpenAI

    def _model(self, case: Case) -> Any:
        return self._kind(model=MODEL, api_base=case.base_url, api_key=KEY, max_retries=0, timeout=TIMEOUT_S)

    async def chat(self, case: Case) -> Any:
        return _shown(await self._model(case).achat([_question(case)]))

    async def stream(self, case: Case) -> AsyncIterator[Any]:
        pieces = await self._model(case).astream_chat([_question(case)])
        try:
            async for piece in pieces:
                yield _shown(piece)
        finally:
            await pieces.aclose()

    async def tools(self, case: Case) -> Any:
        model = self._model(case)
        first = await model.achat_with_tools([_WEATHER], chat_history=[_question(case)])
        second = await model.achat_with_tools([_WEATHER], chat_history=_continued(model, case, first))
        return [_shown(first), _shown(second)]

    async def tools_stream(self, case: Case) -> Any:
        model = self._model(case)
        shown: list[Any] = []
        history, last = [_question(case)], None
        for _turn in range(2):
            if last is not None:
                history = _continued(model, case, last)
            pieces = [piece async for piece in await model.astream_chat_with_tools([_WEATHER], chat_history=history)]
            last = pieces[-1]
            shown += map(_shown, pieces)
        return shown


def _question(case: Case) -> ChatMessage:
    return ChatMessage(role="user", content=case.question)


def _continued(model: Any, case: Case, first: ChatResponse) -> list[ChatMessage]:
    (call,) = model.get_tool_calls_from_response(first)
    result = str(_WEATHER(**call.tool_kwargs))
    said = ChatMessage(role="tool", content=result, additional_kwargs={"tool_call_id": call.tool_id})
    return [_question(case), first.message, said]


def _shown(answer: ChatResponse) -> Any:
    return [answer.delta, answer.message.model_dump(mode="json"), str(answer.additional_kwargs), str(answer.raw)]


def make(variant: str) -> LlamaIndex:
    return LlamaIndex(variant)
