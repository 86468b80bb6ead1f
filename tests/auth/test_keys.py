"""Proxy keys: proved by their hash, bound, limited by permissions, ended by revocation."""

import contextlib
import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import process_time
from typing import Any

import msgspec
import pytest

from memproxy.auth.headers import Headers
from memproxy.auth.identity import chat_user, require, resolve_project, resolve_user
from memproxy.auth.modes import Authenticator, make_authenticator
from memproxy.auth.proxy_keys import KeysAuthenticator
from memproxy.commands import keys
from memproxy.core.protocol import Identity
from memproxy.core.proxykey import KeyRecord, hashed, id_of, is_hash, matches, new_key
from memproxy.errors import Forbidden, StateUnavailable, Unauthenticated
from memproxy.settings import Settings
from memproxy.stores.sqlite_state import SqliteState

SECRET = b"s"
NOW = datetime.now(UTC)


class Records:
    """A state store's keys."""

    def __init__(self) -> None:
        self.records: dict[str, KeyRecord] = {}
        self.asked = 0
        self.away = False

    async def __call__(self, key_id: str) -> KeyRecord | None:
        self.asked += 1
        if self.away:
            raise StateUnavailable("the state is away")
        return self.records.get(key_id)

    def add(self, **fields: Any) -> str:
        key, key_id = new_key()
        record = KeyRecord(id=key_id, tenant="acme", hash=hashed(key), created_at=NOW)
        self.records[key_id] = msgspec.structs.replace(record, **fields)
        return key


@pytest.fixture
def records() -> Records:
    return Records()


def authenticator(records: Records, **auth: Any) -> Authenticator:
    settings = Settings.model_validate({"auth": {"mode": "keys", **auth}})
    return make_authenticator(settings.auth, settings.server, SECRET, records)


def looking_again(records: Records) -> Authenticator:
    """Records are never fresh."""
    return KeysAuthenticator({}, records, default_user="default", record_s=-1.0)


def asking(key: str, **named: str) -> Headers:
    pairs = [(f"x-memproxy-{name}".encode(), value.encode()) for name, value in named.items()]
    return Headers([(b"authorization", f"Bearer {key}".encode()), *pairs])


async def test_a_key_names_its_tenant_and_what_it_may(records: Records) -> None:
    key = records.add(permissions=frozenset({"chat"}))
    identity = await authenticator(records).identify(asking(key))
    assert (identity.tenant, identity.default_user, identity.permissions) == ("acme", "default", frozenset({"chat"}))
    require(identity, "chat")
    with pytest.raises(Forbidden, match="memory:read"):
        require(identity, "memory:read")


@pytest.mark.parametrize("wrong", ["", "sk-1", "mpk_x_y", "other secret", "other id"])
async def test_anything_but_the_key_is_nobody(records: Records, wrong: str) -> None:
    key = records.add()
    other, other_id = new_key()
    if wrong == "other secret":
        wrong = key[:-43] + other[-43:]
    elif wrong == "other id":
        wrong = key.replace(id_of(key) or "", other_id)
    known = authenticator(records)
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await known.identify(asking(wrong))
    assert (await known.identify(asking(key))).tenant == "acme"


async def test_a_key_of_the_configuration_needs_no_state(records: Records) -> None:
    key, key_id = new_key()
    records.away = True
    entry = {"id": key_id, "hash": hashed(key), "tenant": "configured", "permissions": ["chat", "admin"]}
    identity = await authenticator(records, keys=[entry]).identify(asking(key))
    assert (identity.tenant, identity.permissions) == ("configured", frozenset({"chat", "admin"}))


async def test_a_known_key_is_not_proved_again_and_outlives_an_outage(records: Records) -> None:
    key, known = records.add(), looking_again(records)
    await known.identify(asking(key))
    records.away = True
    assert (await known.identify(asking(key))).tenant == "acme"
    with pytest.raises(StateUnavailable):
        await known.identify(asking(new_key()[0]))


@pytest.mark.parametrize("ended", [{"revoked_at": NOW}, {"expires_at": NOW - timedelta(seconds=1)}, None])
async def test_a_key_that_ended_is_refused_also_where_it_was_known(
    records: Records, ended: dict[str, datetime] | None
) -> None:
    key, known = records.add(), looking_again(records)
    await known.identify(asking(key))
    ((key_id, record),) = records.records.items()
    records.records = {} if ended is None else {key_id: msgspec.structs.replace(record, **ended)}
    for _ in range(2):
        with pytest.raises(Unauthenticated):
            await known.identify(asking(key))


