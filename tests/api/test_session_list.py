"""`GET /v1/memory/sessions`: a user's conversations, the latest first."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


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
    await api.call("POST", "/v1/memory/sessions/s/end", params={"wait": "true"})
    assert (await api.data("sessions"))[0]["ended"]
    await say(api, "s", 1)
    assert not (await api.data("sessions"))[0]["ended"]


async def test_pages_hold_every_session_once(api: Api) -> None:
    for number in range(7):
        await say(api, f"s{number}", 60 + number % 3)
    whole = [one["id"] for one in await api.data("sessions")]
    assert sorted(whole) == [f"s{number}" for number in range(7)]
    assert len(await api.data("sessions", limit=200)) == 7
    read: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = (await api.call("GET", "/v1/memory/sessions", params={"limit": 3, **cursor})).json()
        read += [one["id"] for one in answer["data"]]
        if answer["next_cursor"] is None:
            break
        cursor = {"cursor": answer["next_cursor"]}
    assert read == whole


async def test_a_project_sees_its_own_sessions_and_those_of_none(api: Api) -> None:
    await say(api, "kitchen", 3, project_id="kitchen")
    await say(api, "garden", 2, project_id="garden")
    await say(api, "none", 1)
    assert [one["id"] for one in await api.data("sessions", project_id="kitchen")] == ["none", "kitchen"]
    assert [one["id"] for one in await api.data("sessions")] == ["none", "garden", "kitchen"]


async def test_another_users_sessions_and_forgotten_ones_are_not_listed(api: Api) -> None:
    await say(api, "anns", 1, user_id="ann")
    assert await api.data("sessions", user_id="ben") == []
    await api.call("DELETE", "/v1/memory/sessions/anns", params={"user_id": "ann"})
    assert await api.data("sessions", user_id="ann") == []


async def test_blanks_around_a_name_belong_to_it_nowhere(api: Api) -> None:
    await say(api, " s ", 1, project_id="kitchen\u00a0", agent_id=" cook")
    await api.store("The user wants it blue.", session_id="s ", project_id=" kitchen")
    (session,) = await api.data("sessions")
    assert (session["id"], session["project_id"], session["agent_id"]) == ("s", "kitchen", "cook")
    assert (session["turns"], session["memories"]) == (1, 1)
    assert len(await api.page(session_id=" s", project_id="kitchen ")) == 2
    undone = await api.call("DELETE", "/v1/memory/sessions/%20s%20")
    assert undone.json()["deleted"] == 2
    assert (await api.call("POST", "/v1/memory/sessions/%20/end")).status_code == 400


@pytest.mark.parametrize("field", ["user_id", "session_id", "project_id", "agent_id"])
async def test_nothing_is_kept_under_a_name_that_no_path_leads_to(api: Api, field: str) -> None:
    """`DELETE /v1/memory/sessions/..?user_id=ann` is, with the steps taken out, `DELETE /v1/memory?user_id=ann`."""
    for name in (".", "..", " .. "):
        refused = await api.call("POST", "/v1/memory", json={"content": "hello", field: name})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, field)
