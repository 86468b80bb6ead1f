"""Where blocks go when an upstream refuses them: tried once without, and what its error spoke of is learned."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.relay.refusal import MOST_OF_A_TENANT, Refusal, judge
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import Memories, numbered
from tests.relay.rig import Rig, Running, running_relay
from tests.support.answers import Answer, Answerer, Received, echo, error, gzipped, refusing_late_system
from tests.support.upstream import ScriptedUpstream

ANN, MALLORY = ({"authorization": f"Bearer sk-{name}"} for name in ("ann", "mallory"))
LATE = ["user", "assistant", "system", "user"]


def roles(upstream: ScriptedUpstream) -> list[str]:
    """Of the messages that came last."""
    return [message["role"] for message in upstream.last.messages]


def refusing_blocks(answer: Answer, *, late_only: bool = False) -> Answerer:
    """An upstream that answers so whenever something was injected (late in the request)."""

    def answerer(received: Received) -> Answer:
        late = [message for message in received.messages[1:] if message["role"] == "system"]
        first = received.messages[0]
        injected = bool(late) if late_only else "recalled-memory" in received.body.decode()
        return answer if injected or (late_only and first["role"] == "system" and late) else echo(received)

    return answerer


async def test_a_template_that_wants_system_text_first_gets_it_there_from_then_on(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.default = refusing_late_system
    first = await relay.chat("my trip", "What is my budget?")
    assert first.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    upstream.received.clear()
    second = await relay.chat("my trip", "What is my budget?", "And my hotel?")
    assert second.headers["x-memproxy-recall"] == "injected"
    assert roles(upstream)[:2] == ["system", "user"]
    assert len(upstream.received) == 1


def without_system(received: Received) -> Answer:
    """A model whose template takes no system message."""
    has = any(message["role"] == "system" for message in received.messages)
    return error(400, "System role not supported") if has else echo(received)


@pytest.mark.parametrize("parts", [False, True])
async def test_a_model_without_a_systems_role_gets_blocks_within_the_users_messages(
    relay: Rig, upstream: ScriptedUpstream, parts: bool
) -> None:
    upstream.default = without_system
    for _ in range(2):  # late, then at the beginning
        answer = await relay.chat("my trip")
        assert answer.status_code == 200
        assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    upstream.received.clear()
    told: Any = [{"type": "text", "text": "my trip"}] if parts else "my trip"
    third = await relay.chat(messages=[{"role": "user", "content": told}])
    assert third.headers["x-memproxy-recall"] == "injected"
    (received,) = upstream.received
    (message,) = received.messages
    content = message["content"]
    texts = [part["text"] for part in content] if parts else content.rsplit("\n\n", 1)
    assert texts[0].startswith("<recalled-memory id=")
    assert texts[1] == "my trip"


async def test_instructions_of_ones_own_that_are_refused_move_no_block(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.default = refusing_blocks(error(400, "odd roles"))
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "my trip"}]
    for _ in range(3):
        await relay.chat(messages=messages)
    assert [message["role"] for message in upstream.received[-2].messages] == ["system", "user"]
    assert "recalled-memory" in upstream.received[-2].messages[0]["content"]


async def test_what_was_learned_survives_a_restart(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    upstream.default = refusing_late_system
    for _ in range(2):
        state = SqliteState(tmp_path / "state.db", sync="normal")
        await state.open()
        async with running_relay(upstream.base_url, state, tmp_path) as relay:
            relay.engine.recall = Memories(numbered(100))
            answer = await relay.chat("my trip", "What is my budget?")
    assert answer.headers["x-memproxy-recall"] == "injected"
    assert len(upstream.received) == 3


async def test_another_model_keeps_the_late_position(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.default = refusing_late_system
    await relay.chat("my trip", "What is my budget?")
    upstream.default = echo
    await relay.chat("my trip", "What is my budget?", model="another")
    assert roles(upstream) == LATE


async def test_what_one_tenants_refusal_teaches_moves_nothing_in_anothers_requests(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.default = refusing_late_system
    await relay.chat("my trip", "What is my budget?", headers=MALLORY)
    upstream.default = echo
    for headers, expected in ((MALLORY, ["system", "user", "assistant", "user"]), (ANN, LATE)):
        await relay.chat("my trip", "What is my budget?", headers=headers)
        assert roles(upstream) == expected


async def test_made_up_models_displace_ones_own_alone(relay: Rig, upstream: ScriptedUpstream) -> None:
    upstream.default = refusing_late_system
    await relay.chat("my trip", "What is my budget?", headers=ANN)
    for number in range(MOST_OF_A_TENANT + 1):
        await relay.chat("my trip", "What is my budget?", headers=MALLORY, model=f"m{number}")
    upstream.default = echo
    asked = ((MALLORY, "m0", "user"), (MALLORY, "m1", "system"), (ANN, "test-model", "system"))
    for headers, model, first in asked:
        await relay.chat("my trip", "What is my budget?", headers=headers, model=model)
        assert roles(upstream)[0] == first


@pytest.mark.parametrize(
    "refused",
    [
        error(500, "Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/..."),
        gzipped(error(400, "After the optional system message, conversation roles must alternate")),
        Answer([b"chat template failed"], 500, [("content-type", "text/plain")], framing="chunked"),
    ],
)
async def test_servers_that_refuse_roles_in_other_ways_are_understood(
    relay: Rig, upstream: ScriptedUpstream, refused: Answer
) -> None:
    upstream.default = refusing_blocks(refused, late_only=True)
    answer = await relay.chat("my trip", "What is my budget?")
    assert answer.status_code == 200
    assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    again = await relay.chat("my trip", "What is my budget?", "And my hotel?")
    assert again.headers["x-memproxy-recall"] == "injected"


async def test_any_other_500_reaches_the_client_as_it_came(relay: Rig, upstream: ScriptedUpstream) -> None:
    refused = error(500, "out of memory " + "x" * 200_000)
    upstream.default = refusing_blocks(refused)
    answer = await relay.chat("What is my budget?")
    assert answer.status_code == 500
    assert answer.content == refused.parts[0]
    assert len(upstream.received) == 1


async def test_nothing_is_learned_when_the_clients_own_request_is_refused_too(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    upstream.default = lambda _received: error(400, "messages[0].role is not a role")
    answer = await relay.chat("my trip", "What is my budget?")
    assert answer.status_code == 400
    assert len(upstream.received) == 2
    upstream.default = echo
    await relay.chat("my trip", "What is my budget?")
    assert roles(upstream) == LATE


async def test_a_configured_position_stays(running: Running, upstream: ScriptedUpstream) -> None:
    upstream.default = refusing_late_system
    async with running(inject={"position": "before_last_user"}) as relay:
        relay.engine.recall = Memories(numbered(100))
        for _ in range(2):
            answer = await relay.chat("my trip", "What is my budget?")
            assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    assert len(upstream.received) == 4


async def test_after_a_length_error_the_sessions_budget_halves(relay: Rig, upstream: ScriptedUpstream) -> None:
    headers = {"X-Memproxy-Session": "s"}
    too_long = error(400, "This model's maximum context length is 8192 tokens.", code="context_length_exceeded")
    upstream.default = refusing_blocks(too_long)
    for length in (1, 2):
        answer = await relay.chat(*["my trip", "my hotel"][:length], headers=headers)
        assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    await relay.chat("my trip", headers={"X-Memproxy-Session": "another"})
    assert [asked.limits.max_tokens for asked in relay.engine.asked] == [600, 300, 600]
    assert roles(upstream) == ["user"]


async def test_a_refused_block_is_not_repeated(relay: Rig, upstream: ScriptedUpstream) -> None:
    headers = {"X-Memproxy-Session": "s"}
    upstream.default = refusing_blocks(error(422, "no"))
    answer = await relay.chat("my trip", headers=headers)
    assert (answer.headers["x-memproxy-memories"], answer.headers["x-memproxy-memories-new"]) == ("0", "0")
    upstream.default = echo
    relay.engine.recall = Memories({})
    await relay.chat("my trip", "my hotel", headers=headers)
    assert relay.engine.asked[-1].shown == []
    assert b"recalled-memory" not in upstream.last.body


async def test_a_refusal_of_repeated_blocks_alone_is_answered_without_them(
    relay: Rig, upstream: ScriptedUpstream
) -> None:
    headers = {"X-Memproxy-Session": "s"}
    await relay.chat("my trip", headers=headers)
    relay.engine.recall = Memories({})
    upstream.default = refusing_blocks(error(413, "too large"))
    answer = await relay.chat("my trip", "my hotel", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        ("System message must be at the beginning.", Refusal.ROLES),
        ('{"code":"invalid_role_order"}', Refusal.ROLES),
        ("Only user and assistant roles are supported!", Refusal.ROLES),
        ("maximum context length is 4096 tokens, reduce the length of the messages", Refusal.LENGTH),
        ("prompt is too long: 210000 tokens > 200000 maximum", Refusal.LENGTH),
        ("input exceeds the context window", Refusal.LENGTH),
        ("the request needs 9000 tokens", Refusal.LENGTH),
        ("unsupported system prompt", Refusal.SYSTEM),
        ("temperature must be at most 2", Refusal.OTHER),
        ("", Refusal.OTHER),
    ],
)
def test_an_errors_words_say_why(words: str, refusal: Refusal) -> None:
    assert judge(words) is refusal
