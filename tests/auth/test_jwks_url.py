"""An identity provider at an address: it may be slow, away, hang, rotate its keys, or answer what is no JWKS."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memproxy.auth.headers import Headers
from memproxy.auth.jwks import MOST_JWKS_BYTES, JwksUrl
from memproxy.auth.jwt import JwtAuthenticator
from memproxy.commands import app
from memproxy.errors import AuthUnavailable, Unauthenticated
from memproxy.settings import JwtSettings
from memproxy.tasks import TaskOwner
from tests.auth.test_jwt import EC_KEY, OTHER_RSA_KEY, RSA_KEY, authenticator, bearing, jwk, token
from tests.support.threaded import QuietHandler, ThreadedServer, serving
from tests.support.waiting import LONGEST_S

ALGORITHMS = ["RS256", "ES256"]


class Provider(ThreadedServer):
    """An identity provider that publishes its keys, unless it is told to do something else."""

    def __init__(self) -> None:
        super().__init__(_Keys)
        self.keys = [jwk(RSA_KEY, "one")]
        self.asked = 0
        self.status = 200
        self.body: bytes | None = None
        self.location: str | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.is_asked = threading.Event()

    @property
    def url(self) -> str:
        return f"{self.origin}/jwks"

    def hang(self) -> None:
        """Take requests and answer none of them, until `goes_on` is set."""
        self.goes_on.clear()
        self.is_asked.clear()


class _Keys(QuietHandler):
    server: Provider

    def do_GET(self) -> None:  # noqa: N802 - as the base class calls it
        self.server.asked += 1
        self.server.is_asked.set()
        self.server.goes_on.wait(LONGEST_S)
        body = self.server.body if self.server.body is not None else json.dumps({"keys": self.server.keys}).encode()
        self.send_response(self.server.status)
        if self.server.location is not None:
            self.send_header("location", self.server.location)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            """Who asked has read enough."""


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider()) as server:
        yield server
        server.goes_on.set()


@pytest.fixture
async def tasks() -> AsyncIterator[TaskOwner]:
    owner = TaskOwner("test")
    yield owner
    await owner.cancel()


def headers(key: Any = RSA_KEY, kid: str = "one") -> Headers:
    return bearing(token(key, "ES256" if key is EC_KEY else "RS256", {"kid": kid}))


def keys_at(provider: Provider, tasks: TaskOwner, **bounds: float) -> JwksUrl:
    return JwksUrl(provider.url, ALGORITHMS, tasks, **bounds)


async def test_a_token_of_a_key_that_was_rotated_in_just_now_is_known(provider: Provider) -> None:
    known = authenticator(algorithms=["RS256"], jwks_url=provider.url)
    assert (await known.identify(headers())).tenant == "acme"
    with pytest.raises(Unauthenticated):
        await known.identify(headers(kid="nobody's"))
    provider.keys = [jwk(OTHER_RSA_KEY, "two")]
    assert (await known.identify(headers(OTHER_RSA_KEY, "two"))).tenant == "acme"
    with pytest.raises(Unauthenticated):
        await known.identify(headers())


async def test_unknown_key_ids_do_not_make_the_provider_be_asked_without_end(provider: Provider) -> None:
    known = authenticator(algorithms=["RS256"], jwks_url=provider.url)
    for number in range(20):
        with pytest.raises(Unauthenticated):
            await known.identify(headers(kid=f"unknown-{number}"))
    assert provider.asked == 4, "the first time, and three times for what is unknown"


async def test_unknown_key_ids_at_once_wait_for_one_fetch(provider: Provider) -> None:
    known = authenticator(algorithms=["RS256"], jwks_url=provider.url)
    await known.identify(headers())
    provider.hang()
    asking = [asyncio.ensure_future(known.identify(headers(kid=f"unknown-{number}"))) for number in range(50)]  # noqa: TID251
    await asyncio.to_thread(provider.is_asked.wait, LONGEST_S)
    provider.goes_on.set()
    assert {type(one) for one in await asyncio.gather(*asking, return_exceptions=True)} == {Unauthenticated}
    assert provider.asked == 2


async def test_while_a_provider_hangs_tokens_of_known_keys_wait_for_nothing(provider: Provider) -> None:
    known = authenticator(algorithms=["RS256"], jwks_url=provider.url)
    await known.identify(headers())
    provider.hang()
    stranger = asyncio.ensure_future(known.identify(headers(kid="unknown")))  # noqa: TID251
    await asyncio.to_thread(provider.is_asked.wait, LONGEST_S)
    for _ in range(20):
        assert (await known.identify(headers())).tenant == "acme"
    assert not stranger.done(), "it waits for the provider, and nobody else did"
    provider.goes_on.set()
    with pytest.raises(Unauthenticated):
        await stranger


async def test_old_keys_serve_while_new_ones_are_fetched_behind(provider: Provider, tasks: TaskOwner) -> None:
    keys = keys_at(provider, tasks, lifespan_s=0.0)
    assert await keys.find("one", "RS256") is not None
    provider.hang()
    provider.keys = [jwk(OTHER_RSA_KEY, "two")]
    for _ in range(20):
        assert await keys.find("one", "RS256") is not None
    await asyncio.to_thread(provider.is_asked.wait, LONGEST_S)
    assert provider.asked == 2, "one fetch, whoever asks meanwhile"
    provider.goes_on.set()
    await tasks.drain(30)
    assert await keys.find("two", "RS256") is not None


async def test_after_a_fetch_that_failed_the_provider_is_left_alone(provider: Provider, tasks: TaskOwner) -> None:
    keys = keys_at(provider, tasks, lifespan_s=0.0, pause_s=3600.0)
    assert await keys.find("one", "RS256") is not None
    provider.status = 500
    for _ in range(20):
        assert await keys.find("one", "RS256") is not None
        await tasks.drain(30)
    for number in range(20):
        with pytest.raises(AuthUnavailable, match="jwks_url"):
            await keys.find(f"unknown-{number}", "RS256")
    assert provider.asked == 2


async def test_a_failure_is_over_with_the_next_fetch(provider: Provider, tasks: TaskOwner) -> None:
    keys = keys_at(provider, tasks, pause_s=0.0)
    provider.status = 503
    with pytest.raises(AuthUnavailable, match="jwks_url"):
        await keys.find("one", "RS256")
    provider.status = 200
    assert await keys.find("one", "RS256") is not None
    assert await keys.find("unknown", "RS256") is None


async def test_keys_of_a_provider_that_was_away_for_too_long_prove_nothing(
    provider: Provider, tasks: TaskOwner
) -> None:
    keys = keys_at(provider, tasks, stale_s=0.0, pause_s=0.0)
    assert await keys.find("one", "RS256") is not None
    provider.status = 500
    with pytest.raises(AuthUnavailable, match="jwks_url"):
        await keys.find("one", "RS256")


async def test_a_provider_that_hangs_from_the_start_is_waited_for_no_longer_than_the_bound(
    provider: Provider, tasks: TaskOwner
) -> None:
    provider.hang()
    with pytest.raises(AuthUnavailable, match="jwks_url"):
        await keys_at(provider, tasks, timeout_s=0.2).find("one", "RS256")


async def test_a_caller_who_leaves_does_not_end_the_fetch_for_the_others(provider: Provider, tasks: TaskOwner) -> None:
    keys = keys_at(provider, tasks)
    provider.hang()
    leaving, staying = (asyncio.ensure_future(keys.find("one", "RS256")) for _ in range(2))  # noqa: TID251
    await asyncio.to_thread(provider.is_asked.wait, LONGEST_S)
    leaving.cancel()
    await asyncio.wait({leaving})
    provider.goes_on.set()
    assert await staying is not None
    assert provider.asked == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"keys": {}}',
        b'{"keys": []}',
        b'{"keys": [7, null, {"kty": "RSA"}, {"kty": ["RSA"]}]}',
        b'{"keys": [' + b"[" * 100_000,
        b"\xff\xfe",
        b" " * (MOST_JWKS_BYTES + 1),
    ],
    ids=range(10),
)
async def test_an_answer_that_is_no_jwks_changes_nothing(provider: Provider, tasks: TaskOwner, body: bytes) -> None:
    keys = keys_at(provider, tasks, lifespan_s=0.0, pause_s=0.0)
    assert await keys.find("one", "RS256") is not None
    provider.body = body
    for _ in range(3):
        assert await keys.find("one", "RS256") is not None
        await tasks.drain(30)
    assert provider.asked > 1


async def test_an_answer_without_end_is_not_read_to_its_end(provider: Provider, tasks: TaskOwner) -> None:
    provider.body = json.dumps({"keys": provider.keys}).encode() + b" " * (256 * 1024 * 1024)
    with pytest.raises(AuthUnavailable, match="jwks_url"):
        await keys_at(provider, tasks).find("one", "RS256")


async def test_a_redirect_is_not_followed(provider: Provider, tasks: TaskOwner) -> None:
    with serving(Provider()) as other:
        provider.status, provider.location = 302, other.url
        with pytest.raises(AuthUnavailable, match="jwks_url"):
            await keys_at(provider, tasks).find("one", "RS256")
        assert other.asked == 0


async def test_the_key_that_fits_is_taken_whatever_others_are_called(provider: Provider) -> None:
    known = authenticator(algorithms=ALGORITHMS, jwks_url=provider.url)
    provider.keys = [jwk(EC_KEY, "one"), jwk(RSA_KEY, "one"), jwk(EC_KEY, "other")]
    assert (await known.identify(headers(RSA_KEY, "one"))).tenant == "acme"
    assert (await known.identify(headers(EC_KEY, "one"))).tenant == "acme"
    for key, kid in ((RSA_KEY, "other"), (OTHER_RSA_KEY, "one")):
        with pytest.raises(Unauthenticated, match="not valid"):
            await known.identify(headers(key, kid))


async def test_a_provider_that_is_away_is_no_verdict_on_a_token(tasks: TaskOwner) -> None:
    settings = JwtSettings.model_validate({"algorithms": ["RS256"], "jwks_url": "http://127.0.0.1:1/jwks"})
    with pytest.raises(AuthUnavailable, match="jwks_url"):
        await JwtAuthenticator(settings, tasks, unnamed_user=None).identify(headers())


@pytest.mark.parametrize("answers", [True, False])
def test_check_asks_the_provider_for_its_keys(
    provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: bool
) -> None:
    monkeypatch.setenv("MEMPROXY_HOME", str(tmp_path))
    monkeypatch.setenv("MEMPROXY__EMBEDDING__PROVIDER", "none")
    provider.status = 200 if answers else 404
    auth = {"mode": "jwt", "jwt": {"algorithms": ["RS256"], "jwks_url": provider.url}}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({"auth": auth, "upstream": {"base_url": provider.origin}, "server": {"port": 0}}))
    checked = CliRunner().invoke(app, ["check", "--config", str(config)])
    told = next(line for line in checked.stdout.splitlines() if "tokens" in line)
    assert ("keys for RS256: 1" in told) is answers
    assert ("FAIL" in told) is not answers
    assert ("answers 404" in told) is not answers
