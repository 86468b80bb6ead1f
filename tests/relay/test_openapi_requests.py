"""Requests of OpenAI's own schema, with unknown fields, through the relay: each reaches the upstream as it is."""

import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import giving
from tests.relay.rig import Rig, running_relay
from tests.support.answers import completion
from tests.support.openapi import bodies
from tests.support.shared import EVAL, needs_data
from tests.support.upstream import ScriptedUpstream

SPECIFICATION = "openai-openapi.yaml"
PATH = EVAL / SPECIFICATION
EXAMPLES = int(os.environ.get("MEMPROXY_TEST_EXAMPLES", "12"))
"""How many requests of each kind; many more by hand than in the suite."""

BLOCK = '<recalled-memory id="0">\n- [2026-11-20] (fact) likes "\u00e9" \U0001f600 [m:m1]\n</recalled-memory>'
QUOTED = json.dumps(BLOCK).encode()
MESSAGE = b'{"role":"system","content":' + QUOTED + b"}"
TEXT_ITEM = b"[" + MESSAGE + b',{"role":"user","content":'

pytestmark = needs_data(SPECIFICATION)
many = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture
async def relay(upstream: ScriptedUpstream, tmp_path: Path) -> AsyncIterator[Rig]:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    sections: dict[str, Any] = {"gate": {"enabled": False}, "inject": {"sticky": False}}
    async with running_relay(upstream.base_url, state, tmp_path, **sections) as rig:
        rig.engine.recall = giving(BLOCK)
        upstream.default = lambda _received: completion("Yes.")
        yield rig


def without_block(sent: bytes) -> Iterator[bytes]:
    """The request as the client may have written it: each place where a block can be put, undone."""
    for put in (MESSAGE + b",", b"," + MESSAGE, b'"instructions":' + QUOTED + b",", rb"\n\n" + QUOTED[1:-1]):
        yield sent.replace(put, b"", 1)
    yield sent.replace(QUOTED, b"null", 1)
    yield sent.replace(QUOTED, b'""', 1)
    before, found, after = sent.partition(TEXT_ITEM)
    if found:
        text = after.decode()
        _, end = json.JSONDecoder(strict=False).raw_decode(text)
        yield before + text[:end].encode() + text[end:].encode().removeprefix(b"}]")


async def assert_relayed(relay: Rig, upstream: ScriptedUpstream, path: str, body: bytes) -> None:
    """The upstream's answer came back, and the upstream got the client's bytes, but for one block."""
    upstream.received.clear()
    answer = await relay.post(body, path=path)
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, "Yes.")
    sent, recall = upstream.last.body, answer.headers["x-memproxy-recall"]
    event(recall)
    assert "unreadable" not in recall
    assert "internal" not in recall
    if sent == body:
        assert not recall.startswith("injected")
    else:
        assert body in without_block(sent)
        assert recall.startswith("injected")


@many
@given(body=bodies(PATH, "CreateChatCompletionRequest") if PATH.exists() else st.nothing())
async def test_any_chat_request_of_the_schema_is_relayed(relay: Rig, upstream: ScriptedUpstream, body: bytes) -> None:
    await assert_relayed(relay, upstream, "/v1/chat/completions", body)


@many
@given(body=bodies(PATH, "CreateResponse") if PATH.exists() else st.nothing())
async def test_any_request_for_a_response_of_the_schema_is_relayed(
    relay: Rig, upstream: ScriptedUpstream, body: bytes
) -> None:
    await assert_relayed(relay, upstream, "/v1/responses", body)
