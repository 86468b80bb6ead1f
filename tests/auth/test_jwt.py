"""Tokens: which are taken, which are not, and what their claims say."""

import base64
import hmac
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from memproxy.auth import Authenticator, Headers, make_authenticator
from memproxy.auth.jwt import JwtAuthenticator
from memproxy.core.proxykey import KeyRecord
from memproxy.errors import AuthUnavailable, ConfigError, Forbidden, Unauthenticated
from memproxy.settings import JwtSettings, Settings
from tests.support.threaded import QuietHandler, ThreadedServer, serving

HMAC_SECRET = "a shared secret of at least thirty-two bytes"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
HS = {"algorithms": ["HS256"], "key": HMAC_SECRET}


def pem(key: Any) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    text: bytes = key.public_key().public_bytes(serialization.Encoding.PEM, form)
    return text.decode()


async def no_key(_key_id: str) -> KeyRecord | None:
    return None


def authenticator(**settings: Any) -> Authenticator:
    read = Settings.model_validate({"auth": {"mode": "jwt", "jwt": settings}})
    return make_authenticator(read.auth, read.server, b"s", no_key)


def claims(**changes: Any) -> dict[str, Any]:
    made = {"sub": "ann", "tenant": "acme", "exp": int(time.time()) + 600, **changes}
    return {name: value for name, value in made.items() if value is not None}


def token(
    key: Any = HMAC_SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **changes: Any
) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers=headers)


def bearing(value: str, **named: str) -> Headers:
    pairs = [(f"x-memproxy-{name}".encode(), text.encode()) for name, text in named.items()]
    return Headers([(b"authorization", b"Bearer " + value.encode("utf-8", "surrogateescape")), *pairs])


async def test_claims_say_tenant_user_project_and_permissions() -> None:
    known = authenticator(**HS)
    identity = await known.identify(bearing(token(scope="chat openid admin", project="apollo")))
    assert (identity.tenant, identity.default_user, identity.project) == ("acme", "ann", "apollo")
    assert identity.permissions == {"chat", "admin"}
    assert (await known.identify(bearing(token()))).permissions == {"chat", "memory:read", "memory:write"}
    assert (await known.identify(bearing(token(scope=["chat"])))).permissions == {"chat"}
    everything = await known.identify(bearing(token(scope="chat upstream:all")))
    assert everything.permissions == {"chat", "upstream:all"}


async def test_claims_may_have_other_names_and_a_tenant_may_be_fixed() -> None:
    names = {"user": "email", "tenant": "org"}
    identity = await authenticator(**HS, claims=names, tenant="fixed").identify(bearing(token(email="a@b.c")))
    assert (identity.tenant, identity.default_user) == ("fixed", "a@b.c")
    with pytest.raises(Unauthenticated, match="tenant"):
        await authenticator(**HS).identify(bearing(token(tenant=None)))


async def test_a_claim_that_is_a_number_names_and_one_of_another_type_is_never_passed_over() -> None:
    names = {"tenant": "org", "user": "uid", "project": "team"}
    known = authenticator(**HS, claims=names, tenant="fixed")
    identity = await known.identify(bearing(token(org=5, uid=7, team=9)))
    assert (identity.tenant, identity.default_user, identity.project) == ("5", "7", "9")
    for name in names.values():
        for value in ([], ["a"], {"id": 1}, True, 1.5):
            claim: dict[str, Any] = {name: value}
            with pytest.raises(Unauthenticated, match=name):
                await known.identify(bearing(token(**claim)))


@pytest.mark.parametrize(
    "changes", [{"exp": 1}, {"exp": None}, {"nbf": 2**33}, {"exp": "soon"}, {"sub": 7}, {"iat": "x"}]
)
async def test_a_token_whose_claims_do_not_hold_is_nobody(changes: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated, match="not valid"):
        await authenticator(**HS).identify(
            bearing(jwt.api_jws.encode(json.dumps(claims(**changes)).encode(), HMAC_SECRET))
        )


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "a.b.c",
        "mpk_1_2",
        "e30.e30.",
        "\udc80.x.y",
        "a" * 20_000,
        token() + "x",
        token(key="b" * 40),
        token()[:-3],
    ],
)
async def test_what_is_no_token_is_nobody(value: str) -> None:
    with pytest.raises(Unauthenticated):
        await authenticator(**HS).identify(bearing(value))


