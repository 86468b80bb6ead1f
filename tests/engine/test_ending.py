"""The end of an engine: what becomes of calls that are still open, and of turns that were captured just before."""

import asyncio
import socket
from datetime import UTC, datetime
from pathlib import Path

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memproxy.core.protocol import Captured, TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.engine.app import EngineApp
from memproxy.ports import JournalEntry, JournalKind
from memproxy.serve.server import Server, server_config
from memproxy.stores.sqlite_state import SqliteState
from tests.support.engine import make_engine, serve_engine
from tests.support.http_client import NO_TLS
from tests.support.waiting import eventually


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
    async with httpx.AsyncClient(
        transport=httpx.AsyncHTTPTransport(uds=path, verify=NO_TLS), base_url="http://engine"
    ) as client:
        calling = loop.create_task(client.post("/v1/memory/turns?wait=true", json={}))
        await asked.wait()
        server.leave()
        answer = await calling
    await serving
    assert (answer.status_code, answer.json()["error"]["type"]) == (503, "memory_unavailable_error")
    assert "was cut off at the engine's end" in caplog.text
    assert not [record for record in caplog.records if record.exc_info]


async def test_a_turn_that_was_captured_right_before_the_end_is_indexed_by_the_next_engine(tmp_path: Path) -> None:
    scope = Scope(tenant="acme", user="default", session="s1")
    said = TurnsBody(messages=[Message(role="user", content="My bike is a Brompton")], said_at=datetime.now(UTC))
    entry = JournalEntry(kind=JournalKind.TURNS, scope=scope, body=msgspec.json.encode(said))
    relays = SqliteState(tmp_path / "state.db", sync="normal")
    engine = make_engine(tmp_path, own_store=True)
    async with serve_engine(engine):
        await relays.open()
        await relays.append(entry)
        engine.captured(Captured(scope=scope))
    await relays.close()
    async with serve_engine(make_engine(tmp_path, own_store=True)) as api:
        found = await eventually(lambda: api.search("Brompton"), what="the turn can be found")
    assert [one["content"] for one in found] == ["My bike is a Brompton"]
