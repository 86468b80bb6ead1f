"""Connections: kept, closed, raw, odd, and many users at once over the same ones."""

import asyncio
import dataclasses

import pytest

from tests.e2e.talk import body, chat, exchange, found, word
from tests.support.answers import Answer, completion
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import LONGEST_S, eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def raw(proxy: Proxy, request: bytes) -> bytes:
    """Write bytes to the proxy and read all that comes until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(request)
        await writer.drain()
        return await asyncio.wait_for(reader.read(), LONGEST_S)
    finally:
        writer.close()


async def test_an_upstream_that_closes_idle_connections_costs_no_request(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    model.default = lambda _received: dataclasses.replace(completion("fine"), hang_up=True)
    async with shared_proxy.client() as client:
        answers = [await chat(client, f"Say {word()} again") for _ in range(20)]
    assert {answer.status for answer in answers} == {200}
    assert len(model.received) == 20, "no request was sent twice"


async def test_cookies_of_one_client_never_reach_another(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.script(Answer([b"{}"], headers=[("set-cookie", "session=one; Path=/"), ("content-type", "application/json")]))
    async with shared_proxy.client("sk-test-one") as one, shared_proxy.client("sk-test-two") as two:
        first = await chat(one, f"Say {word()} again")
        await chat(two, f"Say {word()} again")
    assert first.header("set-cookie") == "session=one; Path=/"
    assert model.last.header("cookie") is None


@pytest.mark.parametrize("status", [307, 304])
async def test_redirects_and_answers_without_a_body_are_the_clients_business(
    shared_proxy: Proxy, model: ScriptedUpstream, status: int
) -> None:
    model.script(Answer([], status, [("location", "https://elsewhere.example/v1/models"), ("etag", '"1"')]))
    async with shared_proxy.client() as client:
        answer = await exchange(client, "GET", "/v1/models")
    assert (answer.status, answer.header("location")) == (status, "https://elsewhere.example/v1/models")
    assert len(model.received) == 1


async def test_the_upstreams_own_timing_header_stays(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    scripted = completion("fine")
    model.script(dataclasses.replace(scripted, headers=[*scripted.headers, ("server-timing", "model;dur=12")]))
    async with shared_proxy.client() as client:
        answer = await chat(client, "What did I plan for my garden?")
    timings = [value for name, value in answer.headers if name == "server-timing"]
    assert "model;dur=12" in timings
    assert any("recall;dur=" in value for value in timings)


async def test_a_chunked_request_body_is_relayed_whole(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    sent = body(f"Say {word()} again")
    pieces = [sent[:10], sent[10:11], sent[11:]]
    head = (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" % shared_proxy.port
    )
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    answer = await raw(shared_proxy, head + chunks + b"0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200")
    assert model.last.body == sent


async def test_a_client_that_expects_100_continue_gets_its_answer(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    sent = body(f"Say {word()} again")
    reader, writer = await asyncio.open_connection("127.0.0.1", shared_proxy.port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n"
        b"Expect: 100-continue\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (shared_proxy.port, len(sent))
    )
    assert b"100" in await asyncio.wait_for(reader.readline(), LONGEST_S)
    writer.write(sent)
    rest = await asyncio.wait_for(reader.read(), LONGEST_S)
    writer.close()
    assert b"HTTP/1.1 200" in rest
    assert model.last.body == sent


async def test_what_is_no_http_gets_a_400_and_the_server_stays_up(shared_proxy: Proxy) -> None:
    assert b"400" in (await raw(shared_proxy, b"\x16\x03\x01 this is no http\r\n\r\n")).split(b"\r\n")[0]
    assert (await shared_proxy.readiness())[0] == 200


async def test_a_client_cannot_pass_itself_off_as_the_relay(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    secret, user = word(), word()
    async with shared_proxy.client("sk-victim") as client:
        await chat(client, f"My locker code is {secret}.", headers={"x-memproxy-user": user})
    await eventually(lambda: found(shared_proxy, secret, key="sk-victim", user=user), what="the secret is stored")
    async with shared_proxy.client("sk-victim") as client:
        shown = await client.post("/v1/memory/search", json={"query": secret, "user_id": user})
    assert "tenant" not in shown.json()["data"][0]["memory"]
    for identity in ('{"tenant":"anonymous","default_user":"default"}', '{"tenant":"sk-victim"}'):
        headers = {"x-memproxy-internal-identity": identity}
        async with shared_proxy.client("sk-thief", **headers) as client:
            answer = await client.post("/v1/memory/search", json={"query": secret, "user_id": user})
        assert answer.json()["data"] == []
    assert not [name for name, _ in model.last.headers if "memproxy" in name.lower()]


async def test_many_users_at_once_see_their_own_memories_only(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    secrets = {f"user{number}{word()}": word() for number in range(12)}
    async with shared_proxy.client() as client:

        async def tell(user: str, secret: str) -> int:
            return (await chat(client, f"My locker code is {secret}.", headers={"x-memproxy-user": user})).status

        async def ask(user: str) -> tuple[str, str]:
            marker = word()
            question = f"What is my locker code? {marker}"
            answer = await chat(client, question, headers={"x-memproxy-user": user})
            (seen,) = [received for received in model.received if marker.encode() in received.body]
            return answer.recall, seen.body.decode()

        assert set(await asyncio.gather(*(tell(*pair) for pair in secrets.items()))) == {200}
        for user, secret in secrets.items():
            await eventually(lambda user=user, secret=secret: found(shared_proxy, secret, user=user))  # type: ignore[misc]
        answers = dict(zip(secrets, await asyncio.gather(*(ask(user) for user in secrets)), strict=True))
    for user, (recall, seen) in answers.items():
        assert recall == "injected"
        assert secrets[user] in seen
        assert not [other for other in secrets.values() if other != secrets[user] and other in seen]
