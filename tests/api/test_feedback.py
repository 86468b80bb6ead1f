"""Feedback: what is said of memories counts for recall, is seen, and goes with them."""

import re
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from memproxy.core.protocol import RECALL_PATH, RecallRequest
from memproxy.core.receipt import Cited, Recalled, ReceiptPart
from memproxy.core.scope import Scope
from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "What is my vault code?"
TANGERINE, QUINCE = "The vault code is tangerine", "The vault code is quince"


async def correct(api: Api, name: str, text: str = QUINCE) -> list[dict[str, Any]]:
    """What takes a memory's place, and the memory."""
    told: list[dict[str, Any]] = (await api.judge("correction", memory_id=name, text=text))["data"]
    return told


async def test_a_helpful_memory_gains_importance_and_confidence_and_an_edit_of_metadata_keeps_that(api: Api) -> None:
    name = (await api.store(TANGERINE, importance=0.4, confidence=0.8))["id"]
    (now,) = (await api.judge("helpful", memory_id=name, text="just what I needed"))["data"]
    assert (now["importance"], now["confidence"]) == (0.55, 0.82)
    assert now["metadata"]["feedback"]["helpful"] == 1
    assert now["metadata"]["feedback"]["text"] == "just what I needed"
    again = await api.judge("helpful", memory_id=name)
    assert again["data"][0]["metadata"]["feedback"]["helpful"] == 2
    metadata = (await api.edit(name, metadata={"mine": 1}))["metadata"]
    assert (metadata["mine"], metadata["feedback"]["helpful"]) == (1, 2)


async def test_a_wrong_memory_is_not_recalled_until_it_is_found_helpful(api: Api) -> None:
    name = (await api.store(TANGERINE, confidence=0.8))["id"]
    assert "tangerine" in await api.context(QUESTION)
    (now,) = (await api.judge("wrong", memory_id=name))["data"]
    assert (now["quarantined"], now["confidence"], now["importance"]) == (True, 0.2, 0.25)
    assert await api.context(QUESTION) == ""
    (history,) = await api.data(f"{name}/history")
    assert history["metadata"]["feedback"]["wrong"] == 1
    await api.judge("helpful", memory_id=name)
    assert "tangerine" in await api.context(QUESTION)


async def test_a_turn_that_is_wrong_is_not_recalled_either(api: Api) -> None:
    await learned(api, said="my vault code is tangerine")
    assert "tangerine" in await api.context(QUESTION)
    await api.judge("wrong", memory_id="t1")
    assert await api.context(QUESTION) == ""


async def test_a_correction_takes_the_memorys_place(api: Api) -> None:
    name = (await api.store(TANGERINE, category="codes", tags=["vault"]))["id"]
    right, wrong = await correct(api, name)
    assert (right["content"], right["category"], right["tags"]) == (QUINCE, "codes", ["vault"])
    assert (right["supersedes"], wrong["superseded_by"], wrong["active"]) == (name, right["id"], False)
    assert wrong["valid_to"] is not None
    context = await api.context(QUESTION)
    assert "quince" in context
    assert "tangerine" not in context
    assert await api.history(name) == [name, right["id"]]
    again = await api.judge("correction", status=409, memory_id=name, text="no, apple")
    assert again["error"]["param"] == "memory_id"


async def test_a_correction_of_a_structured_fact_leaves_one_active(api: Api) -> None:
    memory = await api.store("The user lives in Berlin", subject="user", predicate="lives in", object="Berlin")
    await correct(api, memory["id"], "The user lives in Hamburg")
    assert [one["content"] for one in await api.page(active="true")] == ["The user lives in Hamburg"]


async def test_a_corrected_turn_stays_as_it_was_said(api: Api) -> None:
    await learned(api, said="my vault code is tangerine")
    right, wrong = await correct(api, "t1")
    assert (wrong["content"], wrong["superseded_by"]) == ("my vault code is tangerine", right["id"])
    assert "quince" in await api.context(QUESTION)


SAID = "my vault code is tangerine and my locker is number nine"
CODE = {"id": "code", "content": TANGERINE, "turn_ids": ["t1"]}
LOCKER = {"id": "locker", "content": "The locker is number nine", "turn_ids": ["t1"]}


async def learned(api: Api, *facts: dict[str, Any], said: str = SAID) -> None:
    """A turn, and facts that were learned from it."""
    await api.say("s1", {"role": "user", "content": said, "id": "t1"})
    place = {"session_id": "s1", "created_at": "2024-03-01T10:00:00Z"}
    assert (await api.bring(*({"memory": {**place, **one}} for one in facts)))["imported"] == len(facts)


