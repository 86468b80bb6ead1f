"""A framework for agents (openai-agents) uses every memory tool, over HTTP and over standard input: two users with two
agents each, all at once, and none of them sees another user's.
"""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.driving import ANSWER_S, PYTHON, QUIET, ROOT, missing
from tests.e2e.talk import found, word
from tests.support.answers import Answer, Received, completion, text_of
from tests.support.proxy import KEY, environment, running_proxy
from tests.support.upstream import scripted_upstream

pytestmark = [
    pytest.mark.skipif(not os.environ.get("MEMPROXY_TEST_CLIENTS"), reason="`make test-clients` runs real clients"),
    pytest.mark.skipif(missing("openai-agents", node=False) is not None, reason="`make test-clients` makes it"),
]

TOOLS = [
    "save_memory",
    "search_memory",
    "list_memory_categories",
    "save_to_working_memory",
    "get_from_working_memory",
    "list_working_memory",
    "search_working_memory",
    "delete_memory",
]


def task(agent: str, user: str, secret: str) -> str:
    """What an agent's scripted model is to call, one after the other; ``SAVED`` is the id of what it saved."""
    key = f"agent/{agent}/notes"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("save_memory", {"content": f"The code of {user} is {secret}.", "category": "codes/door", "tags": [agent]}),
        ("search_memory", {"query": "What is the code?"}),
        ("list_memory_categories", {}),
        ("save_to_working_memory", {"key": key, "data": {"found": secret}, "ttl_minutes": 5}),
        ("get_from_working_memory", {"key": key}),
        ("list_working_memory", {}),
        ("search_working_memory", {"query": "found notes"}),
        ("delete_memory", {"memory_id": "SAVED"}),
        ("get_from_working_memory", {"key": "session/../../etc/passwd"}),
    ]
    return json.dumps(calls)


def model(received: Received) -> Answer:
    """Call what the task says next; when all has been called, say so."""
    said = [text_of(message) for message in received.messages if message["role"] == "user"]
    told = [text_of(message) for message in received.messages if message["role"] == "tool"]
    calls = json.loads(said[0])
    if len(told) == len(calls):
        return completion("All is done.")
    name, arguments = calls[len(told)]
    if arguments.get("memory_id") == "SAVED":
        arguments["memory_id"] = json.loads(told[0])["id"]
    function = {"name": name, "arguments": json.dumps(arguments)}
    return completion(None, tool_calls=[{"id": f"c{len(told)}", "type": "function", "function": function}])  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["http", "stdio"])
async def test_agents_of_two_users_use_every_tool_at_once(tmp_path: Path, way: str) -> None:
    users = {name: word() for name in (word(), word())}
    async with (
        scripted_upstream() as upstream,
        running_proxy(upstream.base_url, tmp_path, {"learn": {"enabled": False}}) as proxy,
    ):
        upstream.default = model
        agents = []
        for user, secret in users.items():
            for agent in ("scout", "clerk"):
                headers = {"authorization": f"Bearer {KEY}", "x-memproxy-user": user}
                arguments = ["-m", "memproxy", "mcp", "--config", str(proxy.config_file), "--user", user]
                reached = {
                    "http": {"url": f"{proxy.root_url}/mcp", "headers": headers},
                    "stdio": {"command": sys.executable, "args": arguments, "env": environment(proxy.home)},
                }[way]
                agents.append({"name": agent, "task": task(agent, user, secret), **reached})
        process = await asyncio.create_subprocess_exec(
            str(PYTHON),
            *("-m", "tests.clients.drivers.agents", json.dumps({"model_url": upstream.base_url, "agents": agents})),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **QUIET},
        )
        async with asyncio.timeout(ANSWER_S):
            written, _ = await process.communicate()
        done = json.loads(written)
        owners = [user for user in users for _ in range(2)]
        for user, one in zip(owners, done, strict=True):
            assert one["said"] == "All is done."
            assert one["offered"] == sorted(TOOLS)
            assert one["called"][: len(TOOLS)] == TOOLS
            seen = "\n".join(one["told"])
            assert users[user] in seen
            assert not [secret for other, secret in users.items() if other != user and secret in seen]
            assert json.loads(one["told"][0])["trust"] == "tool"
            assert "must be a path such as" in one["told"][-1]
        for user, secret in users.items():
            assert await found(proxy, secret, user=user) == []  # each agent deleted what it saved
        proxy.assert_clean()
