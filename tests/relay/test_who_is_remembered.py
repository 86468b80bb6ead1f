"""Who gets memory, and how somebody finds out why he does not; what watches the server by any of its addresses."""

import logging
from typing import Any

import pytest

from tests.relay.rig import Running

REMOTE: dict[str, Any] = {"server": {"host": "0.0.0.0"}, "auth": {"allow_remote": True}}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "What is my budget?"}]}
KEY = {"authorization": "Bearer sk-client"}


async def test_on_an_open_address_the_log_says_once_for_each_cause_why_requests_have_no_memory(
    running: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with running(**REMOTE) as relay:
        for _ in range(3):
            answer = await relay.client.post("/v1/chat/completions", json=CHAT, headers=KEY)
            assert answer.headers["x-memproxy-recall"] == "skipped; reason=no_user"
            answer = await relay.client.post("/v1/chat/completions", json=CHAT)
            assert answer.headers["x-memproxy-recall"] == "skipped; reason=no_identity"
        named = await relay.client.post("/v1/chat/completions", json=CHAT | {"user": "ann"}, headers=KEY)
        assert named.headers["x-memproxy-recall"] == "empty"
    told = [record.getMessage() for record in caplog.records if record.name == "memproxy.relay.decide"]
    assert [("no_user" in line, "auth.unnamed_user" in line) for line in told] == [(True, True), (False, True)]


@pytest.mark.parametrize(
    ("sections", "said"),
    [
        ({}, "without one it is for user 'default'"),
        (REMOTE, "without one there is no memory, unless auth.unnamed_user is set"),
        (REMOTE | {"auth": {"allow_remote": True, "unnamed_user": "me"}}, "without one it is for user 'me'"),
        ({"auth": {"mode": "keys"}, "server": REMOTE["server"]}, "a key made with --user is for that user"),
    ],
)
async def test_readyz_says_who_gets_memory(running: Running, sections: dict[str, Any], said: str) -> None:
    async with running(**sections) as relay:
        assert said in (await relay.client.get("/readyz")).json()["memory_for"]


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_what_watches_the_server_may_ask_by_any_address_of_it(running: Running, path: str) -> None:
    sections: dict[str, Any] = {"server": {"allowed_hosts": ["memory.example"]}, "telemetry": {"metrics": False}}
    found = 404 if path == "/metrics" else 200  # the guard let it pass
    async with running(**sections) as relay:

        async def asked(path: str, host: str, method: str = "GET") -> int:
            return (await relay.client.request(method, path, headers={"host": host})).status_code

        for host in ("memory.example", "localhost:8484", "127.0.0.1:8484", "[::1]", "10.42.0.7:8484"):
            assert await asked(path, host) == found
        assert await asked(path, "evil.example") == 403, "what a rebinding would be named"
        assert await asked("/v1/models", "10.42.0.7:8484") == 403
        assert await asked("/v1/memory", "localhost") == 403
