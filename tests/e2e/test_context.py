"""The conversation that a request is sent with: replayed, compressed, beside working memory; on the real server."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from memproxy.learn.compress import COMPRESS_MARK
from memproxy.learn.summary import SUMMARY_MARK
from tests.e2e.talk import chat, found, listed, word
from tests.support.answers import Answer, Received, completion, echo, error, json_answer, text_of
from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHANGES: dict[str, Any] = {
    "conversation": {"replay": 4, "silence_s": 2},
    "compress": {"above_tokens": 150, "keep_last": 2, "every_turns": 4},
    "working": {"inject": "own"},
    "learn": {"every_turns": 100, "idle_s": 600},
}


def answers(received: Received) -> Answer:
    """Answers for summaries and states, and an echo."""
    system = text_of(received.messages[0]) if received.messages else ""
    if system.startswith(SUMMARY_MARK):
        return completion(json.dumps({"summary": "The user talked about a plan."}))
    if system.startswith(COMPRESS_MARK):
        said = re.findall(r'"text": "([^"]*)"', text_of(received.messages[1]))
        return completion(
            json.dumps({"topic": "A plan.", "decisions": said[:2], "constraints": [], "open_points": said[-1:]})
        )
    return echo(received)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def proxy(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home, CHANGES) as started:
            yield started


@pytest_asyncio.fixture(loop_scope="session")
async def upstream(model: ScriptedUpstream) -> ScriptedUpstream:
    model.default = answers
    return model


def asked(upstream: ScriptedUpstream) -> list[Received]:
    """The conversations' own requests, without those of learning."""
    marks = (SUMMARY_MARK, COMPRESS_MARK)
    return [one for one in upstream.received if not one.messages or not text_of(one.messages[0]).startswith(marks)]


async def say(proxy: Proxy, *texts: str, user: str, session: str | None, **headers: str) -> dict[str, str]:
    named = {"x-memproxy-session": session} if session else {}
    async with proxy.client() as client:
        answer = await chat(client, *texts, headers={"x-memproxy-user": user, **named, **headers})
    assert answer.status == 200, answer.body
    return dict(answer.headers)


async def indexed(proxy: Proxy, user: str, messages: int) -> None:
    """Returns once these can be replayed: on a busy machine that takes longer than a replay waits for it."""

    async def all_there() -> bool:
        return len(await listed(proxy, user_id=user, kind="turn")) == messages

    await eventually(all_there, what=f"{messages} messages are indexed")


def contents(received: Received) -> list[str]:
    return [text_of(message) for message in received.messages]


async def test_a_client_without_history_gets_its_sessions_last_messages(
    proxy: Proxy, upstream: ScriptedUpstream
) -> None:
    user, session = word(), word()
    for number in range(4):
        headers = await say(proxy, f"This is remark {number}.", user=user, session=session)
        await indexed(proxy, user, 2 * number + 2)
    assert "replay;turns=4" in headers["x-memproxy-context"]
    last = asked(upstream)[-1]
    said = [one for one in last.messages if one["role"] != "system"]
    assert [(one["role"], text_of(one)) for one in said] == [
        ("user", "This is remark 1."),
        ("assistant", "You said: This is remark 1."),
        ("user", "This is remark 2."),
        ("assistant", "You said: This is remark 2."),
        ("user", "This is remark 3."),
    ]
    receipt = await receipt_of(proxy, headers, user)
    assert receipt["context"]["replayed"] == 4


async def receipt_of(proxy: Proxy, headers: dict[str, str], user: str) -> dict[str, Any]:
    async def get() -> dict[str, Any]:
        answer = await proxy.call(
            "GET", f"/v1/memory/receipts/{headers['x-memproxy-request-id']}", params={"user_id": user}
        )
        return dict(answer.json()) if answer.status_code == 200 and "context" in answer.json() else {}

    return dict(await eventually(get))


async def test_nothing_is_replayed_that_is_not_this_sessions_or_that_the_client_brings(
    proxy: Proxy, upstream: ScriptedUpstream
) -> None:
    user, session = word(), word()
    await say(proxy, "The first remark.", user=user, session=session)
    for other_user, other_session, texts in (
        (user, word(), ["Another session's."]),
        (word(), session, ["Another user's."]),
        (user, session, ["Its own history.", "Yes.", "And on."]),
        (user, None, ["No session named."]),
    ):
        await say(proxy, *texts, user=other_user, session=other_session)
        said = [text_of(one) for one in asked(upstream)[-1].messages if one["role"] != "system"]
        assert said == texts
    await say(proxy, "Only written.", user=user, session=session, **{"x-memproxy-memory": "write"})
    assert contents(asked(upstream)[-1]) == ["Only written."]


