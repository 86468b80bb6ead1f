"""A key of one project, or for administration alone: what its calls say beside the memories themselves."""

import base64

import msgspec
import pytest

from memproxy.core.protocol import Identity
from memproxy.core.receipt import Cited, Decided, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.stores.edge import EdgeStore
from tests.api.conftest import APOLLO, own_api
from tests.support.engine import Api

__all__ = ["own_api"]

ALICE = Identity(tenant="acme", named_user="alice")


async def receipt_of_both(api: Api) -> dict[str, str]:
    """A request outside of any project was given a memory of each; their ids by project."""
    ids = {}
    for project in ("apollo", "zeus"):
        memory = await api.store(f"The word of {project}", identity=ALICE, project_id=project)
        ids[project] = memory["id"]
    cited = [Cited(memory_id=name, turn_id=None, score=0.9) for name in ids.values()]
    decided = Decided(result="injected", memories=cited, tokens=10)
    part = ReceiptPart(
        scope=Scope(tenant="acme", user="alice"),
        request_id="req_1",
        at=api.engine.backends().parts.clock.now(),
        decided=decided,
    )
    await api.engine.backends().state.note_receipts([part])
    return ids


async def test_a_receipt_tells_a_key_of_one_project_nothing_of_another(own_api: Api) -> None:
    await receipt_of_both(own_api)
    whole = await own_api.call("GET", "/v1/memory/receipts/req_1", identity=ALICE)
    assert "word of zeus" in whole.text
    seen = await own_api.call("GET", "/v1/memory/receipts/req_1", identity=APOLLO)
    assert seen.status_code == 200
    assert "word of apollo" in seen.text
    assert "word of zeus" not in seen.text


async def test_feedback_on_a_request_reaches_no_memory_of_another_project(own_api: Api) -> None:
    ids = await receipt_of_both(own_api)
    before = (await own_api.call("GET", f"/v1/memory/{ids['zeus']}", identity=ALICE)).json()
    said = {"request_id": "req_1", "signal": "wrong"}
    given = await own_api.call("POST", "/v1/memory/feedback", identity=APOLLO, json=said)
    assert given.status_code == 201
    assert given.json()["memory_ids"] == [ids["apollo"]]
    assert (await own_api.call("GET", f"/v1/memory/{ids['zeus']}", identity=ALICE)).json() == before


async def test_an_export_of_one_project_names_no_places_of_another(own_api: Api) -> None:
    for project, subject in (("apollo", "Armstrong"), ("zeus", "Hera")):
        await own_api.store(f"{subject} is here", identity=ALICE, project_id=project, subject=subject)
    whole = await own_api.call("GET", "/v1/memory/export", identity=ALICE)
    assert "hera" in whole.text.lower()
    seen = await own_api.call("GET", "/v1/memory/export", identity=APOLLO)
    assert "armstrong" in seen.text.lower()
    assert "hera" not in seen.text.lower()


async def test_a_palace_shown_to_one_project_tells_no_names_that_were_told_in_another(own_api: Api) -> None:
    for subject in ("My dog Biscuit", "the user's dog"):
        await own_api.store("It barks", identity=ALICE, project_id="zeus", subject=subject)
    await own_api.store("Biscuit is a beagle", identity=ALICE, project_id="apollo", subject="Biscuit")
    asked = {ALICE: ["dog"], APOLLO: [], msgspec.structs.replace(ALICE, project="apollo"): []}
    for identity, aliases in asked.items():
        wings = (await own_api.call("GET", "/v1/memory/palace", identity=identity)).json()["data"]
        assert [(wing["name"], wing["aliases"]) for wing in wings] == [("biscuit", aliases)]


async def test_a_cursor_among_entities_holds_no_name_that_was_told_in_another_project(own_api: Api) -> None:
    await own_api.store("It barks", identity=ALICE, project_id="zeus", subject="My dog Biscuit")
    for name in ("dog", "Rex"):
        await own_api.store(f"{name} sleeps", identity=ALICE, project_id="apollo", entities=[name], subject=name)
    path, found, cursors = "/v1/memory/entities?limit=1", [], []
    page = (await own_api.call("GET", path, identity=APOLLO)).json()
    while page["next_cursor"] is not None:
        cursors.append(page["next_cursor"])
        found += page["data"]
        page = (await own_api.call("GET", f"{path}&cursor={cursors[-1]}", identity=APOLLO)).json()
    assert [one["name"] for one in (*found, *page["data"])] == ["dog", "Rex"]
    assert base64.urlsafe_b64decode(cursors[0] + "=" * (-len(cursors[0]) % 4)) == b'["entities",1]'


@pytest.mark.parametrize("agent", [None, "coder"])
async def test_a_key_of_one_project_changes_no_settings_that_hold_in_all(own_api: Api, agent: str | None) -> None:
    body = {"mode": "off", "agent_id": agent}
    refused = await own_api.call("PUT", "/v1/memory/settings", identity=APOLLO, json=body)
    assert refused.status_code == 403
    seen = await own_api.call("GET", "/v1/memory/settings", identity=APOLLO)
    assert (seen.status_code, seen.json()["mode"]) == (200, "on")
    assert (await own_api.call("PUT", "/v1/memory/settings", identity=ALICE, json=body)).status_code == 200


async def test_statistics_for_a_key_of_one_project_count_what_it_sees(own_api: Api) -> None:
    for project in ("apollo", "zeus", None):
        await own_api.store("A word", identity=ALICE, project_id=project)
    counted = {
        identity: (await own_api.call("GET", "/v1/memory/stats", identity=identity)).json()["memories"]["total"]
        for identity in (ALICE, APOLLO)
    }
    assert counted == {ALICE: 3, APOLLO: 2}