async def test_a_token_without_signature_is_nobody() -> None:
    for algorithms in (HS, {"algorithms": ["RS256"], "key": pem(RSA_KEY)}):
        with pytest.raises(Unauthenticated):
            await authenticator(**algorithms).identify(bearing(jwt.encode(claims(), "", algorithm="none")))


async def test_a_public_key_is_no_secret_to_sign_with() -> None:
    """The classic confusion: a token signed by HMAC with the public key as its secret."""
    public = pem(RSA_KEY)
    parts = [json.dumps(part).encode() for part in ({"alg": "HS256", "typ": "JWT"}, claims())]
    signed = b".".join(base64.urlsafe_b64encode(part).rstrip(b"=") for part in parts)
    signature = base64.urlsafe_b64encode(hmac.digest(public.encode(), signed, "sha256")).rstrip(b"=")
    confused = (signed + b"." + signature).decode()
    with pytest.raises(Unauthenticated):
        await authenticator(algorithms=["RS256"], key=public).identify(bearing(confused))


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithms": ["HS256"], "key": "-----BEGIN PUBLIC KEY-----\n..."},
        {"algorithms": ["RS256"], "key": "a plain secret"},
        {"algorithms": ["RS256"], "key_file": "/no/such/file"},
        {"algorithms": ["RS256"], "jwks_file": "/no/such/file"},
    ],
)
def test_a_key_that_does_not_fit_stops_the_start(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"auth\.jwt"):
        authenticator(**settings)


@pytest.mark.parametrize(("key", "algorithm"), [(RSA_KEY, "RS256"), (EC_KEY, "ES256")])
async def test_public_keys_prove_tokens(tmp_path: Path, key: Any, algorithm: str) -> None:
    file = tmp_path / "key.pem"
    file.write_text(pem(key))
    known = authenticator(algorithms=[algorithm], key_file=str(file))
    assert (await known.identify(bearing(token(key, algorithm)))).tenant == "acme"
    with pytest.raises(Unauthenticated):
        await known.identify(bearing(token(OTHER_RSA_KEY, "RS256")))


async def test_issuer_and_audience_are_required_when_they_are_set() -> None:
    known = authenticator(**HS, issuer="https://id.example", audience="memproxy")
    right: dict[str, Any] = {"iss": "https://id.example", "aud": ["memproxy", "other"]}
    assert (await known.identify(bearing(token(**right)))).tenant == "acme"
    others: list[dict[str, Any]] = [{"iss": "https://evil"}, {"aud": "other"}, {"iss": None}, {"aud": None}]
    for wrong in others:
        with pytest.raises(Unauthenticated):
            await known.identify(bearing(token(**{**right, **wrong})))


async def test_only_act_as_user_may_name_another_user() -> None:
    known = authenticator(**HS)
    with pytest.raises(Forbidden):
        await known.identify(bearing(token(), user="ben"))
    assert (await known.identify(bearing(token(scope="chat act_as_user"), user="ben"))).named_user == "ben"


def jwk(key: Any, kid: str) -> dict[str, Any]:
    algorithm: Any = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    found: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return found | {"kid": kid, "use": "sig", "alg": "ES256" if algorithm is ECAlgorithm else "RS256"}


async def test_the_key_id_chooses_among_a_files_keys(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk(RSA_KEY, "one"), jwk(OTHER_RSA_KEY, "two")]}))
    known = authenticator(algorithms=["RS256"], jwks_file=str(file))
    assert (await known.identify(bearing(token(OTHER_RSA_KEY, "RS256", {"kid": "two"})))).tenant == "acme"
    for kid in ("one", "three", "../two"):
        with pytest.raises(Unauthenticated):
            await known.identify(bearing(token(OTHER_RSA_KEY, "RS256", {"kid": kid})))


async def test_a_key_file_that_is_replaced_is_read_again_and_half_a_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk(RSA_KEY, "one")]}))
    settings = JwtSettings.model_validate({"algorithms": ["RS256"], "jwks_file": str(file)})
    known = JwtAuthenticator(settings, default_user=None, refetch_s=0)
    old, new = (bearing(token(key, "RS256", {"kid": kid})) for key, kid in ((RSA_KEY, "one"), (OTHER_RSA_KEY, "two")))
    assert (await known.identify(old)).tenant == "acme"
    for broken in ('{"keys": [', '{"keys": []}'):
        file.write_text(broken)
        assert (await known.identify(old)).tenant == "acme"
    file.unlink()
    assert (await known.identify(old)).tenant == "acme"
    file.write_text(json.dumps({"keys": [jwk(OTHER_RSA_KEY, "two")]}))
    assert (await known.identify(new)).tenant == "acme"
    with pytest.raises(Unauthenticated):
        await known.identify(old)


