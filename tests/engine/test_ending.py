"""What the engine's server does with calls that are still open when it has to end."""

import asyncio
import socket
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memproxy.engine.app import EngineApp
from memproxy.server import Server, server_config


async def test_a_call_that_is_cut_off_at_the_end_is_answered_in_shape_and_leaves_no_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = asyncio.Event()

    async def for_ever(_request: Request) -> Response:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    path = str(tmp_path / "engine.sock")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()  # who connects before the server is up waits for it
    app = EngineApp({}, Starlette(routes=[Route("/v1/memory/turns", for_ever, methods=["POST"])]))
    server = Server(server_config(app))
    loop = asyncio.get_running_loop()
    serving = loop.create_task(server.serve(sockets=[listener]))
    async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=path), base_url="http://engine") as client:
        calling = loop.create_task(client.post("/v1/memory/turns?wait=true", json={}))
        await asked.wait()
        server.should_exit = True
        answer = await calling
    await serving
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "memory_unavailable_error")
    assert "was cut off at the engine's end" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]
