"""Settings of users and agents: what is kept of them, and what recall, capture and learning make of it."""

from pathlib import Path
from typing import Any

import pytest

from memproxy.core.protocol import Identity
from memproxy.settings import LearnSettings, RecallSettings, Settings
from tests.support.engine import Api, make_engine, serve_engine

pytestmark = pytest.mark.asyncio(loop_scope="module")

PATH = "/v1/memory/settings"


async def put(api: Api, **body: Any) -> dict[str, Any]:
    answer = await api.call("PUT", PATH, json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


async def test_nothing_chosen_is_the_configuration(api: Api) -> None:
    told = (await api.call("GET", PATH)).json()
    assert told == {
        "user_id": "default",
        "agent_id": None,
        "mode": "on",
        "limit": 8,
        "rerank": False,
        "learning": False,  # these tests' configuration has learn.enabled: false
        "memory_tools": "none",
        "chosen": {"mode": None, "limit": None, "rerank": None, "learning": None},
    }


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("PUT", PATH, {"limit": 3}), ("POST", "/v1/memory/feedback", {"memory_id": "none", "signal": "helpful"})],
)
async def test_the_query_may_name_the_user_too(api: Api, method: str, path: str, body: dict[str, Any]) -> None:
    named = await api.call(method, path, params={"user_id": "zoe"}, json=body)
    assert named.status_code == (200 if method == "PUT" else 404), named.text
    if method == "PUT":
        assert named.json()["user_id"] == "zoe"
    both = await api.call(method, path, params={"user_id": "zoe"}, json=body | {"user_id": "ann"})
    assert (both.status_code, both.json()["error"]["param"]) == (400, "user_id")


async def test_what_was_put_is_got_and_put_again_replaces_it(api: Api) -> None:
    assert (await put(api, mode="write", limit=3))["mode"] == "write"
    told = (await api.call("GET", PATH)).json()
    assert (told["mode"], told["limit"], told["chosen"]["limit"]) == ("write", 3, 3)
    assert (await put(api, learning="off"))["chosen"] == {
        "mode": None,
        "limit": None,
        "rerank": None,
        "learning": False,
    }
    assert (await put(api))["chosen"]["learning"] is None


async def test_an_agents_settings_go_over_its_users_field_by_field(api: Api) -> None:
    await put(api, mode="read", limit=5)
    told = await put(api, agent_id="coder", mode="on")
    assert (told["mode"], told["limit"]) == ("on", 5)
    assert (await api.call("GET", PATH, params={"agent_id": "other"})).json()["mode"] == "read"
    assert (await api.call("GET", PATH)).json()["mode"] == "read"


async def test_one_users_settings_are_not_anothers(api: Api) -> None:
    await put(api, user_id="ann", mode="off")
    assert (await api.call("GET", PATH, params={"user_id": "ann"})).json()["mode"] == "off"
    assert (await api.call("GET", PATH, params={"user_id": "ben"})).json()["mode"] == "on"
    elsewhere = Identity(tenant=f"{api.tenant}-2", named_user="ann")
    assert (await api.call("GET", PATH, identity=elsewhere)).json()["mode"] == "on"


@pytest.mark.parametrize("mode", ["off", "write"])
async def test_recall_is_off_where_it_was_switched_off(api: Api, mode: str) -> None:
    await api.store("The vault code is tangerine")
    asked = {"query": "What is my vault code?"}
    assert (await api.call("POST", "/v1/memory/recall", json=asked)).json()["context"]
    await put(api, mode=mode)
    told = (await api.call("POST", "/v1/memory/recall", json=asked)).json()
    assert (told["context"], told["decision"]) == ("", {"searched": False, "reason": "settings"})


async def test_a_recall_brings_as_many_as_was_chosen(api: Api) -> None:
    for n in range(4):
        await api.store(f"The vault number {n} has the code tangerine{n}")
    asked = {"query": "What are the codes of my vaults?", "explain": True}
    await put(api, limit=1)
    assert len((await api.call("POST", "/v1/memory/recall", json=asked)).json()["citations"]) == 1


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
    answer = await api.call("PUT", PATH, json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
    assert (await api.call("GET", PATH)).json()["chosen"]["mode"] is None


async def test_settings_are_changed_only_from_the_version_that_is_known(api: Api) -> None:
    tag = (await api.call("GET", PATH)).headers["etag"]
    changed = await api.call("PUT", PATH, json={"mode": "read"}, headers={"if-match": tag})
    assert changed.status_code == 200
    assert (await api.call("GET", PATH, headers={"if-none-match": changed.headers["etag"]})).status_code == 304
    assert (await api.call("PUT", PATH, json={"mode": "off"}, headers={"if-match": tag})).status_code == 412


async def test_settings_outlive_the_erasure_of_what_was_remembered(api: Api) -> None:
    await put(api, mode="off")
    await api.call("DELETE", "/v1/memory/users/default")
    assert (await api.call("GET", PATH)).json()["mode"] == "off"


async def test_learning_pauses_where_it_was_switched_off_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    learn = LearnSettings(mode="verbatim", every_turns=1, idle_s=0.1)
    settings = Settings(learn=learn, recall=RecallSettings(deadline_ms=60_000))
    async with serve_engine(make_engine(tmp_path, settings=settings)) as api:

        async def facts() -> list[str]:
            return [one["content"] for one in await api.page(kind=["semantic", "episodic", "procedural"])]

        async def say(content: str) -> None:
            body = {"session_id": "s1", "messages": [{"role": "user", "content": content}]}
            assert (await api.call("POST", "/v1/memory/turns?wait=true", json=body)).status_code == 201

        await say("I live in Hamburg.")
        before = await facts()
        assert any("Hamburg" in fact for fact in before)
        await put(api, learning=False)
        assert (await api.call("GET", PATH)).json()["learning"] is False
        await say("My dog is called Biscuit.")
        await api.call("POST", "/v1/memory/sessions/s1/mine?wait=true")
        assert await facts() == before
        assert (await api.search("Biscuit dog"))[0]["content"] == "My dog is called Biscuit."
        await put(api, learning=True)
        await api.call("POST", "/v1/memory/sessions/s1/end?wait=true")
        assert any("Biscuit" in fact for fact in await facts())
