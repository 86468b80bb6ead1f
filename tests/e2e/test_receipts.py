"""A chat's request id leads to why it got its memories, and later to what was learned from it."""

from typing import Any

import pytest

from tests.e2e.talk import chat, extract_by_rules, word
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def receipt(proxy: Proxy, request_id: str, user: str) -> tuple[int, dict[str, Any]]:
    async with proxy.client() as client:
        answer = await client.get(f"/v1/memory/receipts/{request_id}", headers={"x-memproxy-user": user})
    found: dict[str, Any] = answer.json()
    return answer.status_code, found


async def learned(proxy: Proxy, request_id: str, user: str) -> dict[str, Any]:
    """The receipt, as soon as its turn was learned from."""

    async def done() -> dict[str, Any] | None:
        status, found = await receipt(proxy, request_id, user)
        return found if status == 200 and found["learned"]["state"] == "done" else None

    told: dict[str, Any] | None = await eventually(done, what="the turn was learned from")
    assert told is not None
    return told


async def test_a_receipt_tells_what_was_injected_and_what_was_learned(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    model.extractor = extract_by_rules
    user = word()
    headers = {"x-memproxy-user": user}
    async with shared_proxy.client() as client:
        told = await chat(client, "My budget for the Hawaii vacation is $10,000.", headers=headers)
        first = await learned(shared_proxy, told.header("x-memproxy-request-id"), user)
        asked = await chat(client, "What is my budget for the Hawaii vacation?", headers=headers)
        greeted = await chat(client, "Hello!", headers=headers)

    assert (first["result"], first["mode"], first["captured"]) == ("empty", "on", True)
    assert first["upstream"] == {"status": 200, "model": "test-model"}
    (stored,) = first["learned"]["outcomes"]
    assert (stored["result"], stored["content"]) == ("stored", "The user's budget for the Hawaii vacation is $10,000")
    assert stored["turn_id"] in first["turn_ids"]

    status, second = await receipt(shared_proxy, asked.header("x-memproxy-request-id"), user)
    assert (status, second["result"], second["decision"]["searched"]) == (200, "injected", True)
    assert second["session_id"] == asked.header("x-memproxy-session")
    assert stored["memory_id"] in [one["memory_id"] for one in second["memories"]]
    assert len(second["memories"]) == int(asked.header("x-memproxy-memories"))
    assert second["tokens"] > 0
    assert {"gate", "recall"} <= set((await learned(shared_proxy, second["request_id"], user))["timings"])

    async with shared_proxy.client() as client:
        for mode, words, result in (("read", "Hello!", "skipped"), ("on", "Thanks a lot!", "skipped")):
            noted = await chat(client, words, headers={**headers, "x-memproxy-memory": mode})
            status, one = await receipt(shared_proxy, noted.header("x-memproxy-request-id"), user)  # at once
            assert (status, one["result"], one["mode"]) == (200, result, mode)
            assert one["decision"]["searched"] is False

    third = await learned(shared_proxy, greeted.header("x-memproxy-request-id"), user)
    assert (third["result"], third["reason"]) == ("skipped", "greeting")
    assert third["decision"] == {"searched": False, "reason": "greeting"}
    assert third["learned"]["outcomes"] == []

    assert (await receipt(shared_proxy, second["request_id"], word()))[0] == 404


@pytest.mark.usefixtures("model")
async def test_what_looks_general_is_skipped_until_the_user_speaks_of_it(shared_proxy: Proxy) -> None:
    user = word()
    headers = {"x-memproxy-user": user}
    question = "What is the capital of France?"
    async with shared_proxy.client() as client:
        before = await chat(client, question, headers={**headers, "x-memproxy-memory": "read"})
        await chat(client, "My sailing boat is called The Capital of France.", headers=headers)
        after = await chat(client, question, headers={**headers, "x-memproxy-memory": "read"})
    assert before.recall == "skipped; reason=fact"
    assert not after.recall.startswith("skipped")
    for answer, searched in ((before, False), (after, True)):
        status, found = await receipt(shared_proxy, answer.header("x-memproxy-request-id"), user)
        assert (status, found["decision"]) == (200, {"searched": searched, "reason": "fact"})
