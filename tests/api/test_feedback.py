"""Feedback: what is said of memories counts for recall, is seen, and goes with them."""

import re
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec
import pytest

from memproxy.core.protocol import RECALL_PATH, Identity, RecallRequest
from memproxy.core.receipt import Cited, Recalled, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import MEDIA_TYPE
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = {"query": "What is my vault code?"}


async def say(api: Api, status: int = 201, **body: Any) -> dict[str, Any]:
    answer = await api.call("POST", "/v1/memory/feedback", json=body)
    assert answer.status_code == status, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def recalled(api: Api) -> str:
    return str((await api.call("POST", "/v1/memory/recall", json=QUESTION)).json()["context"])


async def test_a_helpful_memory_gains_importance_and_confidence(api: Api) -> None:
    memory = await api.store("The vault code is tangerine", importance=0.4, confidence=0.8)
    told = await say(api, memory_id=memory["id"], signal="helpful", text="just what I needed")
    (now,) = told["data"]
    assert (now["importance"], now["confidence"]) == (0.55, 0.82)
    assert now["metadata"]["feedback"]["helpful"] == 1
    assert now["metadata"]["feedback"]["text"] == "just what I needed"
    again = await say(api, memory_id=memory["id"], signal="helpful")
    assert again["data"][0]["metadata"]["feedback"]["helpful"] == 2


async def test_a_wrong_memory_is_not_recalled_until_it_is_found_helpful(api: Api) -> None:
    memory = await api.store("The vault code is tangerine", confidence=0.8)
    assert "tangerine" in await recalled(api)
    (now,) = (await say(api, memory_id=memory["id"], signal="wrong"))["data"]
    assert (now["quarantined"], now["confidence"], now["importance"]) == (True, 0.2, 0.25)
    assert await recalled(api) == ""
    (history,) = (await api.call("GET", f"/v1/memory/{memory['id']}/history")).json()["data"]
    assert history["metadata"]["feedback"]["wrong"] == 1
    await say(api, memory_id=memory["id"], signal="helpful")
    assert "tangerine" in await recalled(api)


async def test_a_turn_that_is_wrong_is_not_recalled_either(api: Api) -> None:
    said = {"session_id": "s1", "messages": [{"role": "user", "content": "my vault code is tangerine", "id": "t1"}]}
    await api.call("POST", "/v1/memory/turns", json=said)
    assert "tangerine" in await recalled(api)
    await say(api, memory_id="t1", signal="wrong")
    assert await recalled(api) == ""


async def test_a_correction_takes_the_memorys_place(api: Api) -> None:
    memory = await api.store("The vault code is tangerine", category="codes", tags=["vault"])
    told = await say(api, memory_id=memory["id"], signal="correction", text="The vault code is quince")
    right, wrong = told["data"]
    assert (right["content"], right["category"], right["tags"]) == ("The vault code is quince", "codes", ["vault"])
    assert (right["supersedes"], wrong["superseded_by"], wrong["active"]) == (memory["id"], right["id"], False)
    assert wrong["valid_to"] is not None
    context = await recalled(api)
    assert "quince" in context
    assert "tangerine" not in context
    chain = (await api.call("GET", f"/v1/memory/{memory['id']}/history")).json()["data"]
    assert [one["id"] for one in chain] == [memory["id"], right["id"]]
    again = await say(api, 409, memory_id=memory["id"], signal="correction", text="no, apple")
    assert again["error"]["param"] == "memory_id"


async def test_a_correction_of_a_structured_fact_leaves_one_active(api: Api) -> None:
    memory = await api.store("The user lives in Berlin", subject="user", predicate="lives in", object="Berlin")
    await say(api, memory_id=memory["id"], signal="correction", text="The user lives in Hamburg")
    active = await api.page(active="true")
    assert [one["content"] for one in active] == ["The user lives in Hamburg"]


async def test_a_corrected_turn_stays_as_it_was_said(api: Api) -> None:
    said = {"session_id": "s1", "messages": [{"role": "user", "content": "my vault code is tangerine", "id": "t1"}]}
    await api.call("POST", "/v1/memory/turns", json=said)
    right, wrong = (await say(api, memory_id="t1", signal="correction", text="The vault code is quince"))["data"]
    assert (wrong["content"], wrong["superseded_by"]) == ("my vault code is tangerine", right["id"])
    assert "quince" in await recalled(api)


SAID = "my vault code is tangerine and my locker is number nine"
CODE = {"id": "code", "content": "The vault code is tangerine", "turn_ids": ["t1"]}
LOCKER = {"id": "locker", "content": "The locker is number nine", "turn_ids": ["t1"]}


