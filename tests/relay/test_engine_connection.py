"""Small calls to the engine: kept connections, whole answers, each to who asked for it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from memproxy.core.protocol import READY_PATH
from memproxy.errors import EngineUnavailable
from memproxy.relay.engine_client import EngineClient, EngineConnections, Response
from tests.relay.rig import unix_server
from tests.support.opening import opening
from tests.support.waiting import LONGEST_S

Script = Callable[[bytes], Awaitable[bytes]]


async def echo(asked: bytes) -> bytes:
    return asked


@asynccontextmanager
async def engine(folder: Path, script: Script, peers: list[int]) -> AsyncIterator[None]:
    """Answers by script, and notes which connection each call came on."""

    async def handle(request: web.Request) -> web.Response:
        peers.append(id(request.transport))
        return web.Response(body=await script(await request.read()))

    app = web.Application(client_max_size=10**8)
    app.router.add_post("/call", handle)
    async with unix_server(app, folder / "engine.sock"):
        yield


@pytest.fixture
def hop(tmp_path: Path) -> EngineConnections:
    return EngineConnections(tmp_path / "engine.sock")


async def test_calls_one_after_the_other_share_a_connection_and_those_at_once_do_not(
    hop: EngineConnections, tmp_path: Path
) -> None:
    peers: list[int] = []
    large = b"x" * 2_000_000
    async with engine(tmp_path, echo, peers):
        told = [await hop.call("/call", body, within_s=LONGEST_S) for body in (b"one", large, b"")]
        assert told == [Response(200, b"one"), Response(200, large), Response(200, b"")]
        assert len(set(peers)) == 1
        together = await asyncio.gather(*(hop.call("/call", b"%d" % number, within_s=LONGEST_S) for number in range(5)))
        assert [answer.body for answer in together] == [b"0", b"1", b"2", b"3", b"4"]
        assert len(set(peers)) > 1
        hop.close()


async def test_an_answer_that_came_too_late_is_nobody_elses(hop: EngineConnections, tmp_path: Path) -> None:
    release = asyncio.Event()

    async def held(asked: bytes) -> bytes:
        if asked == b"slow":
            await release.wait()
        return asked

    async with engine(tmp_path, held, []):
        with pytest.raises(TimeoutError):
            await hop.call("/call", b"slow", within_s=0.01)
        release.set()
        assert (await hop.call("/call", b"next", within_s=LONGEST_S)).body == b"next"
        hop.close()


async def test_an_engine_that_ended_is_an_error_until_another_one_is_there(
    hop: EngineConnections, tmp_path: Path
) -> None:
    async with engine(tmp_path, echo, []):
        await hop.call("/call", b"one", within_s=LONGEST_S)
    with pytest.raises((FileNotFoundError, ConnectionError)):
        await hop.call("/call", b"two", within_s=LONGEST_S)
    with contextlib.suppress(FileNotFoundError):
        (tmp_path / "engine.sock").unlink()
    async with engine(tmp_path, echo, []):
        assert (await hop.call("/call", b"three", within_s=LONGEST_S)).body == b"three"
        hop.close()


async def test_what_is_no_http_is_an_error(hop: EngineConnections, tmp_path: Path) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"nonsense\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_unix_server(talk, str(tmp_path / "engine.sock")):
        with pytest.raises(ConnectionAbortedError):
            await hop.call("/call", b"one", within_s=LONGEST_S)


async def test_an_answer_of_the_api_may_take_long_as_a_whole_and_no_part_of_it(tmp_path: Path) -> None:
    silent = asyncio.Event()

    async def ready(_request: web.Request) -> web.Response:
        return web.json_response({"store": "ready", "state": "ready"})

    async def export(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for number in range(6):
            await answer.write(b"%d" % number)
            await asyncio.sleep(0.4)
        await silent.wait()
        return answer

    app = web.Application()
    app.router.add_get(READY_PATH, ready)
    app.router.add_get("/v1/memory/export", export)
    client = EngineClient(tmp_path / "engine.sock", deadline_s=LONGEST_S, api_timeout_s=1.5)
    async with unix_server(app, tmp_path / "engine.sock"), opening(client):
        _, _, parts = await client.api("GET", "/v1/memory/export", {}, b"")
        got = [await anext(parts) for _ in range(6)]
        with pytest.raises(EngineUnavailable):
            await anext(parts)
        silent.set()
    assert b"".join(got) == b"012345"
