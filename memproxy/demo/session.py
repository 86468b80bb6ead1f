"""Chat sessions through the proxy with the real `openai` client, and the memory API beside them."""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from openai import AsyncOpenAI, DefaultAsyncHttpxClient
from openai.types.chat import ChatCompletionMessageParam

from memproxy.demo.answers import text_of
from memproxy.demo.model_server import MODEL, ScriptedModel
from memproxy.demo.process import DemoFailed, ProxyProcess, local_client

API_KEY = "demo-key"
_BLOCK_OPENING = "<recalled-memory"


@dataclass(frozen=True)
class Reply:
    """An answer: its text, the proxy's headers, what was injected into its prompt, and its time in milliseconds."""

    asked: str
    text: str
    headers: Mapping[str, str]
    injected: str
    milliseconds: float


@dataclass
class Session:
    """One conversation: the client keeps its history and sends it whole, as OpenAI clients do."""

    client: AsyncOpenAI
    model: ScriptedModel
    messages: list[ChatCompletionMessageParam] = field(default_factory=list)

    async def say(self, text: str) -> Reply:
        """Send one user message, streamed, and read the answer to its end."""
        self.messages.append({"role": "user", "content": text})
        started = time.perf_counter()
        raw = await self.client.chat.completions.with_raw_response.create(
            model=MODEL, messages=self.messages, stream=True
        )
        parts = [chunk.choices[0].delta.content or "" async for chunk in raw.parse() if chunk.choices]
        answer = "".join(parts)
        self.messages.append({"role": "assistant", "content": answer})
        elapsed = (time.perf_counter() - started) * 1000
        return Reply(text, answer, raw.headers, injected_block(self.model), elapsed)


@dataclass(frozen=True)
class MemoryApi:
    """The two calls of the memory API that the demonstration shows."""

    client: httpx.AsyncClient

    async def facts(self, *, active: bool) -> list[dict[str, Any]]:
        """The stored memories without the verbatim turns, oldest first."""
        response = await self.client.get("/v1/memory", params={"limit": 200, "active": str(active).lower()})
        _succeeded(response)
        found = [memory for memory in response.json()["data"] if memory["kind"] != "turn"]
        return sorted(found, key=lambda memory: str(memory["created_at"]))

    async def recall(self, query: str) -> dict[str, Any]:
        """What the proxy would inject for ``query``, with citations and the reason."""
        response = await self.client.post("/v1/memory/recall", json={"query": query, "explain": True})
        _succeeded(response)
        return dict(response.json())


def _succeeded(response: httpx.Response) -> None:
    if response.status_code != 200:
        request = response.request
        raise DemoFailed(f"{request.method} {request.url} answered {response.status_code}: {response.text}")


@asynccontextmanager
async def chat_client(proxy: ProxyProcess) -> AsyncIterator[AsyncOpenAI]:
    """The `openai` client as any application has it, with nothing changed but its ``base_url``."""
    http = DefaultAsyncHttpxClient(trust_env=False)
    async with AsyncOpenAI(base_url=proxy.base_url, api_key=API_KEY, max_retries=0, timeout=30, http_client=http) as it:
        yield it


@asynccontextmanager
async def memory_api(proxy: ProxyProcess) -> AsyncIterator[MemoryApi]:
    """The memory API with the same key: the same tenant, so the same memories."""
    async with local_client(proxy.root_url, {"authorization": f"Bearer {API_KEY}"}) as client:
        yield MemoryApi(client)


def injected_block(model: ScriptedModel) -> str:
    """What the newest conversation that the scripted model received had been given by the proxy; empty if nothing."""
    newest = next((request for request in reversed(model.requests) if not request["extraction"]), None)
    messages = newest["body"]["messages"] if newest else []
    texts = [text_of(message) for message in messages]
    blocks = [text[text.index(_BLOCK_OPENING) :] for text in texts if _BLOCK_OPENING in text]
    return blocks[-1].strip() if blocks else ""
