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
from tests.support.responses import function_call, message, response
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
        state = {"topic": "A plan.", "decisions": said[:2], "constraints": [], "open_points": said[-1:]}
        return completion(json.dumps(state))
    return echo(received)


def noted() -> Answer:
    """What `/v1/responses` answers."""
    return json_answer(response(message("Noted.")))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def proxy(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home, CHANGES) as started:
            yield started


class Talk:
    """Somebody in a session, and what the upstream is asked."""

    def __init__(self, proxy: Proxy, upstream: ScriptedUpstream) -> None:
        self.proxy, self.upstream = proxy, upstream
        self.user, self.session = word(), word()
        self.headers = {"x-memproxy-user": self.user, "x-memproxy-session": self.session}

    def asked(self) -> list[Received]:
        """The conversations' own requests, without those of learning."""
        marks = (SUMMARY_MARK, COMPRESS_MARK)
        received = self.upstream.received
        return [one for one in received if not one.messages or not text_of(one.messages[0]).startswith(marks)]

    def sent(self) -> list[str]:
        """The texts of the last of them."""
        return [text_of(message) for message in self.asked()[-1].messages]

    async def say(self, *texts: str, **changed: str | None) -> dict[str, str]:
        """A chat request with these headers changed; the headers of its answer."""
        named = self.headers | {f"x-memproxy-{name}": value for name, value in changed.items()}
        sent = {name: value for name, value in named.items() if value is not None}
        async with self.proxy.client() as client:
            answer = await chat(client, *texts, headers=sent)
        assert answer.status == 200, answer.body
        return dict(answer.headers)

    async def found(self, text: str) -> list[dict[str, Any]]:
        return await found(self.proxy, text, user=self.user)

    async def call(self, method: str, path: str) -> Any:
        """A call of the memory API on the user's; the JSON of its answer."""
        answer = await self.proxy.call(method, f"/v1/memory/{path}", params={"user_id": self.user})
        assert answer.status_code == 200
        return answer.json()

    async def indexed(self, messages: int) -> None:
        """Returns once these can be replayed: on a busy machine that takes longer than a replay waits for it."""

        async def all_there() -> bool:
            return len(await listed(self.proxy, user_id=self.user, kind="turn")) == messages

        await eventually(all_there, what=f"{messages} messages are indexed")

    async def compressed(self, texts: list[str]) -> dict[str, str]:
        """The headers of the first request of this history that is compressed."""

        async def once() -> dict[str, str]:
            headers = await self.say(*texts)
            return headers if "left_out" in headers["x-memproxy-context"] else {}

        return dict(await eventually(once))

    async def context_of(self, headers: dict[str, str]) -> dict[str, Any]:
        """What the receipt of a request says of its conversation."""

        async def get() -> dict[str, Any]:
            path = f"/v1/memory/receipts/{headers['x-memproxy-request-id']}"
            answer = await self.proxy.call("GET", path, params={"user_id": self.user})
            return dict(answer.json().get("context") or {}) if answer.status_code == 200 else {}

        return dict(await eventually(get))


@pytest_asyncio.fixture(loop_scope="session")
async def talk(proxy: Proxy, model: ScriptedUpstream) -> Talk:
    model.default = answers
    return Talk(proxy, model)


async def test_a_client_without_history_gets_its_sessions_last_messages(talk: Talk) -> None:
    for number in range(4):
        headers = await talk.say(f"This is remark {number}.")
        await talk.indexed(2 * number + 2)
    assert "replay;turns=4" in headers["x-memproxy-context"]
    said = [one for one in talk.asked()[-1].messages if one["role"] != "system"]
    assert [(one["role"], text_of(one)) for one in said] == [
        ("user", "This is remark 1."),
        ("assistant", "You said: This is remark 1."),
        ("user", "This is remark 2."),
        ("assistant", "You said: This is remark 2."),
        ("user", "This is remark 3."),
    ]
    assert (await talk.context_of(headers))["replayed"] == 4


