"""The upstream's key and address, private certificates, and the environment's proxy."""

import ssl
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from memproxy.auth.headers import Headers
from memproxy.errors import ConfigError, UpstreamUnreachable
from memproxy.learn.access import ModelAccess
from memproxy.relay.network import environment_proxy
from memproxy.relay.upstream import Upstream
from memproxy.settings import Settings, UpstreamSettings
from tests.relay.rig import Running
from tests.support.opening import opening
from tests.support.upstream import ScriptedUpstream

AUTHORIZED = {"authorization": "Bearer sk-client", "api-key": "sk-azure", "x-memproxy-user": "ann"}


async def test_user_and_password_of_the_address_go_in_place_of_the_clients_key(
    upstream: ScriptedUpstream, running: Running
) -> None:
    address = upstream.base_url.replace("//", "//ada:p%40ss@")
    async with running(upstream={"base_url": address}) as relay:
        answer = await relay.chat("What is my budget?", headers=AUTHORIZED)
    assert answer.status_code == 200
    assert upstream.last.all("authorization") == ["Basic YWRhOnBAc3M="]  # ada:p@ss
    assert upstream.last.header("api-key") is None


@pytest.mark.parametrize(("host", "key"), [("default", "sk-default"), ("other", None)])
def test_learning_gives_the_configured_key_to_the_address_it_is_for(host: str, key: str | None) -> None:
    upstream = {"base_url": "http://default/v1", "api_key": "sk-default"}
    models = {"extract": {"base_url": f"http://{host}/v1", "model": "m"}}
    settings = Settings.model_validate({"upstream": upstream, "models": models})
    credential = ModelAccess(settings).credential("acme", settings.models.extract)
    assert credential is not None
    assert credential.api_key == key


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
    assert environment_proxy(UpstreamSettings(base_url=address)) == proxy


async def test_a_request_goes_through_the_environments_proxy(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scripted upstream plays the proxy: it sees the whole address in the request's first line."""
    monkeypatch.setenv("http_proxy", upstream.base_url.removesuffix("/v1"))
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    await status_of("http://far.example/v1")
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
        assert await status_of(f"https://127.0.0.1:{port}/v1") is None
    finally:
        await runner.cleanup()


async def answered(_request: web.Request) -> web.Response:
    return web.json_response({"data": []})


async def status_of(base_url: str, ca_file: Path | None = None) -> int | None:
    settings = UpstreamSettings.model_validate({"base_url": base_url, "ca_file": ca_file})
    async with opening(Upstream(settings)) as upstream:
        try:
            answer = await upstream.send("GET", b"/v1/models", upstream.headers_for(Headers([]), None), None)
        except UpstreamUnreachable:
            return None
        answer.close()
        return answer.status