async def test_a_fresh_record_is_not_looked_up_again(records: Records) -> None:
    key, known = records.add(), authenticator(records)
    for _ in range(3):
        await known.identify(asking(key))
    assert records.asked == 1


async def test_a_fresh_record_is_looked_up_again_when_there_is_news(records: Records) -> None:
    news = [b"1"]
    key, known = records.add(), KeysAuthenticator({}, records, default_user="default", news=lambda: news[0])
    await known.identify(asking(key))
    ((key_id, record),) = records.records.items()
    records.records[key_id] = msgspec.structs.replace(record, revoked_at=NOW)
    assert (await known.identify(asking(key))).tenant == "acme"
    news[0] = b"2"
    with pytest.raises(Unauthenticated, match="revoked"):
        await known.identify(asking(key))
    assert records.asked == 2


async def test_only_act_as_user_may_name_another_user(records: Records) -> None:
    known = authenticator(records)
    bound = records.add(user="ann")
    assert (await known.identify(asking(bound))).default_user == "ann"
    assert (await known.identify(asking(bound, user="ann"))).named_user == "ann"
    with pytest.raises(Forbidden, match="act_as_user"):
        await known.identify(asking(bound, user="ben"))
    acting = records.add(permissions=frozenset({"chat", "act_as_user"}))
    assert (await known.identify(asking(acting, user="ben"))).named_user == "ben"


def test_a_call_may_not_name_another_user_in_its_fields_either() -> None:
    bound = Identity(tenant="t", default_user="ann", bound_user=True, permissions=frozenset({"chat"}))
    assert resolve_user(bound, "ann") == "ann"
    with pytest.raises(Forbidden):
        resolve_user(bound, "ben")
    with pytest.raises(Forbidden):
        chat_user(bound, {"memory_context.user_id": "ben"})


def test_the_providers_own_user_fields_do_not_change_whom_a_bound_key_is_for() -> None:
    bound = Identity(tenant="t", default_user="ann", bound_user=True, permissions=frozenset({"chat"}))
    fields = {"memory_context.user_id": None, "metadata.user_id": "x", "safety_identifier": "y", "user": "z"}
    assert chat_user(bound, fields) == "ann"


@pytest.mark.parametrize("field", ["memory_context.user_id", "metadata.user_id", "safety_identifier", "user"])
def test_a_key_for_nobody_in_particular_has_no_memory_for_users_it_may_not_name(field: str) -> None:
    unbound = Identity(tenant="t", default_user="default", permissions=frozenset({"chat"}))
    assert chat_user(unbound, {}) == "default"
    assert chat_user(unbound, {field: "default"}) == "default"
    assert chat_user(unbound, {field: " "}) == "default"
    assert chat_user(unbound, {field: "ben"}) is None
    assert chat_user(unbound, {"user": "default", field: "ben"}) is None
    acting = msgspec.structs.replace(unbound, permissions=frozenset({"chat", "act_as_user"}))
    assert chat_user(acting, {field: "ben"}) == "ben"


async def test_a_header_of_a_key_for_nobody_in_particular_is_not_taken_for_a_name_either(records: Records) -> None:
    identity = await authenticator(records).identify(asking(records.add(), user="ben"))
    assert chat_user(identity, {}) is None
    with pytest.raises(Forbidden, match="act_as_user"):
        resolve_user(identity, None)
    with pytest.raises(Forbidden):
        resolve_user(identity, "ben")


async def test_wrong_keys_of_a_known_id_cost_next_to_nothing_and_keep_nobody_out(records: Records) -> None:
    """As a ratio: fifty of them cost less than a single hash of a password would."""
    key = records.add()
    wrong = [key[:-43] + new_key()[0][-43:] for _ in range(50)]
    known = authenticator(records)

    async def asked() -> None:
        for one in wrong:
            with pytest.raises(Unauthenticated):
                await known.identify(asking(one))
        assert (await known.identify(asking(key))).tenant == "acme"

    began = process_time()
    hashlib.scrypt(b"a password", salt=b"salt of 16 bytes", n=2**14, r=8, p=1, maxmem=2**26)
    stretched = process_time()
    await asked()
    assert process_time() - stretched < stretched - began


