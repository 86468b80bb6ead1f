"""Whose memory: keys, users, hosts and origins."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.auth.browser import BrowserGuard
from memproxy.auth.headers import Headers, clean_id, client_key
from memproxy.auth.identity import chat_user, decode_identity, encode_identity, resolve_scope, resolve_user
from memproxy.auth.modes import Authenticator, key_hash, make_authenticator
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import KeyRecord
from memproxy.errors import Forbidden, RequestError, Unauthenticated
from memproxy.settings import Settings, is_loopback

SECRET = b"a secret of this installation"


def headers(**values: str) -> Headers:
    return Headers([(name.replace("_", "-").encode(), value.encode()) for name, value in values.items()])


def authenticator(**sections: Mapping[str, object]) -> Authenticator:
    settings = Settings.model_validate(sections)
    return make_authenticator(settings.auth, settings.server, SECRET, no_key)


async def no_key(_key_id: str) -> KeyRecord | None:
    return None


def test_the_bearer_token_comes_before_azures_key_and_that_before_x_api_key() -> None:
    assert client_key(headers(authorization="Bearer a", api_key="b", x_api_key="c")) == "a"
    assert client_key(headers(api_key="b", x_api_key="c")) == "b"
    assert client_key(headers(x_api_key="c")) == "c"
    assert client_key(headers(authorization="Basic abc")) is None
    assert client_key(headers()) is None


@pytest.mark.parametrize("mode", ["passthrough", "keys", "jwt"])
@pytest.mark.parametrize("name", ["authorization", "api-key", "x-api-key"])
async def test_two_different_keys_in_one_header_prove_nobody(mode: str, name: str) -> None:
    auth = {"mode": mode, "jwt": {"algorithms": ["HS256"], "key": "a key that is longer than thirty-two bytes"}}
    twice = Headers([(name.encode(), b"Bearer a"), (name.title().encode(), b"Bearer b")])
    with pytest.raises(Unauthenticated, match="given twice"):
        await authenticator(auth=auth).identify(twice)


async def test_the_same_key_twice_in_one_header_is_one_key() -> None:
    known = authenticator()
    once, twice = Headers([(b"x-api-key", b"a")]), Headers([(b"x-api-key", b"a")] * 2)
    assert (await known.identify(twice)).tenant == (await known.identify(once)).tenant


async def test_one_key_is_one_tenant_and_another_key_another() -> None:
    known = authenticator()
    first, again, other = [
        (await known.identify(headers(authorization=f"Bearer {key}"))).tenant for key in ("a", "a", "b")
    ]
    assert first == again != other
    assert first.removeprefix("key:") != "a"


def test_another_installation_gives_the_same_key_another_name() -> None:
    assert key_hash(SECRET, "sk-1") != key_hash(b"another secret", "sk-1")


async def test_a_named_tenant_keeps_its_memory_when_its_key_changes() -> None:
    tenants = {key_hash(SECRET, "old"): "acme", key_hash(SECRET, "new"): "acme"}
    known = authenticator(auth={"tenants": tenants})
    assert (await known.identify(headers(authorization="Bearer old"))).tenant == "acme"
    assert (await known.identify(headers(authorization="Bearer new"))).tenant == "acme"


async def test_no_key_is_anonymous_on_loopback_and_nobody_elsewhere() -> None:
    assert (await authenticator().identify(headers())).tenant == "anonymous"
    remote = authenticator(server={"host": "0.0.0.0"}, auth={"allow_remote": True})
    with pytest.raises(Unauthenticated):
        await remote.identify(headers())


@pytest.mark.parametrize(
    "said", ["Basic YW5uOnNlY3JldA==", "Negotiate abc", "Digest username=ann", "sk-without-scheme"]
)
async def test_a_proof_that_cannot_be_checked_is_nobody_and_not_everybody_together(said: str) -> None:
    with pytest.raises(Unauthenticated):
        await authenticator().identify(headers(authorization=said))
    known = await authenticator().identify(headers(authorization=said, api_key="a"))
    assert known.tenant == (await authenticator().identify(headers(authorization="Bearer a"))).tenant


@pytest.mark.parametrize("said", ["", "Bearer", "Bearer ", "bearer  "])
async def test_a_bearer_without_a_token_is_anonymous_on_loopback(said: str) -> None:
    assert (await authenticator().identify(headers(authorization=said))).tenant == "anonymous"


async def test_an_unnamed_user_is_default_on_loopback_only() -> None:
    key = headers(authorization="Bearer a")
    assert (await authenticator().identify(key)).default_user == "default"
    remote = {"host": "0.0.0.0"}
    assert (await authenticator(server=remote, auth={"allow_remote": True}).identify(key)).default_user is None
    named = {"allow_remote": True, "unnamed_user": "default"}
    assert (await authenticator(server=remote, auth=named).identify(key)).default_user == "default"


def test_the_users_precedence_is_header_context_metadata_safety_identifier_user() -> None:
    fields = {"context": "b", "metadata": "c", "safety_identifier": "d", "user": "e"}
    identity = Identity(tenant="t", named_user="a", default_user="default")
    assert chat_user(identity, fields) == "a"
    unnamed = Identity(tenant="t", default_user="default")
    for name in list(fields):
        assert chat_user(unnamed, fields) == fields[name]
        fields[name] = ""
    assert chat_user(unnamed, fields) == "default"
    assert chat_user(Identity(tenant="t"), fields) is None


def test_a_header_and_a_user_id_that_disagree_are_refused() -> None:
    identity = Identity(tenant="t", named_user="ada")
    assert resolve_user(identity, "ada") == "ada"
    with pytest.raises(RequestError, match="disagree"):
        resolve_user(identity, "bob")
    with pytest.raises(RequestError, match="No user"):
        resolve_user(Identity(tenant="t"), None)


def test_a_header_and_a_project_or_agent_that_disagree_are_refused() -> None:
    identity = Identity(tenant="t", named_user="ada", project="atlas", agent="helper", session="s")
    scope = resolve_scope(identity, project="atlas", agent="helper", session="other")
    assert (scope.project, scope.agent, scope.session) == ("atlas", "helper", "other")
    for other in ({"project": "borealis"}, {"agent": "coder"}):
        with pytest.raises(RequestError, match="disagree"):
            resolve_scope(identity, **other)


@pytest.mark.parametrize("value", ["a" * 257, "a\x00b", "a\nb"])
async def test_unusable_ids_are_refused(value: str) -> None:
    with pytest.raises(RequestError):
        await authenticator().identify(headers(x_memproxy_user=value))


@given(st.text(min_size=1), st.none() | st.text(max_size=5))
def test_an_identity_survives_its_private_header(tenant: str, user: str | None) -> None:
    identity = Identity(tenant=tenant, named_user=user)
    assert decode_identity(encode_identity(identity)) == identity
    encode_identity(identity).encode("ascii")


@pytest.mark.parametrize("value", [None, "", "{}", "nonsense"])
def test_a_call_without_a_readable_identity_is_refused(value: str | None) -> None:
    with pytest.raises(Unauthenticated):
        decode_identity(value)


@pytest.mark.parametrize("host", ["localhost", "localhost:8484", "127.0.0.1:8484", "[::1]:8484", "LOCALHOST"])
def test_the_bound_names_are_served(host: str) -> None:
    BrowserGuard(Settings().server).check(headers(host=host))


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8484", "127.0.0.1.evil.example", "localhost.evil", "10.0.0.1"]
)
def test_other_names_are_refused_on_loopback(host: str) -> None:
    with pytest.raises(Forbidden):
        BrowserGuard(Settings().server).check(headers(host=host))


NO_HOSTS = [
    "", " ", ":8484", "localhost:", "localhost:0", "localhost:65536", "localhost:8484:1", "localhost:+84",
    "localhost:٣", "ann@localhost", "evil.example@localhost", "localhost@evil.example", "localhost/x",
    "localhost,evil.example", "localhost evil.example", "localhost%00", "%6cocalhost", "local\x00host", "localhost\n",
    "[::1]evil.example", "[::1", "[::1%25lo]", "[localhost]", "::1", "ｌocalhost",
]  # fmt: skip


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_is_no_name_and_no_address_is_no_host(host: str) -> None:
    anything = Settings.model_validate({"server": {"allowed_hosts": ["*"]}}).server
    for server in (Settings().server, anything):
        with pytest.raises(RequestError) as refused:
            BrowserGuard(server).check(headers(host=host))
        assert refused.value.status == 400


def test_several_hosts_are_none_also_where_they_are_the_same() -> None:
    twice = Headers([(b"host", b"localhost"), (b"Host", b"localhost")])
    with pytest.raises(RequestError, match="several hosts"):
        BrowserGuard(Settings().server).check(twice)


FOREIGN_LINK = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate", "sec_fetch_dest": "document"}


def test_a_link_elsewhere_may_lead_to_a_page_of_ours_and_to_nothing_else() -> None:
    guard = BrowserGuard(Settings().server)
    guard.check(headers(host="localhost", **FOREIGN_LINK), is_page=True)
    with pytest.raises(Forbidden):
        guard.check(headers(host="localhost", **FOREIGN_LINK))
    guard.check(headers(host="localhost", **FOREIGN_LINK | {"sec_fetch_site": "none"}))


def test_on_every_address_bare_addresses_are_served_and_unknown_names_are_not() -> None:
    settings = Settings.model_validate({"server": {"host": "0.0.0.0"}})
    guard = BrowserGuard(settings.server)
    guard.check(headers(host="10.1.2.3:8484"))
    with pytest.raises(Forbidden, match="allowed_hosts"):
        guard.check(headers(host="evil.example"))
    named = Settings.model_validate({"server": {"host": "0.0.0.0", "allowed_hosts": ["memory.example"]}})
    BrowserGuard(named.server).check(headers(host="memory.example"))


@pytest.mark.parametrize("name", ["memory.example:8484", "Memory.Example", "memory.example"])
def test_a_name_that_is_allowed_may_be_written_with_its_port(name: str) -> None:
    guard = BrowserGuard(Settings.model_validate({"server": {"allowed_hosts": [name, "::1"]}}).server)
    for host in ("memory.example", "memory.example:8484", "MEMORY.example:1", "[::1]:8484"):
        guard.check(headers(host=host))
    with pytest.raises(Forbidden):
        guard.check(headers(host="localhost"))


@pytest.mark.parametrize("origin", ["http://localhost:9", "https://evil.example", "null", "http://localhost:8484.evil"])
def test_a_foreign_origin_is_refused(origin: str) -> None:
    with pytest.raises(Forbidden):
        BrowserGuard(Settings().server).check(headers(host="localhost:8484", origin=origin))


def test_loopback_addresses_are_known() -> None:
    assert [is_loopback(host) for host in ("localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]")] == [True] * 5
    assert [is_loopback(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.com", "")] == [False] * 5


@pytest.mark.parametrize("name", ["ada", "Ada Löve", "non\u00a0breaking", "zero\u200bwidth", "del\x7f", "未命名", ""])
def test_an_id_may_have_any_characters_but_control_characters(name: str) -> None:
    assert clean_id(name, "user") == name


@pytest.mark.parametrize("name", ["tab\there", "nul\x00", "half\ud800surrogate", "zero\u200bwidth\x1f"])
def test_control_characters_and_half_surrogates_are_refused(name: str) -> None:
    with pytest.raises(RequestError):
        clean_id(name, "user")


@pytest.mark.parametrize("name", [".", "..", " .. "])
def test_no_name_is_a_step_that_clients_take_out_of_a_path(name: str) -> None:
    with pytest.raises(RequestError, match="no path"):
        clean_id(name, "user")


async def test_a_header_that_is_there_twice_with_one_value_counts_once_and_with_two_is_refused() -> None:
    twice = Headers([(b"X-Memproxy-User", b"ada"), (b"x-memproxy-user", b" ada ")])
    assert (await authenticator().identify(twice)).named_user == "ada"
    with pytest.raises(RequestError, match="twice"):
        await authenticator().identify(Headers([(b"x-memproxy-user", b"ada"), (b"X-Memproxy-User", b"ben")]))
