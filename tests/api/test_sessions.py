"""The end of a conversation, learning from it again, and undoing it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def facts(api: Api, user: str, **query: Any) -> list[dict[str, Any]]:
    return [memory for memory in await api.page(user_id=user, **query) if memory["kind"] != "turn"]


async def learn(api: Api, session: str, user: str, what: str = "end") -> None:
    answer = await api.post(f"sessions/{session}/{what}?wait=true", user_id=user)
    assert answer == {"session_id": session, "learning": "done"}


async def test_the_end_of_a_session_is_learned_from_and_mining_it_again_changes_nothing(learning: Api) -> None:
    await learning.say("s1", "My name is Ann and I have a dog named Biscuit.", "I live in Berlin.", user_id="ann")
    await learn(learning, "s1", "ann")
    known = await facts(learning, "ann")
    assert known
    await learn(learning, "s1", "ann", "mine")
    assert {memory["id"] for memory in await facts(learning, "ann")} == {memory["id"] for memory in known}


async def test_a_call_that_does_not_wait_says_how_far_it_is(learning: Api) -> None:
    await learning.say("s1", "My name is Bea.", user_id="bea")
    answer = await learning.ask("POST", "sessions/s1/end?user_id=bea")
    assert (answer.status_code, answer.json()["learning"]) in {(200, "done"), (202, "pending")}


async def test_undoing_a_conversation_brings_back_what_it_superseded(learning: Api) -> None:
    await learning.say("old", "I live in Paris.", user_id="cleo")
    await learn(learning, "old", "cleo")
    (paris,) = [memory for memory in await facts(learning, "cleo") if memory["object"] == "Paris"]
    await learning.say("new", "I live in Berlin now.", user_id="cleo")
    await learn(learning, "new", "cleo")
    assert not any(memory["object"] == "Paris" for memory in await facts(learning, "cleo", active=True))
    assert await learning.delete("sessions/new", user_id="cleo") >= 2
    left = await learning.page(user_id="cleo")
    assert {memory["session_id"] for memory in left} == {"old"}
    assert next(memory["active"] for memory in left if memory["id"] == paris["id"])


@pytest.mark.parametrize("what", ["end", "mine"])
async def test_wrong_questions_name_their_field(api: Api, what: str) -> None:
    path = f"sessions/s1/{what}"
    assert await api.refused("POST", path, json={"wait": True}) == (400, "wait")
    assert await api.refused("POST", f"{path}?user_id=a", json={"user_id": "b"}) == (400, "user_id")
    assert await api.status("POST", path, content=b"{}", headers={"content-type": "text/plain"}) == 415
    assert await api.ok("POST", path) == {"session_id": "s1", "learning": "off"}  # learn.enabled: false


@pytest.mark.parametrize("what", ["end", "mine"])
async def test_a_user_who_chose_that_nothing_is_learned_is_told_so(learning: Api, what: str) -> None:
    user = f"off-{what}"
    await learning.say("s1", "I live in Berlin.", user_id=user)
    await learning.ok("PUT", "settings", json={"user_id": user, "learning": False})
    answer = await learning.post(f"sessions/s1/{what}", user_id=user)
    assert answer == {"session_id": "s1", "learning": "off"}
    assert await facts(learning, user) == []
    await learning.ok("PUT", "settings", json={"user_id": user})
    await learn(learning, "s1", user, what)
    assert await facts(learning, user)


def now() -> datetime:
    """This second. A session that is silent for ten minutes is over, and this file may be read long before it runs."""
    return datetime.now(UTC).replace(microsecond=0)


def at(minutes: float, until: datetime) -> str:
    """So many minutes before a time."""
    return (until - timedelta(minutes=minutes)).isoformat().replace("+00:00", "Z")


async def say(api: Api, session: str, *minutes: float, until: datetime | None = None, **fields: Any) -> None:
    times = [(ago, at(ago, until or now())) for ago in minutes]
    said = [{"role": "user", "content": f"{session}, {ago} minutes ago.", "timestamp": time} for ago, time in times]
    await api.say(session, *said, **fields)


async def test_a_session_tells_when_it_was_of_what_and_how_much_is_known_of_it(api: Api) -> None:
    began = now()
    await say(api, "old", 300, 299, until=began)
    await say(api, "new", 3, 2, 1, until=began, project_id="kitchen", agent_id="cook")
    await api.store("The user wants a blue kitchen.", session_id="new", project_id="kitchen")
    await api.store("The user is called Ann.")
    new, old = await api.data("sessions")
    assert old == {
        "id": "old",
        "project_id": None,
        "agent_id": None,
        "begun_at": at(300, began),
        "last_turn_at": at(299, began),
        "turns": 2,
        "memories": 0,
        "ended": True,
        "last_words": "old, 299 minutes ago.",
    }
    assert (new["id"], new["project_id"], new["turns"], new["memories"]) == ("new", "kitchen", 3, 1)
    assert (new["begun_at"], new["last_turn_at"], new["ended"]) == (at(3, began), at(1, began), False)


async def test_a_session_is_over_when_somebody_says_so_until_it_goes_on(api: Api) -> None:
    await say(api, "s", 2)
    assert not (await api.data("sessions"))[0]["ended"]
    await api.ok("POST", "sessions/s/end?wait=true")
    assert (await api.data("sessions"))[0]["ended"]
    await say(api, "s", 1)
    assert not (await api.data("sessions"))[0]["ended"]


async def test_pages_hold_every_session_once(api: Api) -> None:
    for number in range(7):
        await say(api, f"s{number}", 60 + number % 3)
    whole = [one["id"] for one in await api.data("sessions", limit=200)]
    assert sorted(whole) == [f"s{number}" for number in range(7)]
    for limit in (3, 50):
        assert [one["id"] for one in await api.walk("sessions", limit=limit)] == whole


async def test_a_project_sees_its_own_sessions_and_those_of_none_and_nobody_forgotten_ones_or_anothers(
    api: Api,
) -> None:
    await say(api, "kitchen", 3, project_id="kitchen")
    await say(api, "garden", 2, project_id="garden")
    await say(api, "none", 1)
    assert [one["id"] for one in await api.data("sessions", project_id="kitchen")] == ["none", "kitchen"]
    assert [one["id"] for one in await api.data("sessions")] == ["none", "garden", "kitchen"]
    assert await api.data("sessions", user_id="ben") == []
    await api.delete("sessions/garden")
    assert [one["id"] for one in await api.data("sessions")] == ["none", "kitchen"]


async def test_blanks_around_a_name_belong_to_it_nowhere(api: Api) -> None:
    await say(api, " s ", 1, project_id="kitchen\u00a0", agent_id=" cook")
    await api.store("The user wants it blue.", session_id="s ", project_id=" kitchen")
    (session,) = await api.data("sessions")
    assert (session["id"], session["project_id"], session["agent_id"]) == ("s", "kitchen", "cook")
    assert (session["turns"], session["memories"]) == (1, 1)
    assert len(await api.page(session_id=" s", project_id="kitchen ")) == 2
    assert await api.delete("sessions/%20s%20") == 2
    assert await api.status("POST", "sessions/%20/end") == 400


@pytest.mark.parametrize("field", ["user_id", "session_id", "project_id", "agent_id"])
async def test_nothing_is_kept_under_a_name_that_no_path_leads_to(api: Api, field: str) -> None:
    """`DELETE /v1/memory/sessions/..?user_id=ann` is, with the steps taken out, `DELETE /v1/memory?user_id=ann`."""
    for name in (".", "..", " .. "):
        assert await api.refused("POST", json={"content": "hello", field: name}) == (400, field)
