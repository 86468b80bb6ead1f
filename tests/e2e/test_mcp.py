"""Memory for agents: the official client of the protocol uses every tool, over HTTP and over standard input."""

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.talk import chat, word
from tests.support.proxy import KEY, Proxy, environment, memproxy

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOOLS = {
    "save_memory",
    "search_memory",
    "delete_memory",
    "list_memory_categories",
    "save_to_working_memory",
    "get_from_working_memory",
    "list_working_memory",
    "search_working_memory",
}

Agents = Callable[[Proxy, str], AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def over_http(proxy: Proxy, user: str, **headers: str) -> AsyncIterator[Client]:
    sent = {"authorization": f"Bearer {KEY}", "x-memproxy-user": user, **headers}
    async with httpx2.AsyncClient(headers=sent, timeout=60) as http:
        transport = streamable_http_client(f"{proxy.root_url}/mcp", http_client=http)
        async with Client(transport) as client:
            yield client


@asynccontextmanager
async def over_stdio(proxy: Proxy, user: str) -> AsyncIterator[Client]:
    arguments = ["-m", "memproxy", "mcp", "--config", str(proxy.config_file), "--user", user]
    server = StdioServerParameters(command=sys.executable, args=arguments, env=environment(proxy.home))
    async with Client(server) as client:
        yield client


async def used(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    told: dict[str, Any] = result.structured_content or {}
    return told


@pytest.mark.parametrize("agent", [over_http, over_stdio])
async def test_every_tool_is_used_by_the_official_client(shared_proxy: Proxy, agent: Agents) -> None:
    user, place = word(), word()
    async with agent(shared_proxy, user) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert tools.keys() == TOOLS
        assert all(tool.description and tool.annotations for tool in tools.values())
        saved = await used(
            client, "save_memory", content=f"The team meets in {place}.", category="team/rooms", tags=["t"]
        )
        assert (saved["trust"], saved["category"]) == ("tool", "team/rooms")
        found = await used(client, "search_memory", query=f"Where is {place}?")
        assert [hit["memory"]["id"] for hit in found["data"]] == [saved["id"]]
        assert "team/rooms" in json.dumps(await used(client, "list_memory_categories"))
        read = await client.read_resource(f"memory://memories/{saved['id']}")
        assert place in str(read.contents)
        await used(client, "delete_memory", memory_id=saved["id"])
        assert (await used(client, "search_memory", query=place))["data"] == []
        key = f"session/{place}/notes"
        await used(client, "save_to_working_memory", key=key, data={"n": [1, place]}, ttl_minutes=2, tags=["draft"])
        assert (await used(client, "get_from_working_memory", key=key))["data"] == {"n": [1, place]}
        assert [one["key"] for one in (await used(client, "list_working_memory", prefix="session/"))["data"]] == [key]
        hits = await used(client, "search_working_memory", query=place)
        assert [hit["entry"]["key"] for hit in hits["data"]] == [key]
        for climbing in ("../stats", "session/../../export"):
            outside = await client.call_tool("get_from_working_memory", {"key": climbing})
            assert "must be a path such as" in str(outside.content)
        wrong = await client.call_tool("get_from_working_memory", {"key": "session/none/x"})
        assert wrong.is_error
        assert "nothing is kept under this key" in str(wrong.content)


async def test_agents_of_two_users_see_nothing_of_each_other(shared_proxy: Proxy) -> None:
    ann, ben, secret = word(), word(), word()
    async with over_http(shared_proxy, ann) as hers, over_http(shared_proxy, ben) as his:
        saved = await used(hers, "save_memory", content=f"The code is {secret}.")
        await used(hers, "save_to_working_memory", key=f"run/{secret}/x", data=secret)
        assert (await used(his, "search_memory", query=secret))["data"] == []
        assert (await used(his, "list_working_memory"))["data"] == []
        for tool, arguments in (
            ("get_from_working_memory", {"key": f"run/{secret}/x"}),
            ("delete_memory", {"memory_id": saved["id"]}),
        ):
            refused = await his.call_tool(tool, arguments)
            assert refused.is_error
        assert [hit["memory"]["id"] for hit in (await used(hers, "search_memory", query=secret))["data"]] == [
            saved["id"]
        ]


async def test_what_a_tool_saved_is_recalled_in_chat(shared_proxy: Proxy) -> None:
    user = word()
    async with over_http(shared_proxy, user) as agent:
        await used(agent, "save_memory", content="The user's budget for the Hawaii vacation is $10,000.")
    async with shared_proxy.client() as client:
        answer = await chat(client, "What is my budget for the Hawaii vacation?", headers={"x-memproxy-user": user})
    assert answer.recall == "injected"


async def test_mcp_needs_an_identity_and_a_server(shared_proxy: Proxy, tmp_path: Any) -> None:
    async with shared_proxy.client() as client:
        foreign = await client.post("/mcp", json={}, headers={"origin": "https://evil.example"})
        assert foreign.status_code == 403
        assert (await client.get("/mcp")).status_code == 405
    alone = memproxy(tmp_path, "mcp")
    assert alone.returncode == 1
    assert "No server runs on this installation" in alone.stderr