async def learned(api: Api, *facts: dict[str, Any], said: str = SAID) -> None:
    """A turn, and facts that were learned from it."""
    turn = {"session_id": "s1", "messages": [{"role": "user", "content": said, "id": "t1"}]}
    await api.call("POST", "/v1/memory/turns", json=turn)
    place = {"session_id": "s1", "created_at": "2024-03-01T10:00:00Z"}
    rows = b"".join(msgspec.json.encode({"memory": {**place, **one}}) + b"\n" for one in facts)
    headers = {"content-type": MEDIA_TYPE}
    answer = await api.call("POST", "/v1/memory/import", content=rows, headers=headers)
    assert answer.json()["imported"] == len(facts), answer.text


async def test_what_was_learned_from_a_wrong_turn_alone_is_withheld_with_it(api: Api) -> None:
    await learned(api, CODE, LOCKER | {"turn_ids": ["t1", "t0"]})
    told = await say(api, memory_id="t1", signal="wrong")
    assert told["memory_ids"] == ["t1", "code"]
    context = await recalled(api)
    assert "tangerine" not in context
    assert not (await api.call("GET", "/v1/memory/locker")).json()["quarantined"], "another turn tells it too"
    assert (await say(api, memory_id="t1", signal="helpful"))["memory_ids"] == ["t1", "code"]
    assert "tangerine" in await recalled(api)
    turn = (await api.call("GET", "/v1/memory/t1")).json()
    assert (turn["active"], turn["quarantined"], "retracted_by" in turn["metadata"]) == (True, False, False)
    assert (await say(api, memory_id="t1", signal="helpful"))["memory_ids"] == ["t1"], "nothing is withheld any more"


async def test_a_correction_outlives_the_conversation_whose_fact_it_corrects(api: Api) -> None:
    await learned(api, CODE)
    right, _ = (await say(api, memory_id="code", signal="correction", text="The vault code is quince"))["data"]
    await api.call("DELETE", "/v1/memory/sessions/s1")
    assert [one["id"] for one in await api.page()] == [right["id"]]


async def test_a_correction_of_a_turn_takes_the_place_of_the_fact_of_its_topic(api: Api) -> None:
    await learned(api, CODE, LOCKER)
    right, _ = (await say(api, memory_id="t1", signal="correction", text="The vault code is quince"))["data"]
    chain = (await api.call("GET", "/v1/memory/code/history")).json()["data"]
    assert [(one["id"], one["active"]) for one in chain] == [("code", False), (right["id"], True)]
    assert (await api.call("GET", "/v1/memory/locker")).json()["active"]
    context = await recalled(api)
    assert "quince" in context
    assert "is tangerine" not in context.replace(SAID, "")


HOME = {"id": "home", "content": "User lives in Berlin", "turn_ids": ["t1"]}
HOME |= {"subject": "user", "predicate": "lives in", "object": "Berlin"}
PET = {"id": "pet", "content": "User has a dog named Rex", "turn_ids": ["t1"]}
PET |= {"subject": "user", "predicate": "has dog", "object": "Rex"}
RENT = {"id": "rent", "content": "User pays a rent of 1200 euros", "turn_ids": ["t1"]}
RENT |= {"subject": "user", "predicate": "rent", "object": "1200 euros"}
SUMMARY = {
    "id": "sum",
    "kind": "episodic",
    "content": "On 2024-03-01 the user said: I live in Berlin.",
    "tags": ["summary"],
}
SUMMARY |= {"predicate": "had conversation", "subject": "user", "object": "s1", "turn_ids": ["t1", "t2"]}
WHERE = {"query": "Where do I live?"}


async def is_active(api: Api, name: str) -> bool:
    return bool((await api.call("GET", f"/v1/memory/{name}")).json()["active"])


async def test_a_summary_that_tells_a_wrong_fact_does_not_take_its_place(api: Api) -> None:
    await learned(api, HOME, SUMMARY, said="I live in Berlin.")
    await say(api, memory_id="home", signal="wrong")
    assert (await api.call("POST", "/v1/memory/recall", json=WHERE)).json()["context"] == ""
    assert not await is_active(api, "sum")
    await say(api, memory_id="home", signal="helpful")
    assert "lives in Berlin" in (await api.call("POST", "/v1/memory/recall", json=WHERE)).json()["context"]


