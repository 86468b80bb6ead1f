"""Agents of the framework `openai-agents`, each with the memory tools over HTTP or over standard input, all at
once. The argument is JSON: ``model_url``, and ``agents``, each with its ``name``, how it reaches memory (``url`` and
``headers``, or ``command``, ``args`` and ``env``) and its ``task``. The answer is JSON: the tools
that each was offered and called, what they answered, and what it said in the end.
"""

import asyncio
import json
import sys
from typing import Any

from agents import Agent, OpenAIChatCompletionsModel, Runner, set_tracing_disabled  # type: ignore[import-not-found]
from agents.items import ToolCallItem, ToolCallOutputItem  # type: ignore[import-not-found]
from agents.mcp import MCPServerStdio, MCPServerStreamableHttp  # type: ignore[import-not-found]
from openai import AsyncOpenAI

from tests.clients.drivers.case import KEY, MODEL, TIMEOUT_S


def _memory(given: dict[str, Any]) -> Any:
    if "url" in given:
        params = {"url": given["url"], "headers": given["headers"], "timeout": TIMEOUT_S}
        return MCPServerStreamableHttp(params=params, client_session_timeout_seconds=TIMEOUT_S)
    params = {name: given[name] for name in ("command", "args", "env")}
    return MCPServerStdio(params=params, client_session_timeout_seconds=TIMEOUT_S)


async def _work(client: AsyncOpenAI, given: dict[str, Any]) -> dict[str, Any]:
    async with _memory(given) as memory:
        offered = sorted(tool.name for tool in await memory.list_tools())
        model = OpenAIChatCompletionsModel(model=MODEL, openai_client=client)
        agent = Agent(name=given["name"], instructions="Do the task.", mcp_servers=[memory], model=model)
        result = await Runner.run(agent, given["task"], max_turns=20)
    called = [item.raw_item.name for item in result.new_items if isinstance(item, ToolCallItem)]
    told = [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
    return {"offered": offered, "called": called, "told": [_text(one) for one in told], "said": result.final_output}


def _text(output: Any) -> str:
    return str(output.get("text", output)) if isinstance(output, dict) else str(output)


async def _main(order: dict[str, Any]) -> None:
    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=order["model_url"], api_key=KEY, max_retries=0) as client:
        done = await asyncio.gather(*(_work(client, given) for given in order["agents"]))
    sys.stdout.write(json.dumps(done) + "\n")


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