async def test_nothing_is_replayed_that_is_not_this_sessions_or_that_the_client_brings(talk: Talk) -> None:
    await talk.say("The first remark.")
    changes: tuple[tuple[dict[str, str | None], list[str]], ...] = (
        ({"session": word()}, ["Another session's."]),
        ({"user": word()}, ["Another user's."]),
        ({}, ["Its own history.", "Yes.", "And on."]),
        ({"session": None}, ["No session named."]),
    )
    for changed, texts in changes:
        await talk.say(*texts, **changed)
        assert [text_of(one) for one in talk.asked()[-1].messages if one["role"] != "system"] == texts
    await talk.say("Only written.", memory="write")
    assert talk.sent() == ["Only written."]


async def test_a_forgotten_message_and_an_undone_conversation_never_come_back(talk: Talk) -> None:
    for text in ("I keep a secret garden.", "I like tea."):
        await talk.say(text)

    async def said() -> list[dict[str, Any]]:
        return [one for one in await talk.found("secret garden") if one["metadata"]["role"] == "user"]

    [secret] = await eventually(said, what="it is found")
    await talk.call("DELETE", secret["id"])
    await talk.say("What else?")
    assert "I keep a secret garden." not in talk.sent()
    await talk.call("DELETE", f"sessions/{talk.session}")
    await talk.say("Hello again, my friend.")
    assert talk.sent() == ["Hello again, my friend."]


async def test_replay_works_for_responses(talk: Talk) -> None:
    for number, text in enumerate(("My cat is Tom.", "What is my cat called?")):
        await talk.indexed(2 * number)
        talk.upstream.script(noted())
        asked = {"model": "m", "input": text}
        answer = await talk.proxy.call("POST", "/v1/responses", json=asked, headers=talk.headers)
        assert answer.status_code == 200
    sent = json.loads(talk.asked()[-1].body)
    assert [one["content"] for one in sent["input"]] == ["My cat is Tom.", "Noted.", "What is my cat called?"]
    assert "previous_response_id" not in sent


async def test_a_session_that_falls_silent_is_summarised_once(talk: Talk) -> None:
    for text in ("I want to plan a trip to Norway.", "The trip is in June."):
        await talk.say(text)
    [summary] = await eventually(lambda: listed(talk.proxy, user_id=talk.user, kind="episodic"))
    assert (summary["content"], summary["session_id"]) == ("The user talked about a plan.", talk.session)


def history(count: int) -> list[str]:
    """A conversation of so many messages that ends with the user's."""
    return [f"Remark {at} is about the red house number {at} and its garden." for at in range(count)]


async def test_a_long_history_is_sent_as_its_state_and_its_last_messages(talk: Talk) -> None:
    texts = history(21)
    first = await talk.say(*texts)
    assert first["x-memproxy-context"] == "working;entries=0, compress;reason=not_ready"
    assert talk.sent() == texts
    headers = await talk.compressed(texts)
    assert re.search(r"compress;left_out=18;kept=3;tokens=\d+-\d+", headers["x-memproxy-context"])
    state, *kept = [one for one in talk.sent() if "Recalled from" not in one]
    assert kept == texts[-3:]
    assert json.loads(state.split("\n")[2])["decisions"] == texts[:2]
    context = await talk.context_of(headers)
    assert context["left_out"] == 18
    left_out = f"/v1/memory/{context['left_out_turns'][0]}"

    async def turn() -> list[str]:
        answer = await talk.proxy.call("GET", left_out, params={"user_id": talk.user})
        return [answer.json()["content"]] if answer.status_code == 200 else []

    assert await eventually(turn) == [texts[0]], "the turns hold what is left out"
    assert await eventually(lambda: talk.found(texts[3])), "and it is found"
    assert not await talk.found("A plan."), "the state is never learned"

    # between two states the beginning stays, byte for byte
    before = talk.asked()[-1].body
    await talk.say(*texts, f"You said: {texts[-1]}", "And one more remark.")
    after = talk.asked()[-1].body
    assert after[: before.index(b'"Remark 20')] == before[: before.index(b'"Remark 20')]