async def test_keys_that_were_asked_with_are_not_kept(records: Records) -> None:
    known = authenticator(records)
    keys = [records.add(), new_key()[0], "sk-of-somebody-else"]
    for key in keys:
        with contextlib.suppress(Unauthenticated):
            await known.identify(asking(key))
    held = repr(vars(known))
    assert not [key for key in keys if key in held]


async def test_while_the_state_is_away_a_known_key_goes_on_for_a_time_and_no_longer(records: Records) -> None:
    key = records.add()
    goes_on = KeysAuthenticator({}, records, default_user=None, record_s=-1.0)
    ended = KeysAuthenticator({}, records, default_user=None, record_s=-1.0, outage_s=-1.0)
    for known in (goes_on, ended):
        assert (await known.identify(asking(key))).tenant == "acme"
    records.away = True
    for _ in range(2):
        assert (await goes_on.identify(asking(key))).tenant == "acme"
        with pytest.raises(StateUnavailable):
            await ended.identify(asking(key))
        with pytest.raises(Unauthenticated):
            await goes_on.identify(asking(key[:-43] + new_key()[0][-43:]))
    records.away = False
    assert (await ended.identify(asking(key))).tenant == "acme"


async def test_a_key_of_the_configuration_is_taken_however_long_the_state_is_away(records: Records) -> None:
    key, key_id = new_key()
    record = KeyRecord(id=key_id, tenant="acme", hash=hashed(key), created_at=NOW)
    known = KeysAuthenticator({key_id: record}, records, default_user=None, record_s=-1.0, outage_s=-1.0)
    records.away = True
    assert (await known.identify(asking(key))).tenant == "acme"


async def test_two_different_keys_in_one_request_are_nobodys(records: Records) -> None:
    keys = [records.add(), records.add()]
    headers = Headers([(b"authorization", f"Bearer {key}".encode()) for key in keys])
    with pytest.raises(Unauthenticated, match="twice"):
        await authenticator(records).identify(headers)
    twice = Headers([(b"authorization", f"Bearer {keys[0]}".encode())] * 2)
    assert (await authenticator(records).identify(twice)).tenant == "acme"


async def test_a_key_of_a_project_sees_no_other(records: Records) -> None:
    known, key = authenticator(records), records.add(project="apollo")
    identity = await known.identify(asking(key))
    assert resolve_project(identity, None) == resolve_project(identity, "apollo") == "apollo"
    with pytest.raises(Forbidden):
        resolve_project(identity, "zeus")
    with pytest.raises(Forbidden):
        await known.identify(asking(key, project="zeus"))


def test_hashes_differ_for_the_same_key_and_damaged_ones_match_nothing() -> None:
    key, _ = new_key()
    one, other = hashed(key), hashed(key)
    assert one != other
    assert matches(key, one)
    kind, salt, made = one.split("$")
    shorter, stretched = f"{kind}${salt[:-4]}${made}", f"scrypt$16384$8$1${salt}${made}"
    damaged = ["", "$$", f"{kind}$$", f"{kind}$1", f"plain${salt}${made}", one[:-4], f"{one}$", f"{kind}${salt}$"]
    damaged += ["a$b$c$d", shorter, stretched, f"{kind}${salt}!${made}", f"{kind}$\u00e4${made}"]
    for record in damaged:
        assert not is_hash(record)
        assert not matches(key, record)


def test_a_key_that_holds_is_listed_as_valid() -> None:
    key, record = keys.make_key(tenant="acme")
    assert matches(key, record.hash)
    assert "valid" in keys.line(record)


async def test_a_key_revoked_elsewhere_ends_at_once(tmp_path: Path) -> None:
    serving, other = (SqliteState(tmp_path / "state.db", sync="normal") for _ in range(2))
    await serving.open()
    await other.open()
    try:
        key, record = keys.make_key(tenant="acme")
        await other.add_proxy_key(record)
        settings = Settings.model_validate({"auth": {"mode": "keys"}})
        known = make_authenticator(settings.auth, settings.server, b"s", serving.proxy_key, serving.news)
        asking = Headers([(b"authorization", f"Bearer {key}".encode())])
        assert (await known.identify(asking)).tenant == "acme"
        assert await other.revoke_proxy_key(record.id, datetime.now(UTC))
        with pytest.raises(Unauthenticated, match="revoked"):
            await known.identify(asking)
    finally:
        await other.close()
        await serving.close()