async def test_what_was_learned_from_a_wrong_turn_alone_is_withheld_with_it(api: Api) -> None:
    await learned(api, CODE, LOCKER | {"turn_ids": ["t1", "t0"]})
    assert (await api.judge("wrong", memory_id="t1"))["memory_ids"] == ["t1", "code"]
    assert "tangerine" not in await api.context(QUESTION)
    assert not (await api.get("locker"))["quarantined"], "another turn tells it too"
    assert (await api.judge("helpful", memory_id="t1"))["memory_ids"] == ["t1", "code"]
    assert "tangerine" in await api.context(QUESTION)
    turn = await api.get("t1")
    assert (turn["active"], turn["quarantined"], "retracted_by" in turn["metadata"]) == (True, False, False)
    assert (await api.judge("helpful", memory_id="t1"))["memory_ids"] == ["t1"], "nothing is withheld any more"


async def test_a_correction_outlives_the_conversation_whose_fact_it_corrects(api: Api) -> None:
    await learned(api, CODE)
    right, _ = await correct(api, "code")
    await api.delete("sessions/s1")
    assert [one["id"] for one in await api.page()] == [right["id"]]


async def test_a_correction_of_a_turn_takes_the_place_of_the_fact_of_its_topic(api: Api) -> None:
    await learned(api, CODE, LOCKER)
    right, _ = await correct(api, "t1")
    chain = await api.data("code/history")
    assert [(one["id"], one["active"]) for one in chain] == [("code", False), (right["id"], True)]
    assert await api.history("t1") == ["t1", right["id"]]
    assert await is_active(api, "locker")
    context = await api.context(QUESTION)
    assert "quince" in context
    assert "is tangerine" not in context.replace(SAID, "")


def fact(name: str, content: str, predicate: str, value: str) -> dict[str, Any]:
    told = {"subject": "user", "predicate": predicate, "object": value}
    return {"id": name, "content": content, "turn_ids": ["t1"], **told}


HOME = fact("home", "User lives in Berlin", "lives in", "Berlin")
PET = fact("pet", "User has a dog named Rex", "has dog", "Rex")
RENT = fact("rent", "User pays a rent of 1200 euros", "rent", "1200 euros")
SUMMARY = fact("sum", "On 2024-03-01 the user said: I live in Berlin.", "had conversation", "s1")
SUMMARY |= {"kind": "episodic", "tags": ["summary"], "turn_ids": ["t1", "t2"]}
WHERE = "Where do I live?"


async def is_active(api: Api, name: str) -> bool:
    return bool((await api.get(name))["active"])


async def test_a_summary_that_tells_a_wrong_fact_does_not_take_its_place(api: Api) -> None:
    await learned(api, HOME, SUMMARY, said="I live in Berlin.")
    await api.judge("wrong", memory_id="home")
    assert await api.context(WHERE) == ""
    assert not await is_active(api, "sum")
    await api.judge("helpful", memory_id="home")
    assert "lives in Berlin" in await api.context(WHERE)


@pytest.mark.parametrize(("turns", "waits"), [(["t1"], True), (["t1", "t2"], False)])
async def test_a_summary_that_quotes_a_wrong_turn_is_withheld_or_ends(api: Api, turns: list[str], waits: bool) -> None:
    await learned(api, SUMMARY | {"turn_ids": turns}, said="I live in Berlin.")
    await api.judge("wrong", memory_id="t1")
    assert await api.context(WHERE) == ""
    assert await is_active(api, "sum") == waits
    again = await api.judge("helpful", memory_id="t1")
    assert again["memory_ids"] == (["t1", "sum"] if waits else ["t1"])


@pytest.mark.parametrize("how", ["edit", "correction", "delete"])
async def test_what_is_done_to_a_summary_hides_none_of_its_messages(api: Api, how: str) -> None:
    await learned(api, SUMMARY, said="I live in Berlin.")
    if how == "edit":
        await api.edit("sum", content="The user told of a move.")
    elif how == "correction":
        await correct(api, "sum", "The user told of a move.")
    else:
        await api.delete("sum")
    assert "I live in Berlin." in await api.context(WHERE)


async def test_a_correction_that_names_nothing_takes_the_place_of_the_only_fact_of_its_sort(api: Api) -> None:
    await learned(api, HOME, RENT, said="I live in Berlin. My rent is 1200 euros.")
    await correct(api, "t1", "It is Bern.")
    assert (await is_active(api, "home"), await is_active(api, "rent")) == (False, True)


async def test_a_correction_that_may_mean_several_facts_of_a_turn_is_asked_about(api: Api) -> None:
    await learned(api, HOME, PET, said="I live in Berlin. My dog is called Rex.")
    refused = (await api.judge("correction", status=409, memory_id="t1", text="It is Bern."))["error"]["message"]
    assert "2 memories" in refused
    assert {"home", "pet"} <= set(re.findall(r"\w+", refused)), "the ids to say it by"
    assert await is_active(api, "home")
    await correct(api, "t1", "I live in Bern.")
    assert (await is_active(api, "home"), await is_active(api, "pet")) == (False, True)