@pytest.mark.parametrize(("turns", "waits"), [(["t1"], True), (["t1", "t2"], False)])
async def test_a_summary_that_quotes_a_wrong_turn_is_withheld_or_ends(api: Api, turns: list[str], waits: bool) -> None:
    await learned(api, SUMMARY | {"turn_ids": turns}, said="I live in Berlin.")
    await say(api, memory_id="t1", signal="wrong")
    assert (await api.call("POST", "/v1/memory/recall", json=WHERE)).json()["context"] == ""
    assert await is_active(api, "sum") == waits
    again = await say(api, memory_id="t1", signal="helpful")
    assert again["memory_ids"] == (["t1", "sum"] if waits else ["t1"])


@pytest.mark.parametrize("how", ["edit", "correction", "delete"])
async def test_what_is_done_to_a_summary_hides_none_of_its_messages(api: Api, how: str) -> None:
    await learned(api, SUMMARY, said="I live in Berlin.")
    if how == "edit":
        await api.call("PATCH", "/v1/memory/sum", json={"content": "The user told of a move."})
    elif how == "correction":
        await say(api, memory_id="sum", signal="correction", text="The user told of a move.")
    else:
        await api.call("DELETE", "/v1/memory/sum")
    assert "I live in Berlin." in (await api.call("POST", "/v1/memory/recall", json=WHERE)).json()["context"]


async def test_a_correction_that_names_nothing_takes_the_place_of_the_only_fact_of_its_sort(api: Api) -> None:
    await learned(api, HOME, RENT, said="I live in Berlin. My rent is 1200 euros.")
    await say(api, memory_id="t1", signal="correction", text="It is Bern.")
    assert (await is_active(api, "home"), await is_active(api, "rent")) == (False, True)


async def test_a_correction_that_may_mean_several_facts_of_a_turn_is_asked_about(api: Api) -> None:
    await learned(api, HOME, PET, said="I live in Berlin. My dog is called Rex.")
    refused = await say(api, 409, memory_id="t1", signal="correction", text="It is Bern.")
    assert "2 memories" in refused["error"]["message"]
    assert {"home", "pet"} <= set(re.findall(r"\w+", refused["error"]["message"])), "the ids to say it by"
    assert await is_active(api, "home")
    await say(api, memory_id="t1", signal="correction", text="I live in Bern.")
    assert (await is_active(api, "home"), await is_active(api, "pet")) == (False, True)


async def test_the_history_of_a_corrected_turn_goes_on_with_what_took_its_place(api: Api) -> None:
    await learned(api, CODE)
    right, _ = (await say(api, memory_id="t1", signal="correction", text="The vault code is quince"))["data"]
    chain = (await api.call("GET", "/v1/memory/t1/history")).json()["data"]
    assert [one["id"] for one in chain] == ["t1", right["id"]]


async def asked(api: Api, request_id: str) -> httpx.Response:
    """What the relay asks for a chat request."""
    scope = Scope(tenant=api.tenant, user="default", session="s1")
    question = RecallRequest(request_id=request_id, scope=scope, queries=[QUESTION["query"]], nonce="n")
    return await api.client.post(RECALL_PATH, content=msgspec.json.encode(question))


async def test_feedback_on_a_request_is_about_what_it_was_given_and_on_its_receipt(api: Api) -> None:
    memory = await api.store("The vault code is tangerine")
    assert (await asked(api, "req_1")).json()["result"] == "injected"
    told = await say(api, request_id="req_1", signal="wrong")
    assert told["memory_ids"] == [memory["id"]]
    assert told["data"][0]["quarantined"]
    receipt = (await api.call("GET", "/v1/memory/receipts/req_1")).json()
    assert receipt["feedback"] == [{"signal": "wrong", "memory_id": memory["id"]}]
    assert receipt["learned"]["state"] == "none"
    events = (await api.call("GET", "/v1/memory/activity")).json()["data"]
    assert ("feedback", "wrong") in [(one["result"], one["reason"]) for one in events]


async def test_one_text_cannot_correct_several_memories(api: Api) -> None:
    for n in range(2):
        await api.store(f"The vault code of door {n} is tangerine")
    await asked(api, "req_2")
    refused = await say(api, 409, request_id="req_2", signal="correction", text="quince")
    assert "2 memories" in refused["error"]["message"]


@pytest.mark.parametrize(("given", "meant"), [(("sum", "t1"), "t1"), (("t1", "home"), "home"), (("sum",), "sum")])
async def test_a_text_corrects_what_else_the_request_was_given_of_it(
    api: Api, given: tuple[str, ...], meant: str
) -> None:
    await learned(api, HOME, SUMMARY, said="I live in Berlin.")
    told = Recalled(result="injected", memories=[Cited(memory_id=one, turn_id="t1", score=0.9) for one in given])
    scope, state = Scope(tenant=api.tenant, user="default", session="s2"), api.engine.backends().state
    await state.note_receipts([ReceiptPart(request_id="req_4", scope=scope, at=datetime.now(UTC), recalled=told)])
    _, wrong = (await say(api, request_id="req_4", signal="correction", text="I live in Bern"))["memory_ids"]
    assert wrong == meant


