"""Messages to memory itself, said in the chat: answered or obeyed in the client's own format, and never learned."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from openai import AsyncOpenAI

from tests.isolation.people import new_cheap_key
from tests.support.folders import Folders
from tests.support.proxy import Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")

SETTINGS = {"control": {"in_chat": True}, "learn": {"mode": "verbatim", "every_turns": 1}}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def in_chat(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Proxy]:
    with folders.new("home") as home:
        async with running_proxy(shared_upstream.base_url, home, SETTINGS) as proxy:
            yield proxy


class Person:
    """Somebody who chats, with the whole conversation in every request, and what is known of him."""

    def __init__(self, proxy: Proxy) -> None:
        self.name = f"person-{uuid.uuid4().hex}"
        self.headers = {"x-memproxy-user": self.name}
        self.client: httpx.AsyncClient = proxy.client(**self.headers)
        self.openai: AsyncOpenAI = proxy.openai().with_options(default_headers=self.headers)
        self.said: list[Any] = []

    async def say(self, text: str, **fields: Any) -> tuple[str, str]:
        """Say it; the answer, and what memory did."""
        self.said.append({"role": "user", "content": text})
        raw = await self.openai.chat.completions.with_raw_response.create(
            model="test-model", messages=self.said, **fields
        )
        answer = raw.parse()
        content = answer.choices[0].message.content or ""
        self.said.append({"role": "assistant", "content": content})
        return content, raw.headers["x-memproxy-recall"]

    async def memories(self, **where: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.client.get("/v1/memory", params={"limit": 200, **where})).json()[
            "data"
        ]
        return found

    async def knows(self, word: str, *, facts: bool = True) -> bool:
        kinds = {"semantic", "procedural", "reflective"} if facts else {"turn"}
        return any(word in one["content"] and one["kind"] in kinds for one in await self.memories())


@pytest_asyncio.fixture(loop_scope="session")
async def person(in_chat: Proxy) -> AsyncIterator[Person]:
    somebody = Person(in_chat)
    async with somebody.client, somebody.openai:
        yield somebody


async def test_what_is_known_is_told_in_one_line_and_nothing_of_that_is_kept(
    person: Person, model: ScriptedUpstream
) -> None:
    assert (await person.say("What do you know about me?")) == (
        "I remember nothing about you yet.",
        "skipped; reason=control",
    )
    await person.say("I live in Bern.")
    await eventually(lambda: person.knows("Bern"), what="it is learned")
    asked = len(model.received)
    told, recall = await person.say("What do you know about me?")
    assert "Bern" in told
    assert recall == "skipped; reason=control"
    assert len(model.received) == asked, "the model was not asked"
    await person.say("Thank you for that answer about my town.")
    await eventually(lambda: person.knows("Thank you", facts=False), what="what follows is kept")
    kept = await person.memories(kind="turn")
    assert not [one for one in kept if "know about me" in one["content"] or "remember" in one["content"]]
    assert len({one["session_id"] for one in kept}) == 1, "the conversation goes on as one"


async def test_what_is_named_is_forgotten_with_the_message_that_it_comes_from(person: Person) -> None:
    await person.say("I live in Bern.")
    await person.say("My sister is called Ida.")
    await eventually(lambda: person.knows("Ida"), what="both are learned")
    told, recall = await person.say("Forget where I live.")
    assert recall == "skipped; reason=control", told
    assert told.startswith("Forgotten (")
    assert "Bern" in told
    assert "To undo this, tell me again." in told
    left = [one["content"] for one in await person.memories()]
    assert not [one for one in left if "Bern" in one]
    assert [one for one in left if "Ida" in one]


async def test_what_is_forgotten_with_its_message_is_named_too(person: Person) -> None:
    await person.say("I live in Bern and my dog is called Rex.")
    await eventually(lambda: person.knows("Rex"), what="it is learned")
    told, _ = await person.say("Forget that I live in Bern.")
    assert told.index("Bern") < told.index("Rex"), "what was meant comes first"
    assert not await person.knows("Rex")


async def test_a_bare_word_that_nothing_is_known_of_goes_to_the_model_and_nothing_is_lost(
    person: Person, model: ScriptedUpstream
) -> None:
    await person.say("I live in Bern.")
    await eventually(lambda: person.knows("Bern"), what="it is learned")
    asked = len(model.received)
    for said in ("Forget the first paragraph.", "Forget everything about me in this CV?"):
        told, recall = await person.say(said)
        assert told == f"You said: {said}"
        assert "control" not in recall
    assert len(model.received) == asked + 2
    assert await person.knows("Bern")


@pytest.mark.parametrize("sends_history", [True, False])
async def test_the_exchange_before_it_is_not_kept(person: Person, *, sends_history: bool) -> None:
    named = {} if sends_history else {"extra_headers": {"x-memproxy-session": "talk"}}
    told = ""
    for text in ("I live in Bern.", "My locker code is tangerine.", "Don't remember this."):
        person.said = person.said if sends_history else []
        told, _ = await person.say(text, **named)
    assert told == "Not kept: “My locker code is tangerine”. To undo this, say it again."
    left = [one["content"] for one in await person.memories()]
    assert not [one for one in left if "tangerine" in one]
    assert [one for one in left if "Bern" in one]


async def test_remembering_stops_and_starts_and_other_choices_stay(person: Person, in_chat: Proxy) -> None:
    await person.client.put("/v1/memory/settings", json={"limit": 3})
    assert (await person.say("Merk dir nichts mehr."))[0].startswith("Ab jetzt merke ich mir nichts Neues")
    settings = (await person.client.get("/v1/memory/settings")).json()
    assert (settings["mode"], settings["limit"]) == ("read", 3)
    await person.say("I live in Bern.")
    await in_chat.stop()
    await in_chat.restart()
    assert (await person.say("Start remembering"))[1] == "skipped; reason=control"
    await person.say("My sister is called Ida.")
    await eventually(lambda: person.knows("Ida"), what="it is kept again")
    assert not await person.knows("Bern", facts=False)
    assert (await person.client.get("/v1/memory/settings")).json()["limit"] == 3


async def test_who_switched_memory_off_can_switch_it_on_and_is_told_nothing_meanwhile(person: Person) -> None:
    await person.client.put("/v1/memory/settings", json={"mode": "off"})
    assert (await person.say("What do you know about me?"))[1] == "off; reason=settings"
    assert (await person.say("Start remembering"))[1] == "skipped; reason=control"


async def test_a_stream_is_read_by_the_official_client(person: Person) -> None:
    stream = await person.openai.chat.completions.create(
        model="test-model",
        messages=[{"role": "user", "content": "What do you know about me?"}],
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = [chunk async for chunk in stream]
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert said == "I remember nothing about you yet."
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_response_is_read_by_the_official_client_and_the_next_one_goes_on_from_it(
    person: Person, model: ScriptedUpstream, streamed: bool
) -> None:
    asked: Any = {"model": "test-model", "input": "What do you know about me?"}
    if streamed:
        async with person.openai.responses.stream(**asked) as stream:
            kinds = [event.type async for event in stream]
            first = await stream.get_final_response()
        assert kinds[0] == "response.created"
        assert "response.output_text.delta" in kinds
        assert kinds[-1] == "response.completed"
    else:
        first = await person.openai.responses.create(**asked)
    assert first.output_text == "I remember nothing about you yet."
    assert first.status == "completed"
    for mode in ("on", "off"):
        headers = {"x-memproxy-memory": mode}
        body = {"model": "test-model", "input": "I live in Bern.", "previous_response_id": first.id}
        await person.client.post("/v1/responses", json=body, headers=headers)
        sent = model.last.json
        assert "previous_response_id" not in sent, "no upstream knows a response of ours"
        assert sent["input"] == "I live in Bern."
    later = await person.client.post("/v1/responses", json={**asked, "previous_response_id": "resp_upstreams_own"})
    assert later.json()["id"] == "resp_upstreams_own", "the next goes on from what the upstream knows"


@pytest.mark.parametrize(
    "fields",
    [
        {"headers": {"x-memproxy-memory": "off"}},
        {"headers": {"x-memproxy-memory": "shadow"}},
        {"json": {"memory_config": {"enabled": False}}},
        {"json": {"response_format": {"type": "json_object"}}},
        {"json": {"n": 2}},
        {"json": {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"}},
        {"json": {"messages": [
            {"role": "user", "content": "What do you know about me?"},
            {"role": "assistant", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f"}}]},
            {"role": "tool", "tool_call_id": "1", "content": "What do you know about me?"},
        ]}},
        {"json": {"messages": [{"role": "user", "content": [
            {"type": "text", "text": "What do you know about me?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}},
        ]}]}},
    ],
)  # fmt: skip
async def test_a_request_to_which_a_line_is_no_answer_goes_to_the_model(
    person: Person, model: ScriptedUpstream, fields: dict[str, Any]
) -> None:
    body = {"model": "test-model", "messages": [{"role": "user", "content": "What do you know about me?"}]}
    sent = {**body, **fields.get("json", {})}
    answer = await person.client.post("/v1/chat/completions", json=sent, headers=fields.get("headers", {}))
    assert "control" not in answer.headers["x-memproxy-recall"]
    assert len(model.received) == 1


async def test_two_people_have_nothing_to_do_with_each_other(person: Person, in_chat: Proxy) -> None:
    other = Person(in_chat)
    async with other.client, other.openai:
        await other.say("I live in Bern.")
        await eventually(lambda: other.knows("Bern"), what="it is learned")
        assert (await person.say("What do you know about me?"))[0] == "I remember nothing about you yet."
        await person.say("Forget that I live in Bern.")
        assert await other.knows("Bern")


async def test_without_it_such_a_message_is_one_like_any_other(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    somebody = Person(shared_proxy)
    async with somebody.client, somebody.openai:
        assert (await somebody.say("What do you know about me?"))[0] == "You said: What do you know about me?"


async def test_for_a_key_of_one_project_an_exchange_is_unsaid_where_the_request_brings_it(
    shared_upstream: ScriptedUpstream, folders: Folders
) -> None:
    entries: list[dict[str, Any]] = []
    rights = ["chat", "memory:read", "memory:write"]
    key = new_cheap_key(entries, tenant="acme", user="ann", project="apollo", permissions=rights)
    settings = SETTINGS | {"auth": {"mode": "keys", "keys": entries}, "upstream": {"api_key": "sk-operator"}}
    said = [{"role": "user", "content": "I live in Bern."}]
    order = {"role": "user", "content": "Don't remember this."}
    with folders.new("bound") as home:
        async with (
            running_proxy(shared_upstream.base_url, home, settings, memory=False) as proxy,
            proxy.client(None, authorization=f"Bearer {key}", **{"x-memproxy-session": "talk"}) as client,
        ):

            async def told(messages: list[dict[str, str]]) -> httpx.Response:
                return await client.post("/v1/chat/completions", json={"model": "test-model", "messages": messages})

            async def is_kept() -> bool:
                found = await client.get("/v1/memory", params={"kind": "turn"})
                return found.status_code == 200 and "Bern" in found.text

            answer = (await told(said)).json()["choices"][0]["message"]
            await eventually(is_kept, what="the first message is indexed")
            # how much of other projects waits is not told to it, so what is newest is not known without the history
            assert "Not kept" not in (await told([order])).text
            assert await is_kept()
            assert "Not kept" in (await told([*said, answer, order])).text
            assert not await is_kept()
