"""The end of a conversation, learning from it again, and undoing it."""

from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def facts(api: Api, user: str, **query: Any) -> list[dict[str, Any]]:
    return [memory for memory in await api.page(user_id=user, **query) if memory["kind"] != "turn"]


async def learn(api: Api, session: str, user: str, what: str = "end") -> None:
    path = f"/v1/memory/sessions/{session}/{what}"
    answer = await api.call("POST", path, params={"wait": "true"}, json={"user_id": user})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"session_id": session, "learning": "done"}


async def test_the_end_of_a_session_is_learned_from_and_mining_it_again_changes_nothing(learning: Api) -> None:
    await learning.say("s1", "My name is Ann and I have a dog named Biscuit.", "I live in Berlin.", user_id="ann")
    await learn(learning, "s1", "ann")
    known = await facts(learning, "ann")
    assert known
    await learn(learning, "s1", "ann", "mine")
    assert {memory["id"] for memory in await facts(learning, "ann")} == {memory["id"] for memory in known}


async def test_a_call_that_does_not_wait_says_how_far_it_is(learning: Api) -> None:
    await learning.say("s1", "My name is Bea.", user_id="bea")
    answer = await learning.call("POST", "/v1/memory/sessions/s1/end", params={"user_id": "bea"})
    assert (answer.status_code, answer.json()["learning"]) in {(200, "done"), (202, "pending")}


async def test_undoing_a_conversation_brings_back_what_it_superseded(learning: Api) -> None:
    await learning.say("old", "I live in Paris.", user_id="cleo")
    await learn(learning, "old", "cleo")
    (paris,) = [memory for memory in await facts(learning, "cleo") if memory["object"] == "Paris"]
    await learning.say("new", "I live in Berlin now.", user_id="cleo")
    await learn(learning, "new", "cleo")
    assert not any(memory["object"] == "Paris" for memory in await facts(learning, "cleo", active=True))
    answer = await learning.call("DELETE", "/v1/memory/sessions/new", params={"user_id": "cleo"})
    assert answer.status_code == 200
    assert answer.json()["deleted"] >= 2
    left = await learning.page(user_id="cleo")
    assert {memory["session_id"] for memory in left} == {"old"}
    assert next(memory["active"] for memory in left if memory["id"] == paris["id"])


@pytest.mark.parametrize("what", ["end", "mine"])
async def test_wrong_questions_name_their_field(api: Api, what: str) -> None:
    path = f"/v1/memory/sessions/s1/{what}"
    unknown = await api.call("POST", path, json={"wait": True})
    assert (unknown.status_code, unknown.json()["error"]["param"]) == (400, "wait")
    two = await api.call("POST", path, params={"user_id": "a"}, json={"user_id": "b"})
    assert (two.status_code, two.json()["error"]["param"]) == (400, "user_id")
    assert (await api.call("POST", path, content=b"{}", headers={"content-type": "text/plain"})).status_code == 415
    assert (await api.call("POST", path)).json() == {"session_id": "s1", "learning": "off"}  # learn.enabled: false


@pytest.mark.parametrize("what", ["end", "mine"])
async def test_a_user_who_chose_that_nothing_is_learned_is_told_so(learning: Api, what: str) -> None:
    user = f"off-{what}"
    await learning.say("s1", "I live in Berlin.", user_id=user)
    path = f"/v1/memory/sessions/s1/{what}"
    chosen = await learning.call("PUT", "/v1/memory/settings", json={"user_id": user, "learning": False})
    assert chosen.status_code == 200
    answer = await learning.call("POST", path, json={"user_id": user})
    assert (answer.status_code, answer.json()) == (200, {"session_id": "s1", "learning": "off"})
    assert await facts(learning, user) == []
    await learning.call("PUT", "/v1/memory/settings", json={"user_id": user})
    await learn(learning, "s1", user, what)
    assert await facts(learning, user)
