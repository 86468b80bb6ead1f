"""What was said before an erasure, and whose answer ends after it, is gone too."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.support.answers import DONE, Answer, chunk, stream
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

WHO = {"x-memproxy-user": "zebulon", "x-memproxy-session": "talk", "x-memproxy-project": "apollo"}

ERASURES = {
    "the user": "/v1/memory/users/zebulon",
    "all of the user's": "/v1/memory?user_id=zebulon",
    "the session": "/v1/memory/sessions/talk?user_id=zebulon",
    "the project": "/v1/memory?user_id=zebulon&project_id=apollo",
}


def slow(end: asyncio.Event) -> Answer:
    """An answer whose end comes when it is told to."""
    return stream([chunk({"content": "Xylophone is a fine name"}), end, chunk({}, "stop"), DONE])


async def say(proxy: Proxy, text: str) -> str:
    """One streamed request, to its end; its id."""
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
    answer = await proxy.call("POST", "/v1/chat/completions", json=body, headers=WHO)
    assert answer.status_code == 200
    assert answer.text.endswith("[DONE]\n\n")
    return str(answer.headers["x-memproxy-request-id"])


async def turns(proxy: Proxy) -> list[str]:
    """What is remembered word for word."""
    data: list[dict[str, Any]] = (await proxy.call("GET", "/v1/memory?kind=turn", headers=WHO)).json()["data"]
    return [turn["content"] for turn in data]


async def erased(proxy: Proxy, path: str, *, project: bool) -> None:
    """Erase; a call that names a project by header is about that one."""
    who = WHO if project else {"x-memproxy-user": WHO["x-memproxy-user"]}
    assert (await proxy.call("DELETE", path, headers=who)).status_code == 200


async def said_meanwhile(upstream: ScriptedUpstream, proxy: Proxy, path: str, *, project: bool) -> str:
    """Say something, and erase while its answer is under way; the request's id."""
    end = asyncio.Event()
    upstream.reset()
    upstream.script(slow(end))
    async with asyncio.TaskGroup() as talking:
        saying = talking.create_task(say(proxy, "my dog is called Xylophone"))
        await eventually(lambda: upstream.received, what="the upstream has the request")
        await erased(proxy, path, project=project)
        end.set()
    return saying.result()


@pytest.mark.parametrize("workers", [1, 2])
async def test_what_was_said_before_an_erasure_does_not_come_back_with_its_answers_end(
    upstream: ScriptedUpstream, tmp_path: Path, workers: int
) -> None:
    async with running_proxy(upstream.base_url, tmp_path, {"server": {"workers": workers}}) as proxy:
        for what, path in ERASURES.items():
            request_id = await said_meanwhile(upstream, proxy, path, project=what == "the project")
            await say(proxy, "my cat is called Quixote")  # what is said after it is kept, and stands behind the first
            await eventually(lambda: turns(proxy), what=f"the later turn is there after {what} was erased")
            assert not any("Xylophone" in text for text in await turns(proxy)), f"it came back after {what} was erased"
            async with proxy.client(**WHO) as client:
                receipt = await client.get(f"/v1/memory/receipts/{request_id}")
                assert receipt.status_code == 404, f"the receipt came back after {what} was erased"
        await said_meanwhile(upstream, proxy, ERASURES["the user"], project=False)
    assert not named(tmp_path), "his name is in no file"


def named(home: Path) -> list[str]:
    """Files of the product that name the user."""
    own = [path for path in home.rglob("*") if path.is_file() and not path.name.startswith("test-")]
    return [path.name for path in own if b"zebulon" in path.read_bytes()]
