"""What one conversation tells, the next one knows, at once; and nobody else. A chat's request id leads to why it got
its memories, and later to what was learned from it.
"""

import asyncio
import json
from functools import partial
from typing import Any

import httpx
import pytest

from tests.e2e.talk import body, chat, extract_by_rules, found, listed, say, word
from tests.support.answers import Answer, chat_events, completion, error, stream, text_of
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = "What is my budget for the Hawaii vacation?"


async def tell(proxy: Proxy, text: str, *, key: str = "", user: str | None = None) -> None:
    """Say something in a conversation of its own and wait until it can be searched for."""
    headers = {"x-memproxy-user": user} if user else {}
    answer = await say(proxy, text, headers=headers, key=key)
    assert answer.status == 200
    await eventually(lambda: found(proxy, text, key=key, user=user), what=f"{text!r} is searchable")


async def test_a_fact_of_one_conversation_is_injected_in_the_next(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user = word()
    await tell(shared_proxy, "My budget for the Hawaii vacation is $10,000.", user=user)
    answer = await say(shared_proxy, QUESTION, headers={"x-memproxy-user": user})
    assert answer.recall == "injected"
    assert int(answer.header("x-memproxy-memories")) >= 1
    *before, last = model.last.messages
    assert last == {"content": QUESTION, "role": "user"}
    assert [message["role"] for message in before] == ["system"]
    assert "$10,000" in text_of(before[0])


async def test_an_injected_request_differs_only_by_the_block(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user = word()
    await tell(shared_proxy, "My sister Greta plays the violin in Graz.", user=user)
    sent = body("Which instrument does my sister Greta play?", temperature=1.0, top_p=1e-6)
    answer = await shared_proxy.call("POST", "/v1/chat/completions", content=sent, headers={"x-memproxy-user": user})
    assert answer.headers["x-memproxy-recall"] == "injected"
    received = model.last.body
    start = next(place for place, (a, b) in enumerate(zip(sent, received, strict=False)) if a != b)
    end = len(sent) - start
    assert received.endswith(sent[-end:]), "what follows the block is the client's own bytes"
    assert json.loads(received)["messages"][-1] == json.loads(sent)["messages"][-1]


@pytest.mark.usefixtures("model")
async def test_a_streamed_answer_is_remembered_too(shared_proxy: Proxy) -> None:
    user, secret = word(), word()
    await say(shared_proxy, f"My locker code word is {secret}.", headers={"x-memproxy-user": user}, stream=True)
    await eventually(lambda: found(shared_proxy, f"You said: My locker code word is {secret}.", user=user))
    assert {turn["metadata"]["role"] for turn in await found(shared_proxy, secret, user=user)} == {"user", "assistant"}


async def test_another_key_and_another_user_never_see_it(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    user = word()
    await tell(shared_proxy, "My budget for the Hawaii vacation is $10,000.", user=user)
    for key, name in ((shared_proxy.key, word()), ("sk-test-two", user), ("sk-test-two", None)):
        headers = {"x-memproxy-user": name} if name else {}
        answer = await say(shared_proxy, QUESTION, headers=headers, key=key)
        assert answer.recall == "empty", (key, name)
        assert model.last.body == body(QUESTION)
        assert not await found(shared_proxy, "Hawaii vacation is $10,000", key=key, user=name)


async def test_facts_are_extracted_behind_the_answer(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    model.extractor = extract_by_rules
    user = word()
    await tell(shared_proxy, "I also have a dog named Biscuit.", user=user)

    async def facts() -> list[str]:
        memories = await listed(shared_proxy, user_id=user, active="true")
        return [memory["content"] for memory in memories if memory["kind"] != "turn"]

    assert await eventually(facts, what="the dog is learned") == ["The user has a dog named Biscuit"]
    await say(shared_proxy, "What's my dog's name?", headers={"x-memproxy-user": user})
    assert "Biscuit" in text_of(model.last.messages[0])


@pytest.mark.parametrize("repeated", [False, True])
async def test_a_changed_fact_supersedes_the_old_one_also_where_an_answer_repeated_that(
    shared_proxy: Proxy, model: ScriptedUpstream, *, repeated: bool
) -> None:
    model.extractor = extract_by_rules
    user = word()

    async def budgets(*, active: bool) -> list[str]:
        memories = await listed(shared_proxy, user_id=user, active=str(active).lower())
        return [memory["content"] for memory in memories if memory["kind"] == "semantic"]

    for amount in ("$10,000", "$15,000"):
        await tell(shared_proxy, f"My budget for the Hawaii vacation is {amount}.", user=user)
        current = [f"The user's budget for the Hawaii vacation is {amount}"]

        async def is_current(current: list[str] = current) -> bool:
            return await budgets(active=True) == current

        await eventually(is_current, what=f"{amount} is the one active budget")
        if repeated and amount == "$10,000":
            said = "Your budget for the Hawaii vacation is $10,000."
            model.script(completion(said))
            await say(shared_proxy, QUESTION, headers={"x-memproxy-user": user})
            await eventually(lambda: found(shared_proxy, said, user=user), what="the answer is a turn")  # noqa: B023
    assert await budgets(active=False) == ["The user's budget for the Hawaii vacation is $10,000"]
    await say(shared_proxy, QUESTION, headers={"x-memproxy-user": user})
    block = text_of(model.last.messages[0])
    assert "$15,000" in block
    assert stale_lines(block) == []


async def test_ordered_to_forget_everything_the_next_conversation_knows_nothing_until_it_is_told_again(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    model.extractor = extract_by_rules
    user = word()
    headers = {"x-memproxy-user": user}
    await tell(shared_proxy, "My budget for the Hawaii vacation is $10,000.", user=user)

    async def asks() -> tuple[str, str]:
        answer = await say(shared_proxy, QUESTION, headers=headers)
        return answer.recall, text_of(model.last.messages[0])

    assert "$10,000" in (await asks())[1]
    await say(shared_proxy, "Forget everything you know about me.", headers=headers)

    async def is_forgotten() -> bool:
        return not [
            one for one in await listed(shared_proxy, user_id=user, active="true") if "10,000" in one["content"]
        ]

    await eventually(is_forgotten, what="the budget is forgotten")
    assert (await asks())[0] == "empty"
    await tell(shared_proxy, "My budget for the Hawaii vacation is $15,000.", user=user)
    assert "$15,000" in (await asks())[1]


def stale_lines(block: str) -> list[str]:
    """Lines that show the old budget without saying that it is not current any more."""
    lines = [line for line in block.splitlines() if "$10,000" in line]
    return [line for line in lines if "superseded" not in line.lower() and "$15,000" not in line]


@pytest.mark.parametrize("erased", ["users/zoe", "sessions/{session}?user_id=zoe", "?user_id=zoe"])
async def test_a_conversation_that_begins_anew_after_an_erasure_is_not_the_erased_one(
    shared_proxy: Proxy, erased: str
) -> None:
    said = [f"My boat is called {word()}.", "A fine name.", "It is green."]
    sessions = [(await say(shared_proxy, *said[:length], user="zoe")).header("x-memproxy-session") for length in (1, 3)]
    assert len(set(sessions)) == 1
    path = f"/v1/memory/{erased.format(session=sessions[0])}".replace("/?", "?")
    async with shared_proxy.client() as client:
        assert (await client.delete(path)).status_code == 200
    assert (await say(shared_proxy, *said, user="zoe")).header("x-memproxy-session") != sessions[0]


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_readme_s_example_is_injected_at_once(
    shared_proxy: Proxy, model: ScriptedUpstream, *, streamed: bool
) -> None:
    headers = {"x-memproxy-user": word()}
    async with shared_proxy.client() as client:
        await chat(client, "My budget for the Hawaii vacation is $10,000.", headers=headers, stream=streamed)
        answer = await chat(client, "What's my budget for the trip?", headers=headers)
    assert answer.recall == "injected"
    assert "$10,000" in text_of(model.last.messages[0])


@pytest.mark.usefixtures("model")
async def test_many_users_at_once_each_find_their_own_words(shared_proxy: Proxy) -> None:
    async def one(place: int) -> str:
        headers = {"x-memproxy-user": word()}
        async with shared_proxy.client() as client:
            await chat(client, f"My locker code is 44{place}.", headers=headers)
            return (await chat(client, "What is my locker code?", headers=headers)).recall

    assert await asyncio.gather(*(one(place) for place in range(4))) == ["injected"] * 4


async def receipt(proxy: Proxy, request_id: str, user: str) -> tuple[int, dict[str, Any]]:
    answer = await proxy.call("GET", f"/v1/memory/receipts/{request_id}", headers={"x-memproxy-user": user})
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
        question = {"query": "What is my budget for the Hawaii vacation?", "user_id": user, "session_id": "s"}
        recalled = (await client.post("/v1/memory/recall", json=question)).json()
        asked = await chat(client, question["query"], headers={**headers, "x-memproxy-session": "s"})
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
    assert second["tokens"] == recalled["tokens"] > 0
    assert {"gate", "recall"} <= set((await learned(shared_proxy, second["request_id"], user))["timings"])

    async with shared_proxy.client() as client:
        for mode, words, result in (("read", "Hello!", "skipped"), ("on", "Thanks a lot!", "skipped")):
            noted = await chat(client, words, headers={**headers, "x-memproxy-memory": mode})
            status, one = await receipt(shared_proxy, noted.header("x-memproxy-request-id"), user)  # at once
            assert (status, one["result"], one["mode"]) == (200, result, mode)
            assert one["decision"]["searched"] is False

        twice = b'{"messages": [], "messages": [{"role": "user", "content": "Hi"}]}'
        unread = await client.post("/v1/chat/completions", content=twice, headers=headers)
    status, one = await receipt(shared_proxy, unread.headers["x-memproxy-request-id"], user)
    assert (status, one["result"], one["reason"], one["mode"]) == (200, "skipped", "unreadable", "read")
    assert one["upstream"]["status"] == unread.status_code

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


async def test_a_receipt_tells_what_was_sent_also_where_the_turn_is_not_kept(
    shared_proxy: Proxy, model: ScriptedUpstream
) -> None:
    user = word()
    headers = {"x-memproxy-user": user}

    async def receipt_of(request_id: str) -> dict[str, Any] | None:
        status, found = await receipt(shared_proxy, request_id, user)
        return found if status == 200 and found["upstream"] is not None else None

    async with shared_proxy.client() as client:
        await chat(client, "My budget for the Hawaii vacation is $10,000.", headers=headers)
        for mode, status in (("read", 200), ("on", 500), ("shadow", 500), ("write", 500)):
            if status != 200:
                model.script(error(status, "out of order"))
            asked = await chat(client, QUESTION, headers={**headers, "x-memproxy-memory": mode})
            assert asked.status == status
            request_id = asked.header("x-memproxy-request-id")
            told = await eventually(partial(receipt_of, request_id), what="the relay's part is there")
            assert told is not None
            assert told["upstream"] == {"status": status, "model": "test-model"}
            assert (told["mode"], told["result"]) == (mode, asked.recall.split(";")[0])
            assert (told["captured"], told["learned"]["state"]) == (False, "none")


@pytest.mark.parametrize("mode", ["on", "write"])
@pytest.mark.parametrize("cut", [True, False])
async def test_a_receipt_says_that_an_answer_that_broke_off_or_never_came_was_not_kept(
    shared_proxy: Proxy, model: ScriptedUpstream, mode: str, cut: bool
) -> None:
    user, never = word(), asyncio.Event()
    model.script(stream(chat_events("half", " a")[:2], cut=True) if cut else Answer(wait=never))
    headers = {"x-memproxy-user": user, "x-memproxy-memory": mode}
    question = f"{QUESTION} {user}"

    async def told() -> dict[str, Any] | None:
        newest = await shared_proxy.call("GET", "/v1/memory/receipts", params={"user_id": user})
        for one in newest.json()["data"]:
            _, shown = await receipt(shared_proxy, one["request_id"], user)
            if shown["mode"] == mode and not shown["captured"]:
                return shown
        return None

    async with shared_proxy.client() as client:
        asked = asyncio.get_running_loop().create_task(chat(client, question, headers=headers, stream=True))
        if cut:
            with pytest.raises(httpx.RemoteProtocolError):
                await asked
        else:
            await eventually(lambda: question in str(model.received[-1:]), what="the upstream is asked")
            asked.cancel()
    shown = await eventually(told, what="the receipt says that nothing was kept")
    assert shown is not None
    assert shown["upstream"] == {"status": 200 if cut else None, "model": "test-model"}
    assert shown["learned"]["state"] == "none"