@pytest.mark.parametrize(
    ("permissions", "told"), [({"memory:read"}, False), ({"memory:read", "act_as_user"}, True), ({"admin"}, True)]
)
async def test_a_tenants_cost_is_told_to_who_speaks_for_all_of_it(
    own_api: Api, permissions: set[str], told: bool
) -> None:
    clock = own_api.engine.backends().parts.clock
    await own_api.engine.backends().state.note_tokens(
        "acme", "extract", input_tokens=100, output_tokens=20, at=clock.now()
    )
    someone = Identity(tenant="acme", default_user="alice", bound_user=True, permissions=frozenset(permissions))
    seen = await own_api.call("GET", "/v1/memory/stats", identity=someone)
    assert seen.status_code == 200
    cost = {"extract": {"input_tokens": 100, "output_tokens": 20}}
    assert seen.json()["cost"] == ({"today": cost, "year": cost} if told else None)


@pytest.mark.parametrize(
    ("who", "statuses"),
    [
        (APOLLO, {404, 409, 422}),
        (msgspec.structs.replace(ALICE, permissions=frozenset({"admin", "act_as_user"})), {403}),
    ],
    ids=["another project", "administration"],
)
async def test_an_idempotency_key_tells_nobody_the_words_of_an_answer_to_another(
    own_api: Api, who: Identity, statuses: set[int]
) -> None:
    memory = await own_api.store("The word of zeus", identity=ALICE, project_id="zeus")
    path, key = f"/v1/memory/{memory['id']}", {"idempotency-key": "k1"}
    edited = await own_api.call("PATCH", path, identity=ALICE, json={"tags": ["a"]}, headers=key)
    assert edited.status_code == 200
    again = await own_api.call("PATCH", path, identity=who, json={"tags": ["a"]}, headers=key)
    assert again.status_code in statuses
    assert "word of zeus" not in again.text


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "k1"}])
async def test_administration_may_erase_a_user_with_and_without_an_idempotency_key(
    own_api: Api, headers: dict[str, str]
) -> None:
    await own_api.store("Alice's word", identity=ALICE)
    operator = Identity(tenant="acme", default_user="default", permissions=frozenset({"admin"}))
    for _ in range(2):
        gone = await own_api.call("DELETE", "/v1/memory/users/alice", identity=operator, headers=headers)
        assert gone.status_code == 200, gone.text
    assert await own_api.page(identity=ALICE) == []


async def test_a_projects_key_asks_what_would_be_pruned_and_prunes_nothing(own_api: Api) -> None:
    asked = await own_api.call("POST", "/v1/memory/prune", identity=APOLLO, json={"dry_run": True})
    assert asked.status_code == 200
    refused = await own_api.call("POST", "/v1/memory/prune", identity=APOLLO, json={"dry_run": False})
    assert refused.status_code == 403


async def test_activity_elsewhere_takes_no_place_in_what_a_key_of_one_project_is_told(own_api: Api) -> None:
    """A page that got shorter told how much was done in other projects, and when."""

    async def told(limit: int) -> list[str]:
        answer = await own_api.call("GET", f"/v1/memory/activity?limit={limit}", identity=APOLLO)
        return [event["content"] for event in answer.json()["data"]]

    for number in range(3):
        await own_api.store(f"apollo {number}", identity=APOLLO)
    before = [await told(limit) for limit in (1, 2, 3, 50)]
    assert before[0] == ["apollo 2"]
    zeus = [await own_api.store(f"zeus {number}", identity=ALICE, project_id="zeus") for number in range(9)]
    for memory in zeus:  # outside of any project, about one's memories
        body = {"memory_id": memory["id"], "signal": "helpful"}
        assert (await own_api.call("POST", "/v1/memory/feedback", identity=ALICE, json=body)).status_code == 201
    assert [await told(limit) for limit in (1, 2, 3, 50)] == before
    everything = await own_api.call("GET", "/v1/memory/activity?limit=50", identity=ALICE)
    assert len(everything.json()["data"]) == 3 + 9 * 3, "each is stored, edited and judged"


@pytest.mark.parametrize("place", ["project", "agent"])
async def test_how_rare_a_word_is_elsewhere_changes_no_score(own_api: Api, place: str) -> None:
    """IDF that is counted over all of the user's memories told whether, and how often, another project has a word."""
    here = msgspec.structs.replace(APOLLO, agent="coder") if place == "agent" else APOLLO
    for content in ("The harbour runs on lanterns.", "Lunch is at noon.", "A harbour is wide."):
        await own_api.store(content, identity=here)

    async def scores() -> list[tuple[object, ...]]:
        store = own_api.engine.backends().store
        found = list[tuple[object, ...]]()
        for _ in range(2):  # by the engine, and by the index in memory that the first search makes
            answer = await own_api.call("POST", "/v1/memory/search", identity=here, json={"query": "lanterns harbour"})
            found += [(one["memory"]["id"], one["score"], one["signals"]) for one in answer.json()["data"]]
            assert isinstance(store, EdgeStore)
            await store.settle()
        return found

    before = await scores()
    assert len(before) == 4
    assert before[:2] == before[2:]
    fields = {"agent_id": "other"} if place == "agent" else {"project_id": "zeus"}
    for number in range(8):
        await own_api.store(f"lanterns, lanterns {number}", identity=ALICE, **fields)
    assert await scores() == before
