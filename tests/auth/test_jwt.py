"""Tokens: which are taken, which are not, and what their claims say."""

import base64
import contextlib
import hmac
import itertools
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from memproxy.auth.headers import Headers
from memproxy.auth.identity import chat_user, resolve_user
from memproxy.auth.jwt import JwtAuthenticator
from memproxy.auth.modes import Authenticator, make_authenticator
from memproxy.core.proxykey import KeyRecord
from memproxy.errors import ConfigError, Forbidden, RequestError, Unauthenticated
from memproxy.settings import JwtSettings, Settings
from memproxy.tasks import TaskOwner

HMAC_SECRET = "a shared secret of at least thirty-two bytes"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER_RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
HS: dict[str, Any] = {"algorithms": ["HS256"], "key": HMAC_SECRET}
SCOPED = HS | {"claims": {"permissions": "scope"}}


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
    """They hold for a day: some are made when the tests are collected, long before theirs runs."""
    made = {"sub": "ann", "tenant": "acme", "exp": int(time.time()) + 86_400, **changes}
    return {name: value for name, value in made.items() if value is not None}


def token(
    key: Any = HMAC_SECRET, algorithm: str = "HS256", headers: dict[str, Any] | None = None, **changes: Any
) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers=headers)


def bearing(value: str, **named: str) -> Headers:
    pairs = [(f"x-memproxy-{name}".encode(), text.encode()) for name, text in named.items()]
    return Headers([(b"authorization", b"Bearer " + value.encode("utf-8", "surrogateescape")), *pairs])


async def test_claims_say_tenant_user_project_and_permissions() -> None:
    known = authenticator(**SCOPED)
    identity = await known.identify(bearing(token(scope="chat openid admin", project="apollo")))
    assert (identity.tenant, identity.default_user, identity.project) == ("acme", "ann", "apollo")
    assert identity.permissions == {"chat", "admin"}
    assert (await known.identify(bearing(token()))).permissions == {"chat", "memory:read", "memory:write"}
    assert (await known.identify(bearing(token(scope=["chat"])))).permissions == {"chat"}
    everything = await known.identify(bearing(token(scope="chat upstream:all")))
    assert everything.permissions == {"chat", "upstream:all"}
    for odd in ("openid email", [], [1, ["chat"], {"chat": 1}], {"chat": True}, 7, ""):
        assert (await known.identify(bearing(token(scope=odd)))).permissions == set()


@pytest.mark.parametrize("scope", ["openid email", "admin", ["admin"], "", 7])
async def test_what_a_provider_puts_into_scope_by_itself_takes_and_gives_nothing(scope: Any) -> None:
    identity = await authenticator(**HS).identify(bearing(token(scope=scope)))
    assert identity.permissions == {"chat", "memory:read", "memory:write"}


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


NO_TIMES: tuple[Any, ...] = ("soon", "4000000000", True, [1], {}, -1, 1e300)


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"exp": None},
        {"nbf": 2**33},
        {"iat": 2**33},
        *({name: value} for name, value in itertools.product(("exp", "nbf", "iat"), NO_TIMES)),
        {"exp": 1_900_000_000_000},
        {"exp": 10**400},
        {"exp": float("nan")},
        {"exp": float("inf")},
        {"jti": 7},
    ],
    ids=repr,
)
async def test_a_token_whose_claims_do_not_hold_is_nobody(changes: dict[str, Any]) -> None:
    with pytest.raises(Unauthenticated, match="not valid"):
        await authenticator(**HS).identify(
            bearing(jwt.api_jws.encode(json.dumps(claims(**changes)).encode(), HMAC_SECRET))
        )


NO_TOKENS = ["", ".", "a.b.c", "mpk_1_2", "e30.e30.", "\udc80.x.y", "a" * 20_000, token(key="b" * 40), token() + "x"]
NO_TOKENS += [token()[:-3], token().replace(".", "..", 1), f".{token()}", f"{token()}.", f"{token()}="]


@pytest.mark.parametrize("value", NO_TOKENS, ids=range(14))
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
    known = authenticator(**SCOPED)
    with pytest.raises(Forbidden):
        await known.identify(bearing(token(), user="ben"))
    assert (await known.identify(bearing(token(scope="chat act_as_user"), user="ben"))).named_user == "ben"


