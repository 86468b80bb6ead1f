"""Which path goes where: the bytes that were sent decide, here as at the upstream and at the engine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.rig import Rig, running_relay
from tests.relay.test_http import exchanged
from tests.support.answers import completion
from tests.support.upstream import ScriptedUpstream, scripted_upstream


@pytest.fixture
async def stranger() -> AsyncIterator[ScriptedUpstream]:
    """A server of somebody else's, which nothing may reach."""
    async with scripted_upstream() as started:
        yield started


@pytest.fixture(params=["", "/", "/v1", "/deep/v1"])
async def any_base(
    request: pytest.FixtureRequest, upstream: ScriptedUpstream, state: SqliteState, tmp_path: Path
) -> AsyncIterator[tuple[Rig, str]]:
    """A relay before a base URL with this path, and the path."""
    base_url = upstream.base_url.removesuffix("/v1") + request.param
    async with running_relay(base_url, state, tmp_path) as rig:
        upstream.default = lambda _received: completion("Ten.")
        yield rig, request.param.rstrip("/")


async def asked(relay: Rig, target: str, method: str = "GET") -> int:
    """The status of the answer to a request for this target, byte by byte."""
    head = f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    return int((await exchanged(relay, head.encode("latin-1"))).split(b" ")[1])


@pytest.mark.parametrize(
    "target",
    [
        "/v1%2f@{stranger}/x",
        "/v1%2F@{stranger}/v1/x",
        "/v1%2f:x@{stranger}/x",
        "/v1%2f.{stranger}/x",
        "/%76%31/@{stranger}/x",
        "/%761%2f@{stranger}/x",
        "/v1@{stranger}/x",
        "//{stranger}/v1/x",
        "//{stranger}/../v1/x",
        "http://{stranger}/v1/x",
        "http://localhost@{stranger}/v1/x",
        "/v1?@{stranger}/x",
        "/v1#@{stranger}/x",
        "/v1\\@{stranger}/x",
        "/v1",
        "/V1/x",
    ],
)
async def test_no_path_becomes_the_upstreams_address(
    any_base: tuple[Rig, str], upstream: ScriptedUpstream, stranger: ScriptedUpstream, target: str
) -> None:
    for method in ("GET", "POST"):
        status = await asked(any_base[0], target.format(stranger=f"127.0.0.1:{stranger.port}"), method)
        assert status in {400, 404}, target
    assert stranger.received == []
    assert upstream.received == []


async def test_a_path_that_looks_like_an_address_stays_a_path(
    any_base: tuple[Rig, str], upstream: ScriptedUpstream, stranger: ScriptedUpstream
) -> None:
    relay, base = any_base
    told = f"127.0.0.1:{stranger.port}"
    for rest in (
        f"/@{told}/x",
        f"//{told}/x",
        f"/http://{told}/x",
        f"/a%2Fb%20c?q=@{told}/..&r=?",
        "/models?x=%23%2e./",
    ):
        assert await asked(relay, f"/v1{rest}") == 200
        assert upstream.last.target == f"{base}{rest}"
        assert upstream.last.header("host") == f"127.0.0.1:{upstream.port}"
    assert stranger.received == []


DOTTED = [
    "/v1/../x",
    "/v1/./x",
    "/v1/x/..",
    "/v1/%2e%2e/x",
    "/v1/.%2E/x",
    "/v1/%2e/x",
    "/v1/..%2fx",
    "/v1/a%2f..%2fx",
    "/v1/..%5cx",
    "/v1/..\\x",
    "/v1/a\\..\\x",
    "/v1/%252e%252e/x",
    "/v1/..;a=b/x",
    "/v1/..%3b/x",
    "/v1/..%00/x",
    "/v1/models%0a/x",
    "/v1/chat/../memory",
    "/v1/memory/../chat/completions",
    "/v1/memory/%2e%2e/models",
    "/v1/memory%2f..",
    "/v1/memory%2f..%2fmodels",
    "/v1/memory/sessions/a%2f..%2f..%2fb/end",
    "/v1/memory%2fturns",
    "/v1/memory%5cturns",
    "/v1/%6demory/turns",
    "/v1/%256demory/turns",
    "/v1//memory/turns",
    "/v1%2fmemory/turns",
    "/%761/memory",
    "/memory/../v1/models",
    "/mcp/../internal/recall",
    "/v1/memory/../../internal/recall",
    "/%2e%2e/internal/recall",
]


@pytest.mark.parametrize("target", DOTTED)
async def test_what_may_be_read_as_another_path_goes_neither_to_the_upstream_nor_to_the_engine(
    relay: Rig, upstream: ScriptedUpstream, target: str
) -> None:
    for method in ("GET", "POST", "DELETE"):
        assert await asked(relay, target, method) == 404
    assert upstream.received == []
    assert relay.engine.api_calls == []


async def test_an_encoded_slash_is_part_of_a_name_at_the_engine_too(relay: Rig) -> None:
    assert await asked(relay, "/v1/memory/sessions/team%2Fone.two/end?wait=true", "POST") == 200
    assert [call[1] for call in relay.engine.api_calls] == ["/v1/memory/sessions/team%2Fone.two/end?wait=true"]


async def test_bytes_that_no_address_has_are_refused(relay: Rig, upstream: ScriptedUpstream) -> None:
    for target in ("/v1/\xe9", "/v1/models?q=\xe9", "/v1/\x7f"):
        assert await asked(relay, target) in {400, 404}
    assert upstream.received == []


async def test_a_page_of_the_upstreams_runs_no_script_under_our_origin(relay: Rig, upstream: ScriptedUpstream) -> None:
    """Browsers ask for pages with this ``Accept``; API clients get the upstream's headers as they are."""
    page = await relay.client.get("/v1/page", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    program = await relay.client.get("/v1/page", headers={"accept": "application/json"})
    assert len(upstream.received) == 2
    assert page.headers.get_list("content-security-policy") == ["sandbox"]
    assert "content-security-policy" not in program.headers
