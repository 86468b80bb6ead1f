"""Chat requests as plain HTTP, and what can be asked of the memory API."""

import json
import uuid
from dataclasses import dataclass
from typing import Any

import httpx

from memproxy.demo.model_server import extract
from tests.support.answers import Received, text_of
from tests.support.proxy import Proxy

HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "date", "server"})


@dataclass(frozen=True)
class Exchange:
    """An answer as bytes: status, headers in order, raw body, and the body's chunks as they arrived."""

    status: int
    headers: list[tuple[str, str]]
    chunks: list[bytes]

    @property
    def body(self) -> bytes:
        """The raw body, still encoded."""
        return b"".join(self.chunks)

    def header(self, name: str) -> str:
        """The first value of a header, or an empty string."""
        return next((value for key, value in self.headers if key == name), "")

    @property
    def recall(self) -> str:
        """What the proxy says about memory."""
        return self.header("x-memproxy-recall")

    @property
    def upstream_headers(self) -> list[tuple[str, str]]:
        """The headers that are not the proxy's own and not the connection's."""
        ours = ("x-memproxy-", "server-timing")
        return [(name, value) for name, value in self.headers if not name.startswith(ours) and name not in HOP_BY_HOP]


async def exchange(client: httpx.AsyncClient, method: str, url: str, **request: Any) -> Exchange:
    """One request, its answer unread by any decoder."""
    async with client.stream(method, url, **request) as response:
        chunks = [chunk async for chunk in response.aiter_raw()]
    headers = [(name.decode().lower(), value.decode("latin-1")) for name, value in response.headers.raw]
    return Exchange(response.status_code, headers, chunks)


def body(*texts: str, **fields: Any) -> bytes:
    """A chat request whose messages are ``texts``, user and assistant in turn, written in an odd but valid way."""
    roles = ("user", "assistant")
    messages = [{"content": text, "role": roles[place % 2]} for place, text in enumerate(texts)]
    return json.dumps({"model": "test-model", **fields, "messages": messages}, indent=1, ensure_ascii=False).encode()


async def chat(
    client: httpx.AsyncClient, *texts: str, headers: dict[str, str] | None = None, **fields: Any
) -> Exchange:
    """A chat request through the proxy."""
    content_type = {"content-type": "application/json"}
    return await exchange(
        client,
        "POST",
        "/v1/chat/completions",
        content=body(*texts, **fields),
        headers={**content_type, **(headers or {})},
    )


async def say(proxy: Proxy, *texts: str, key: str | None = "", **fields: Any) -> Exchange:
    """A chat request over a connection of its own."""
    async with proxy.client(key) as client:
        return await chat(client, *texts, **fields)


def word() -> str:
    """A word that no other test says."""
    return f"zq{uuid.uuid4().hex[:10]}"


def extract_by_rules(received: Received) -> dict[str, Any]:
    """Extraction as the demonstration's script does it."""
    prompt = "\n".join(text_of(message) for message in received.messages if message.get("role") == "user")
    return {"candidates": extract(prompt)}


async def found(
    proxy: Proxy, text: str, *, key: str = "", user: str | None = None, **where: Any
) -> list[dict[str, Any]]:
    """The memories that hold ``text``, by the search call; empty while memory does not answer."""
    query = {"query": text, "limit": 50, **({"user_id": user} if user else {}), **where}
    response = await proxy.call("POST", "/v1/memory/search", key, json=query)
    if response.status_code == 503:
        return []
    assert response.status_code == 200, response.text
    memories = [hit["memory"] for hit in response.json()["data"]]
    return [memory for memory in memories if text.lower() in memory["content"].lower()]


async def listed(proxy: Proxy, *, key: str = "", **where: Any) -> list[dict[str, Any]]:
    response = await proxy.call("GET", "/v1/memory", key, params={"limit": 200, **where})
    assert response.status_code == 200, response.text
    return list(response.json()["data"])
