"""Two installations on one PostgreSQL that share a Redis: what is there is for both, and nobody fails without it."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from tests.e2e.talk import Exchange, chat, say, word
from tests.support.cluster import Cluster, running_cluster
from tests.support.folders import Folders
from tests.support.postgres import postgres_server
from tests.support.proxy import Proxy
from tests.support.redis import RedisProcess, redis_process
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

QUESTION = "What is my locker code?"
A_MINUTE = 30


class Shared:
    """The installations, their Redis, and what stands before the store of the first."""

    def __init__(self, cluster: Cluster, redis: RedisProcess, store: TcpProxy) -> None:
        self.cluster, self.redis, self.store = cluster, redis, store
        self.a, self.b = cluster.replicas

    async def says(self, at: Proxy, user: str, text: str) -> Exchange:
        """A request of the user's there."""
        answer = await say(at, text, headers={"x-memproxy-user": user}, key=self.cluster.key)
        assert answer.status in {200, 429}
        return answer

    async def call(self, at: Proxy, user: str, method: str, path: str, **request: object) -> httpx.Response:
        """A call of the memory API."""
        async with at.client(self.cluster.key, **{"x-memproxy-user": user}) as client:
            return await client.request(method, path, **request)  # type: ignore[arg-type]

    def hot(self, text: str) -> bool:
        """Whether a hot memory in Redis has it."""
        with self.redis.client() as client:
            kept = [key for key in client.keys("*:hot:*") if client.type(key) == b"hash"]
            return any(text.encode() in payload for key in kept for payload in client.hvals(key))

    async def cache_is(self, wanted: str, at: Proxy) -> bool:
        """What ``/readyz`` says of Redis."""
        return str((await at.readiness())[1]["parts"].get("cache", "")).startswith(wanted)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def shared(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Shared]:
    with redis_process() as redis, postgres_server() as server, folders.new("homes") as folder:
        async with tcp_proxy(server.port) as store:
            memories = server.database()
            changes = {
                "store": {"url": memories},
                "cache": {"backend": "redis", "url": redis.url},
                "limits": {"user": {"chat_per_minute": A_MINUTE}},
                "learn": {"enabled": False},
            }
            own = [{"store": {"url": memories.replace(f":{server.port}/", f":{store.port}/")}}, {}]
            async with running_cluster(server, shared_upstream.base_url, folder, changes, own) as cluster:
                yield Shared(cluster, redis, store)


async def test_a_limit_counts_for_both_and_for_each_alone_while_redis_is_away(shared: Shared) -> None:
    user, other = word(), word()
    statuses = [(await shared.says(at, user, "Hi")).status for at in (shared.a, shared.b) * A_MINUTE]
    assert statuses.count(200) == A_MINUTE
    assert (await shared.says(shared.a, other, "Hi")).status == 200, "another user has a limit of his own"
    shared.redis.stop()
    statuses = [(await shared.says(shared.a, user, "Hi")).status for _ in range(A_MINUTE + 1)]
    assert statuses.count(200) == A_MINUTE, "each counts by itself"
    for at in (shared.a, shared.b):
        assert await shared.cache_is("degraded", at)
        assert (await shared.says(at, word(), "Hi")).status == 200
    refused = await shared.call(shared.a, user, "PUT", "/v1/memory/working/run/1/x", json={"data": 1})
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "cache_unavailable")
    shared.redis.start()
    for at in (shared.a, shared.b):
        await eventually(lambda at=at: shared.cache_is("ready", at), what="it is used again")  # type: ignore[misc]


async def test_working_memory_is_read_at_the_other_by_its_user_alone_and_erased_with_him(shared: Shared) -> None:
    ann, ben, path = word(), word(), "/v1/memory/working/session/abc/notes"
    for user in (ann, ben):
        written = await shared.call(shared.a, user, "PUT", path, json={"data": {"of": user}})
        assert written.status_code == 201, written.text
    for user in (ann, ben):
        assert (await shared.call(shared.b, user, "GET", path)).json()["data"] == {"of": user}
    assert (await shared.call(shared.b, word(), "GET", path)).status_code == 404
    assert (await shared.call(shared.b, ann, "DELETE", f"/v1/memory/users/{ann}")).status_code == 200
    assert (await shared.call(shared.a, ann, "GET", path)).status_code == 404
    assert (await shared.call(shared.a, ben, "GET", path)).status_code == 200


async def test_hot_memories_take_the_place_of_a_store_that_is_away_until_they_are_forgotten(
    shared: Shared, model: ScriptedUpstream
) -> None:
    user, secret = word(), word()
    headers = {"x-memproxy-user": user}
    await shared.says(shared.b, user, f"My locker code is {secret}.")

    async def context(at: Proxy) -> str:
        return str(
            (await shared.call(at, user, "POST", "/v1/memory/recall", json={"query": QUESTION})).json()["context"]
        )

    async def is_kept() -> bool:
        """It is recalled at both, and the hot memories in Redis are newer than it."""
        return secret in await context(shared.a) and shared.hot(secret)

    await eventually(is_kept, what="it is recalled and kept")
    shared.store.passes.clear()  # the store hangs
    async with shared.a.client(shared.cluster.key, **headers) as client:

        async def is_given() -> bool:
            answer = await chat(client, QUESTION)
            assert answer.status == 200
            return answer.recall == "degraded; reason=cache" and secret in model.received[-1].body.decode()

        await eventually(is_given, what="the hot memory takes the store's place")
        await shared.call(shared.b, user, "DELETE", f"/v1/memory?user_id={user}")
        answer = await chat(client, QUESTION)
        assert answer.status == 200
        assert answer.recall.startswith("degraded; reason=")
        assert secret not in model.received[-1].body.decode(), "what B has forgotten A does not give"
    shared.store.passes.set()