def jwk(key: Any, kid: str) -> dict[str, Any]:
    algorithm: Any = ECAlgorithm if isinstance(key, ec.EllipticCurvePrivateKey) else RSAAlgorithm
    found: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    return found | {"kid": kid, "use": "sig", "alg": "ES256" if algorithm is ECAlgorithm else "RS256"}


def knowing(folder: Path, *keys: dict[str, Any], algorithms: tuple[str, ...] = ("RS256",)) -> Authenticator:
    """Who takes tokens that these keys of a file prove."""
    (folder / "jwks.json").write_text(json.dumps({"keys": keys}))
    return authenticator(algorithms=list(algorithms), jwks_file=str(folder / "jwks.json"))


async def test_the_key_id_chooses_among_a_files_keys(tmp_path: Path) -> None:
    known = knowing(tmp_path, jwk(RSA_KEY, "one"), jwk(OTHER_RSA_KEY, "two"))
    assert (await known.identify(bearing(token(OTHER_RSA_KEY, "RS256", {"kid": "two"})))).tenant == "acme"
    for kid in ("one", "three", "../two"):
        with pytest.raises(Unauthenticated):
            await known.identify(bearing(token(OTHER_RSA_KEY, "RS256", {"kid": kid})))


async def test_a_key_file_that_is_replaced_is_read_again_and_half_a_file_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps({"keys": [jwk(RSA_KEY, "one")]}))
    settings = JwtSettings.model_validate({"algorithms": ["RS256"], "jwks_file": str(file)})
    known = JwtAuthenticator(settings, TaskOwner("test"), unnamed_user=None, look_s=0)
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


def forged(header: object, secret: bytes = b"", payload: object = None) -> str:
    """A token with any header (as text: any bytes), signed by HMAC with ``secret``, or not at all."""
    both = [one if isinstance(one, str) else json.dumps(one) for one in (header, payload or claims())]
    signed = b".".join(base64.urlsafe_b64encode(part.encode()).rstrip(b"=") for part in both)
    mac = base64.urlsafe_b64encode(hmac.digest(secret, signed, "sha256")).rstrip(b"=") if secret else b""
    return (signed + b"." + mac).decode()


@pytest.mark.parametrize(
    "header",
    [
        {"alg": "none"},
        *({"alg": algorithm, "kid": "one"} for algorithm in ("None", "HS256", ["RS256"], None)),
        *({"alg": "RS256", "kid": kid} for kid in (["one"], 1, None, "x" * 5_000, "\x00")),
        {"kid": "one"},
        {"alg": "RS256", "kid": "one", "crit": ["b64"], "b64": False},
        {"alg": "RS256", "jku": "https://evil.example/keys"},
    ],
    ids=str,
)
async def test_a_forged_header_opens_nothing_with_a_files_keys(tmp_path: Path, header: dict[str, Any]) -> None:
    known = knowing(tmp_path, jwk(RSA_KEY, "one"), jwk(EC_KEY, "two"), algorithms=("RS256", "ES256"))
    for secret in (b"", pem(RSA_KEY).encode(), json.dumps(jwk(RSA_KEY, "one")).encode()):
        with pytest.raises(Unauthenticated):
            await known.identify(bearing(forged(header, secret)))


async def test_a_tokens_own_key_is_not_what_proves_it(tmp_path: Path) -> None:
    known = knowing(tmp_path, jwk(RSA_KEY, "one"))
    headers = {"kid": "one", "jwk": jwk(OTHER_RSA_KEY, "one")}
    with pytest.raises(Unauthenticated):
        await known.identify(bearing(token(OTHER_RSA_KEY, "RS256", headers)))


GOOD: dict[str, Any] = {"alg": "HS256", "typ": "JWT"}