async def test_a_long_history_of_responses_is_sent_as_its_state_and_its_last_messages(talk: Talk) -> None:
    texts = history(21)
    items = [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(texts)]
    call = function_call("look", "{}", "c1")
    result = {"type": "function_call_output", "call_id": "c1", "output": "a red door"}
    items[-2:-2] = [call, result]  # what is kept begins with a message of the user, so these two go together
    talk.upstream.default = lambda received: noted() if received.target.endswith("/responses") else answers(received)

    async def once() -> str:
        asked = {"model": "m", "instructions": "Be short.", "input": items}
        answer = await talk.proxy.call("POST", "/v1/responses", json=asked, headers=talk.headers)
        assert answer.status_code == 200
        context = str(answer.headers["x-memproxy-context"])
        return context if "left_out" in context else ""

    context = await eventually(once)
    sent = json.loads(talk.asked()[-1].body)
    assert sent["instructions"] == "Be short."
    state, *kept = [one for one in sent["input"] if "Recalled from" not in str(one)]
    assert kept == items[-len(kept) :]
    assert kept[0]["role"] == "user"
    assert (call in kept) == (result in kept)
    assert json.loads(state["content"].split("\n")[2])["decisions"] == texts[:2]
    assert f"left_out={len(items) - len(kept)};kept={len(kept)}" in context


async def test_a_state_goes_with_the_first_message_that_is_forgotten(talk: Talk) -> None:
    texts = history(21)
    await talk.compressed(texts)

    async def held() -> list[dict[str, Any]]:
        return [one for one in await talk.found(texts[0]) if one["content"] == texts[0]]

    [turn] = await eventually(held)
    await talk.call("DELETE", turn["id"])
    headers = await talk.say(*texts)
    assert "left_out" not in headers["x-memproxy-context"]
    assert texts[0] in talk.sent(), "the client's own history goes on whole"
    assert not await held()


async def test_a_refused_state_costs_nothing_but_itself(talk: Talk) -> None:
    texts = history(21)
    await talk.compressed(texts)

    def refuse(received: Received) -> Answer:
        changed = not any(text_of(one) == texts[0] for one in received.messages)
        learning = text_of(received.messages[0]).startswith((SUMMARY_MARK, COMPRESS_MARK))
        return error(400, "no such messages") if changed and not learning else answers(received)

    talk.upstream.default = refuse
    headers = await talk.say(*texts)
    assert headers["x-memproxy-recall"] == "degraded; reason=upstream_rejected"
    assert talk.sent() == texts


async def test_compression_is_a_matter_of_the_request_and_of_the_user(talk: Talk) -> None:
    texts = history(21)
    await talk.compressed(texts)
    async with talk.proxy.client() as client:
        answer = await chat(client, *texts, headers=talk.headers, memory_config={"compress_above_tokens": 0})
        assert "compress" not in answer.header("x-memproxy-context")
        chosen = {"user_id": talk.user, "compress_above_tokens": 100_000}
        told = await client.put("/v1/memory/settings", json=chosen)
        assert (told.status_code, told.json()["compress_above_tokens"]) == (200, 100_000)
        answer = await chat(client, *texts, headers=talk.headers)
        assert "compress" not in answer.header("x-memproxy-context")
        refused = await client.put("/v1/memory/settings", json=chosen | {"compress_above_tokens": -1})
        assert refused.status_code == 400


async def test_a_request_is_told_of_its_own_working_memory_and_never_of_what_it_holds(talk: Talk) -> None:
    own = f"session/{talk.session}"
    async with talk.proxy.client() as client:
        for key, owner in ((f"{own}/plan", talk.user), (f"{own}/x", word()), ("agent/a/y", talk.user)):
            entry = {"user_id": owner, "data": "the inside", "tags": ["draft"]}
            put = await client.put(f"/v1/memory/working/{key}", json=entry)
            assert put.status_code == 201, put.text
    headers = await talk.say("What is in my notes on the plan?")
    assert "working;entries=1" in headers["x-memproxy-context"]
    notes, last = talk.sent()[-2:]
    assert last == "What is in my notes on the plan?"
    assert f"- {own}/plan: written 0 min ago; expires " in notes
    assert "tags draft" in notes
    assert "the inside" not in notes
    assert "agent/a/y" not in notes
    assert len(notes.split("\n")) == 4
    assert not await talk.found("session plan tags draft")
