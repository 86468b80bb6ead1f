"""Memories in PostgreSQL: remembered across a restart of everything, and a server that is away costs memory only."""

from pathlib import Path

import pytest

from tests.e2e.talk import chat, found, say
from tests.support.postgres import postgres_server
from tests.support.proxy import running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.services

TOLD, ASKED = "My budget for the Hawaii vacation is $10,000.", "What is my budget for the Hawaii vacation?"


@pytest.mark.asyncio(loop_scope="session")
async def test_what_was_told_outlives_a_stop_of_the_database_and_of_the_proxy(
    shared_upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    with postgres_server() as server:
        store = {"store": {"backend": "postgres", "url": server.database()}}
        async with running_proxy(shared_upstream.base_url, tmp_path / "home", store) as proxy:

            async def recalled(result: str) -> bool:
                answer = await say(proxy, ASKED)
                assert answer.status == 200
                return answer.recall.startswith(result)

            assert (await say(proxy, TOLD)).status == 200
            await eventually(lambda: found(proxy, TOLD), what="it is searchable")
            assert await recalled("injected")
            server.stop()
            await eventually(lambda: recalled("degraded"), what="memory is away and requests are answered")
            async with proxy.client() as client:  # nothing that is said meanwhile is lost
                assert (await chat(client, "My locker code is 4471.")).status == 200
            server.start()
            await eventually(lambda: recalled("injected"), what="memory is back")
            await eventually(lambda: found(proxy, "My locker code is 4471."), what="what was said meanwhile is learned")
            assert await proxy.stop() == 0
            await proxy.restart()
            assert await recalled("injected")