def forged(header: dict[str, Any], secret: bytes = b"") -> str:
    """A token with any header, signed by HMAC with ``secret``, or not at all."""
    parts = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in (header, claims())]
    signed = b".".join(parts)
    mac = base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=") if secret else b""
    return (signed + b"." + mac).decode()


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        {"alg": "None", "kid": "one"},
        {"alg": "HS256", "kid": "one"},
        {"alg": "RS256", "kid": ["one"]},
        {"alg": "RS256", "kid": 1},
        {"alg": "RS256", "kid": None},
        {"alg": "RS256", "kid": "x" * 5_000},
        {"alg": "RS256", "kid": "\x00"},
        {"alg": ["RS256"], "kid": "one"},
        {"alg": None, "kid": "one"},
        {"kid": "one"},
        {"alg": "RS256", "kid": "one", "crit": ["b64"], "b64": False},
        {"alg": "RS256", "jku": "https://evil.example/keys"},
    ],
    ids=str,
)
async def test_a_forged_header_opens_nothing_with_a_files_keys(tmp_path: Path, header: dict[str, Any]) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk(RSA_KEY, "one"), jwk(EC_KEY, "two")]}))
    known = authenticator(algorithms=["RS256", "ES256"], jwks_file=str(file))
    for secret in (b"", pem(RSA_KEY).encode(), json.dumps(jwk(RSA_KEY, "one")).encode()):
        with pytest.raises(Unauthenticated):
            await known.identify(bearing(forged(header, secret)))


async def test_a_tokens_own_key_is_not_what_proves_it(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk(RSA_KEY, "one")]}))
    known = authenticator(algorithms=["RS256"], jwks_file=str(file))
    headers = {"kid": "one", "jwk": jwk(OTHER_RSA_KEY, "one")}
    with pytest.raises(Unauthenticated):
        await known.identify(bearing(token(OTHER_RSA_KEY, "RS256", headers)))


class Provider(ThreadedServer):
    """An identity provider that publishes its keys."""

    def __init__(self) -> None:
        super().__init__(_Keys)
        self.keys = [jwk(RSA_KEY, "one")]
        self.asked = 0

    @property
    def url(self) -> str:
        return f"{self.origin}/jwks"


class _Keys(QuietHandler):
    server: Provider

    def do_GET(self) -> None:  # noqa: N802 - as the base class calls it
        self.server.asked += 1
        self.answer({"keys": self.server.keys})


@pytest.fixture
def provider() -> Iterator[Provider]:
    with serving(Provider()) as server:
        yield server


async def test_a_token_of_a_key_that_was_rotated_in_just_now_is_known(provider: Provider) -> None:
    known = authenticator(algorithms=["RS256"], jwks_url=provider.url)
    assert (await known.identify(bearing(token(RSA_KEY, "RS256", {"kid": "one"})))).tenant == "acme"
    with pytest.raises(Unauthenticated):
        await known.identify(bearing(token(RSA_KEY, "RS256", {"kid": "nobody's"})))
    provider.keys = [jwk(OTHER_RSA_KEY, "two")]
    assert (await known.identify(bearing(token(OTHER_RSA_KEY, "RS256", {"kid": "two"})))).tenant == "acme"


async def test_unknown_key_ids_do_not_make_the_provider_be_asked_without_end(provider: Provider) -> None:
    known = authenticator(algorithms=["RS256"], jwks_url=provider.url)
    for number in range(20):
        with pytest.raises(Unauthenticated):
            await known.identify(bearing(token(RSA_KEY, "RS256", {"kid": f"unknown-{number}"})))
    assert provider.asked == 4, "the first time, and three times for what is unknown"


async def test_a_provider_that_is_away_is_no_verdict_on_a_token(provider: Provider) -> None:
    known = authenticator(algorithms=["RS256"], jwks_url="http://127.0.0.1:1/jwks")
    with pytest.raises(AuthUnavailable, match="jwks_url"):
        await known.identify(bearing(token(RSA_KEY, "RS256", {"kid": "one"})))
