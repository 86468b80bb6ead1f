from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


BUDGET, GARDEN = "User's budget for the Hawaii vacation is $10,000", "The vacation house has a garden"
ASKING = "What's my budget for the Hawaii vacation?"


async def test_a_search_is_best_first_with_scores_and_signals(api: Api) -> None:
    await api.store(BUDGET)
    await api.store("User's dog is a beagle")
    data = (await api.post("search", query="Hawaii vacation budget"))["data"]
    assert data[0]["memory"]["content"] == BUDGET
    scores = [found["score"] for found in data]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert all(isinstance(value, int | float) for found in data for value in found["signals"].values())
    assert data[0]["signals"]


async def test_an_explained_search_says_what_recall_would_leave_out_and_why(api: Api) -> None:
    for text in (BUDGET, GARDEN):
        await api.store(text)
    data = (await api.post("search", query=ASKING, explain=True))["data"]
    assert [found["rejected"] for found in data] == [None, "elbow"]
    await api.say("s1", "What is my budget for Hawaii?")
    told = await api.post("search", query=ASKING, explain=True)
    fates = {found["memory"]["content"]: found["rejected"] for found in told["data"]}
    assert fates["What is my budget for Hawaii?"] == "tells_nothing"
    assert told["floor"] == api.engine.backends().parts.settings.recall.similarity_threshold


async def test_an_explained_recall_shows_every_candidate_with_its_fate(api: Api) -> None:
    budget, other = await api.store(BUDGET), await api.store(GARDEN)
    recalled = await api.recall(ASKING, explain=True)
    fates = {one["memory_id"]: (one["injected"], one["rejected"]) for one in recalled["candidates"]}
    assert fates == {budget["id"]: (True, None), other["id"]: (False, "elbow")}
    assert all(one["signals"] for one in recalled["candidates"])
    assert {one["content"] for one in recalled["candidates"]} == {BUDGET, GARDEN}
    assert recalled["query"]
    assert 0 < recalled["floor"] < 1


async def test_a_search_takes_the_lists_filters_as_a_string_or_a_list(api: Api) -> None:
    fact = await api.store("tea is liked", category="drinks", tags=["hot"])
    step = await api.store("tea is brewed", kind="procedural", session_id="s1")
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"kind": "semantic"}, {fact["id"]}),
        ({"kind": ["semantic", "procedural"]}, {fact["id"], step["id"]}),
        ({"session_id": ["s1", "s2"]}, {step["id"]}),
        ({"category": "drinks", "tag": ["hot", "cold"]}, {fact["id"]}),
    ]
    for filters, expected in cases:
        assert {memory["id"] for memory in await api.search("tea", **filters)} == expected
    assert len(await api.search("tea", limit=1)) == 1


async def test_a_search_leaves_out_what_ended_unless_it_is_asked_for(api: Api) -> None:
    old = await api.store("budget is 10", valid_from="2020-01-01T00:00:00Z", valid_to="2021-01-01T00:00:00Z")
    new = await api.store("budget is 15", valid_from="2021-01-01T00:00:00Z")

    async def ids(**fields: Any) -> set[str]:
        return {memory["id"] for memory in await api.search("budget", **fields)}

    assert await ids() == {new["id"]}
    assert await ids(active=[True, False]) == {old["id"], new["id"]}
    assert await ids(active=False) == {old["id"]}
    assert await ids(as_of="2020-06-01T00:00:00Z") == {old["id"]}


async def test_recall_answers_the_block_its_citations_and_the_verdict(api: Api) -> None:
    memory = await api.store(BUDGET)
    recalled = await api.recall(ASKING)
    assert "$10,000" in recalled["context"]
    assert recalled["tokens"] > 0
    assert [citation["memory_id"] for citation in recalled["citations"]] == [memory["id"]]
    assert recalled["decision"]["searched"] is True
    assert set(recalled) == {"context", "tokens", "citations", "decision", "timings"}


async def test_a_vague_query_is_completed_from_the_messages(api: Api) -> None:
    await api.store(BUDGET)
    messages = [
        {"role": "user", "content": "Planning Hawaii vacation", "extra": 1},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "Looking at hotels"}, {"type": "image_url"}]},
        {"role": "user", "content": "How much?"},
    ]
    assert "$10,000" in (await api.recall("How much?", messages=messages))["context"]


async def test_recall_decides_by_the_messages_before_the_query_as_the_proxy_does(api: Api) -> None:
    await api.store("User has a sailing boat called Wanda.")
    messages = [{"role": "user", "content": "I am thinking about my sailing boat"}]
    alone, after = await api.recall("what is inflation"), await api.recall("what is inflation", messages=messages)
    assert (alone["decision"]["searched"], after["decision"]["searched"]) == (False, True)
    assert after["decision"]["reason"] == "default"
    assert "Wanda" in (await api.recall("what is it called?", messages=messages))["context"]


@pytest.mark.parametrize(
    ("query", "messages"),
    [
        ("User is allergic to walnuts. What am I allergic to?", []),
        ("What am I allergic to?", [{"role": "system", "content": "Profile: User is allergic to walnuts"}]),
    ],
)
async def test_recall_gives_nothing_that_the_query_or_the_instructions_say(
    api: Api, query: str, messages: list[dict[str, str]]
) -> None:
    await api.store("User is allergic to walnuts.")
    recalled = await api.recall(query, messages=messages, explain=True)
    assert recalled["context"] == ""
    assert [one["rejected"] for one in recalled["candidates"]] == ["present"]


async def test_a_clients_own_prompt_is_not_recalled_for(api: Api) -> None:
    prompt = "Generate a concise, 3-5 word title for the conversation so far. Respond only with the title."
    assert (await api.recall(prompt))["decision"] == {"searched": False, "reason": "housekeeping"}


@pytest.mark.parametrize("query", ["hi", "What is the capital of France?"])
async def test_what_the_gate_skips_is_not_searched_and_says_why(api: Api, query: str) -> None:
    await api.store("User drinks green tea")
    recalled = await api.recall(query)
    assert (recalled["context"], recalled["tokens"], recalled["citations"]) == ("", 0, [])
    assert recalled["decision"]["searched"] is False
    assert recalled["decision"]["reason"]


async def test_what_looks_general_is_searched_when_the_memory_speaks_of_it(api: Api) -> None:
    before = await api.recall("What is the capital of France?")
    await api.store("User calls his boat The Capital of France.")
    after = await api.recall("What is the capital of France?")
    assert before["decision"] == {"searched": False, "reason": "fact"}
    assert after["decision"] == {"searched": True, "reason": "fact"}


async def test_an_empty_memory_is_searched_and_gives_an_empty_context(api: Api) -> None:
    recalled = await api.recall("What is my budget?")
    assert (recalled["context"], recalled["decision"]["searched"]) == ("", True)
