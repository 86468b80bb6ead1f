"""Settings of users and agents: what is kept of them, and what recall, capture and learning make of it."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.protocol import Identity
from memproxy.settings import LearnSettings, RecallSettings, Settings
from tests.support.engine import Api, make_engine, serve_engine

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOTHING = {"mode": None, "limit": None, "rerank": None, "learning": None}


async def put(api: Api, **body: Any) -> dict[str, Any]:
    told: dict[str, Any] = await api.ok("PUT", "settings", json=body)
    return told


async def test_nothing_chosen_is_the_configuration(api: Api) -> None:
    assert await api.get("settings") == {
        "user_id": "default",
        "agent_id": None,
        "mode": "on",
        "limit": 8,
        "rerank": False,
        "learning": False,  # these tests' configuration has learn.enabled: false
        "memory_tools": "none",
        "chosen": NOTHING,
    }


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [("PUT", "settings", {"limit": 3}, 200), ("POST", "feedback", {"memory_id": "none", "signal": "helpful"}, 404)],
)
async def test_the_query_may_name_the_user_too(
    api: Api, method: str, path: str, body: dict[str, Any], status: int
) -> None:
    named = await api.ok(method, path, status=status, params={"user_id": "zoe"}, json=body)
    assert named.get("user_id") == ("zoe" if status == 200 else None)
    both = await api.refused(method, path, params={"user_id": "zoe"}, json=body | {"user_id": "ann"})
    assert both == (400, "user_id")


async def test_what_was_put_is_got_and_put_again_replaces_it(api: Api) -> None:
    assert (await put(api, mode="write", limit=3))["mode"] == "write"
    told = await api.get("settings")
    assert (told["mode"], told["limit"], told["chosen"]["limit"]) == ("write", 3, 3)
    assert (await put(api, learning="off"))["chosen"] == NOTHING | {"learning": False}
    assert (await put(api))["chosen"]["learning"] is None


async def test_an_agents_settings_go_over_its_users_field_by_field(api: Api) -> None:
    await put(api, mode="read", limit=5)
    told = await put(api, agent_id="coder", mode="on")
    assert (told["mode"], told["limit"]) == ("on", 5)
    assert (await api.get("settings", agent_id="other"))["mode"] == "read"
    assert (await api.get("settings"))["mode"] == "read"


async def test_one_users_settings_are_not_anothers(api: Api) -> None:
    await put(api, user_id="ann", mode="off")
    assert (await api.get("settings", user_id="ann"))["mode"] == "off"
    assert (await api.get("settings", user_id="ben"))["mode"] == "on"
    elsewhere = Identity(tenant=f"{api.tenant}-2", named_user="ann")
    assert (await api.get("settings", identity=elsewhere))["mode"] == "on"


@pytest.mark.parametrize("mode", ["off", "write"])
async def test_recall_is_off_where_it_was_switched_off(api: Api, mode: str) -> None:
    await api.store("The vault code is tangerine")
    assert await api.context("What is my vault code?")
    await put(api, mode=mode)
    told = await api.recall("What is my vault code?")
    assert (told["context"], told["decision"]) == ("", {"searched": False, "reason": "settings"})


async def test_a_recall_brings_as_many_as_was_chosen(api: Api) -> None:
    for n in range(4):
        await api.store(f"The vault number {n} has the code tangerine{n}")
    await put(api, limit=1)
    assert len((await api.recall("What are the codes of my vaults?", explain=True))["citations"]) == 1


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"mode": "shadow"}, "mode"),
        ({"mode": 1}, "mode"),
        ({"limit": 0}, "limit"),
        ({"limit": 201}, "limit"),
        ({"limit": True}, "limit"),
        ({"learning": "maybe"}, "learning"),
        ({"learning": 1}, "learning"),
        ({"rerank": True}, "rerank"),
        ({"agent_id": ""}, "agent_id"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
async def test_wrong_settings_are_refused_and_change_nothing(api: Api, body: dict[str, Any], param: str) -> None:
    assert await api.refused("PUT", "settings", json=body) == (400, param)
    assert (await api.get("settings"))["chosen"]["mode"] is None


async def test_settings_are_changed_only_from_the_version_that_is_known(api: Api) -> None:
    tag = (await api.ask("GET", "settings")).headers["etag"]
    changed = await api.ask("PUT", "settings", json={"mode": "read"}, headers={"if-match": tag})
    assert changed.status_code == 200
    assert await api.status("GET", "settings", headers={"if-none-match": changed.headers["etag"]}) == 304
    assert await api.status("PUT", "settings", json={"mode": "off"}, headers={"if-match": tag}) == 412


async def test_settings_outlive_the_erasure_of_what_was_remembered(api: Api) -> None:
    await put(api, mode="off")
    await api.delete("users/default")
    assert (await api.get("settings"))["mode"] == "off"


async def test_learning_pauses_where_it_was_switched_off_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    learn = LearnSettings(mode="verbatim", every_turns=1, idle_s=0.1)
    settings = Settings(learn=learn, recall=RecallSettings(deadline_ms=60_000))
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:

        async def facts() -> list[str]:
            return [one["content"] for one in await api.page(kind=["semantic", "episodic", "procedural"])]

        async def say(content: str) -> None:
            messages = [{"role": "user", "content": content}]
            await api.post("turns?wait=true", status=201, session_id="s1", messages=messages)

        await say("I live in Hamburg.")
        before = await facts()
        assert any("Hamburg" in fact for fact in before)
        await put(api, learning=False)
        assert (await api.get("settings"))["learning"] is False
        await say("My dog is called Biscuit.")
        await api.ok("POST", "sessions/s1/mine?wait=true")
        assert await facts() == before
        assert (await api.search("Biscuit dog"))[0]["content"] == "My dog is called Biscuit."
        await put(api, learning=True)
        await api.ok("POST", "sessions/s1/end?wait=true")
        assert any("Biscuit" in fact for fact in await facts())
