"""LiteLLM's SDK; variants ``chat`` and ``responses``."""

from collections.abc import AsyncIterator
from typing import Any

import litellm  # type: ignore[import-not-found]

from tests.clients.drivers.case import KEY, MODEL, TIMEOUT_S, WEATHER, Case

_PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_CHAT_TOOL = {"type": "function", "function": {"name": "weather", "parameters": _PARAMETERS}}
_TOOL = {"type": "function", "name": "weather", "parameters": _PARAMETERS, "strict": False}


def _options(case: Case) -> dict[str, Any]:
    return {
        "model": f"openai/{MODEL}",
        "api_base": case.base_url,
        "api_key": KEY,
        "max_retries": 0,
        "num_retries": 0,
        "timeout": TIMEOUT_S,
    }


class ChatSdk:
    """`litellm.acompletion`."""

    async def _ask(self, case: Case, messages: list[Any], **more: Any) -> Any:
        return await litellm.acompletion(messages=messages, **_options(case), **more)

    async def chat(self, case: Case) -> Any:
        return _shown(await self._ask(case, _question(case)))

    async def stream(self, case: Case) -> AsyncIterator[Any]:
        pieces = await self._ask(case, _question(case), stream=True, stream_options={"include_usage": True})
        try:
            async for piece in pieces:
                yield _shown(piece)
        finally:
            await pieces.aclose()

    async def tools(self, case: Case) -> Any:
        first = await self._ask(case, _question(case), tools=[_CHAT_TOOL])
        second = await self._ask(case, _continued(case, first), tools=[_CHAT_TOOL])
        return [_shown(first), _shown(second)]

    async def tools_stream(self, case: Case) -> Any:
        pieces = [piece async for piece in await self._ask(case, _question(case), tools=[_CHAT_TOOL], stream=True)]
        first = litellm.stream_chunk_builder(pieces)
        rest = await self._ask(case, _continued(case, first), tools=[_CHAT_TOOL], stream=True)
        return [*map(_shown, pieces), *[_shown(piece) async for piece in rest]]


class ResponsesSdk:
    """`litellm.aresponses`."""

    async def _ask(self, case: Case, said: Any, **more: Any) -> Any:
        return await litellm.aresponses(input=said, **_options(case), **more)

    async def chat(self, case: Case) -> Any:
        return _shown(await self._ask(case, case.question))

    async def stream(self, case: Case) -> AsyncIterator[Any]:
        pieces = await self._ask(case, case.question, stream=True)
        try:
            async for piece in pieces:
                yield _shown(piece)
        finally:
            await pieces.aclose()

    async def tools(self, case: Case) -> Any:
        question = [{"role": "user", "content": case.question}]
        first = await self._ask(case, question, tools=[_TOOL])
        (call,) = first.output
        result = {"type": "function_call_output", "call_id": call.call_id, "output": WEATHER}
        second = await self._ask(case, [*question, _sent(call), result], tools=[_TOOL])
        return [_shown(first), _shown(second)]

    async def tools_stream(self, case: Case) -> Any:
        question: list[Any] = [{"role": "user", "content": case.question}]
        pieces = [piece async for piece in await self._ask(case, question, tools=[_TOOL], stream=True)]
        (call,) = pieces[-1].response.output
        result = {"type": "function_call_output", "call_id": call.call_id, "output": WEATHER}
        rest = await self._ask(case, [*question, _sent(call), result], tools=[_TOOL], stream=True)
        return [*map(_shown, pieces), *[_shown(piece) async for piece in rest]]


def _question(case: Case) -> list[Any]:
    return [{"role": "user", "content": case.question}]


def _continued(case: Case, first: Any) -> list[Any]:
    message = first.choices[0].message
    (call,) = message.tool_calls
    return [*_question(case), message.model_dump(), {"role": "tool", "tool_call_id": call.id, "content": WEATHER}]


def _sent(call: Any) -> Any:
    sent = call if isinstance(call, dict) else call.model_dump()
    return {name: sent[name] for name in ("type", "call_id", "name", "arguments")}


_OF_THE_RUN = frozenset({"created", "id", "created_at", "item_id"})
"""LiteLLM puts the time of its own reading into pieces, and names of its own into responses."""


def _shown(answer: Any) -> Any:
    return _without_run(answer.model_dump(mode="json"))


def _without_run(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_run(inner) for name, inner in value.items() if name not in _OF_THE_RUN}
    return [_without_run(inner) for inner in value] if isinstance(value, list) else value


def make(variant: str) -> ChatSdk | ResponsesSdk:
    return ResponsesSdk() if variant == "responses" else ChatSdk()
