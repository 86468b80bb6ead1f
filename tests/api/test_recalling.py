from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_search_is_best_first_with_scores_and_signals(api: Api) -> None:
    await api.store("User's budget for the Hawaii vacation is $10,000")
    await api.store("User's dog is a beagle")
    answer = await api.call("POST", "/v1/memory/search", json={"query": "Hawaii vacation budget"})
    data = answer.json()["data"]
    assert data[0]["memory"]["content"] == "User's budget for the Hawaii vacation is $10,000"
    scores = [found["score"] for found in data]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert all(isinstance(value, int | float) for found in data for value in found["signals"].values())
    assert data[0]["signals"]


async def test_an_explained_search_says_what_recall_would_leave_out_and_why(api: Api) -> None:
    await api.store("User's budget for the Hawaii vacation is $10,000")
    await api.store("The vacation house has a garden")
    body = {"query": "What's my budget for the Hawaii vacation?", "explain": True}
    data = (await api.call("POST", "/v1/memory/search", json=body)).json()["data"]
    assert [found["rejected"] for found in data] == [None, "elbow"]
    asked = {"role": "user", "content": "What is my budget for Hawaii?"}
    await api.call("POST", "/v1/memory/turns", json={"session_id": "s1", "messages": [asked]})
    told = (await api.call("POST", "/v1/memory/search", json=body)).json()
    fates = {found["memory"]["content"]: found["rejected"] for found in told["data"]}
    assert fates[asked["content"]] == "tells_nothing"
    assert told["floor"] == api.engine.backends().parts.settings.recall.similarity_threshold


async def test_an_explained_recall_shows_every_candidate_with_its_fate(api: Api) -> None:
    budget = await api.store("User's budget for the Hawaii vacation is $10,000")
    other = await api.store("The vacation house has a garden")
    body = {"query": "What's my budget for the Hawaii vacation?", "explain": True}
    recalled = (await api.call("POST", "/v1/memory/recall", json=body)).json()
    fates = {one["memory_id"]: (one["injected"], one["rejected"]) for one in recalled["candidates"]}
    assert fates == {budget["id"]: (True, None), other["id"]: (False, "elbow")}
    assert all(one["signals"] for one in recalled["candidates"])
    assert {one["content"] for one in recalled["candidates"]} == {budget["content"], other["content"]}
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
    memory = await api.store("User's budget for the Hawaii vacation is $10,000")
    answer = await api.call("POST", "/v1/memory/recall", json={"query": "What's my budget for the Hawaii vacation?"})
    recalled = answer.json()
    assert answer.status_code == 200
    assert "$10,000" in recalled["context"]
    assert recalled["tokens"] > 0
    assert [citation["memory_id"] for citation in recalled["citations"]] == [memory["id"]]
    assert recalled["decision"]["searched"] is True
    assert set(recalled) == {"context", "tokens", "citations", "decision", "timings"}


async def test_a_vague_query_is_completed_from_the_messages(api: Api) -> None:
    await api.store("User's budget for the Hawaii vacation is $10,000")
    messages = [
        {"role": "user", "content": "Planning Hawaii vacation", "extra": 1},
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "user", "content": [{"type": "text", "text": "Looking at hotels"}, {"type": "image_url"}]},
        {"role": "user", "content": "How much?"},
    ]
    answer = await api.call("POST", "/v1/memory/recall", json={"query": "How much?", "messages": messages})
    assert "$10,000" in answer.json()["context"]


async def test_recall_decides_by_the_messages_before_the_query_as_the_proxy_does(api: Api) -> None:
    await api.store("User has a sailing boat called Wanda.")
    query = {"query": "what is inflation"}
    alone = (await api.call("POST", "/v1/memory/recall", json=query)).json()
    messages = [{"role": "user", "content": "I am thinking about my sailing boat"}]
    after = (await api.call("POST", "/v1/memory/recall", json={**query, "messages": messages})).json()
    assert (alone["decision"]["searched"], after["decision"]["searched"]) == (False, True)
    assert after["decision"]["reason"] == "default"
    named = {"query": "what is it called?", "messages": messages}
    assert "Wanda" in (await api.call("POST", "/v1/memory/recall", json=named)).json()["context"]


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
    body = {"query": query, "messages": messages, "explain": True}
    recalled = (await api.call("POST", "/v1/memory/recall", json=body)).json()
    assert recalled["context"] == ""
    assert [one["rejected"] for one in recalled["candidates"]] == ["present"]


async def test_a_clients_own_prompt_is_not_recalled_for(api: Api) -> None:
    prompt = "Generate a concise, 3-5 word title for the conversation so far. Respond only with the title."
    recalled = (await api.call("POST", "/v1/memory/recall", json={"query": prompt})).json()
    assert recalled["decision"] == {"searched": False, "reason": "housekeeping"}


@pytest.mark.parametrize("query", ["hi", "What is the capital of France?"])
async def test_what_the_gate_skips_is_not_searched_and_says_why(api: Api, query: str) -> None:
    await api.store("User drinks green tea")
    recalled = (await api.call("POST", "/v1/memory/recall", json={"query": query})).json()
    assert (recalled["context"], recalled["tokens"], recalled["citations"]) == ("", 0, [])
    assert recalled["decision"]["searched"] is False
    assert recalled["decision"]["reason"]


async def test_what_looks_general_is_searched_when_the_memory_speaks_of_it(api: Api) -> None:
    query = {"query": "What is the capital of France?"}
    before = (await api.call("POST", "/v1/memory/recall", json=query)).json()
    await api.store("User calls his boat The Capital of France.")
    after = (await api.call("POST", "/v1/memory/recall", json=query)).json()
    assert before["decision"] == {"searched": False, "reason": "fact"}
    assert after["decision"] == {"searched": True, "reason": "fact"}


async def test_an_empty_memory_is_searched_and_gives_an_empty_context(api: Api) -> None:
    answer = await api.call("POST", "/v1/memory/recall", json={"query": "What is my budget?"})
    assert (answer.status_code, answer.json()["context"]) == (200, "")
    assert answer.json()["decision"]["searched"] is True