async def test_an_edit_of_metadata_does_not_take_feedback_away(api: Api) -> None:
    memory = await api.store("The vault code is tangerine")
    await say(api, memory_id=memory["id"], signal="helpful")
    edited = await api.call("PATCH", f"/v1/memory/{memory['id']}", json={"metadata": {"mine": 1}})
    assert (edited.json()["metadata"]["mine"], edited.json()["metadata"]["feedback"]["helpful"]) == (1, 1)


async def test_secrets_are_replaced_in_what_is_said(api: Api) -> None:
    memory = await api.store("The key is in the drawer")
    text = "The key is AKIA" + "ABCDEFGHIJKLMNOP"
    right, _ = (await say(api, memory_id=memory["id"], signal="correction", text=text))["data"]
    assert "ABCDEFGHIJKLMNOP" not in right["content"]


@pytest.mark.parametrize(
    "body",
    [
        {"signal": "helpful"},
        {"signal": "helpful", "memory_id": "a", "request_id": "b"},
        {"signal": "bad", "memory_id": "a"},
        {"memory_id": "a"},
        {"signal": "correction", "memory_id": "a"},
        {"signal": "correction", "memory_id": "a", "text": " "},
        {"signal": "wrong", "memory_id": "a", "text": "x" * 10_001},
        {"signal": "wrong", "memory_id": 1},
    ],
)
async def test_wrong_feedback_is_refused(api: Api, body: dict[str, Any]) -> None:
    refused = await say(api, 400, **body)
    assert refused["error"]["type"] == "invalid_request_error"
    assert refused["error"]["param"] in {"memory_id", "signal", "text"}


async def test_what_is_not_there_or_not_yours_is_not_found(api: Api) -> None:
    memory = await api.store("ann's", user_id="ann")
    await asked(api, "req_3")
    other = Identity(tenant=api.tenant, named_user="ben")
    for body in ({"memory_id": memory["id"]}, {"memory_id": "none"}, {"request_id": "req_3"}, {"request_id": "none"}):
        answer = await api.call("POST", "/v1/memory/feedback", identity=other, json={"signal": "wrong", **body})
        assert answer.status_code == 404
    assert (await api.page(user_id="ann"))[0]["quarantined"] is False


async def test_a_correction_is_taken_back(api: Api) -> None:
    memory = await api.store("The vault code is tangerine", subject="vault", predicate="code", object="tangerine")
    told = await say(api, memory_id=memory["id"], signal="correction", text="The vault code is quince")
    await api.call("DELETE", f"/v1/memory/{told['memory_ids'][0]}", params={"restore": "true"})
    now = (await api.call("GET", f"/v1/memory/{memory['id']}")).json()
    assert (now["active"], now["superseded_by"], now["valid_to"]) == (True, None, None)
    assert "tangerine" in await recalled(api)
    await api.store("The vault code is apple", subject="vault", predicate="code", object="apple")
    assert [one["content"] for one in await api.page(active="true")] == ["The vault code is apple"]


@pytest.mark.parametrize("facts", [[], [CODE]])
async def test_a_corrected_message_is_in_the_history_until_that_is_taken_back(
    api: Api, facts: list[dict[str, Any]]
) -> None:
    await learned(api, *facts, said="my vault code is tangerine")
    right = (await say(api, memory_id="t1", signal="correction", text="The vault code is quince"))["memory_ids"][0]
    chain = (await api.call("GET", f"/v1/memory/{right}/history")).json()["data"]
    assert [one["id"] for one in chain] == ["code" if facts else "t1", right]
    chain = (await api.call("GET", "/v1/memory/t1/history", params={"session_id": "s1"})).json()["data"]
    assert [one["id"] for one in chain] == ["t1", right]
    await api.call("DELETE", f"/v1/memory/{right}", params={"restore": "true"})
    assert "tangerine" in await recalled(api)
    turn = (await api.call("GET", "/v1/memory/t1")).json()
    assert (turn["active"], turn["superseded_by"]) == (True, None)


async def test_what_is_restored_is_never_a_message_of_a_note_that_somebody_wrote(api: Api) -> None:
    for corrects in ("t1", ["s1"], ["s1", "nothing"], {"a": 1}):
        memory = await api.store("The vault code is quince", metadata={"corrects": corrects})
        gone = await api.call("DELETE", f"/v1/memory/{memory['id']}", params={"restore": "true"})
        assert gone.json()["deleted"] == 1