async def asked(api: Api, request_id: str) -> str:
    """What comes of what the relay asks for a chat request."""
    scope = Scope(tenant=api.tenant, user="default", session="s1")
    question = RecallRequest(request_id=request_id, scope=scope, queries=[QUESTION], nonce="n")
    answer = await api.client.post(RECALL_PATH, content=msgspec.json.encode(question))
    return str(answer.json()["result"])


async def test_feedback_on_a_request_is_about_what_it_was_given_and_on_its_receipt(api: Api) -> None:
    name = (await api.store(TANGERINE))["id"]
    assert await asked(api, "req_1") == "injected"
    told = await api.judge("wrong", request_id="req_1")
    assert told["memory_ids"] == [name]
    assert told["data"][0]["quarantined"]
    receipt = await api.get("receipts/req_1")
    assert receipt["feedback"] == [{"signal": "wrong", "memory_id": name}]
    assert receipt["learned"]["state"] == "none"
    assert ("feedback", "wrong") in [(one["result"], one["reason"]) for one in await api.data("activity")]


async def test_one_text_cannot_correct_several_memories(api: Api) -> None:
    for n in range(2):
        await api.store(f"The vault code of door {n} is tangerine")
    await asked(api, "req_2")
    refused = await api.judge("correction", status=409, request_id="req_2", text="quince")
    assert "2 memories" in refused["error"]["message"]


@pytest.mark.parametrize(("given", "meant"), [(("sum", "t1"), "t1"), (("t1", "home"), "home"), (("sum",), "sum")])
async def test_a_text_corrects_what_else_the_request_was_given_of_it(
    api: Api, given: tuple[str, ...], meant: str
) -> None:
    await learned(api, HOME, SUMMARY, said="I live in Berlin.")
    told = Recalled(result="injected", memories=[Cited(memory_id=one, turn_id="t1", score=0.9) for one in given])
    scope, state = Scope(tenant=api.tenant, user="default", session="s2"), api.engine.backends().state
    await state.note_receipts([ReceiptPart(request_id="req_4", scope=scope, at=datetime.now(UTC), recalled=told)])
    corrected = await api.judge("correction", request_id="req_4", text="I live in Bern")
    assert corrected["memory_ids"][1:] == [meant]


async def test_secrets_are_replaced_in_what_is_said(api: Api) -> None:
    memory = await api.store("The key is in the drawer")
    right, _ = await correct(api, memory["id"], "The key is AKIA" + "ABCDEFGHIJKLMNOP")
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
    error = (await api.ok("POST", "feedback", status=400, json=body))["error"]
    assert error["type"] == "invalid_request_error"
    assert error["param"] in {"memory_id", "signal", "text"}


async def test_what_is_not_there_or_not_yours_is_not_found(api: Api) -> None:
    memory = await api.store("ann's", user_id="ann")
    await asked(api, "req_3")
    ben = api.by(api.identity("ben"))
    for body in ({"memory_id": memory["id"]}, {"memory_id": "none"}, {"request_id": "req_3"}, {"request_id": "none"}):
        await ben.judge("wrong", status=404, **body)
    assert (await api.page(user_id="ann"))[0]["quarantined"] is False


async def test_a_correction_is_taken_back(api: Api) -> None:
    code: dict[str, Any] = {"subject": "vault", "predicate": "code"}
    name = (await api.store(TANGERINE, object="tangerine", **code))["id"]
    right, _ = await correct(api, name)
    await api.delete(right["id"], restore="true")
    now = await api.get(name)
    assert (now["active"], now["superseded_by"], now["valid_to"]) == (True, None, None)
    assert "tangerine" in await api.context(QUESTION)
    await api.store("The vault code is apple", object="apple", **code)
    assert [one["content"] for one in await api.page(active="true")] == ["The vault code is apple"]


@pytest.mark.parametrize("facts", [[], [CODE]])
async def test_a_corrected_message_is_in_the_history_until_that_is_taken_back(
    api: Api, facts: list[dict[str, Any]]
) -> None:
    await learned(api, *facts, said="my vault code is tangerine")
    right = (await correct(api, "t1"))[0]["id"]
    assert await api.history(right) == ["code" if facts else "t1", right]
    assert await api.history("t1", session_id="s1") == ["t1", right]
    await api.delete(right, restore="true")
    assert "tangerine" in await api.context(QUESTION)
    turn = await api.get("t1")
    assert (turn["active"], turn["superseded_by"]) == (True, None)


async def test_what_is_restored_is_never_a_message_of_a_note_that_somebody_wrote(api: Api) -> None:
    for corrects in ("t1", ["s1"], ["s1", "nothing"], {"a": 1}):
        memory = await api.store(QUINCE, metadata={"corrects": corrects})
        assert await api.delete(memory["id"], restore="true") == 1
