"""LangChain (langchain-openai); variants ``chat`` and ``responses``."""

from collections.abc import AsyncIterator
from typing import Any

from langchain_core.messages import AIMessageChunk, BaseMessage, HumanMessage, ToolMessage  # type: ignore[import-not-found]
from langchain_core.tools import tool  # type: ignore[import-not-found]
from langchain_openai import ChatOpenAI  # type: ignore[import-not-found]

from tests.clients.drivers.case import KEY, MODEL, TIMEOUT_S, Case, weather

_WEATHER = tool(weather)


class LangChain:
    """`ChatOpenAI` with its ``base_url`` set."""

    def __init__(self, variant: str) -> None:
        self._responses = variant == "responses"

    def _model(self, case: Case) -> ChatOpenAI:
        return ChatOpenAI(
            model=MODEL,
            base_url=case.base_url,
            api_key=KEY,
            max_retries=0,
            timeout=TIMEOUT_S,
            use_responses_api=self._responses,
            stream_usage=True,
        )

    async def chat(self, case: Case) -> Any:
        return _shown(await self._model(case).ainvoke([HumanMessage(case.question)]))

    async def stream(self, case: Case) -> AsyncIterator[Any]:
        pieces = self._model(case).astream([HumanMessage(case.question)])
        try:
            async for piece in pieces:
                yield _shown(piece)
        finally:
            await pieces.aclose()

    async def tools(self, case: Case) -> Any:
        model, history = self._model(case).bind_tools([_WEATHER]), [HumanMessage(case.question)]
        first = await model.ainvoke(history)
        return [_shown(first), _shown(await model.ainvoke(_continued(history, first)))]

    async def tools_stream(self, case: Case) -> Any:
        model, history = self._model(case).bind_tools([_WEATHER]), [HumanMessage(case.question)]
        first: AIMessageChunk | None = None
        shown = []
        async for piece in model.astream(history):
            shown.append(_shown(piece))
            first = piece if first is None else first + piece
        assert first is not None
        return [shown, [_shown(piece) async for piece in model.astream(_continued(history, first))]]


def _continued(history: list[BaseMessage], first: BaseMessage) -> list[BaseMessage]:
    (call,) = first.tool_calls
    return [*history, first, ToolMessage(_WEATHER.invoke(call["args"]), tool_call_id=call["id"])]


def _shown(message: BaseMessage) -> Any:
    """All of it, but for the name that LangChain gives to this run."""
    shown = message.model_dump(mode="json")
    if "run-" in str(shown["id"]):
        del shown["id"]
    return shown


def make(variant: str) -> LangChain:
    return LangChain(variant)