async def test_a_forgotten_message_and_an_undone_conversation_never_come_back(
    proxy: Proxy, upstream: ScriptedUpstream
) -> None:
    user, session = word(), word()
    for text in ("I keep a secret garden.", "I like tea."):
        await say(proxy, text, user=user, session=session)

    async def said() -> list[dict[str, Any]]:
        turns = await found(proxy, "secret garden", user=user)
        return [one for one in turns if one["metadata"]["role"] == "user"]

    [secret] = await eventually(said, what="it is found")
    assert (await proxy.call("DELETE", f"/v1/memory/{secret['id']}", params={"user_id": user})).status_code == 200
    await say(proxy, "What else?", user=user, session=session)
    assert "I keep a secret garden." not in contents(asked(upstream)[-1])
    gone = await proxy.call("DELETE", f"/v1/memory/sessions/{session}", params={"user_id": user})
    assert gone.status_code == 200
    await say(proxy, "Hello again, my friend.", user=user, session=session)
    assert contents(asked(upstream)[-1]) == ["Hello again, my friend."]


async def test_replay_works_for_responses(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    user, session = word(), word()
    made = {"id": "resp_1", "object": "response", "status": "completed"}
    output = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Noted."}]}
    headers = {"x-memproxy-user": user, "x-memproxy-session": session}
    for number, text in enumerate(("My cat is Tom.", "What is my cat called?")):
        await indexed(proxy, user, 2 * number)
        upstream.script(json_answer({**made, "output": [output]}))
        answer = await proxy.call("POST", "/v1/responses", json={"model": "m", "input": text}, headers=headers)
        assert answer.status_code == 200
    sent = json.loads(asked(upstream)[-1].body)
    assert [one["content"] for one in sent["input"]] == ["My cat is Tom.", "Noted.", "What is my cat called?"]
    assert "previous_response_id" not in sent


async def test_a_session_that_falls_silent_is_summarised_once(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    user, session = word(), word()
    for text in ("I want to plan a trip to Norway.", "The trip is in June."):
        await say(proxy, text, user=user, session=session)

    async def summaries() -> list[dict[str, Any]]:
        return await listed(proxy, user_id=user, kind="episodic")

    [summary] = await eventually(summaries)
    assert summary["content"] == "The user talked about a plan."
    assert summary["session_id"] == session


def history(count: int) -> list[str]:
    """A conversation of so many messages that ends with the user's."""
    return [f"Remark {at} is about the red house number {at} and its garden." for at in range(count)]


async def compressed(proxy: Proxy, texts: list[str], user: str, session: str) -> dict[str, str]:
    """The headers of the first request of this history that is compressed."""

    async def once() -> dict[str, str]:
        headers = await say(proxy, *texts, user=user, session=session)
        return headers if "left_out" in headers["x-memproxy-context"] else {}

    return dict(await eventually(once))


async def test_a_long_history_is_sent_as_its_state_and_its_last_messages(
    proxy: Proxy, upstream: ScriptedUpstream
) -> None:
    user, session = word(), word()
    texts = history(21)
    first = await say(proxy, *texts, user=user, session=session)
    assert first["x-memproxy-context"] == "working;entries=0, compress;reason=not_ready"
    assert contents(asked(upstream)[-1]) == texts
    headers = await compressed(proxy, texts, user, session)
    assert re.search(r"compress;left_out=18;kept=3;tokens=\d+-\d+", headers["x-memproxy-context"])
    sent = contents(asked(upstream)[-1])
    state, *kept = [one for one in sent if "Recalled from" not in one]
    assert kept == texts[-3:]
    assert json.loads(state.split("\n")[2])["decisions"] == texts[:2]
    receipt = await receipt_of(proxy, headers, user)
    assert receipt["context"]["left_out"] == 18
    turns = receipt["context"]["left_out_turns"]
    async with proxy.client() as client:

        async def turn() -> list[str]:
            answer = await client.get(f"/v1/memory/{turns[0]}", params={"user_id": user})
            return [answer.json()["content"]] if answer.status_code == 200 else []

        assert await eventually(turn) == [texts[0]], "the turns hold what is left out"
    assert await eventually(lambda: found(proxy, texts[3], user=user)), "and it is found"
    assert not await found(proxy, "A plan.", user=user), "the state is never learned"

    # between two states the beginning stays, byte for byte
    before = asked(upstream)[-1].body
    await say(proxy, *texts, f"You said: {texts[-1]}", "And one more remark.", user=user, session=session)
    after = asked(upstream)[-1].body
    assert after[: before.index(b'"Remark 20')] == before[: before.index(b'"Remark 20')]


async def test_a_long_history_of_responses_is_sent_as_its_state_and_its_last_messages(
    proxy: Proxy, upstream: ScriptedUpstream
) -> None:
    user, session = word(), word()
    texts = history(21)
    items = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": "a red door"}
    items[-2:-2] = [call, result]  # what is kept begins with a message of the user, so these two go together
    made = {"id": "resp_1", "object": "response", "status": "completed"}
    output = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Noted."}]}
    respond = json_answer({**made, "output": [output]})
    upstream.default = lambda received: respond if received.target.endswith("/responses") else answers(received)

    async def once() -> str:
        answer = await proxy.call(
            "POST",
            "/v1/responses",
            json={"model": "m", "instructions": "Be short.", "input": items},
            headers={"x-memproxy-user": user, "x-memproxy-session": session},
        )
        assert answer.status_code == 200
        context = str(answer.headers["x-memproxy-context"])
        return context if "left_out" in context else ""

    context = await eventually(once)
    sent = json.loads(asked(upstream)[-1].body)
    assert sent["instructions"] == "Be short."
    state, *kept = [one for one in sent["input"] if "Recalled from" not in str(one)]
    assert kept == items[-len(kept) :]
    assert kept[0]["role"] == "user"
    assert (call in kept) == (result in kept)
    assert json.loads(state["content"].split("\n")[2])["decisions"] == texts[:2]
    assert f"left_out={len(items) - len(kept)};kept={len(kept)}" in context


async def test_a_state_goes_with_the_first_message_that_is_forgotten(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    user, session = word(), word()
    texts = history(21)
    await compressed(proxy, texts, user, session)

    async def held() -> list[dict[str, Any]]:
        return [one for one in await found(proxy, texts[0], user=user) if one["content"] == texts[0]]

    [turn] = await eventually(held)
    assert (await proxy.call("DELETE", f"/v1/memory/{turn['id']}", params={"user_id": user})).status_code == 200
    headers = await say(proxy, *texts, user=user, session=session)
    assert "left_out" not in headers["x-memproxy-context"]
    assert texts[0] in contents(asked(upstream)[-1]), "the client's own history goes on whole"
    assert not await held()


async def test_a_refused_state_costs_nothing_but_itself(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    user, session = word(), word()
    texts = history(21)
    await compressed(proxy, texts, user, session)

    def refuse(received: Received) -> Answer:
        changed = not any(text_of(one) == texts[0] for one in received.messages)
        learning = text_of(received.messages[0]).startswith((SUMMARY_MARK, COMPRESS_MARK))
        return error(400, "no such messages") if changed and not learning else answers(received)

    upstream.default = refuse
    headers = await say(proxy, *texts, user=user, session=session)
    assert headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    assert contents(asked(upstream)[-1]) == texts


async def test_compression_is_a_matter_of_the_request_and_of_the_user(proxy: Proxy, upstream: ScriptedUpstream) -> None:
    user, session = word(), word()
    texts = history(21)
    await compressed(proxy, texts, user, session)
    async with proxy.client() as client:
        headers = {"x-memproxy-user": user, "x-memproxy-session": session}
        answer = await chat(client, *texts, headers=headers, memory_config={"compress_above_tokens": 0})
        assert "compress" not in answer.header("x-memproxy-context")
        chosen = await client.put("/v1/memory/settings", json={"user_id": user, "compress_above_tokens": 100_000})
        assert chosen.status_code == 200
        assert chosen.json()["compress_above_tokens"] == 100_000
        answer = await chat(client, *texts, headers=headers)
        assert "compress" not in answer.header("x-memproxy-context")
        refused = await client.put("/v1/memory/settings", json={"user_id": user, "compress_above_tokens": -1})
        assert refused.status_code == 400


async def test_a_request_is_told_of_its_own_working_memory_and_never_of_what_it_holds(
    proxy: Proxy, upstream: ScriptedUpstream
) -> None:
    user, session = word(), word()
    async with proxy.client() as client:
        for key, owner in ((f"session/{session}/plan", user), (f"session/{session}/x", word()), ("agent/a/y", user)):
            put = await client.put(
                f"/v1/memory/working/{key}", json={"user_id": owner, "data": "the inside", "tags": ["draft"]}
            )
            assert put.status_code == 201, put.text
    headers = await say(proxy, "What is in my notes on the plan?", user=user, session=session)
    assert "working;entries=1" in headers["x-memproxy-context"]
    notes, last = contents(asked(upstream)[-1])[-2:]
    assert last == "What is in my notes on the plan?"
    assert f"- session/{session}/plan: written 0 min ago; expires " in notes
    assert "tags draft" in notes
    assert "the inside" not in notes
    assert "agent/a/y" not in notes
    assert len(notes.split("\n")) == 4
    assert not await found(proxy, "session plan tags draft", user=user)