@pytest.mark.parametrize(
    "header",
    [
        GOOD | {"crit": []},
        GOOD | {"crit": ["exp"], "exp": 1},
        GOOD | {"b64": True},
        GOOD | {"b64": False, "crit": ["b64"]},
        GOOD | {"zip": "DEF"},
        *(GOOD | {"alg": algorithm} for algorithm in ("none", ["HS256"], {"HS256": 1})),
        *(GOOD | {"kid": kid} for kid in (7, None, "k" * 1_025)),
        [GOOD],
        '{"alg": "none", "alg": "HS256"}',
        '{"alg": "HS256", "x": {"y": 1, "y": 2}}',
        '{"alg": "HS256", "x": NaN}',
        '\ufeff{"alg": "HS256"}',
        '{"alg": "HS256", "x": ' + "[" * 2_000 + "]" * 2_000 + "}",
        '{"alg": "HS256", "x": ' + "9" * 5_000 + "}",
    ],
    ids=range(18),
)
async def test_a_header_that_says_what_is_not_understood_makes_a_token_nobodys_though_it_is_signed(header: Any) -> None:
    known, secret = authenticator(**HS), HMAC_SECRET.encode()
    assert (await known.identify(bearing(forged(GOOD, secret)))).tenant == "acme"
    with pytest.raises(Unauthenticated, match="not valid"):
        await known.identify(bearing(forged(header, secret)))


async def test_a_claim_that_comes_twice_makes_a_token_nobodys_though_it_is_signed() -> None:
    made = json.dumps(claims())
    repeated = made[:-1] + ', "x": {"a": 1, "a": 2}}'
    for payload in ('{"sub": "ben", ' + made[1:], repeated, made[:-1] + ', "x": Infinity}'):
        with pytest.raises(Unauthenticated, match="not valid"):
            await authenticator(**HS).identify(bearing(forged(GOOD, HMAC_SECRET.encode(), payload)))


@pytest.mark.parametrize("name", ["sub", "tenant", "project"])
async def test_a_name_is_taken_as_it_stands_or_not_at_all(name: str) -> None:
    known = authenticator(**HS)
    for taken in ("ann lee", "Ann", "ann@b.c", "a" * 256, "\u00e4\u4e2d"):
        changes: dict[str, Any] = {name: taken}
        identity = await known.identify(bearing(token(**changes)))
        assert taken in (identity.default_user, identity.tenant, identity.project)
    refused = ["", " ", " ann", "ann ", "ann\n", "\u00a0ann", "ann\u2003", "a\x00b", "a\x7fb", "a\x85b", "a\u2028b"]
    refused.append("\ud800")
    for value in (*refused, "a" * 257, True, False, 1.0, 1e3, ["ann"], {"ann": 1}):
        payload = claims() | {name: value}
        with pytest.raises(Unauthenticated, match=f"{name}.*cannot be used"):
            await known.identify(bearing(forged(GOOD, HMAC_SECRET.encode(), payload)))


async def test_a_whole_number_names_as_its_digits() -> None:
    known = authenticator(**HS)
    for number, name in ((7, "7"), (0, "0"), (-3, "-3"), (10**200, "1" + "0" * 200)):
        identity = await known.identify(bearing(forged(GOOD, HMAC_SECRET.encode(), claims() | {"sub": number})))
        assert (identity.default_user, identity.by) == (name, f"jwt:{name}")


@pytest.mark.parametrize("payload", [claims(sub=None), claims() | {"sub": None}], ids=["none", "null"])
async def test_a_token_that_names_no_user_is_not_for_the_default_user_of_a_loopback_address(
    payload: dict[str, Any],
) -> None:
    headers = bearing(forged(GOOD, HMAC_SECRET.encode(), payload))
    identity = await authenticator(**HS).identify(headers)
    assert chat_user(identity, {}) is None
    assert chat_user(identity, {"user": "ben"}) is None
    with pytest.raises(RequestError, match="No user is named"):
        resolve_user(identity, None)
    read = Settings.model_validate({"auth": {"mode": "jwt", "jwt": HS, "unnamed_user": "everybody"}})
    shared = await make_authenticator(read.auth, read.server, b"s", no_key).identify(headers)
    assert chat_user(shared, {}) == "everybody"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
