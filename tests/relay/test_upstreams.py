"""Several upstreams by model, their keys, private certificates, and the environment's proxy."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from memproxy.auth import Headers
from memproxy.core.protocol import UpstreamAccess
from memproxy.errors import ConfigError, UpstreamUnreachable
from memproxy.learn.access import ModelAccess
from memproxy.relay.network import environment_proxy
from memproxy.relay.upstream import Upstream
from memproxy.settings import Settings, UpstreamSettings
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import PATIENT
from tests.relay.rig import Rig, running_relay
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

AUTHORIZED = {"authorization": "Bearer sk-client", "api-key": "sk-azure", "x-memproxy-user": "ann"}


@pytest.fixture
async def other() -> AsyncIterator[ScriptedUpstream]:
    async with scripted_upstream() as started:
        yield started


@asynccontextmanager
async def relay_with(
    upstream: ScriptedUpstream, tmp_path: Path, routes: list[dict[str, Any]], **default: Any
) -> AsyncIterator[Rig]:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    settings = {"base_url": upstream.base_url, "routes": routes, **default}
    async with running_relay(upstream.base_url, state, tmp_path, recall=PATIENT, upstream=settings) as rig:
        yield rig


async def test_a_model_goes_to_the_first_route_that_names_it_with_that_routes_key(
    upstream: ScriptedUpstream, other: ScriptedUpstream, tmp_path: Path
) -> None:
    routes = [{"models": ["claude-*", "exact"], "base_url": other.base_url, "api_key": "sk-route"}]
    async with relay_with(upstream, tmp_path, routes) as relay:
        for model in ("claude-5", "exact", "exactly", "gpt-5"):
            await relay.chat("What is my budget?", model=model, headers=AUTHORIZED)
    assert [one.json["model"] for one in other.received] == ["claude-5", "exact"]
    assert [one.json["model"] for one in upstream.received] == ["exactly", "gpt-5"]
    assert other.last.header("authorization") == "Bearer sk-route"
    assert other.last.header("api-key") is None
    assert upstream.last.header("authorization") == "Bearer sk-client"


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_a_body_that_is_not_read_for_memory_goes_where_its_model_is(
    upstream: ScriptedUpstream, other: ScriptedUpstream, tmp_path: Path, mode: str
) -> None:
    sent = b'{"model":"claude-5","seed":1,"seed":2,"messages":[]}'
    async with relay_with(upstream, tmp_path, [{"models": ["claude-*"], "base_url": other.base_url}]) as relay:
        headers = {**AUTHORIZED, "content-type": "application/json", "x-memproxy-memory": mode}
        await relay.client.post("/v1/chat/completions", content=sent, headers=headers)
    assert upstream.received == []
    assert other.last.body == sent
    assert other.last.header("authorization") is None


async def test_user_and_password_of_the_address_go_in_place_of_the_clients_key(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    address = upstream.base_url.replace("//", "//ada:p%40ss@")
    async with relay_with(upstream, tmp_path, [], base_url=address) as relay:
        answer = await relay.chat("What is my budget?", headers=AUTHORIZED)
    assert answer.status_code == 200
    assert upstream.last.all("authorization") == ["Basic YWRhOnBAc3M="]  # ada:p@ss
    assert upstream.last.header("api-key") is None


async def test_a_route_without_a_key_never_gets_the_clients(
    upstream: ScriptedUpstream, other: ScriptedUpstream, tmp_path: Path
) -> None:
    async with relay_with(upstream, tmp_path, [{"models": ["local"], "base_url": other.base_url}]) as relay:
        await relay.chat("What is my budget?", model="local", headers=AUTHORIZED)
        (told,) = [one.access for one in await eventually(lambda: relay.engine.captured)]
    assert other.last.header("authorization") is None
    assert told == UpstreamAccess(base_url=other.base_url, model="local", api_key=None, route=0)


def test_learning_gives_each_route_its_own_key_also_where_two_lead_to_one_address() -> None:
    routes = [
        {"models": ["a"], "base_url": "http://a/v1", "api_key": "sk-a"},
        {"models": ["b"], "base_url": "http://b/v1"},
        {"models": ["c"], "base_url": "http://a/v1", "api_key": "sk-c"},
        {"models": ["d"], "base_url": "http://default/v1"},
    ]
    upstream = {"base_url": "http://default/v1", "api_key": "sk-default", "routes": routes}
    settings = Settings.model_validate({"upstream": upstream})
    access = ModelAccess(settings)
    found = {}
    for route, host in ((None, "default"), (0, "a"), (1, "b"), (2, "a"), (3, "default"), (None, "a")):
        access.remember("acme", UpstreamAccess(base_url=f"http://{host}/v1", model="m", route=route))
        credential = access.credential("acme", settings.models.extract)
        found[route, host] = credential.api_key if credential else "none"
    assert found == {
        (None, "default"): "sk-default",
        (0, "a"): "sk-a",
        (1, "b"): None,
        (2, "a"): "sk-c",
        (3, "default"): None,
        (None, "a"): None,  # no key goes where its route does not lead
    }


def test_a_model_that_was_noted_is_learned_with_by_the_route_that_its_requests_take() -> None:
    routes = [{"models": ["local*"], "base_url": "http://local/v1", "api_key": "sk-local"}]
    upstream = {"base_url": "http://default/v1", "api_key": "sk-default", "routes": routes}
    settings = Settings.model_validate({"upstream": upstream})
    found = ModelAccess(settings).credential("acme", settings.models.extract, "local-8b")
    assert found is not None
    assert (found.base_url, found.model, found.api_key) == ("http://local/v1", "local-8b", "sk-local")


@pytest.mark.parametrize(
    ("environment", "address", "proxy"),
    [
        ({"https_proxy": "http://proxy:3128"}, "https://api.example.com/v1", "http://proxy:3128"),
        ({"https_proxy": "http://proxy:3128"}, "http://api.example.com/v1", None),
        ({"http_proxy": "http://proxy:3128", "no_proxy": ".example.com"}, "http://api.example.com/v1", None),
        ({"http_proxy": "http://proxy:3128"}, "http://127.0.0.1:11434/v1", None),
        ({"http_proxy": "http://proxy:3128"}, "http://[::1]:11434/v1", None),
        ({"http_proxy": "http://proxy:3128"}, "http://localhost:11434/v1", None),
        ({}, "https://api.example.com/v1", None),
    ],
)
def test_the_environments_proxy_follows_the_usual_rules(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], address: str, proxy: str | None
) -> None:
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(address) == proxy


async def test_a_request_goes_through_the_environments_proxy(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripted upstream plays the proxy: it sees the whole address in the request's first line."""
    monkeypatch.setenv("http_proxy", upstream.base_url.removesuffix("/v1"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    through = Upstream(UpstreamSettings.model_validate({"base_url": "http://far.example/v1"}))
    await through.open()
    try:
        answer = await through.send("GET", b"/v1/models", through.headers_for(Headers([]), None), None)
        answer.close()
    finally:
        await through.close()
    assert upstream.last.target == "http://far.example/v1/models"


@pytest.mark.parametrize("content", [None, "no certificate"])
async def test_a_certificate_file_that_cannot_be_used_is_named(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    settings = UpstreamSettings.model_validate({"base_url": "https://a/v1", "ca_file": str(file)})
    with pytest.raises(ConfigError, match=r"upstream\.ca_file.*ca\.pem"):
        await Upstream(settings).open()


async def test_a_private_authority_is_trusted_only_when_it_is_named(tmp_path: Path) -> None:
    authority, certificate = trustme.CA(), tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(certificate))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    app = web.Application()
    app.router.add_get("/v1/models", answered)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
        await site.start()
        port = runner.addresses[0][1]
        assert await status_of(f"https://127.0.0.1:{port}/v1", certificate) == 200
        assert await status_of(f"https://127.0.0.1:{port}/v1", None) is None
    finally:
        await runner.cleanup()


async def answered(_request: web.Request) -> web.Response:
    return web.json_response({"data": []})


async def status_of(base_url: str, ca_file: Path | None) -> int | None:
    settings = UpstreamSettings.model_validate({"base_url": base_url, "ca_file": ca_file})
    upstream = Upstream(settings)
    await upstream.open()
    try:
        answer = await upstream.send("GET", b"/v1/models", upstream.headers_for(Headers([]), None), None)
        answer.close()
    except UpstreamUnreachable:
        return None
    finally:
        await upstream.close()
    return answer.status
