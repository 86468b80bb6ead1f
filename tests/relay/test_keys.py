"""Proxy keys at the relay: who may chat, whose memory it is, and that no upstream ever sees such a key."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from memproxy.auth.identity import decode_identity
from memproxy.commands.keys import make_key
from memproxy.core.protocol import IDENTITY_HEADER
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, Running
from tests.support.upstream import ScriptedUpstream

QUESTION = "What is my budget?"


def keys_before(upstream: ScriptedUpstream) -> dict[str, dict[str, Any]]:
    """Settings with which keys are asked for, and the operator's own goes upstream."""
    return {"auth": {"mode": "keys"}, "upstream": {"base_url": upstream.base_url, "api_key": "sk-upstream"}}


@pytest.fixture
async def relay(running: Running, upstream: ScriptedUpstream, state: SqliteState) -> AsyncIterator[Rig]:
    async with running(**keys_before(upstream)) as rig:
        rig.engine.recall = Memories(numbered(100))
        await state.open()
        yield rig


async def key_for(state: SqliteState, **asked: Any) -> dict[str, str]:
    key, record = make_key(tenant="acme", **asked)
    await state.add_proxy_key(record)
    return {"authorization": f"Bearer {key}"}


async def test_only_a_known_key_may_chat(relay: Rig, upstream: ScriptedUpstream, state: SqliteState) -> None:
    for headers in ({}, {"authorization": "Bearer sk-upstream"}, {"api-key": "mpk_x"}):
        refused = await relay.chat(QUESTION, headers=headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert upstream.received == []
    answer = await relay.chat(QUESTION, headers=await key_for(state, user="ann"))
    assert (answer.status_code, answer.headers["x-memproxy-recall"]) == (200, "injected")
    assert upstream.last.header("authorization") == "Bearer sk-upstream"
    assert "mpk_" not in str(upstream.last.headers)
    assert (relay.engine.asked[-1].scope.tenant, relay.engine.asked[-1].scope.user) == ("acme", "ann")


async def test_a_page_of_an_allowed_origin_may_chat(
    running: Running, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    server = {"cors_origins": ["https://app.example"]}
    page = {"origin": "https://app.example"}
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    async with running(**keys_before(upstream), server=server) as relay:
        await state.open()
        # a browser asks first, without a key
        preflight = await relay.client.options("/v1/chat/completions", headers=page | asked)
        answers = [
            await relay.chat(QUESTION, headers=page | await key_for(state)),
            await relay.chat(QUESTION, headers=page),
        ]
        foreign = await relay.client.options("/v1/chat/completions", headers=asked | {"origin": "https://evil.example"})
    assert (preflight.status_code, preflight.headers["access-control-allow-headers"]) == (204, "authorization")
    assert [answer.status_code for answer in answers] == [200, 401]
    for answer in (preflight, *answers):
        assert answer.headers.get_list("access-control-allow-origin") == ["https://app.example"]
        exposed = answer.headers["access-control-expose-headers"].split(", ")
        ours = ["Request-Id", "Session", "Recall", "Memories", "Memories-New"]
        ours += ["Context", "Erasure", "Write", "Next-Cursor"]
        assert {f"X-Memproxy-{name}" for name in ours} <= set(exposed)
    assert foreign.status_code == 403
    assert [one.method for one in upstream.received] == ["POST"]


async def test_other_paths_need_the_key_too(relay: Rig, upstream: ScriptedUpstream, state: SqliteState) -> None:
    assert (await relay.client.get("/v1/models")).status_code == 401
    await relay.client.get("/v1/models", headers=await key_for(state))
    assert upstream.last.target == "/v1/models"
    reads = await key_for(state, permissions=["memory:read"])
    assert (await relay.client.get("/v1/models", headers=reads)).status_code == 403


async def test_a_key_for_one_user_cannot_name_another(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState
) -> None:
    bound = await key_for(state, user="ann")
    named = await relay.chat(QUESTION, headers=bound | {"x-memproxy-user": "ben"})
    assert (named.status_code, named.json()["error"]["type"]) == (403, "permission_error")
    in_body = await relay.chat(QUESTION, headers=bound, memory_context={"user_id": "ben"})
    assert in_body.status_code == 403
    assert upstream.received == []


@pytest.mark.parametrize("named", [{"user": "ben"}, {"safety_identifier": "ben"}, {"metadata": {"user_id": "ben"}}])
async def test_a_key_for_one_user_remembers_nothing_of_another_whom_the_providers_fields_name(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, named: dict[str, Any]
) -> None:
    bound = await key_for(state, user="ann")
    answer = await relay.chat(QUESTION, headers=bound, **named)
    assert (answer.status_code, answer.headers["x-memproxy-recall"]) == (200, "skipped; reason=user_not_allowed")
    assert (relay.engine.asked, len(upstream.received)) == ([], 1)
    for sure in ({"headers": bound, "user": "ann"}, {"headers": bound | {"x-memproxy-user": "ann"}, **named}):
        assert (await relay.chat(QUESTION, **sure)).headers["x-memproxy-recall"] == "injected"
    assert {asked.scope.user for asked in relay.engine.asked} == {"ann"}


@pytest.mark.parametrize(
    "named",
    [
        {"user": "ben"},
        {"safety_identifier": "ben"},
        {"metadata": {"user_id": "ben"}},
        {"memory_context": {"user_id": "ben"}},
        {"headers": {"x-memproxy-user": "ben"}},
    ],
)
async def test_end_users_of_one_key_are_never_mixed(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, named: dict[str, Any]
) -> None:
    """A key for nobody in particular that may not name users: who is named has no memory, and nobody's is shown."""
    headers = await key_for(state) | named.pop("headers", {})
    answer = await relay.chat(QUESTION, headers=headers, **named)
    assert (answer.status_code, answer.headers["x-memproxy-recall"]) == (200, "skipped; reason=user_not_allowed")
    assert relay.engine.asked == []
    assert len(upstream.received) == 1


async def test_a_key_that_acts_for_users_names_them(relay: Rig, state: SqliteState) -> None:
    acting = await key_for(state, permissions=["chat", "act_as_user"])
    await relay.chat(QUESTION, headers=acting, user="ben")
    assert relay.engine.asked[-1].scope.user == "ben"


async def test_the_memory_api_is_told_what_the_key_may(relay: Rig, state: SqliteState) -> None:
    assert (await relay.client.get("/v1/memory")).status_code == 401
    await relay.client.get("/v1/memory", headers=await key_for(state, user="ann", project="apollo"))
    sent = {name.lower(): value for name, value in relay.engine.api_calls[-1][2].items()}
    identity = decode_identity(sent[IDENTITY_HEADER])
    assert (identity.tenant, identity.default_user, identity.project) == ("acme", "ann", "apollo")
    assert (identity.bound_project, "act_as_user" in identity.permissions) == (True, False)


async def test_a_revoked_key_is_nobody(relay: Rig, state: SqliteState) -> None:
    headers = await key_for(state)
    (record,) = await state.proxy_keys("acme")
    assert await state.revoke_proxy_key(record.id, datetime.now(UTC))
    assert not await state.revoke_proxy_key(record.id, datetime.now(UTC))
    assert (await relay.chat(QUESTION, headers=headers)).status_code == 401
    assert (await state.proxy_keys(None))[0] != record
    assert await state.proxy_keys("other") == []
    assert msgspec.structs.replace((await state.proxy_keys(None))[0], revoked_at=None) == record