JSON_VALUES = st.recursive(
    SCALARS | st.sampled_from([2**70, -(10**400)]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ALGORITHMS = st.sampled_from(["HS256", "RS256", "ES256", "ES384", "none", "EdDSA"])
KEY_IDS = st.sampled_from(["rsa", "ec", "oct", "enc", "odd", "twice"])
HEADERS = st.fixed_dictionaries({"alg": ALGORITHMS, "kid": KEY_IDS}) | st.fixed_dictionaries(
    {"alg": ALGORITHMS | JSON_VALUES},
    optional={"kid": KEY_IDS | JSON_VALUES, **dict.fromkeys(("crit", "b64", "typ", "jwk"), JSON_VALUES)},
)
NAMES = st.sampled_from(["sub", "tenant", "project", "exp", "nbf", "iat", "aud", "iss", "jti", "scope"])
CLAIMS = st.dictionaries(NAMES, JSON_VALUES, max_size=6)
KEY_FIELDS = st.dictionaries(
    st.sampled_from(["kty", "kid", "use", "alg", "key_ops", "crv", "n", "e", "x", "y", "k", "d"]),
    st.sampled_from(["RSA", "EC", "oct", "OKP", "sig", "enc", "P-256", "P-384", "RS256", "AQAB", "AA"]) | JSON_VALUES,
    max_size=8,
)


def odd_keys() -> list[dict[str, Any]]:
    """Keys as providers publish them: of all types and uses, and broken ones."""
    octets = {"kty": "oct", "kid": "oct", "k": base64.urlsafe_b64encode(HMAC_SECRET.encode()).decode().rstrip("=")}
    odd = {"kty": "RSA", "kid": "odd", "n": "AQAB", "e": "AQAB"}
    twice = [jwk(RSA_KEY, "twice"), jwk(OTHER_RSA_KEY, "twice")]
    return [jwk(RSA_KEY, "rsa"), jwk(EC_KEY, "ec"), octets, jwk(RSA_KEY, "enc") | {"use": "enc"}, odd, *twice]


@given(header=HEADERS, changes=CLAIMS, signer=st.sampled_from(["HS256", "RS256", "ES256"]), extra=KEY_FIELDS)
async def test_whatever_a_token_and_the_keys_hold_it_is_an_identity_or_nobody(
    tmp_path_factory: pytest.TempPathFactory, header: Any, changes: Any, signer: str, extra: Any
) -> None:
    file = tmp_path_factory.mktemp("keys") / "jwks.json"
    file.write_text(json.dumps({"keys": [*odd_keys(), extra]}))
    algorithms = ["HS256"] if signer == "HS256" else ["RS256", "ES256", "ES384"]
    signing: Any = {"HS256": (HMAC_SECRET, "oct"), "RS256": (RSA_KEY, "rsa"), "ES256": (EC_KEY, "ec")}
    key, kid = signing[signer]
    payload = json.dumps(claims() | changes)
    good = jwt.api_jws.encode(payload.encode(), key, signer, {"kid": kid})
    sources: list[dict[str, Any]] = [{}, {"audience": "us", "issuer": "me"}]
    for source in sources:
        known = authenticator(algorithms=algorithms, jwks_file=str(file), **source)
        for made in (good, forged(header, HMAC_SECRET.encode(), payload), forged(header, b"", payload)):
            with contextlib.suppress(Unauthenticated):
                identity = await known.identify(bearing(made))
                assert made == good or header["alg"] == "HS256"
                assert identity.tenant


async def test_a_key_id_of_a_key_of_another_type_or_use_proves_nothing(tmp_path: Path) -> None:
    signing_only = jwk(RSA_KEY, "wraps") | {"key_ops": ["wrapKey"]}
    other_algorithm = jwk(RSA_KEY, "rs512") | {"alg": "RS512"}
    short = jwk(rsa.generate_private_key(public_exponent=65537, key_size=1024), "short")
    keys = [*odd_keys(), signing_only, other_algorithm, short]
    known = knowing(tmp_path, *keys, algorithms=("RS256", "ES256"))
    for key, kid, algorithm in ((RSA_KEY, "rsa", "RS256"), (EC_KEY, "ec", "ES256")):
        assert (await known.identify(bearing(token(key, algorithm, {"kid": kid})))).tenant == "acme"
    cases: list[tuple[Any, str, tuple[str, ...]]] = [
        (RSA_KEY, "RS256", ("ec", "oct", "enc", "odd", "wraps", "rs512", "short", "twice")),
        (EC_KEY, "ES256", ("rsa", "oct")),
    ]
    for key, algorithm, wrong in cases:
        for kid in wrong:
            with pytest.raises(Unauthenticated, match="not valid"):
                await known.identify(bearing(token(key, algorithm, {"kid": kid})))


@pytest.mark.parametrize(
    "key", [pem(EC_KEY), "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----"], ids=["EC", "broken"]
)
def test_a_public_key_of_another_type_or_a_broken_one_stops_the_start(key: str) -> None:
    with pytest.raises(ConfigError, match=r"auth\.jwt"):
        authenticator(algorithms=["RS256"], key=key)
